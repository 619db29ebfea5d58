//! Volume interface: the block storage behind an export.

use std::future::Future;
use std::ops::Range;

use bytes::Bytes;
use zonal_base::{Blocks, Lba};

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Once every later read sees it.
    Taken,
    /// Once it survives a power cut, too.
    Durable,
}

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Data(Bytes),
    /// So many bytes, all of them zero: they take no memory.
    Zeros(u64),
}

impl Piece {
    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Zeros(bytes) => *bytes,
        }
    }

    /// True when it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of it. Requires: `range` lies within.
    pub(crate) fn cut(self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        match self {
            Self::Data(bytes) => {
                let range = zonal_base::index(range.start)..zonal_base::index(range.end);
                Self::Data(bytes.slice(range))
            }
            Self::Zeros(_) => Self::Zeros(range.end - range.start),
        }
    }
}

/// A run of bytes that are stored, or are not: whole blocks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length.
    pub length: zonal_base::Bytes,
    /// Something is stored there. Where nothing is, zeros are read.
    pub is_stored: bool,
}

/// Why a volume did not do as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeError {
    /// It could not: its devices failed.
    Failed,
    /// There is no room for what was to be written.
    NoSpace,
    /// It is readable, and takes no writes any more.
    ReadOnly,
    /// It is being stopped.
    Stopping,
}

/// A row of blocks of [`zonal_base::BLOCK_BYTES`].
///
/// Requests may be answered in any order, and one whose future is dropped may have been carried out or not. All who
/// ask see one state: a read that begins after a write was acknowledged sees it, whoever wrote.
///
/// Every call requires: its blocks lie within [`Volume::blocks`], and there is at least one.
pub trait Volume: 'static {
    /// How many blocks it has. They do not change.
    fn blocks(&self) -> Blocks;

    /// The bytes of these blocks, in order: pieces that together are as long.
    ///
    /// # Errors
    /// When any of them cannot be read.
    fn read(
        &self,
        lba: Lba,
        blocks: Blocks,
    ) -> impl Future<Output = Result<Vec<Piece>, VolumeError>>;

    /// Writes whole blocks: `data` lies at a block-aligned address.
    ///
    /// # Errors
    /// When they are not written: each of them then has its old bytes or its new ones.
    fn write(
        &self,
        lba: Lba,
        data: Bytes,
        promise: Promise,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// The blocks read as zeros from now on, and are not stored any more.
    ///
    /// # Errors
    /// When that is not so: each of them then has its old bytes, or zeros.
    fn clear(
        &self,
        lba: Lba,
        blocks: Blocks,
        promise: Promise,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// Everything that was acknowledged before this call, to anybody, survives a power cut when this returns.
    ///
    /// # Errors
    /// When it may not.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// Which of these blocks are stored: at least one extent and at most `extents_max`, from `lba` on, as far
    /// as those reach.
    ///
    /// # Errors
    /// When it is not known.
    fn status(
        &self,
        lba: Lba,
        blocks: Blocks,
        extents_max: usize,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>>;
}
