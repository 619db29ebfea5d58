//! Compaction: moves the live blocks of the oldest buffer zone to the capacity tier.
//!
//! 1. Wait until fewer than one in ten of the buffer zones are empty, or fewer than two.
//! 2. Take the oldest sealed zone. Move blocks that were not overwritten or trimmed since
//!    (`relocate`).
//! 3. Write the trim bitmaps that trims in the zone changed.
//! 4. Flush both tiers, release the zone (`zone_table`), reset it (`tier`).

use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::events::BlockChange;
use crate::layout::Zone;
use crate::mutation::Mutation;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::zones::Stream;
use crate::{BlockError, Tier};

impl Inner {
    /// Compaction task. It ends on a device failure or at shutdown.
    pub(crate) async fn run_compaction(self: Rc<Self>, mut mover: Mover) {
        while let Some(zone) = self.compaction_work().await {
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
    async fn compaction_work(&self) -> Option<Zone> {
        loop {
            let victim = {
                let state = self.state.borrow();
                if state.stopped().is_some() {
                    return None;
                }
                let wants_victim = state.wants_compaction(self);
                wants_victim.then(|| state.compaction_victim(self)).flatten()
            };
            if let Some(zone) = victim {
                self.begin_emptying(zone);
                return Some(zone);
            }
            self.work.wait().await;
        }
    }

    /// Marks a victim as being emptied.
    pub(crate) fn begin_emptying(&self, victim: Zone) {
        let tier = self.layout.tier_of(victim);
        let ranking = self.state.borrow().ranking(self, tier);
        self.note_victim(victim, &ranking);
        self.state.borrow_mut().set_usage(&self.layout, victim, ZoneUse::Emptying);
    }

    /// Compaction works while fewer zones of the buffer are empty than this.
    pub(crate) fn compaction_mark(&self) -> u32 {
        (self.log_zones() / 10).max(2)
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
                    return self.open_zone(Stream::Compaction).ok_or(BlockError::NoSpace);
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
        if self.state.borrow().halted.is_none() {
            self.state.borrow_mut().halted = Some(error);
            self.note(BlockChange::Halted(error));
        }
        self.wake_all();
    }
}

impl State {
    pub(crate) fn wants_compaction(&self, inner: &Inner) -> bool {
        self.empty_count(Tier::Buffer) < inner.compaction_mark()
            && 0 < self.count(Tier::Buffer, ZoneUse::Sealed)
                + self.count(Tier::Buffer, ZoneUse::Emptying)
    }

    /// The oldest zone of the buffer that can be emptied.
    fn compaction_victim(&self, inner: &Inner) -> Option<Zone> {
        self.compaction_candidates(inner).min().map(|(_, zone)| zone)
    }

    /// Zones of the buffer that can be emptied, with the numbers of their first segments.
    pub(crate) fn compaction_candidates(&self, inner: &Inner) -> impl Iterator<Item = (u64, Zone)> {
        let zones = inner.layout.zones(Tier::Buffer).filter(|zone| self.may_empty(*zone));
        zones.map(|zone| (self.zone(zone).number, zone))
    }
}
