//! Contents of each zone, for operators.

use alloc::vec::Vec;

use zonal_base::{Bytes, ZoneId, low_u32};
use zonal_policy::Score;
use zonal_zonelog::ZoneStatus;

use crate::Cache;

/// Contents of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneContents {
    /// What the log knows of the zone.
    pub status: ZoneStatus,
    /// Records that are in the index. Some cannot be reached any more, and stay until the zone is
    /// emptied: pieces of removed and replaced objects, and pieces that the policy has evicted.
    pub live_count: u32,
    /// Bytes of those records.
    pub live: Bytes,
    /// Pinned bytes among them.
    pub pinned: Bytes,
}

/// Number and bytes of some records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Their number.
    pub records: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, len: u32) {
        self.records += 1;
        self.bytes += u64::from(len);
    }
}

/// Records of one zone that are in the index, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneTally {
    /// Heads of objects.
    pub heads: Tally,
    /// Chunk pieces that may be read.
    pub pieces: Tally,
    /// Chunk pieces that the policy has evicted. They stay until the zone is emptied.
    pub evicted: Tally,
    /// Pinned records, which are heads and pieces, too.
    pub pinned: Tally,
}

/// Place of a zone among the candidates for reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRank {
    /// 1: it is emptied next.
    pub rank: u32,
    /// Its figures.
    pub score: Score,
}

/// The zone that reclaim would empty next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextVictim {
    /// The zone.
    pub zone: ZoneId,
    /// Its figures.
    pub score: Score,
    /// Names of the figures in use.
    pub scored_by: &'static [&'static str],
}

/// What a shard knows of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDetails {
    /// Counts of the zone.
    pub contents: ZoneContents,
    /// Its records, counted one by one.
    pub tally: ZoneTally,
    /// Its place among the candidates. `None`: reclaim does not consider it now.
    pub rank: Option<ZoneRank>,
    /// Zones that reclaim could empty now.
    pub candidates: u32,
    /// Names of the figures in use.
    pub scored_by: &'static [&'static str],
}

impl Cache {
    /// What the shard knows of one zone. `None`: it has no such zone. Visits the zone's records, and
    /// ranks all full zones.
    #[must_use]
    pub fn zone(&self, zone: ZoneId) -> Option<ZoneDetails> {
        let contents = *self.zones().get(zonal_base::index(zone.0.into()))?;
        let candidates = self.inner.candidates();
        let holdings = &self.inner.holdings;
        let ranking = holdings.policy().ranking(&candidates);
        let ranked = (1..).zip(ranking).find(|(_, ranked)| ranked.zone == zone);
        Some(ZoneDetails {
            contents,
            tally: holdings.tally(zone),
            rank: ranked.map(|(rank, ranked)| ZoneRank { rank, score: ranked.score }),
            candidates: low_u32(candidates.len()),
            scored_by: holdings.policy().scored_by(),
        })
    }

    /// The zone that reclaim would empty next, if it had to now. `None`: no zone is full. Ranks all
    /// full zones.
    #[must_use]
    pub fn next_victim(&self) -> Option<NextVictim> {
        let policy = self.inner.holdings.policy();
        let next = *policy.ranking(&self.inner.candidates()).first()?;
        Some(NextVictim { zone: next.zone, score: next.score, scored_by: policy.scored_by() })
    }

    /// Contents of each zone of the shard, in the order of their numbers. Visits no record: log, index
    /// and pins keep these counts.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneContents> {
        let holdings = &self.inner.holdings;
        let contents = |(zone, status)| {
            let live = holdings.live_records(zone);
            let pinned = holdings.pinned_of(zone);
            ZoneContents { status, live_count: live.count, live: Bytes(live.bytes), pinned }
        };
        (0..).map(ZoneId).zip(self.inner.log.zone_status()).map(contents).collect()
    }
}
