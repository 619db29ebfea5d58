//! Replay of paper 001's Figures 3 and 4: B-tree lookups per second through a chunk cache.
//!
//! The figures vary the chunk size, with a cache that holds the whole tree and one that does not.
//! The paper's figures are WiredTiger's under its own workload. The tree here has the same size,
//! and its reader the same memory. Its pages go through ZNSCCache, which does one step after the
//! other.

use serde::{Deserialize, Serialize};
use zonal_base::{Bytes, Nanos};
use zonal_emulator::{DiscardMedium, Profile, ZonedDrive};

use super::exhibit::Exhibit;
use super::report::short;
use super::{Choice, Claim, Verdict};
use crate::experiment::{Done, Run, ZNSCCACHE_HOST, text};
use crate::made::{BTree, Shape};
use crate::simulated::{Habits, Load, Sequential, SequentialSettings};
use crate::{Distribution, Draw};

/// Lookups in a B-tree behind a chunk cache. Equal settings give equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookups {
    /// Chunk size in bytes.
    #[serde(with = "text")]
    chunk: Bytes,
    /// Storage that holds the tree.
    home: Home,
    /// Zones of the cache. 1 GiB of each is used.
    zones: u32,
    /// Records of the tree, of 1 KiB each.
    records: u64,
    /// Duration of the run.
    #[serde(with = "text")]
    length: Nanos,
    /// Seed of the random numbers. Equal seeds give equal histories.
    seed: u64,
}

/// Storage that holds the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Home {
    /// Another local SSD, as in the paper.
    Ssd,
    /// A remote store: the purpose of such a cache.
    Remote,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Served {
    lookups: u64,
    /// Pages that were not in memory. `hits` of them were in the cache.
    reads: u64,
    hits: u64,
    /// Bytes that the cache wrote.
    written: u64,
    took_ns: u64,
}

const PAGE: Bytes = Bytes::kib(32);
const RECORD: Bytes = Bytes::kib(1);
const ENTRY: Bytes = Bytes(64);

/// Parameters of the paper: a tree of 35 GB, 2 GB of memory, 1000 s.
const RECORDS: u64 = 35_000_000_000 / RECORD.0;
const MEMORY: Bytes = Bytes(2_000_000_000);
const LENGTH: Nanos = Nanos::secs(1000);

/// Seed of every run.
pub(super) const SEED: u64 = 1;

/// Zones of the cache: without eviction, and with eviction. The paper's other runs have 10 GiB.
const ZONES: [(&str, u32); 2] = [("figure 3", 40), ("figure 4", 10)];

/// Chunk sizes, from a page to the used part of a zone.
const CHUNKS: [Bytes; 6] =
    [PAGE, Bytes::kib(256), Bytes::mib(2), Bytes::mib(16), Bytes::mib(128), Bytes::mib(1024)];

impl Home {
    const ALL: [Self; 2] = [Self::Ssd, Self::Remote];

    const fn name(self) -> &'static str {
        match self {
            Self::Ssd => "a local SSD",
            Self::Remote => "a remote store",
        }
    }

    /// Latency from the request to the last byte of a chunk. The SSD's is assumed: 0.1 ms, and the
    /// ZN540's read bandwidth. The store's is paper 000's: 40.6 ms for 64 KiB, 5.41 s for 512 MiB.
    const fn answers_after(self, chunk: Bytes) -> Nanos {
        let (question, per_mib) = match self {
            Self::Ssd => (100_000, 400_000),
            Self::Remote => (40_000_000, 10_500_000),
        };
        Nanos(question + ((per_mib * chunk.0) >> 20))
    }
}

impl Lookups {
    const fn new(chunk: Bytes, home: Home, zones: u32) -> Self {
        Self { chunk, home, zones, records: RECORDS, length: LENGTH, seed: SEED }
    }
}

