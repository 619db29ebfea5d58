//! Bytes that are shared and no longer change, or the tags that stand for them.

use core::fmt;
use core::ops::Range;

use bytes::{Buf, Bytes};

use crate::tag::{TAG_BYTES, Tag};
use crate::units::low_u32;
use crate::{Checksum, Seed};

/// What memory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Every byte of it.
    #[default]
    Bytes,
    /// In each block its [`Tag`]; the rest is whatever was there before. Blocks that are not whole are.
    Tags,
}

impl Contents {
    /// What of these bytes means something.
    pub(crate) fn telling(self, bytes: &[u8]) -> &[u8] {
        match self {
            Self::Bytes => bytes,
            Self::Tags => &bytes[..bytes.len().min(TAG_BYTES)],
        }
    }
}

/// Shared, read-only bytes of a record: from a buffer, or as they came from the network.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload {
    bytes: Bytes,
    contents: Contents,
}

impl Payload {
    pub(crate) const fn new(bytes: Bytes, contents: Contents) -> Self {
        Self { bytes, contents }
    }

    pub(crate) const fn contents(&self) -> Contents {
        self.contents
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The tag of the first block, when tags are all that it holds. Requires: it begins with a block.
    #[must_use]
    pub fn tag(&self) -> Option<Tag> {
        let tag = self.bytes.first_chunk().copied().map(Tag::decode);
        tag.filter(|_| self.contents == Contents::Tags)
    }

    /// A part of it, sharing the same memory. Requires: `range` lies within.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self { bytes: self.bytes.slice(range), contents: self.contents }
    }

    /// As [`Payload::slice`], when nobody wants the rest.
    #[must_use]
    pub fn cut(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.bytes.len());
        self.bytes.truncate(range.end);
        self.bytes.advance(range.start);
        self
    }

    /// The checksum of a part, behind `seed`. Of tags, the first one stands for the part.
    #[must_use]
    pub fn checksum(&self, checksum: Checksum, seed: &Seed, part: Range<usize>) -> u32 {
        checksum.behind(seed, self.contents.telling(&self.bytes[part]))
    }

    /// For those who speak `Bytes`: no copy.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, contents: Contents::Bytes }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", low_u32(self.bytes.len()))
    }
}
