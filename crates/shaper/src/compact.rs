//! Compaction: moves the live blocks of the oldest buffer zone to the capacity tier.
//!
//! 1. Wait until fewer zones of the buffer are empty than one in ten.
//! 2. Take the oldest that is full. Move what was not overwritten or trimmed meanwhile (`relocate`).
//! 3. Write the pages that its trims touched.
//! 4. Flush both tiers, release the zone (`zone_table`), reset it (`tier`).

use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::layout::Zone;
use crate::planted::Planted;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::{BlockError, Tier};

impl Inner {
    /// The task of compaction. It ends when a device fails.
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

    /// Waits until a zone is to be emptied, and marks it. `None`: nothing is moved any more.
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

    async fn compact(&self, mover: &mut Mover, zone: Zone) -> Result<(), BlockError> {
        mover.move_all(zone).await?;
        let pages: Vec<_> = self.state.borrow().zone(zone).trimmed.iter().copied().collect();
        if !self.has(Planted::TrimResurrected) {
            mover.write_pages(&pages).await?;
            mover.finish().await?;
        }
        mover.reset(zone).await?;
        mover.tell_of_zones_given_up().await
    }

    /// An empty zone of the capacity tier, but not the last ones: those are collection's. Waits for one.
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
                // Nothing can be collected, and nothing is: there will never be one.
                if !state.wants_collection(self) {
                    return Err(BlockError::NoSpace);
                }
            }
            self.work.notify_all();
            self.work.wait().await;
        }
    }

    /// Compaction or collection cannot go on.
    pub(crate) fn stop_moving(&self, error: BlockError) {
        match error {
            BlockError::BufferGone => self.fail(error),
            _ => self.halt(error),
        }
    }

    /// Nothing goes from the buffer to the capacity tier any more: writes go on until the buffer is full.
    pub(crate) fn halt(&self, error: BlockError) {
        self.state.borrow_mut().halted.get_or_insert(error);
        self.work.notify_all();
        self.queued.notify_all();
        self.queue_room.notify_all();
        self.unpinned.notify_all();
        self.map_changed.notify_all();
        self.map_room.notify_all();
    }
}
