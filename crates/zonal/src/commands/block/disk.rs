//! An export of the block device, as the NBD server sees it.

use bytes::Bytes;
use zonal_base::{Blocks, Lba};
use zonal_export::{Extent, Piece, Promise, Volume, VolumeError};
use zonal_host::{BlockError, BlockVolume, Durability, Run, essential};

/// An export. Whatever a client asks of it is carried out by the engine, also when that panics: it is not the client's alone.
pub(super) struct Disk(pub(super) BlockVolume);

const fn durability(promise: Promise) -> Durability {
    match promise {
        Promise::Taken => Durability::Answered,
        Promise::Durable => Durability::Durable,
    }
}

const fn error(error: BlockError) -> VolumeError {
    match error {
        BlockError::NoSpace => VolumeError::NoSpace,
        BlockError::OutOfRange
        | BlockError::Misaligned
        | BlockError::Unreadable
        | BlockError::BufferGone
        | BlockError::CapacityGone
        | BlockError::Closing => VolumeError::Failed,
    }
}

impl Volume for Disk {
    fn blocks(&self) -> Blocks {
        self.0.blocks()
    }

    async fn read(&self, lba: Lba, blocks: Blocks) -> Result<Vec<Piece>, VolumeError> {
        let pieces = essential(self.0.read(lba, blocks)).await.map_err(error)?;
        let piece = |piece| match piece {
            zonal_host::BlockPiece::Data(data) => Piece::Data(data.into_bytes()),
            zonal_host::BlockPiece::Zeros(blocks) => Piece::Zeros(blocks.bytes().0),
        };
        Ok(pieces.into_iter().map(piece).collect())
    }

    async fn write(&self, lba: Lba, data: Bytes, promise: Promise) -> Result<(), VolumeError> {
        essential(self.0.write(lba, data.into(), durability(promise))).await.map_err(error)
    }

    async fn clear(&self, lba: Lba, blocks: Blocks, promise: Promise) -> Result<(), VolumeError> {
        essential(self.0.trim(lba, blocks, durability(promise))).await.map_err(error)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        essential(self.0.flush()).await.map_err(error)
    }

    async fn status(
        &self,
        lba: Lba,
        blocks: Blocks,
        extents_max: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let runs = essential(self.0.status(lba, blocks, extents_max)).await.map_err(error)?;
        let extent =
            |Run { blocks, is_mapped }| Extent { length: blocks.bytes(), is_stored: is_mapped };
        Ok(runs.into_iter().map(extent).collect())
    }
}
