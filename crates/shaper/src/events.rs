//! Recent events: what happened to the zones and devices, and why, for operators. Bounded: only the
//! last ones are kept.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;

use zonal_base::{Blocks, Bytes, Nanos, ZoneId};

use crate::layout::Zone;
use crate::relocate::Cause;
use crate::shaper::Inner;
use crate::zones::{Ranked, Score, Stream, ZoneRanking};
use crate::{BlockError, Shaper, Tier};

/// Events that are kept. A zone causes five from its opening to its reset, so these are the last 200
/// zones, in about 150 KiB.
const EVENTS_MAX: usize = 1024;

/// Runners-up that a choice of a victim lists.
const BEATEN_MAX: usize = 7;

/// Event of the block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Number of the event. Later events have higher numbers, also after a restart.
    pub number: u64,
    /// When it happened.
    pub at: Nanos,
    /// What happened.
    pub what: BlockChange,
}

/// What happened to a zone, a device or the whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockChange {
    /// A zone of the tier, by its number on the device.
    Zone(Tier, ZoneId, ZoneChange),
    /// The device of the tier takes no writes.
    ReadOnly(Tier),
    /// The device of the tier takes writes again.
    Writable(Tier),
    /// Compaction and garbage collection have stopped.
    Halted(BlockError),
    /// Writes fail.
    Failed(BlockError),
}

/// What happened to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// It is being written.
    Opened(Stream),
    /// It is full, or was closed.
    Sealed {
        /// Bytes below the write pointer.
        written: Bytes,
    },
    /// Compaction or garbage collection empties it next.
    Chosen(Box<VictimChoice>),
    /// Its live data are in other zones.
    Moved(Box<Moved>),
    /// It is empty.
    Reset,
    /// It could not be reset, and is not used again.
    Retired,
    /// It is kept, because some of its live blocks could not be read.
    Unreadable,
}

/// Why a zone became the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimChoice {
    /// Its figures.
    pub score: Score,
    /// Names of the figures.
    pub scored_by: &'static [&'static str],
    /// Zones that could have been emptied.
    pub candidates: u32,
    /// The zones that would have been next, seven at most.
    pub beaten: Vec<Ranked>,
    /// Bytes of the victim that the L2P map names.
    pub live: Bytes,
}

/// Data of a victim that were moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of client data that were written to the capacity tier.
    pub bytes: Bytes,
    /// The zones of the capacity tier that have them now, in the order in which those were written.
    pub into: Vec<ZoneId>,
    /// Bytes that compaction has written to the buffer again (hot retention).
    pub retained: Bytes,
}

/// The last events.
pub(crate) struct RecentEvents(RefCell<Noted>);

struct Noted {
    events: VecDeque<BlockEvent>,
    /// Number of the next event.
    next: u64,
}

impl RecentEvents {
    /// Numbers continue from the microseconds of the start, so that they are above those of the
    /// time before it.
    pub(crate) fn new(started_at: Nanos) -> Self {
        Self(RefCell::new(Noted { events: VecDeque::new(), next: started_at.0 / 1000 }))
    }
}

impl Shaper {
    /// Events from number `first` on, oldest first, as far as they are still known.
    #[must_use]
    pub fn events(&self, first: u64) -> Vec<BlockEvent> {
        let noted = self.inner.events.0.borrow();
        noted.events.iter().filter(|event| first <= event.number).cloned().collect()
    }
}

impl Inner {
    pub(crate) fn note(&self, what: BlockChange) {
        let mut noted = self.events.0.borrow_mut();
        if noted.events.len() == EVENTS_MAX {
            noted.events.pop_front();
        }
        let number = noted.next;
        noted.events.push_back(BlockEvent { number, at: self.ports.clock.now(), what });
        noted.next += 1;
    }

    pub(crate) fn note_zone(&self, zone: Zone, change: ZoneChange) {
        self.note(BlockChange::Zone(self.layout.tier_of(zone), self.layout.zone_id(zone), change));
    }

    /// Notes why a victim was chosen. Requires: its use has not changed yet, so it is in `ranking`.
    pub(crate) fn note_victim(&self, victim: Zone, ranking: &ZoneRanking) {
        let ZoneRanking { scored_by, zones } = ranking;
        let id = self.layout.zone_id(victim);
        let score = zones.iter().find(|ranked| ranked.zone == id);
        let choice = VictimChoice {
            score: score.map(|ranked| ranked.score).unwrap_or_default(),
            scored_by,
            candidates: zonal_base::low_u32(zones.len()),
            beaten: zones
                .iter()
                .filter(|ranked| ranked.zone != id)
                .take(BEATEN_MAX)
                .copied()
                .collect(),
            live: Blocks(u64::from(self.state.borrow().zone(victim).live)).bytes(),
        };
        self.note_zone(victim, ZoneChange::Chosen(Box::new(choice)));
    }

    /// Bytes of client data that moves have written to the capacity tier, and back to the buffer.
    pub(crate) fn moved_so_far(&self, cause: Cause) -> (u64, u64) {
        let state = self.state.borrow();
        let moved = state.tenant_stats.iter().map(|tenant| match cause {
            Cause::Compaction => (tenant.compacted_bytes, tenant.retained_bytes),
            Cause::Collection => (tenant.collected_bytes, 0),
        });
        moved.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }
}
