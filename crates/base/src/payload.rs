//! Payload: shared, immutable bytes of a record, or the block tags that stand for them in a simulation.

use core::fmt;
use core::ops::Range;

use bytes::{Buf, Bytes};

use crate::tag::{TAG_BYTES, Tag};
use crate::units::low_u32;
use crate::{Checksum, Seed};

/// Whether memory holds data or block tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Data: every byte counts.
    #[default]
    Bytes,
    /// Each whole block holds its [`Tag`], and its other bytes are undefined. A partial block holds data.
    Tags,
}

impl Contents {
    /// The bytes that count.
    pub(crate) fn significant(self, bytes: &[u8]) -> &[u8] {
        match self {
            Self::Bytes => bytes,
            Self::Tags => &bytes[..bytes.len().min(TAG_BYTES)],
        }
    }
}

/// Shared, read-only bytes of a record, in a pool buffer or as they came from the network.
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

    /// The tag of the first block, when the payload holds tags. Requires: the payload begins with a block.
    #[must_use]
    pub fn tag(&self) -> Option<Tag> {
        let tag = self.bytes.first_chunk().copied().map(Tag::decode);
        tag.filter(|_| self.contents == Contents::Tags)
    }

    /// A part that shares the memory. Requires: `range` lies within the payload.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self { bytes: self.bytes.slice(range), contents: self.contents }
    }

    /// As [`Payload::slice`], and drops the rest.
    #[must_use]
    pub fn cut(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.bytes.len());
        self.bytes.truncate(range.end);
        self.bytes.advance(range.start);
        self
    }

    /// The checksum of `seed` and a part. Of tags, the first one stands for the part.
    #[must_use]
    pub fn checksum(&self, checksum: Checksum, seed: &Seed, part: Range<usize>) -> u32 {
        checksum.behind(seed, self.contents.significant(&self.bytes[part]))
    }

    /// The bytes, without a copy.
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
