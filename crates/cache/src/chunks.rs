//! Chunk sizes: how objects are divided, by prefix and by device.
//!
//! 1. A new head from the origin takes the chunk size of the rule for the object's name, if there
//!    is one.
//! 2. The chunk size is stored in the head. So all shards divide the object in the same way, and a
//!    changed rule does not move cached chunks.
//! 3. An object whose head has no chunk size is divided by the shard's default.
//!
//! The keys of pieces cover the piece size, so pieces of different sizes are never confused.

use alloc::sync::Arc;
use core::ops::Range;

use zonal_base::Bytes;

use crate::cache::{Inner, STRIPE};
use crate::object::PIECES_MAX;
use crate::{Cache, Head, PrefixRules};

/// Chunk size: a power of two from 4 KiB to a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk(u8);

/// Chunk sizes by prefix of the object's name; `None` means the shard's default.
pub type ChunkRules = PrefixRules<Option<Chunk>>;

impl Chunk {
    /// Smallest chunk size: one block, 4 KiB.
    pub const MIN: Bytes = Bytes::kib(4);

    /// Largest chunk size: one stripe, because all chunks of a stripe are on one shard.
    pub const MAX: Bytes = STRIPE;

    /// Returns `None` when `size` is not a power of two from 4 KiB to a stripe.
    #[must_use]
    pub fn new(size: Bytes) -> Option<Self> {
        let log2 = u8::try_from(size.0.checked_ilog2()?).ok()?;
        size.0.is_power_of_two().then_some(log2).and_then(Self::from_log2)
    }

    /// Decodes the stored form, the binary logarithm of the size.
    pub(crate) fn from_log2(log2: u8) -> Option<Self> {
        let size = Bytes(1u64.checked_shl(log2.into())?);
        (Self::MIN <= size && size <= Self::MAX).then_some(Self(log2))
    }

    pub(crate) const fn log2(self) -> u8 {
        self.0
    }

    /// Size in bytes.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(1 << self.0)
    }
}

impl Cache {
    /// Replaces the chunk rules for objects that come from the origin from now on. Cached objects
    /// keep their chunk size.
    pub fn set_chunks(&self, rules: Arc<ChunkRules>) {
        *self.inner.chunks.borrow_mut() = rules;
    }

    /// The present chunk rules.
    #[must_use]
    pub fn chunks(&self) -> Arc<ChunkRules> {
        self.inner.chunks.borrow().clone()
    }
}

impl Inner {
    /// Chunk size of the object in bytes: the unit of fetches.
    pub(crate) fn chunk_of(&self, head: &Head) -> u64 {
        head.chunk.map_or(self.settings.chunk, Chunk::bytes).0
    }

    /// Piece size of the object in bytes: a chunk or, of a larger chunk, one segment (1 MiB). Each
    /// piece is a record of its own: it can be read as soon as it is on flash, and losing it does
    /// not lose its neighbours.
    ///
    /// No piece is larger than the buffers. The rule that made a head may be gone, and buffers are
    /// sized for the rules at the start.
    pub(crate) fn piece_of(&self, head: &Head) -> u64 {
        self.chunk_of(head).min(self.piece_max)
    }

    /// True when an object of this size has too many pieces to be cached.
    pub(crate) fn is_too_large(&self, size: u64, chunk: Option<Chunk>) -> bool {
        let piece = chunk.map_or(self.settings.chunk, Chunk::bytes).0.min(self.piece_max);
        PIECES_MAX < size.div_ceil(piece)
    }
}

/// Numbers of the pieces that a range touches.
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
