//! Write throttle (backpressure): slows writes to the pace of compaction, and compaction to that of collection, so
//! that no tier runs full and stalls.
//!
//! While few zones of the buffer are empty, each block that compaction is done with lets about one block in. How many exactly
//! follows from how much is free: from a half, when nothing is, to one and a half. They are let in a segment's worth at a time:
//! one by one, each would pay for a header of its own, and there would be the less room for it.
//!
//! While collection works, compaction goes on only as long as there is room for it: what is empty, and what collection is already
//! done with in the zone that it empties. That grows and shrinks block by block, where empty zones come and go one at a time.

use crate::format::DATA_BLOCKS;
use crate::settings::COLLECTION_ZONES;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::{Settings, Tier};

/// What compaction lets in at most before somebody takes it: a pause of the writers must not become a burst.
const GRANTS_MAX: i64 = 4 * DATA_BLOCKS as i64;

impl State {
    /// Takes room for so many blocks in the queue of writes, if there is any.
    pub(crate) fn admit(&mut self, inner: &Inner, blocks: u64) -> bool {
        let queued = self.log.queued_blocks;
        if 0 < queued && Settings::QUEUE_BLOCKS < queued + blocks {
            return false;
        }
        if self.is_throttled(inner) {
            if self.is_paused {
                return false;
            }
            self.grants -= i64::try_from(blocks).unwrap_or(i64::MAX);
            self.is_paused = self.grants <= 0;
        }
        self.log.queued_blocks += blocks;
        true
    }

    pub(crate) fn is_throttled(&self, inner: &Inner) -> bool {
        let is_compacting = 0 < self.count(Tier::Buffer, ZoneUse::Sealed)
            + self.count(Tier::Buffer, ZoneUse::Emptying);
        self.empty_count(Tier::Buffer) <= throttle_mark(inner)
            && is_compacting
            && self.halted.is_none()
    }

    /// True when collection has to make more room before compaction goes on.
    pub(crate) fn is_ahead_of_collection(&self, inner: &Inner) -> bool {
        let zone = inner.layout.place(Tier::Capacity).geometry.zone_capacity.0;
        let empty = self.empty_count(Tier::Capacity).saturating_sub(COLLECTION_ZONES);
        let begun: u64 = self.mover_room.iter().sum();
        let room = u64::from(empty) * zone + begun + u64::from(self.passed);
        // Enough that a zone is empty when compaction wants the next one, most of the time.
        let enough = u64::from(inner.streams_per_mover() + 1) * zone;
        room < enough && self.wants_collection(inner)
    }

    /// Compaction is done with so many blocks of the buffer. True when those who wait may look again.
    pub(crate) fn grant(&mut self, inner: &Inner, blocks: u64) -> bool {
        let free = u64::from(self.empty_count(Tier::Buffer));
        let percent = 50 + (100 * free / u64::from(throttle_mark(inner))).min(100);
        let granted = i64::try_from((blocks * percent).div_ceil(100)).unwrap_or(i64::MAX);
        self.grants = self.grants.saturating_add(granted).min(GRANTS_MAX);
        let resumes = self.is_paused && DATA_BLOCKS as i64 <= self.grants;
        self.is_paused &= !resumes;
        resumes
    }
}

/// Writes are held back while no more zones of the buffer are empty than this: one in twenty. Fewer than compaction begins at.
fn throttle_mark(inner: &Inner) -> u32 {
    (inner.log_zones() / 20).max(1)
}
