//! What is kept is read back, and nothing else is touched.

use zonal_base::{Pool, PoolClass};
use zonal_device::Kind;

use super::*;

const GEOMETRY: Geometry = Geometry {
    kind: Kind::Zoned,
    zone_count: 2,
    zone_size: Blocks(64),
    zone_capacity: Blocks(64),
    max_open_zones: None,
    max_active_zones: None,
};

fn pool() -> Pool {
    Pool::new(&[PoolClass { blocks: Blocks(16), count: 16 }], Box::new(|| ()))
}

fn piece(pool: &Pool, blocks: u64, byte: u8) -> Payload {
    let mut buffer = pool.take(Blocks(16)).unwrap();
    buffer.bytes_mut().fill(0);
    for block in buffer.bytes_mut().chunks_mut(BLOCK_BYTES) {
        block[0] = byte;
    }
    buffer.freeze(index(Blocks(blocks).bytes().0))
}

/// The first byte of each block; 0xEE where the medium did not touch it.
fn read(medium: &mut dyn Medium, pool: &Pool, at: u64, blocks: u64) -> Vec<u8> {
    let mut buffer = pool.take(Blocks(16)).unwrap();
    buffer.bytes_mut().fill(0xEE);
    let len = index(Blocks(blocks).bytes().0);
    medium.read(Lba(at), &mut buffer.bytes_mut()[..len]).unwrap();
    let blocks = buffer.bytes().chunks(BLOCK_BYTES).take(index(blocks));
    blocks.map(|block| block[0]).collect()
}

#[test]
fn headers_keeps_short_pieces_and_leaves_the_rest_of_the_buffer_alone() {
    let pool = pool();
    let mut medium = Headers::new(&GEOMETRY, Bytes::kib(8));
    medium.write(Lba(64), &[piece(&pool, 2, 1), piece(&pool, 5, 2), piece(&pool, 1, 3)]);
    medium.write(Lba(72), &[piece(&pool, 1, 4)]);
    let all = [1, 1, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 3, 4, 0xEE];
    assert_eq!(read(&mut medium, &pool, 64, 10), all);
    assert_eq!(read(&mut medium, &pool, 65, 2), [1, 0xEE]);
    assert_eq!(medium.kept(), Bytes(4097 + 2), "without the zeros at the end");
    medium.flip_bit(Lba(65), 1);
    assert_eq!(read(&mut medium, &pool, 65, 1), [3]);
}

#[test]
fn headers_forgets_what_is_cut_off_or_written_over() {
    let pool = pool();
    let mut medium = Headers::new(&GEOMETRY, Bytes::kib(16));
    for at in [0, 4, 8] {
        medium.write(Lba(at), &[piece(&pool, 4, 7)]);
    }
    medium.write(Lba(3), &[piece(&pool, 6, 9)]);
    assert_eq!(
        read(&mut medium, &pool, 0, 10),
        [7, 7, 7, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE]
    );
    medium.truncate(ZoneId(0), Blocks(2));
    assert_eq!(read(&mut medium, &pool, 0, 4), [7, 7, 0xEE, 0xEE]);
    medium.truncate(ZoneId(0), Blocks(0));
    assert_eq!(medium.kept(), Bytes(0));
}

#[test]
fn memory_keeps_everything_and_forgetful_nothing() {
    let pool = pool();
    let mut memory = Memory::new(&GEOMETRY);
    memory.write(Lba(3), &[piece(&pool, 2, 5), piece(&pool, 1, 6)]);
    assert_eq!(read(&mut memory, &pool, 2, 5), [0, 5, 5, 6, 0]);
    Forgetful.write(Lba(3), &[piece(&pool, 2, 5)]);
    assert_eq!(read(&mut Forgetful, &pool, 3, 2), [0xEE, 0xEE]);
}
