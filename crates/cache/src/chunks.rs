//! Chunk sizes: how objects are divided, by prefix and by device.
//!
//! 1. The head that the origin gives of an object takes the chunk size of the rule for its name, if there is one.
//! 2. It is stored with it, and whoever reads the object asks the head: all shards that have a part of it cut it alike,
//!    and a rule that changes leaves what is cached where it is found.
//! 3. An object whose head has none is cut as each shard cuts everything.
//!
//! The keys of pieces cover what the object is cut into, so whatever a head says, no piece is taken for another.

use alloc::sync::Arc;
use core::ops::Range;

use zonal_base::Bytes;

use crate::cache::{Inner, STRIPE};
use crate::{Cache, Head, PrefixRules};

/// A size that objects are cut into: a power of two from 4 KiB to a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk(u8);

/// Chunk sizes by prefix of the object's name; `None`: the shard's own.
pub type ChunkRules = PrefixRules<Option<Chunk>>;

impl Chunk {
    /// The least: a block.
    pub const MIN: Bytes = Bytes::kib(4);

    /// The most: neighbouring chunks of one stripe live on one shard.
    pub const MAX: Bytes = STRIPE;

    /// `None` when nothing can be cut into pieces of that size.
    #[must_use]
    pub fn new(size: Bytes) -> Option<Self> {
        let log2 = u8::try_from(size.0.checked_ilog2()?).ok()?;
        size.0.is_power_of_two().then_some(log2).and_then(Self::from_log2)
    }

    /// As it is stored.
    pub(crate) fn from_log2(log2: u8) -> Option<Self> {
        let size = Bytes(1u64.checked_shl(log2.into())?);
        (Self::MIN <= size && size <= Self::MAX).then_some(Self(log2))
    }

    pub(crate) const fn log2(self) -> u8 {
        self.0
    }

    /// The size.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(1 << self.0)
    }
}

impl Cache {
    /// From now on objects that come from the origin are cut by these rules. What is cached stays as it is.
    pub fn set_chunks(&self, rules: Arc<ChunkRules>) {
        *self.inner.chunks.borrow_mut() = rules;
    }

    /// The rules that hold.
    #[must_use]
    pub fn chunks(&self) -> Arc<ChunkRules> {
        self.inner.chunks.borrow().clone()
    }
}

impl Inner {
    /// What is fetched of the object together.
    pub(crate) fn chunk_of(&self, head: &Head) -> u64 {
        head.chunk.map_or(self.settings.chunk, Chunk::bytes).0
    }

    /// What is stored of the object as one record: a chunk, or, of larger chunks, a segment (1 MiB) of it. Each stands
    /// alone: it can be read as soon as it is on flash, and losing one does not lose the others.
    ///
    /// None is larger than the buffers: the rule by which a head was made may be gone, and they are made for those that
    /// there were at the start.
    pub(crate) fn piece_of(&self, head: &Head) -> u64 {
        self.chunk_of(head).min(self.piece_max)
    }
}

/// The numbers of the pieces that a range touches.
pub(crate) const fn pieces_of(range: &Range<u64>, piece: u64) -> Range<u64> {
    range.start / piece..range.end.div_ceil(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_a_power_of_two_from_a_block_to_a_stripe() {
        for kib in [4, 8, 256, 32 << 10] {
            let chunk = Chunk::new(Bytes::kib(kib)).unwrap();
            assert_eq!(
                (chunk.bytes(), Chunk::from_log2(chunk.log2())),
                (Bytes::kib(kib), Some(chunk))
            );
        }
        for wrong in [0, 1, 2048, 100 << 10, 64 << 20, u64::MAX] {
            assert_eq!(Chunk::new(Bytes(wrong)), None, "{wrong}");
        }
        for wrong in [0, 11, 26, 64, 255] {
            assert_eq!(Chunk::from_log2(wrong), None, "{wrong}");
        }
    }
}