impl Run for Lookups {
    type Outcome = Served;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Served, String> {
        let drive = ZonedDrive::new(Profile::zn540(), self.seed, Box::new(DiscardMedium));
        let draw = Draw::new(Distribution::Uniform, self.records, self.seed);
        // The cache cuts the tree into chunks, so the tree returns page numbers.
        let shape = Shape { page: PAGE, record: RECORD, entry: ENTRY, memory: MEMORY, chunk: PAGE };
        let tree = BTree::new(draw, shape)?;
        let settings = SequentialSettings {
            chunk: self.chunk,
            get: PAGE,
            zones: self.zones,
            origin_latency: self.home.answers_after(self.chunk),
            origin_sd: Nanos(0),
            limit: self.length,
            habits: Habits::default(),
            host: ZNSCCACHE_HOST,
            seed: self.seed,
        };
        let load = Load::Pages(Box::new(tree));
        let cache = Sequential::new(drive.into(), settings, load, self.length);
        let came = cache.run(on_progress)?;
        Ok(Served {
            lookups: came.lookups,
            reads: came.hits + came.chunks_written,
            hits: came.hits,
            written: came.chunks_written * self.chunk.0,
            took_ns: came.took.0,
        })
    }
}

impl Served {
    fn lookups_per_s(&self) -> f64 {
        self.lookups as f64 / (self.took_ns as f64 / 1e9)
    }
}

/// Runs for a choice.
pub(super) fn runs(choice: &Choice) -> Vec<Lookups> {
    let chosen = ZONES.into_iter().filter(|(figure, _)| choice.has(figure));
    let homes = chosen.flat_map(|(_, zones)| Home::ALL.map(|home| (home, zones)));
    homes.flat_map(|(home, zones)| CHUNKS.map(|chunk| Lookups::new(chunk, home, zones))).collect()
}

/// Results of all chunk sizes, if every one was run.
fn served(done: &[Done<Lookups>], home: Home, zones: u32) -> Option<Vec<&Served>> {
    let of_chunk = |chunk| {
        let run = Lookups::new(chunk, home, zones);
        done.iter().find(|done| done.experiment == run).map(|done| &done.outcome)
    };
    CHUNKS.into_iter().map(of_chunk).collect()
}

/// A table for each figure and storage.
pub(super) fn exhibits(done: &[Done<Lookups>]) -> Vec<Exhibit> {
    let of = |(figure, zones): (&str, u32), home: Home| {
        let all = served(done, home, zones)?;
        let title =
            format!("lookups in a tree of 35 GB on {}, a cache of {zones} GiB", home.name());
        let columns = ["chunk", "lookups/s", "hits of reads, %", "written, GiB"];
        let mut exhibit = Exhibit::new(figure, &title, &columns);
        for (chunk, served) in CHUNKS.into_iter().zip(all) {
            let hits = served.hits as f64 / served.reads as f64 * 100.0;
            let written = served.written as f64 / (1_u64 << 30) as f64;
            let values = [served.lookups_per_s(), hits, written];
            exhibit.push(chunk.to_string(), values.map(Some).to_vec());
        }
        Some(exhibit)
    };
    let of_figure = |figure| Home::ALL.into_iter().filter_map(move |home| of(figure, home));
    ZONES.into_iter().flat_map(of_figure).collect()
}

/// Claims of the paper whose runs are done.
pub(super) fn claims(done: &[Done<Lookups>]) -> Vec<Claim> {
    let [(_, roomy), (_, scarce)] = ZONES;
    Home::ALL
        .into_iter()
        .flat_map(|home| {
            let rates = |zones| -> Option<Vec<f64>> {
                Some(served(done, home, zones)?.into_iter().map(Served::lookups_per_s).collect())
            };
            let (roomy, scarce) = (rates(roomy), rates(scarce));
            let name = home.name();
            let larger = roomy.as_deref().map(|rates| larger_are_better(name, rates));
            let smaller = scarce.as_deref().map(|rates| smaller_are_better(name, rates));
            let both =
                roomy.zip(scarce).map(|(roomy, scarce)| none_is_best(name, [&roomy, &scarce]));
            [larger, smaller, both].into_iter().flatten()
        })
        .collect()
}

