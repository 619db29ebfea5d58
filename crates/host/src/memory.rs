//! How a shard's memory is divided: chunks that stay, and buffers in some sizes.

use zonal_base::{Blocks, Bytes, PoolClass, low_u32};

/// Memory of a shard for chunks that wait before flash or are read often, when nobody says otherwise.
pub const DRAM_BYTES: Bytes = Bytes::mib(64);

/// Buffer memory of a shard when nobody says otherwise. It is taken from the system as it is needed.
pub const BUFFER_BYTES: Bytes = Bytes::mib(96);

/// The least with which a shard can fetch, write and read at once.
pub const BUFFER_BYTES_MIN: Bytes = Bytes::mib(16);

/// How far ahead of a reader that goes front to back is fetched when nobody says otherwise.
pub const PREFETCH_BYTES: Bytes = Bytes::mib(8);

/// A packed record lies in two blocks at most.
const PACKED: Blocks = Blocks(2);

/// One granule, which is what a small range reads.
const GRANULE: Blocks = Blocks(8);

/// Buffers of each size: few packed records are read at once, many granules, and most memory is for whole
/// pieces, which readers, fetches and the way to flash share.
pub(crate) fn classes(memory: Bytes, piece: Bytes) -> Vec<PoolClass> {
    let share = |blocks: Blocks, of: u64| {
        let count = (memory.0 / of / blocks.bytes().0).max(8);
        PoolClass { blocks, count: low_u32(zonal_base::index(count)) }
    };
    let piece = piece.blocks_ceil().max(Blocks(4));
    let mut classes = vec![share(PACKED, 32)];
    if GRANULE < piece {
        classes.push(share(GRANULE, 8));
    }
    if Blocks(4 * GRANULE.0) < piece {
        classes.push(share(Blocks(2 * GRANULE.0), 8));
    }
    classes.push(share(piece, 2));
    if piece < GRANULE {
        // Whatever its pieces are, a log is recovered granule by granule: chunks may have been larger before.
        classes.push(PoolClass { blocks: GRANULE, count: 8 });
    }
    classes
}
