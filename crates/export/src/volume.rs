//! Volume interface: the block storage behind an export.

use std::future::Future;
use std::ops::Range;

use bytes::Bytes;
use zonal_base::{Blocks, Lba};

/// Durability of a write: when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAck {
    /// When every later read sees it.
    Visible,
    /// When it also survives a power cut (FUA).
    Durable,
}

/// Part of the result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Data(Bytes),
    /// This many zero bytes. They take no memory.
    Zeros(u64),
}

impl Piece {
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Zeros(bytes) => *bytes,
        }
    }

    /// True if the length is zero.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of this piece. Requires: `range` lies within it.
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

/// Run of bytes that are all stored, or all not stored (base:allocation). Its borders are those of
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub length: zonal_base::Bytes,
    /// True for data. False for a hole, which reads as zeros.
    pub is_stored: bool,
}

/// Why a request to a volume failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeError {
    /// I/O error: a device failed.
    Failed,
    /// No space for the write.
    NoSpace,
    /// The volume is read-only now; reads still work.
    ReadOnly,
    /// The volume is stopping.
    Stopping,
}

/// Block storage with blocks of [`zonal_base::BLOCK_BYTES`].
///
/// Requests may complete in any order. A request whose future is dropped may or may not have been
/// carried out. All clients share one state: a read that begins after a write was acknowledged sees
/// that write, also on another connection.
///
/// Every method requires: its blocks lie within [`Volume::blocks`], and there is at least one.
pub trait Volume: 'static {
    /// Size in blocks. Constant.
    fn blocks(&self) -> Blocks;

    /// Reads blocks. The pieces are in order and together cover the range.
    ///
    /// # Errors
    /// A block cannot be read.
    fn read(
        &self,
        lba: Lba,
        blocks: Blocks,
    ) -> impl Future<Output = Result<Vec<Piece>, VolumeError>>;

    /// Writes whole blocks. Requires: `data` is at a block-aligned address.
    ///
    /// # Errors
    /// The write failed: each block then has its old or its new bytes.
    fn write(
        &self,
        lba: Lba,
        data: Bytes,
        ack: WriteAck,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// Clears blocks: from now on they read as zeros and are not stored.
    ///
    /// # Errors
    /// The request failed: each block then has its old bytes, or zeros.
    fn clear(
        &self,
        lba: Lba,
        blocks: Blocks,
        ack: WriteAck,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// Flushes: all writes that were acknowledged before this call, on any connection, survive a
    /// power cut when it returns.
    ///
    /// # Errors
    /// They may not survive one.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// Allocation status of the blocks, from `lba` on: at least one extent and at most
    /// `extents_max`. The extents may end before the range does.
    ///
    /// # Errors
    /// The status is unknown.
    fn status(
        &self,
        lba: Lba,
        blocks: Blocks,
        extents_max: usize,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>>;
}