fn none_is_best(home: &str, rates: [&[f64]; 2]) -> Claim {
    let [roomy, scarce] = rates.map(|rates| CHUNKS[best(rates)]);
    Claim {
        claim: format!("Figures 3 and 4, {home}: no chunk size is best for both"),
        published: "no one size fits all".into(),
        here: format!("{roomy} without eviction, {scarce} with it"),
        verdict: if scarce < roomy { Verdict::Holds } else { Verdict::DoesNotHold },
        why: String::new(),
    }
}

fn best(rates: &[f64]) -> usize {
    let better = |one: usize, other: usize| if rates[one] < rates[other] { other } else { one };
    (0..rates.len()).reduce(better).unwrap_or(0)
}

/// Rates count as equal below this difference.
const ALIKE: f64 = 0.03;

fn larger_are_better(home: &str, rates: &[f64]) -> Claim {
    let gain = rates[best(rates)] / rates[0] - 1.0;
    let is_kept = rates.windows(2).all(|pair| (1.0 - ALIKE) * pair[0] < pair[1]);
    Claim {
        claim: format!("Figure 3, {home}: without eviction larger chunks perform well"),
        published: "well".into(),
        here: by_chunk(rates),
        verdict: match (ALIKE < gain, is_kept) {
            (true, true) => Verdict::Holds,
            (true, false) | (false, true) => Verdict::HoldsWeaker,
            (false, false) => Verdict::DoesNotHold,
        },
        why: String::new(),
    }
}

fn smaller_are_better(home: &str, rates: &[f64]) -> Claim {
    let falls = rates.windows(2).all(|pair| pair[1] < (1.0 - ALIKE) * pair[0]);
    let is_poor = rates[rates.len() - 1] < rates[0] / 2.0;
    Claim {
        claim: format!(
            "Figure 4, {home}: with eviction smaller chunks perform better, larger ones poorly"
        ),
        published: "better, poorly".into(),
        here: by_chunk(rates),
        verdict: match (falls, is_poor) {
            (true, true) => Verdict::Holds,
            (_, true) => Verdict::HoldsWeaker,
            _ => Verdict::DoesNotHold,
        },
        why: String::new(),
    }
}

fn by_chunk(rates: &[f64]) -> String {
    let one = |(chunk, rate): (Bytes, &f64)| format!("{chunk}: {}", short(*rate));
    let all: Vec<String> = CHUNKS.into_iter().zip(rates).map(one).collect();
    format!("lookups/s with {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(chunk: Bytes, home: Home) -> f64 {
        // The cache has 3 zones of 1 GiB, the tree 8 GiB.
        let lookups = Lookups::new(chunk, home, 3);
        let lookups = Lookups { records: 8 << 20, length: Nanos::secs(15), ..lookups };
        lookups.run(&|_| ()).expect("the drive takes everything").lookups_per_s()
    }

    #[test]
    fn large_chunks_cost_where_they_are_emptied_soon_and_pay_where_questions_are_dear() {
        let [small, large] = [Bytes::kib(256), Bytes::mib(128)].map(|chunk| rate(chunk, Home::Ssd));
        assert!(5.0 * large < small, "{small} {large}");
        let [small, large] = [PAGE, Bytes::mib(2)].map(|chunk| rate(chunk, Home::Remote));
        assert!(small < large, "{small} {large}");
    }

    #[test]
    fn verdicts_follow_the_rates() {
        let rates = |falling: f64| (0..6).map(|at| 1000.0 * falling.powi(at)).collect::<Vec<_>>();
        let smaller = |falling| smaller_are_better("", &rates(falling)).verdict;
        let larger = |falling| larger_are_better("", &rates(falling)).verdict;
        assert_eq!([0.5, 1.0].map(smaller), [Verdict::Holds, Verdict::DoesNotHold]);
        let expected = [Verdict::Holds, Verdict::HoldsWeaker, Verdict::DoesNotHold];
        assert_eq!([1.1, 1.0, 0.9].map(larger), expected);
        assert_eq!((best(&rates(0.5)), best(&rates(1.1))), (0, 5));
    }
}
