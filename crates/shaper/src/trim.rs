//! Trims (deallocate, write zeroes) and the holes that they leave.
//!
//! 1. A trim is one entry in the buffer's log. Its blocks are holes when the device has written it.
//! 2. When compaction empties that buffer zone, it writes the affected trim bitmaps (one bit for
//!    each block that is a hole) to the capacity tier. So trimmed data never return, however long
//!    older blocks stay on flash.

use alloc::vec::Vec;

use zonal_base::Blocks;
use zonal_runtime::yield_now;

use crate::map::{MapEntry, PAGE_BLOCKS_MIN};
use crate::state::State;
use crate::write::{Item, ItemKind};
use crate::{BlockError, Durability, Extent, Run, Shaper};

/// Blocks of a status query that are looked up before other requests have their turn.
const STATUS_BLOCKS: u64 = 64 * PAGE_BLOCKS_MIN;

impl Shaper {
    /// Deallocates blocks: they become holes and read as zeros.
    ///
    /// # Errors
    /// When the request is invalid, or no write is possible any more.
    pub async fn trim(&self, extent: Extent, durability: Durability) -> Result<(), BlockError> {
        self.check(extent)?;
        let tenant = self.inner.tenant_of(extent.export);
        // A trim takes no data block, but one block of queue room, so that waiting trims are
        // bounded.
        self.enter_queue(Blocks(1)).await?;
        let ticket = self.inner.enqueue([Item::new(extent, ItemKind::Hole)], Blocks(1));
        ticket.done().await?;
        let bytes = extent.blocks.bytes().0;
        self.inner.state.borrow_mut().tenant_mut(tenant).user_trimmed_bytes += bytes;
        self.make_durable(durability).await
    }

    /// Makes blocks read as zeros. They become holes: no space is reserved for them.
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

    /// Reports which blocks are data and which are holes, from the first block on. At most
    /// `runs_max` runs, which may end before the extent does.
    ///
    /// # Errors
    /// When the request is invalid, or a map page cannot be read.
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
            // Blocks of one map page at a time.
            let blocks = Blocks((PAGE_BLOCKS_MIN - first.0 % PAGE_BLOCKS_MIN).min(end.0 - first.0));
            let part = Extent { first, blocks, ..extent };
            let add = |_: &State, entries: &[MapEntry]| add_runs(&mut runs, entries, runs_max);
            if !self.inner.entries(part, add).await? {
                break;
            }
            first = first + blocks;
            if first.0.is_multiple_of(STATUS_BLOCKS) {
                yield_now().await;
            }
        }
        Ok(runs)
    }
}

/// Adds blocks to the runs; false when there are `runs_max` of them.
fn add_runs(runs: &mut Vec<Run>, entries: &[MapEntry], runs_max: usize) -> bool {
    for entry in entries {
        let is_mapped = !entry.is_hole();
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
