//! Memory budget of a shard: the DRAM tier, and buffers in a few sizes.

use zonal_base::{Blocks, Bytes, PoolClass, low_u32};

/// Default DRAM tier of a shard: chunks that wait for admission, and frequently read chunks.
pub const DRAM_BYTES: Bytes = Bytes::mib(64);

/// Default buffer memory of a shard. It is allocated on demand.
pub const BUFFER_BYTES: Bytes = Bytes::mib(96);

/// Minimum buffer memory: a shard can fetch, write and read concurrently.
pub const BUFFER_BYTES_MIN: Bytes = Bytes::mib(16);

/// Default maximum prefetch window of a sequential reader.
pub const PREFETCH_BYTES: Bytes = Bytes::mib(8);

/// Maximum length of a packed record.
const PACKED: Blocks = Blocks(2);

/// Minimum size of a piece buffer: a stored head must fit.
const PIECE_MIN: Blocks = Blocks(4);

/// One granule, the read size of a small range.
const GRANULE: Blocks = Blocks(8);

/// Buffer classes of a shard: few for packed records, many for granules, and half of the memory for
/// pieces, shared by readers, fetches and flash writes. Each piece size gets a class of its own
/// while the memory allows a useful number of each. Otherwise smaller pieces use larger buffers.
pub(crate) fn classes(memory: Bytes, pieces: impl Iterator<Item = Bytes>) -> Vec<PoolClass> {
    let mut sizes: Vec<Blocks> = pieces.map(Bytes::blocks_ceil).collect();
    let has_packed = sizes.iter().any(|size| *size <= PACKED);
    sizes.iter_mut().for_each(|size| *size = (*size).max(PIECE_MIN));
    sizes.sort_unstable();
    sizes.dedup();
    loop {
        let classes = divided(memory, &sizes, has_packed);
        let taken = classes.iter().map(|class| class.blocks.bytes().0 * u64::from(class.count));
        if sizes.len() == 1 || taken.sum::<u64>() <= memory.0 {
            return classes;
        }
        sizes.remove(0);
    }
}

/// Requires: `sizes` is ascending. `has_packed`: some pieces are as small as packed records.
fn divided(memory: Bytes, sizes: &[Blocks], has_packed: bool) -> Vec<PoolClass> {
    let share = |blocks: Blocks, of: u64| {
        let count = (memory.0 / of / blocks.bytes().0).max(8);
        PoolClass { blocks, count: low_u32(zonal_base::index(count)) }
    };
    let largest = *sizes.last().expect("there are pieces of some size");
    // Pieces in buffers of packed records need more of them: a piece holds its buffer until it is on
    // flash.
    let mut classes = vec![share(PACKED, if has_packed { 4 } else { 32 })];
    if GRANULE < largest {
        classes.push(share(GRANULE, 8));
    }
    if Blocks(4 * GRANULE.0) < largest {
        classes.push(share(Blocks(2 * GRANULE.0), 8));
    }
    let shared = classes.last().map_or(Blocks(0), |class| class.blocks);
    let own = sizes.iter().filter(|size| shared < **size).count() as u64;
    classes.extend(sizes.iter().filter(|size| shared < **size).map(|size| share(*size, 2 * own)));
    if largest < GRANULE {
        // Recovery reads granules, whatever the piece size: chunks may have been larger before.
        classes.push(PoolClass { blocks: GRANULE, count: 8 });
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(memory: u64, pieces: &[u64], expected: &[(u64, u32)]) {
        let classes = classes(Bytes::mib(memory), pieces.iter().map(|kib| Bytes::kib(*kib)));
        let found: Vec<_> =
            classes.iter().map(|class| (class.blocks.bytes().0 >> 10, class.count)).collect();
        assert_eq!(found, expected, "{memory} MiB for pieces of {pieces:?} KiB");
    }

    #[test]
    fn half_of_the_memory_is_for_pieces_whatever_sizes_they_have() {
        check(96, &[256], &[(8, 384), (32, 384), (64, 192), (256, 192)]);
        check(96, &[1024, 256, 1024], &[(8, 384), (32, 384), (64, 192), (256, 96), (1024, 24)]);
        check(96, &[64, 1024], &[(8, 384), (32, 384), (64, 192), (1024, 48)]);
        check(96, &[16], &[(8, 384), (16, 3072), (32, 8)]);
        check(96, &[4], &[(8, 3072), (16, 3072), (32, 8)]);
        check(96, &[8, 256], &[(8, 3072), (32, 384), (64, 192), (256, 192)]);
    }

    #[test]
    fn the_largest_pieces_have_buffers_of_their_own_in_the_least_memory() {
        check(16, &[128, 256, 512, 1024], &[(8, 64), (32, 64), (64, 32), (1024, 8)]);
    }
}
