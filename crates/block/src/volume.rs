//! Volume: the blocks of one export, used on the engine's thread.

use std::rc::Rc;

use zonal_base::{Blocks, Lba, Payload};
use zonal_runtime::Buffers;
use zonal_shaper::{BlockError, Durability, ExportId, Extent, Piece, Run, Settings, Shaper};

use crate::event_loop::LoopWaker;

/// The blocks of one export. A dropped future does not cancel its request.
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

    /// How many blocks it has.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.shaper.exports()[usize::from(self.export.0)].blocks
    }

    /// Reads blocks, in order. Pieces may be kept as long as one likes.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn read(&self, first: Lba, blocks: Blocks) -> Result<Vec<Piece>, BlockError> {
        let mut all = Vec::new();
        let mut left = self.extent(first, blocks);
        // No more at once than one buffer holds, so that nobody waits for a second one while holding a first.
        while 0 < left.blocks.0 {
            let part = Extent { blocks: left.blocks.min(Settings::READ_BLOCKS), ..left };
            let pieces = self.waker.while_asking(self.shaper.read(part)).await?;
            all.extend(pieces.into_iter().map(|piece| self.for_keeps(piece)));
            left.first = left.first + part.blocks;
            left.blocks = left.blocks - part.blocks;
        }
        Ok(all)
    }

    /// What is kept by a slow client must not be what others wait for: when buffers are short it is copied.
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

    /// Writes whole blocks at a block-aligned address.
    ///
    /// # Errors
    /// When they are not written.
    pub async fn write(
        &self,
        first: Lba,
        data: Payload,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let written = self.shaper.write(self.export, first, vec![data], durability);
        self.waker.while_asking(written).await
    }

    /// The blocks are holes from now on, and read as zeros.
    ///
    /// # Errors
    /// When they are not.
    pub async fn trim(
        &self,
        first: Lba,
        blocks: Blocks,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let trimmed = self.shaper.trim(self.extent(first, blocks), durability);
        self.waker.while_asking(trimmed).await
    }

    /// What was acknowledged before, of every export, survives a power cut.
    ///
    /// # Errors
    /// When it may not.
    pub async fn flush(&self) -> Result<(), BlockError> {
        self.waker.while_asking(self.shaper.flush()).await
    }

    /// What is data and what is a hole: at most `runs_max` runs, from the first block on.
    ///
    /// # Errors
    /// When there are no such blocks, or the map cannot be read.
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
