//! Recent events: what happened to the zones of the shard, and why, for operators. Bounded: only
//! the last ones are kept.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Bytes, Nanos, ZoneId};
use zonal_policy::{Ranked, Score, ZoneFacts};
use zonal_zonelog::{Extent, Stream, ZoneChange};

use crate::Cache;
use crate::cache::Inner;

/// Events that a shard keeps. A zone causes five from its opening to its reset, so these are the
/// last 200 zones, in about 120 KiB.
const EVENTS_MAX: usize = 1024;

/// Runners-up that a choice of a victim lists.
const BEATEN_MAX: usize = 7;

/// Event of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEvent {
    /// Number of the event. Later events have higher numbers, also after the shard was reopened.
    pub number: u64,
    /// When it happened.
    pub at: Nanos,
    /// The zone.
    pub zone: ZoneId,
    /// What happened.
    pub change: Change,
}

/// What happened to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The log changed its use.
    Use(ZoneChange),
    /// The policy chose it as the next victim.
    Chosen(Box<VictimChoice>),
    /// Reclaim has rewritten what the cache keeps of it.
    Rewritten(Box<Rewritten>),
}

/// Why a zone became the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimChoice {
    /// Its figures, the lowest of all.
    pub score: Score,
    /// Names of the figures in use.
    pub scored_by: &'static [&'static str],
    /// Zones that reclaim could have emptied.
    pub candidates: u32,
    /// The zones that would have been next, seven at most.
    pub beaten: Vec<Ranked>,
    /// Records of the victim that are in the index.
    pub live_count: u32,
    /// Bytes of those records.
    pub live: Bytes,
    /// Pinned bytes among them.
    pub pinned: Bytes,
}

/// Records of a victim that were written again: pinned and recently used ones, and those that the
/// policy keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Their number.
    pub records: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The zones that they are in now, in the order in which those were written.
    pub into: Vec<ZoneId>,
}

impl Rewritten {
    fn note(&mut self, extent: Extent) {
        self.records += 1;
        self.bytes += u64::from(extent.len);
        if !self.into.contains(&extent.zone) {
            self.into.push(extent.zone);
        }
    }
}

/// The last events of a shard.
#[derive(Default)]
pub(crate) struct RecentEvents {
    events: VecDeque<CacheEvent>,
    /// Number of the next event.
    next: u64,
    /// What reclaim has rewritten of its present victim.
    rewritten: Rewritten,
}

impl RecentEvents {
    /// Numbers continue from the microseconds of the start, so that they are above those of the
    /// time before it.
    pub(crate) fn new(started_at: Nanos) -> Self {
        Self { next: started_at.0 / 1000, ..Self::default() }
    }

    fn push(&mut self, at: Nanos, zone: ZoneId, change: Change) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(CacheEvent { number: self.next, at, zone, change });
        self.next += 1;
    }
}

impl Cache {
    /// Events of the shard from number `first` on, oldest first, as far as they are still known.
    #[must_use]
    pub fn events(&self, first: u64) -> Vec<CacheEvent> {
        self.inner.take_zone_events();
        let recent = self.inner.events.borrow();
        recent.events.iter().filter(|event| first <= event.number).cloned().collect()
    }
}

impl Inner {
    /// Takes over the events of the log. Comes before each event of the cache, which keeps them in
    /// order.
    fn take_zone_events(&self) {
        let mut recent = self.events.borrow_mut();
        for event in self.log.take_events() {
            recent.push(event.at, event.zone, Change::Use(event.change));
        }
    }

    fn note_event(&self, zone: ZoneId, change: Change) {
        self.take_zone_events();
        self.events.borrow_mut().push(self.now(), zone, change);
    }

    pub(crate) fn note_victim(&self, victim: ZoneId, candidates: &[ZoneFacts]) {
        let ranking = self.holdings.policy().ranking(candidates);
        let score = ranking.iter().find(|ranked| ranked.zone == victim);
        let others = ranking.iter().filter(|ranked| ranked.zone != victim);
        let live = self.holdings.live_records(victim);
        let choice = VictimChoice {
            score: score.map(|ranked| ranked.score).unwrap_or_default(),
            scored_by: self.holdings.policy().scored_by(),
            candidates: zonal_base::low_u32(candidates.len()),
            beaten: others.take(BEATEN_MAX).copied().collect(),
            live_count: live.count,
            live: Bytes(live.bytes),
            pinned: self.holdings.pinned_of(victim),
        };
        self.note_event(victim, Change::Chosen(Box::new(choice)));
    }

    /// Counts a record that reclaim has written again.
    pub(crate) fn note_placed(&self, stream: Stream, extent: Extent) {
        if stream == Stream::Rewrite {
            self.events.borrow_mut().rewritten.note(extent);
        }
    }

    pub(crate) fn note_rewritten(&self, victim: ZoneId) {
        let rewritten = core::mem::take(&mut self.events.borrow_mut().rewritten);
        self.note_event(victim, Change::Rewritten(Box::new(rewritten)));
    }
}
