//! How fast writes are taken in when compaction is behind: as fast as it gets on, so that writers never run into a buffer
//! that is full and stays so until a whole zone is empty.
//!
//! While few zones of the buffer are empty, each block that compaction is done with lets about one block in. How many exactly
//! follows from how much is free: from a half, when nothing is, to one and a half. They are let in a segment's worth at a time:
//! one by one, each would pay for a header of its own, and there would be the less room for it.

use crate::format::DATA_BLOCKS;
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
