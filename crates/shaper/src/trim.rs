//! Trims (deallocate, write zeroes) and the holes that they leave.
//!
//! 1. A trim is an entry of the buffer's log and no more: its blocks are holes when the device has answered.
//! 2. When its zone of the buffer is compacted, the pages that it touched (a bit for each block that is a hole) are written to
//!    the capacity tier: so nothing trimmed comes back, however long older blocks lie about.

use alloc::vec::Vec;

use zonal_base::Blocks;

use crate::layout::Spot;
use crate::map::MAP_PAGE_BLOCKS;
use crate::state::State;
use crate::write::{Item, What};
use crate::{BlockError, Durability, Extent, Run, Shaper};

impl Shaper {
    /// The blocks are holes from now on, and read as zeros.
    ///
    /// # Errors
    /// When the request was wrong, or nothing can be written any more.
    pub async fn trim(&self, extent: Extent, durability: Durability) -> Result<(), BlockError> {
        self.check(extent)?;
        let tenant = self.inner.tenant_of(extent.export);
        let bytes = extent.blocks.bytes().0;
        self.inner.state.borrow_mut().tenant_mut(tenant).user_trimmed_bytes += bytes;
        // It takes no block, but its entry must not wait without a bound either.
        self.enter_queue(Blocks(1)).await?;
        let ticket = self.inner.enqueue([Item::new(extent, What::Hole)], Blocks(1));
        ticket.done().await?;
        self.make_durable(durability).await
    }

    /// The blocks read as zeros from now on. They are holes: no space is kept for them.
    ///
    /// # Errors
    /// As for [`Shaper::trim`].
    pub async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.trim(extent, durability).await
    }

    /// What is data and what is a hole, from the first block on: at most `runs_max` runs, which may end before the extent does.
    ///
    /// # Errors
    /// When the request was wrong, or what is to be told cannot be read.
    pub async fn block_status(
        &self,
        extent: Extent,
        runs_max: usize,
    ) -> Result<Vec<Run>, BlockError> {
        self.check(extent)?;
        let mut runs: Vec<Run> = Vec::new();
        let end = extent.first + extent.blocks;
        let mut first = extent.first;
        while first < end {
            // As far as one page of the map tells.
            let blocks = Blocks((MAP_PAGE_BLOCKS - first.0 % MAP_PAGE_BLOCKS).min(end.0 - first.0));
            let part = Extent { first, blocks, ..extent };
            let add = |_: &State, spots: &[Spot]| add_runs(&mut runs, spots, runs_max);
            if !self.inner.places(part, add).await? {
                break;
            }
            first = first + blocks;
        }
        Ok(runs)
    }
}

/// Adds blocks to the runs; false when there are enough of them.
fn add_runs(runs: &mut Vec<Run>, spots: &[Spot], runs_max: usize) -> bool {
    for spot in spots {
        let is_mapped = *spot != Spot::NONE;
        if let Some(run) = runs.last_mut().filter(|run| run.is_mapped == is_mapped) {
            run.blocks.0 += 1;
            continue;
        }
        if runs.len() == runs_max {
            return false;
        }
        runs.push(Run { blocks: Blocks(1), is_mapped });
    }
    true
}
