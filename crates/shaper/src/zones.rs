//! The zones of both tiers as operators see them: their use, and which would be emptied next.

use alloc::vec::Vec;
use core::cmp::Reverse;

use zonal_base::{Blocks, Bytes, ZoneId};

use crate::layout::{Layout, Zone};
use crate::settings::collection_mark;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::{Shaper, Tier};

/// Who writes to an open zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Writes of clients, to the buffer.
    User,
    /// Compaction, to the capacity tier.
    Compaction,
    /// Garbage collection, to the capacity tier.
    Collection,
    /// Pages of the L2P map, to either tier.
    Map,
}

/// A zone at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStats {
    /// Its number on its device.
    pub zone: ZoneId,
    /// What it is used for.
    pub usage: ZoneUse,
    /// Who writes to it, if it is open.
    pub stream: Option<Stream>,
    /// Number of its first segment: the lower, the older. 0: it is empty, or it has map pages.
    pub sequence: u64,
    /// Bytes below the write pointer.
    pub written: Bytes,
    /// Bytes of blocks that the L2P map names. Pages of the map do not count.
    pub live: Bytes,
    /// Reads in flight: the zone is not reset before they end.
    pub reads: u32,
}

/// Zones that could be emptied, the next victim first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneRanking {
    /// Names of the figures by which zones are compared.
    pub scored_by: &'static [&'static str],
    /// The zones.
    pub zones: Vec<Ranked>,
}

/// A zone with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its number on its device.
    pub zone: ZoneId,
    /// Its figures, in the order of their names. The others are 0.
    pub score: Score,
}

/// Figures by which zones are compared.
pub type Score = [u64; 3];

/// Compaction takes the zone with the lowest sequence.
const COMPACTION_SCORE: &[&str] = &["sequence"];

/// Garbage collection takes the zone with the highest gained bytes times age by moved bytes.
const COLLECTION_SCORE: &[&str] = &["gained bytes", "moved bytes", "age"];

impl Shaper {
    /// All zones of the tier, in their order on the device.
    #[must_use]
    pub fn zones(&self, tier: Tier) -> Vec<ZoneStats> {
        let layout = &self.inner.layout;
        let state = self.inner.state.borrow();
        let zones = layout.zones(tier).map(|zone| {
            let (facts, usage) = (state.zone(zone), state.usage(zone));
            ZoneStats {
                zone: layout.zone_id(zone),
                usage,
                stream: (usage == ZoneUse::Open).then_some(facts.stream),
                sequence: facts.number,
                written: Blocks(u64::from(facts.written)).bytes(),
                live: Blocks(u64::from(facts.live)).bytes(),
                reads: facts.pins,
            }
        });
        zones.collect()
    }

    /// The zones of both tiers on their devices.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// Zones that compaction (buffer) or garbage collection (capacity tier) could empty now.
    #[must_use]
    pub fn ranking(&self, tier: Tier) -> ZoneRanking {
        self.inner.state.borrow().ranking(&self.inner, tier)
    }

    /// Low-water mark: compaction (buffer) or garbage collection (capacity tier) works while fewer
    /// zones are empty.
    #[must_use]
    pub fn low_water_zones(&self, tier: Tier) -> u32 {
        let mark = match tier {
            Tier::Buffer => self.inner.compaction_mark(),
            Tier::Capacity => collection_mark(self.inner.streams_per_mover()) + 1,
        };
        mark + self.inner.state.borrow().zones_reserved_for_map(tier)
    }
}

impl State {
    pub(crate) fn ranking(&self, inner: &Inner, tier: Tier) -> ZoneRanking {
        match tier {
            Tier::Buffer => self.compaction_ranking(inner),
            Tier::Capacity => self.collection_ranking(inner),
        }
    }

    fn compaction_ranking(&self, inner: &Inner) -> ZoneRanking {
        let mut zones: Vec<(u64, Zone)> = self.compaction_candidates(inner).collect();
        zones.sort_unstable();
        let ranked = |(number, zone): &(u64, Zone)| Ranked {
            zone: inner.layout.zone_id(*zone),
            score: [*number, 0, 0],
        };
        ZoneRanking { scored_by: COMPACTION_SCORE, zones: zones.iter().map(ranked).collect() }
    }

    fn collection_ranking(&self, inner: &Inner) -> ZoneRanking {
        let mut zones: Vec<_> = self.collection_candidates(inner).collect();
        zones.sort_unstable_by_key(|candidate| Reverse(candidate.worth()));
        let bytes = |blocks| Blocks(blocks).bytes().0;
        let ranked = zones.iter().map(|candidate| Ranked {
            zone: inner.layout.zone_id(candidate.zone),
            score: [bytes(candidate.gained), bytes(candidate.moved), candidate.age],
        });
        ZoneRanking { scored_by: COLLECTION_SCORE, zones: ranked.collect() }
    }
}
