//! Volume: the blocks of one export, for use on the engine's thread.

use std::rc::Rc;

use zonal_base::{Blocks, Lba, Payload};
use zonal_runtime::Buffers;
use zonal_shaper::{BlockError, Durability, ExportId, Extent, Piece, Run, Settings, Shaper};

use crate::event_loop::LoopWaker;

/// Block storage of one export. Dropping the future of a request does not cancel the request.
pub struct BlockVolume {
    shaper: Shaper,
    export: ExportId,
    buffers: Buffers,
    waker: Rc<LoopWaker>,
}

impl BlockVolume {
    pub(crate) const fn new(
        shaper: Shaper,
        export: ExportId,
        buffers: Buffers,
        waker: Rc<LoopWaker>,
    ) -> Self {
        Self { shaper, export, buffers, waker }
    }

    /// Size in blocks.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.shaper.exports()[usize::from(self.export.0)].blocks
    }

    /// Reads blocks, in order. The caller may keep the pieces for any length of time.
    ///
    /// # Errors
    /// A block cannot be read.
    pub async fn read(&self, first: Lba, blocks: Blocks) -> Result<Vec<Piece>, BlockError> {
        let mut all = Vec::new();
        let mut left = self.extent(first, blocks);
        // Reads at most one buffer at a time. Otherwise requests that hold one buffer and wait for
        // a second could deadlock.
        while 0 < left.blocks.0 {
            let part = Extent { blocks: left.blocks.min(Settings::READ_BLOCKS), ..left };
            let pieces = self.waker.while_asking(self.shaper.read(part)).await?;
            all.extend(pieces.into_iter().map(|piece| self.for_keeps(piece)));
            left.first = left.first + part.blocks;
            left.blocks = left.blocks - part.blocks;
        }
        Ok(all)
    }

    /// Copies the data to memory of its own while buffers are short, so that a slow client does not
    /// hold a buffer that other requests wait for.
    fn for_keeps(&self, piece: Piece) -> Piece {
        let is_short = |data: &Payload| {
            let blocks = zonal_base::Bytes(data.len() as u64).blocks_ceil();
            self.buffers.pool().is_short(blocks)
                || self.buffers.pool().is_short(Settings::READ_BLOCKS)
        };
        match piece {
            Piece::Data(data) if is_short(&data) => Piece::Data(data.to_own_memory(None)),
            piece => piece,
        }
    }

    /// Writes whole blocks. Requires: `data` is at a block-aligned address.
    ///
    /// # Errors
    /// The write failed.
    pub async fn write(
        &self,
        first: Lba,
        data: Payload,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let written = self.shaper.write(self.export, first, vec![data], durability);
        self.waker.while_asking(written).await
    }

    /// Trims blocks: they become holes, which read as zeros.
    ///
    /// # Errors
    /// The trim failed.
    pub async fn trim(
        &self,
        first: Lba,
        blocks: Blocks,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let trimmed = self.shaper.trim(self.extent(first, blocks), durability);
        self.waker.while_asking(trimmed).await
    }

    /// Flushes: all acknowledged writes, of every export, survive a power cut when it returns.
    ///
    /// # Errors
    /// They may not survive one.
    pub async fn flush(&self) -> Result<(), BlockError> {
        self.waker.while_asking(self.shaper.flush()).await
    }

    /// Allocation status: data and holes in at most `runs_max` runs, from the first block on.
    ///
    /// # Errors
    /// The blocks do not exist, or the map cannot be read.
    pub async fn status(
        &self,
        first: Lba,
        blocks: Blocks,
        runs_max: usize,
    ) -> Result<Vec<Run>, BlockError> {
        self.waker
            .while_asking(self.shaper.block_status(self.extent(first, blocks), runs_max))
            .await
    }

    const fn extent(&self, first: Lba, blocks: Blocks) -> Extent {
        Extent { export: self.export, first, blocks }
    }
}
