//! The first bytes of a block, which stand for all of it where nobody wants the rest.

use crate::Blocks;

/// Bytes of an encoded [`Tag`]: the first of its block.
pub const TAG_BYTES: usize = 16;

/// What a block holds, by name: so many blocks into something that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Of what. Versions of an object have different numbers.
    pub source: u64,
    /// Which block of it.
    pub block: Blocks,
}

impl Tag {
    /// The tag of the block that comes so many later.
    #[must_use]
    pub fn plus(self, blocks: Blocks) -> Self {
        Self { block: self.block + blocks, ..self }
    }

    /// As it lies in memory: two little-endian numbers.
    #[must_use]
    pub fn encode(self) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        bytes[..8].copy_from_slice(&self.source.to_le_bytes());
        bytes[8..].copy_from_slice(&self.block.0.to_le_bytes());
        bytes
    }

    /// The tag that lies in memory so.
    #[must_use]
    pub const fn decode(bytes: [u8; TAG_BYTES]) -> Self {
        let both = u128::from_le_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (source, block) = (both as u64, (both >> 64) as u64);
        Self { source, block: Blocks(block) }
    }
}
