//! Garbage collection of the capacity tier: empties zones that hold little live data.
//!
//! 1. Wait until few zones of the capacity tier are empty.
//! 2. Choose the victim: the sealed zone with the largest gained blocks per moved block, times its
//!    age in segments since its first one (cost-benefit). Of equal zones the older one is chosen. A
//!    zone that would gain less than a sixteenth of its capacity is left alone, unless compaction
//!    waits for room.
//! 3. Move the live blocks (`relocate`), flush both tiers, release the zone (`zone_table`), reset
//!    it (`tier`).
//!
//! Age distinguishes zones whose blocks die at different rates. By live blocks alone, nearly full
//! zones of cold blocks would wait far longer than the space they waste is worth.
//!
//! The last two empty zones are reserved for garbage collection, so it can always proceed: the live
//! blocks of any victim fit into one zone.

use alloc::rc::Rc;
use core::cmp::Reverse;

use crate::format::front_blocks;
use crate::layout::Zone;
use crate::relocate::Mover;
use crate::settings::collection_mark;
use crate::shaper::Inner;
use crate::state::{State, ZoneFacts, ZoneUse};
use crate::{BlockError, Tier};

enum CollectionWork {
    /// A zone table, so that durable marks go on after refused writes (`refused`).
    Table,
    /// A victim to be emptied.
    Zone(Zone),
}

impl Inner {
    /// Garbage collection task. It ends on a device failure or at shutdown.
    pub(crate) async fn run_garbage_collection(self: Rc<Self>, mut mover: Mover) {
        while let Some(work) = self.collection_work().await {
            let done = match work {
                CollectionWork::Table => mover.write_zone_table(false).await,
                CollectionWork::Zone(zone) => self.collect(&mut mover, zone).await,
            };
            match done {
                Ok(()) => (),
                Err(BlockError::Closing) => break,
                Err(error) => return self.stop_moving(error),
            }
        }
        self.end_collection(mover).await;
    }

    /// Waits for something to do, and marks a victim as being emptied. `None` after a failure, a
    /// halt or the start of the shutdown.
    async fn collection_work(&self) -> Option<CollectionWork> {
        loop {
            let victim = {
                let state = self.state.borrow();
                if state.stopped().is_some() {
                    return None;
                }
                if state.has_rewritten() {
                    return Some(CollectionWork::Table);
                }
                let wants_victim = state.wants_collection(self);
                wants_victim.then(|| state.collection_victim(self)).flatten()
            };
            if let Some(zone) = victim {
                self.begin_emptying(zone);
                return Some(CollectionWork::Zone(zone));
            }
            self.work.wait().await;
        }
    }

    async fn collect(&self, mover: &mut Mover, zone: Zone) -> Result<(), BlockError> {
        if mover.move_all(zone).await? {
            mover.reset(zone).await?;
        }
        self.state.borrow_mut().passed = 0;
        mover.record_retired_zones().await
    }
}

impl State {
    pub(crate) fn wants_collection(&self, inner: &Inner) -> bool {
        if collection_mark(inner.streams_per_mover()) < self.empty_count(Tier::Capacity) {
            return false;
        }
        0 < self.count(Tier::Capacity, ZoneUse::Emptying) || self.collection_victim(inner).is_some()
    }

    /// Victim of garbage collection, by the rule in `collect`. `None` if no zone gains enough;
    /// while compaction waits for a zone, one block is enough.
    fn collection_victim(&self, inner: &Inner) -> Option<Zone> {
        self.collection_candidates(inner).max_by_key(Candidate::worth).map(|victim| victim.zone)
    }

    /// Zones of the capacity tier that gain enough.
    pub(crate) fn collection_candidates(&self, inner: &Inner) -> impl Iterator<Item = Candidate> {
        let sealed = inner.layout.zones(Tier::Capacity);
        let sealed = sealed.filter(|zone| self.may_empty(*zone));
        let is_table_due = self.is_waited_for && self.pays_for_table(inner);
        sealed.filter_map(move |zone| {
            let (ZoneFacts { number, .. }, capacity) =
                (self.zone(zone), inner.layout.zone_capacity(zone).0);
            let moved = self.moved_blocks(zone)
                + match self.is_written_since_table(zone) && !is_table_due {
                    true => u64::from(inner.layout.zone_table_blocks()),
                    false => RELEASE_BLOCKS,
                };
            let least = if self.is_waited_for { 1 } else { capacity / WORTHWHILE };
            let gained = capacity.checked_sub(moved).filter(|gained| least <= *gained)?;
            Some(Candidate { zone, gained, moved, number: *number, age: self.next_number - number })
        })
    }

    /// True when writing a zone table pays: after it the release of any zone costs one block. The
    /// gain must be twice the table's size, because the previous table becomes dead and must not
    /// pay for the next one.
    fn pays_for_table(&self, inner: &Inner) -> bool {
        let zones = inner.layout.zones(Tier::Capacity);
        let zones = zones.filter(|zone| {
            self.usage(*zone) == ZoneUse::Sealed && self.is_written_since_table(*zone)
        });
        let gained = |zone: Zone| {
            let moved = self.moved_blocks(zone) + RELEASE_BLOCKS;
            inner.layout.zone_capacity(zone).0.saturating_sub(moved)
        };
        2 * u64::from(inner.layout.zone_table_blocks()) < zones.map(gained).sum()
    }

    /// Live blocks of a zone, and the headers and echoes that they need elsewhere.
    fn moved_blocks(&self, zone: Zone) -> u64 {
        match u64::from(self.zone(zone).live) {
            0 => 0,
            live => live + front_blocks(live) + CLOSING_BLOCKS,
        }
    }
}

/// Headers that repeat the last segment of what was moved: one when its zone is full, and one at the
/// end in the next zone.
const CLOSING_BLOCKS: u64 = 2;

/// Blocks to release a zone without a new zone table: at most one header.
const RELEASE_BLOCKS: u64 = 1;

/// Without demand, a zone is emptied only if that gains at least one part in this many of its
/// capacity.
const WORTHWHILE: u64 = 16;

/// A zone that could be emptied.
pub(crate) struct Candidate {
    pub(crate) zone: Zone,
    /// Blocks.
    pub(crate) gained: u64,
    pub(crate) moved: u64,
    /// Number of its first segment, and segments since then.
    number: u64,
    pub(crate) age: u64,
}

impl Candidate {
    /// Cost-benefit value: blocks gained per block moved, times the age of the zone. Old live blocks
    /// are likely to stay, and space in an old zone does not free itself, while a young zone empties
    /// by itself. Of equal zones the older one is worth more.
    pub(crate) fn worth(&self) -> (u128, Reverse<(u64, Zone)>) {
        let (benefit, cost) =
            (u128::from(self.gained) * u128::from(self.age), u128::from(self.moved));
        // Fixed-point arithmetic: for old zones with much to move the value is below 1.
        let worth = (benefit << 32).checked_div(cost).unwrap_or(u128::MAX);
        (worth, Reverse((self.number, self.zone)))
    }
}
