//! JSON of `zonal cache stats` and its admin endpoint: counts since start. Readers form ratios.

use serde::{Deserialize, Serialize};

use crate::switching::State;

/// Where they are.
pub(crate) const PATH: &str = "/stats";

/// All of it, at one moment. Names are those of the metrics, without their units where they are counts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Whether reads are answered from the cache.
    pub(crate) cache: State,
    pub(crate) answers: Answers,
    pub(crate) connections: Connections,
    /// By order.
    pub(crate) pins: Pins,
    /// In the order of the configuration; each with all its shards.
    pub(crate) devices: Vec<Device>,
    /// In the order of the configuration.
    pub(crate) origins: Vec<Origin>,
}

/// By their `X-Cache`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answers {
    pub(crate) hit: u64,
    pub(crate) revalidated: u64,
    pub(crate) miss: u64,
    pub(crate) stale: u64,
    /// Lists, writes and other operations among them.
    pub(crate) bypass: u64,
    /// GetObject and HeadObject past the cache; reasons that occurred.
    pub(crate) bypassed_reads: Vec<BypassedReads>,
    /// What the origin was asked for reads: heads, ranges, their repetitions, and reads past the cache.
    pub(crate) origin_requests: u64,
}

/// Reads past the cache for one reason.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BypassedReads {
    /// The value of `X-Cache-Reason`.
    pub(crate) reason: String,
    /// For people.
    pub(crate) explanation: String,
    pub(crate) reads: u64,
}

impl Answers {
    /// GetObject and HeadObject that were answered, by whom ever.
    pub(crate) fn reads(&self) -> u64 {
        let bypassed: u64 = self.bypassed_reads.iter().map(|bypassed| bypassed.reads).sum();
        self.served_by_cache() + self.miss + bypassed
    }

    /// Reads that flash or memory served.
    pub(crate) const fn served_by_cache(&self) -> u64 {
        self.hit + self.revalidated + self.stale
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Now.
    pub(crate) open: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
}

/// What is named to be pinned.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pins {
    pub(crate) objects: u64,
    pub(crate) prefixes: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) shards: u64,
    /// Of them, no longer there.
    pub(crate) shards_lost: u64,
    /// Of them, done without until their device answers well again.
    pub(crate) shards_isolated: u64,
    pub(crate) reads: Reads,
    pub(crate) flash: Flash,
}

/// Pieces of chunks by where readers found them, and bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reads {
    pub(crate) pieces: u64,
    pub(crate) dram: u64,
    pub(crate) flash: u64,
    pub(crate) joined: u64,
    pub(crate) missed: u64,
    pub(crate) served_bytes: u64,
    pub(crate) served_flash_bytes: u64,
    pub(crate) fetched_bytes: u64,
}

/// What is on flash now, and what was written there.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flash {
    pub(crate) capacity_bytes: u64,
    /// Of zones that hold something, whether or not it is of use.
    pub(crate) used_bytes: u64,
    pub(crate) records: u64,
    pub(crate) pinned_bytes: u64,
    /// What may be.
    pub(crate) pinned_max_bytes: u64,
    /// Written or read while they should have been pinned, and there was no room.
    pub(crate) unpinned_bytes: u64,
    pub(crate) zones: Zones,
    pub(crate) admitted_bytes: u64,
    pub(crate) refused_bytes: u64,
    pub(crate) turned_away_bytes: u64,
    pub(crate) rewritten_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Reads, writes and checks that failed.
    pub(crate) errors: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Zones {
    pub(crate) empty: u64,
    pub(crate) open: u64,
    pub(crate) sealed: u64,
    pub(crate) reclaiming: u64,
    pub(crate) retired: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) name: String,
    /// Attempts after the first among them.
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// What is wrong with it now.
    pub(crate) trouble: Option<String>,
}

impl Reads {
    pub(crate) fn add(&mut self, other: &Self) {
        self.pieces += other.pieces;
        self.dram += other.dram;
        self.flash += other.flash;
        self.joined += other.joined;
        self.missed += other.missed;
        self.served_bytes += other.served_bytes;
        self.served_flash_bytes += other.served_flash_bytes;
        self.fetched_bytes += other.fetched_bytes;
    }
}

impl Flash {
    pub(crate) fn add(&mut self, other: &Self) {
        self.capacity_bytes += other.capacity_bytes;
        self.used_bytes += other.used_bytes;
        self.records += other.records;
        self.pinned_bytes += other.pinned_bytes;
        self.pinned_max_bytes += other.pinned_max_bytes;
        self.unpinned_bytes += other.unpinned_bytes;
        self.zones.empty += other.zones.empty;
        self.zones.open += other.zones.open;
        self.zones.sealed += other.zones.sealed;
        self.zones.reclaiming += other.zones.reclaiming;
        self.zones.retired += other.zones.retired;
        self.admitted_bytes += other.admitted_bytes;
        self.refused_bytes += other.refused_bytes;
        self.turned_away_bytes += other.turned_away_bytes;
        self.rewritten_bytes += other.rewritten_bytes;
        self.written_bytes += other.written_bytes;
        self.errors += other.errors;
    }
}
