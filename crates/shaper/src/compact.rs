//! Compaction: moves the live blocks of the oldest buffer zone to the capacity tier.
//!
//! 1. Wait until fewer than one in ten of the buffer zones are empty, or fewer than two.
//! 2. Take the oldest sealed zone. Move blocks that were not overwritten or trimmed since
//!    (`relocate`).
//! 3. Write the trim bitmaps that trims in the zone changed.
//! 4. Flush both tiers, release the zone (`zone_table`), reset it (`tier`).

use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::layout::Zone;
use crate::mutation::Mutation;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::{BlockError, Tier};

impl Inner {
    /// Compaction task. It ends on a device failure or at shutdown.
    pub(crate) async fn run_compaction(self: Rc<Self>, mut mover: Mover) {
        let wanted = |state: &State| {
            state.wants_compaction(&self).then(|| state.compaction_victim(&self)).flatten()
        };
        while let Some(zone) = self.victim(wanted).await {
            match self.compact(&mut mover, zone).await {
                Ok(()) => (),
                Err(BlockError::Closing) => break,
                Err(error) => return self.stop_moving(error),
            }
        }
        self.end_compaction(mover).await;
    }

    /// Waits for a victim zone, and marks it as being emptied. `None` after a failure, a halt or
    /// the start of the shutdown.
    pub(crate) async fn victim(&self, wanted: impl Fn(&State) -> Option<Zone>) -> Option<Zone> {
        loop {
            {
                let mut state = self.state.borrow_mut();
                if state.stopped().is_some() {
                    return None;
                }
                if let Some(zone) = wanted(&state) {
                    state.set_usage(&self.layout, zone, ZoneUse::Emptying);
                    return Some(zone);
                }
            }
            self.work.wait().await;
        }
    }

    /// Empties a zone, and resets it.
    pub(crate) async fn compact(&self, mover: &mut Mover, zone: Zone) -> Result<(), BlockError> {
        mover.renew_table_in(zone).await?;
        if !mover.move_all(zone).await? {
            return Ok(());
        }
        let pages: Vec<_> = self.state.borrow().zone(zone).trimmed.iter().copied().collect();
        if !self.has(Mutation::TrimResurrected) {
            mover.write_pages(&pages).await?;
            mover.finish().await?;
        }
        mover.reset(zone).await?;
        mover.record_retired_zones().await
    }

    /// Opens an empty capacity zone for compaction, and waits for one if necessary. The last
    /// `COLLECTION_ZONES` are reserved for garbage collection.
    pub(crate) async fn zone_for_compaction(&self) -> Result<Zone, BlockError> {
        loop {
            {
                let mut state = self.state.borrow_mut();
                if let Some(error) = state.stopped() {
                    return Err(error);
                }
                if crate::settings::COLLECTION_ZONES < state.empty_count(Tier::Capacity) {
                    state.is_waited_for = false;
                    drop(state);
                    return self.open_zone(Tier::Capacity).ok_or(BlockError::NoSpace);
                }
                state.is_waited_for = true;
                // Garbage collection has no victim and empties none, so no zone will become free.
                if !state.wants_collection(self) {
                    return Err(BlockError::NoSpace);
                }
            }
            self.work.notify_all();
            self.work.wait().await;
        }
    }

    /// Handles an error that ends compaction or collection: a lost buffer stops all writes, other
    /// errors stop only the moves.
    pub(crate) fn stop_moving(&self, error: BlockError) {
        match error {
            BlockError::BufferGone => self.fail(error),
            _ => self.halt(error),
        }
    }

    /// Stops moves from the buffer to the capacity tier. Writes continue until the buffer is full.
    pub(crate) fn halt(&self, error: BlockError) {
        self.state.borrow_mut().halted.get_or_insert(error);
        self.wake_all();
    }
}
