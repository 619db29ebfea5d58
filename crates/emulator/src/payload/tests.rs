//! Storage media: the written data are read back, and no other bytes are changed.

use alloc::boxed::Box;
use alloc::vec;

use zonal_base::{Checksum, Contents, Pool, PoolClass, Rng, Tag};
use zonal_device::DeviceKind;

use super::*;

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
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

/// Reads blocks and returns the first byte of each; 0xEE where the medium did not touch it.
fn read(medium: &mut dyn Medium, pool: &Pool, at: u64, blocks: u64) -> Vec<u8> {
    let mut buffer = pool.take(Blocks(16)).unwrap();
    buffer.bytes_mut().fill(0xEE);
    medium.read(Lba(at), Blocks(blocks), &mut buffer).unwrap();
    let blocks = buffer.bytes().chunks(BLOCK_BYTES).take(index(blocks));
    blocks.map(|block| block[0]).collect()
}

/// Random writes and truncations: the written data are read back, as bytes or as their tags.
#[test]
fn tags_keeps_what_memory_keeps() {
    let pool = pool();
    let (mut memory, mut tags) = (Memory::new(&GEOMETRY), Tags::new(&GEOMETRY));
    let mut rng = Rng::new(5);
    for round in 0..2000 {
        let zone = ZoneId(zonal_base::low_u32(index(rng.below(2))));
        let at = rng.below(60);
        if rng.one_in(40) {
            memory.truncate(zone, Blocks(at));
            tags.truncate(zone, Blocks(at));
        }
        let (lba, blocks) = (GEOMETRY.zone_start(zone) + Blocks(at), rng.below(60 - at).min(5) + 1);
        let data =
            [piece(&pool, blocks, u8::try_from(round % 250).unwrap() + 1), piece(&pool, 1, 0)];
        memory.write(lba, &data[..]).unwrap();
        tags.write(lba, &data[..]).unwrap();
        if rng.one_in(3) {
            let bit = zonal_base::low_u32(index(rng.below(8)));
            memory.flip_bit(lba, bit);
            tags.flip_bit(lba, bit);
        }
        let from = rng.below(49);
        let lba = GEOMETRY.zone_start(zone).0 + from;
        assert_eq!(read(&mut tags, &pool, lba, 16), read(&mut memory, &pool, lba, 16));
    }
}

#[test]
fn tags_name_every_block_of_what_was_written_and_checksums_cover_them() {
    let pool = Pool::holding(
        Contents::Tags,
        &[PoolClass { blocks: Blocks(16), count: 16 }],
        Box::new(|| ()),
    );
    let tag = |source, block| Tag { source, block: Blocks(block) };
    let tagged = |source, blocks| {
        let mut buffer = pool.take(Blocks(16)).unwrap();
        buffer.set_tags(0..blocks, tag(source, 0));
        buffer.freeze(blocks * BLOCK_BYTES)
    };
    let mut medium = Tags::new(&GEOMETRY);
    medium.write(Lba(64), &[piece(&pool, 1, 9), tagged(3, 8), tagged(4, 2)]).unwrap();
    medium.write(Lba(67), &[tagged(5, 1)]).unwrap();
    let mut out = pool.take(Blocks(16)).unwrap();
    medium.read(Lba(66), Blocks(9), &mut out).unwrap();
    let named = out.bytes().chunks(BLOCK_BYTES).take(9);
    let named: Vec<_> = named.map(|block| Tag::decode(*block.first_chunk().unwrap())).collect();
    let (mut expected, rest) = (vec![tag(3, 1), tag(5, 0)], 3..8);
    expected.extend(rest.map(|block| tag(3, block)).chain([tag(4, 0), tag(4, 1)]));
    assert_eq!(named, expected);

    let sum = Checksum(|crc, bytes| crc + zonal_base::low_u32(bytes.len()));
    assert_eq!(out.checksum(sum, &[2; 24], 0..8 * BLOCK_BYTES), 40, "the first tag stands for all");
    assert_eq!(out.freeze(BLOCK_BYTES).tag(), Some(tag(3, 1)));
    medium.flip_bit(Lba(66), 0);
    let mut out = pool.take(Blocks(16)).unwrap();
    medium.read(Lba(66), Blocks(2), &mut out).unwrap();
    assert_eq!(out.freeze(BLOCK_BYTES).tag(), Some(tag(2, 1)));
    let mut out = pool.take(Blocks(16)).unwrap();
    medium.read(Lba(64), Blocks(1), &mut out).unwrap();
    assert_eq!((out.bytes()[0], out.freeze(BLOCK_BYTES).tag()), (9, None));
}

#[test]
fn memory_keeps_everything_and_forgetful_nothing() {
    let pool = pool();
    let mut memory = Memory::new(&GEOMETRY);
    memory.write(Lba(3), &[piece(&pool, 2, 5), piece(&pool, 1, 6)]).unwrap();
    assert_eq!(read(&mut memory, &pool, 2, 5), [0, 5, 5, 6, 0]);
    DiscardMedium.write(Lba(3), &[piece(&pool, 2, 5)]).unwrap();
    assert_eq!(read(&mut DiscardMedium, &pool, 3, 2), [0xEE, 0xEE]);
}
