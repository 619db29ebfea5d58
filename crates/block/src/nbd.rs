//! NBD glue: the volumes of a block device as exports of the NBD server.

use bytes::Bytes;
use zonal_base::{Blocks, Lba};
use zonal_export::{Export, Extent, Piece, Volume, VolumeError, WriteAck};
use zonal_host::essential;
use zonal_shaper::{BlockError, Durability, Run};

use crate::device::BlockDevice;
use crate::volume::BlockVolume;

/// The exports of a block device, for the NBD server.
#[must_use]
pub fn exports(block: &BlockDevice) -> Vec<Export<BlockVolume>> {
    let shaper = block.shaper();
    let served = shaper.exports().iter().filter_map(|export| {
        let volume = block.volume(shaper.export(&export.name)?);
        let description = format!("{} of tenant {}", export.blocks.bytes(), export.tenant);
        Some(Export::new(export.name.clone(), description, volume))
    });
    served.collect()
}

const fn durability(ack: WriteAck) -> Durability {
    match ack {
        WriteAck::Visible => Durability::Answered,
        WriteAck::Durable => Durability::Durable,
    }
}

const fn error(error: BlockError) -> VolumeError {
    match error {
        BlockError::NoSpace | BlockError::ReadOnly(_) => VolumeError::NoSpace,
        BlockError::OutOfRange
        | BlockError::Misaligned
        | BlockError::Unreadable
        | BlockError::Corrupt
        | BlockError::BufferGone
        | BlockError::CapacityGone
        | BlockError::Closing => VolumeError::Failed,
    }
}

/// A panic in the engine ends the process, because the engine serves other clients as well.
impl Volume for BlockVolume {
    fn blocks(&self) -> Blocks {
        Self::blocks(self)
    }

    async fn read(&self, lba: Lba, blocks: Blocks) -> Result<Vec<Piece>, VolumeError> {
        let pieces = essential(Self::read(self, lba, blocks)).await.map_err(error)?;
        let piece = |piece| match piece {
            zonal_shaper::Piece::Data(data) => Piece::Data(data.into_bytes()),
            zonal_shaper::Piece::Zeros(blocks) => Piece::Zeros(blocks.bytes().0),
        };
        Ok(pieces.into_iter().map(piece).collect())
    }

    async fn write(&self, lba: Lba, data: Bytes, ack: WriteAck) -> Result<(), VolumeError> {
        essential(Self::write(self, lba, data.into(), durability(ack))).await.map_err(error)
    }

    async fn clear(&self, lba: Lba, blocks: Blocks, ack: WriteAck) -> Result<(), VolumeError> {
        essential(Self::trim(self, lba, blocks, durability(ack))).await.map_err(error)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        essential(Self::flush(self)).await.map_err(error)
    }

    async fn status(
        &self,
        lba: Lba,
        blocks: Blocks,
        extents_max: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let runs = essential(Self::status(self, lba, blocks, extents_max)).await.map_err(error)?;
        let extent =
            |Run { blocks, is_mapped }| Extent { length: blocks.bytes(), is_stored: is_mapped };
        Ok(runs.into_iter().map(extent).collect())
    }
}
