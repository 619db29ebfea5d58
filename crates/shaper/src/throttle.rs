//! Write throttle (backpressure): slows writes to the pace of compaction, and compaction to that of
//! garbage collection, so that no tier runs full and stalls.
//!
//! While few zones of the buffer are empty, each block that compaction processes admits about one
//! client block. The factor follows from the number of empty zones: from a half, when none is
//! empty, to one and a half. Writers resume when the grants cover a segment. One by one, each block
//! would pay for a header of its own, and leave less room.
//!
//! While garbage collection works, compaction continues only as long as there is room for it: empty
//! zones, open zones, and the blocks that collection has already processed in its victim. That room
//! changes block by block, while empty zones come and go one at a time.

use crate::format::DATA_BLOCKS;
use crate::settings::COLLECTION_ZONES;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::{Settings, Tier};

/// Maximum of unused grants: a pause of the writers must not become a burst.
const GRANTS_MAX: i64 = 4 * DATA_BLOCKS as i64;

impl State {
    /// Takes room for this many blocks in the write queue, if there is any.
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

    /// True when compaction must wait until garbage collection has made more room.
    pub(crate) fn is_ahead_of_collection(&self, inner: &Inner) -> bool {
        let zone = inner.layout.place(Tier::Capacity).geometry.zone_capacity.0;
        let empty = self.empty_count(Tier::Capacity).saturating_sub(COLLECTION_ZONES);
        let begun: u64 = self.mover_room.iter().sum();
        let room = u64::from(empty) * zone + begun + u64::from(self.passed);
        // With this much room, a zone is usually empty when compaction needs the next one.
        let enough = u64::from(inner.streams_per_mover() + 1) * zone;
        room < enough && self.wants_collection(inner)
    }

    /// Grants room to writers because compaction processed this many blocks. True when waiting
    /// writers may resume.
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

/// Writes are throttled while at most this many zones of the buffer are empty: one in twenty. Lower
/// than the mark at which compaction begins.
fn throttle_mark(inner: &Inner) -> u32 {
    (inner.log_zones() / 20).max(1)
}
