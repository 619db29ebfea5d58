//! Block tags: 16 bytes that stand for the contents of a block in simulations that do not store payloads.

use crate::Blocks;

/// Bytes of an encoded [`Tag`]: the first of its block.
pub const TAG_BYTES: usize = 16;

/// Names the contents of a block: block number `block` of the object version `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the object version; versions of one object differ in it.
    pub source: u64,
    /// Offset into that version, in blocks.
    pub block: Blocks,
}

impl Tag {
    /// The tag of the block `blocks` later.
    #[must_use]
    pub fn plus(self, blocks: Blocks) -> Self {
        Self { block: self.block + blocks, ..self }
    }

    /// Encodes the tag as two little-endian 64-bit numbers.
    #[must_use]
    pub fn encode(self) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        bytes[..8].copy_from_slice(&self.source.to_le_bytes());
        bytes[8..].copy_from_slice(&self.block.0.to_le_bytes());
        bytes
    }

    /// Decodes a tag.
    #[must_use]
    pub const fn decode(bytes: [u8; TAG_BYTES]) -> Self {
        let both = u128::from_le_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (source, block) = (both as u64, (both >> 64) as u64);
        Self { source, block: Blocks(block) }
    }
}
