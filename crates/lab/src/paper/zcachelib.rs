//! Replay of paper 002 (Z-CacheLib): maps its runs to simulations, and checks its tables and
//! claims.
//!
//! The paper is "A Zoned Storage Optimized Flash Cache on ZNS SSDs" (Yang, Guo, Zhao and Cao,
//! 2023).

mod claims;
mod figure_claims;
mod figures;
mod room;
mod served;

use std::fmt;

use zonal_base::{Bytes, Nanos};

use super::report::{Cell, DriveModel, PaperReport};
use super::{Choice, Paper, Published};
use crate::CachePool;
use crate::experiment::Done;
use crate::simulated::cachelib::{CacheLibOutcome, CacheLibSettings, Eviction, Medium, Placing};
use room::{FileRoom, OTHER_LOGS, Room};
pub(super) use served::{experiments as ours, rows as ours_rows};

/// Placement and eviction of CacheLib's regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Regions in place on the SN540, FIFO.
    RegFifo,
    /// Regions in place on the SN540, LRU.
    RegLru,
    /// Regions in a file of F2FS on zones, LRU.
    ZnsF2fs,
    /// Each region is a zone, LRU.
    ZnsDirect,
    /// Regions are mapped to zones. Garbage collection moves them.
    ZnsMiddle,
    /// Regions are mapped to zones. Garbage collection drops them, and old regions go first from
    /// zones with many old ones.
    ZCacheLib,
}

/// A run: one cell of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZCacheLib {
    /// Placement and eviction of the regions.
    pub scheme: Scheme,
    /// Workload of CacheBench.
    pub workload: CachePool,
    /// Scale: keys, memory, regions and zones are this many times smaller.
    pub smaller: u32,
    /// Objects that an item stands for.
    pub objects_per_item: u32,
    /// Requests per changing request that only update the recency of a region.
    pub touches_per_change: u32,
}

const REGION: Bytes = Bytes::mib(16);

/// The first zone is reserved for the state that the cache stores at shutdown.
const ZONES_KEPT: u32 = 1;

/// Memory for objects: `cacheSizeMB` in the configuration of `l2_wc`. The other two configurations
/// were not published in their last state.
const MEMORY: Bytes = Bytes::mib(24_000);

/// Garbage collection starts below 8 free zones of 904, as in the paper's code, and stops at 8.
const FREE_ZONES: (u32, u32) = (8, 8);

/// Share of the regions that `zLRU` may evict out of order, as in the paper's code.
const OLD_PART: f64 = 0.3;

/// Old regions in a zone, of all its regions, above which they go first: 48 of 67 in the paper's
/// code.
const OLD_IN_ZONE: (u64, u64) = (48, 67);

impl Scheme {
    /// All schemes, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::RegFifo,
        Self::RegLru,
        Self::ZnsF2fs,
        Self::ZnsDirect,
        Self::ZnsMiddle,
        Self::ZCacheLib,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::RegFifo => "Reg-FIFO",
            Self::RegLru => "Reg-LRU",
            Self::ZnsF2fs => "ZNS-F2FS",
            Self::ZnsDirect => "ZNS-Direct",
            Self::ZnsMiddle => "ZNS-Middle",
            Self::ZCacheLib => "Z-CacheLib",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ZCacheLib {
    /// The run behind the tables.
    #[must_use]
    pub const fn new(scheme: Scheme, workload: CachePool) -> Self {
        let (objects_per_item, touches_per_change) = match workload {
            CachePool::L2Wc => (4, 3),
            CachePool::L2Reg => (32, 0),
            CachePool::Flat => (256, 0),
        };
        Self { scheme, workload, smaller: 1, objects_per_item, touches_per_change }
    }

    /// All runs of the tables.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |workload| Scheme::ALL.map(|scheme| Self::new(scheme, workload));
        CachePool::ALL.into_iter().flat_map(of).collect()
    }

    /// Settings of the simulation.
    #[must_use]
    pub fn settings(&self) -> CacheLibSettings {
        self.settings_in(Room::WHOLE)
    }

    fn settings_in(&self, room: Room) -> CacheLibSettings {
        let (placing, eviction) = match self.scheme {
            Scheme::RegFifo => (Placing::InPlace, Eviction::Fifo),
            Scheme::RegLru => (Placing::InPlace, Eviction::Lru),
            Scheme::ZnsF2fs => (Placing::File, Eviction::Lru),
            Scheme::ZnsDirect => (Placing::Zones, Eviction::Lru),
            Scheme::ZnsMiddle => (Placing::Moved, Eviction::Lru),
            Scheme::ZCacheLib => (Placing::Dropped, Eviction::ZoneLru),
        };
        let region = if placing == Placing::Zones { room.zone } else { REGION };
        let smaller = u64::from(self.smaller);
        let part = |bytes: Bytes| Bytes(bytes.0 / smaller);
        let (mut regions, mut zones) = (room.regions, room.zones / self.smaller - ZONES_KEPT);
        let mut free_zones = FREE_ZONES;
        if placing == Placing::File {
            let FileRoom { kept, files } = FileRoom::of(room.zones / self.smaller);
            regions = regions.min(Bytes(u64::from(files) * room.zone.0 * smaller));
            zones = room.zones / self.smaller - OTHER_LOGS;
            free_zones = (kept, kept);
        }
        let (mut settle, mut window) = match self.workload {
            CachePool::L2Wc => (Nanos::secs(20), Nanos::secs(120)),
            CachePool::L2Reg => (Nanos::secs(5), Nanos::secs(20)),
            CachePool::Flat => (Nanos::secs(3), Nanos::secs(8)),
        };
        if placing == Placing::Zones {
            // A zone takes seconds to fill.
            (settle, window) = (settle.max(Nanos::secs(15)), window.max(Nanos::secs(40)));
        }
        CacheLibSettings {
            workload: self.workload,
            smaller: self.smaller,
            objects_per_item: self.objects_per_item,
            touches_per_change: self.touches_per_change,
            eviction,
            placing,
            medium: match placing {
                Placing::InPlace => Medium::Conventional,
                _ => Medium::Zoned,
            },
            region,
            regions: zonal_base::low_u32(zonal_base::index(part(regions).0 / region.0)),
            zones,
            zone: room.zone,
            free_zones,
            old_part: OLD_PART,
            old_in_zone: zonal_base::low_u32(zonal_base::index(
                room.zone.0 / region.0 * OLD_IN_ZONE.0 / OLD_IN_ZONE.1,
            )),
            memory: MEMORY,
            request_cpu: request_cpu(self.workload),
            aged: part(room.aged),
            stable: part(room.all()),
            settle,
            window,
            seed: 1,
        }
    }
}

/// CPU time of a request on the paper's machine. The value is fitted per workload so that Reg-FIFO
/// alone has its published throughput. Every other row is a prediction.
const fn request_cpu(workload: CachePool) -> Nanos {
    match workload {
        CachePool::L2Wc => Nanos(1_065_000),
        CachePool::L2Reg => Nanos(133_000),
        CachePool::Flat => Nanos(36_800),
    }
}

/// Outcomes by run.
struct Outcomes<'a>(Vec<(ZCacheLib, &'a CacheLibOutcome)>);

impl Outcomes<'_> {
    fn get(&self, scheme: Scheme, workload: CachePool) -> Option<&CacheLibOutcome> {
        let found = self.0.iter().find(|(run, _)| (run.scheme, run.workload) == (scheme, workload));
        found.map(|(_, outcome)| *outcome)
    }
}

/// Run that a published figure belongs to.
fn run_of(figure: &Published) -> Option<(Scheme, CachePool)> {
    let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.name() == figure.row)?;
    Some((scheme, figure.column.parse().ok()?))
}

/// A published figure. A test checks that the tables have it.
fn published(unit: &str, scheme: Scheme, workload: CachePool) -> Option<f64> {
    let figures = Published::of(Paper::ZCacheLib);
    let found = figures
        .iter()
        .find(|figure| figure.unit == unit && run_of(figure) == Some((scheme, workload)));
    found.map(|figure| figure.value)
}

fn value(unit: &str, outcome: &CacheLibOutcome) -> f64 {
    match unit {
        "MOPM" => outcome.mopm(),
        "%" => outcome.hit_ratio() * 100.0,
        _ => outcome.write_amplification(),
    }
}

/// Simulations for a choice, without duplicates. Each table needs all runs of the tables.
pub(super) fn runs(choice: &Choice) -> Vec<CacheLibSettings> {
    let tables = if has_tables(choice) { ZCacheLib::all() } else { Vec::new() };
    let mut runs: Vec<CacheLibSettings> = tables.iter().map(ZCacheLib::settings).collect();
    for run in figures::runs(choice) {
        if !runs.contains(&run.settings) {
            runs.push(run.settings);
        }
    }
    runs
}

fn has_tables(choice: &Choice) -> bool {
    choice.has("1") || choice.has("2")
}

/// Report of these runs.
pub(super) fn report(choice: &Choice, done: &[Done<CacheLibSettings>]) -> PaperReport {
    let find = |run: &ZCacheLib| {
        let settings = run.settings();
        done.iter().find(|done| done.experiment == settings).map(|done| &done.outcome)
    };
    let runs = ZCacheLib::all();
    let outcomes = runs.iter().filter_map(|run| Some((*run, find(run)?)));
    let outcomes = Outcomes(outcomes.collect());
    let figures = Published::of(Paper::ZCacheLib);
    let cells = figures.iter().filter(|figure| choice.has(figure.table)).filter_map(|figure| {
        let (scheme, workload) = run_of(figure)?;
        Some(Cell::new(figure, value(figure.unit, outcomes.get(scheme, workload)?)))
    });
    let seed = done.first().map_or(0, |done| done.experiment.seed);
    let drives = DriveModel::named(&["zn540", "sn540"]);
    let mut claims = if has_tables(choice) { claims::of(choice, &outcomes) } else { Vec::new() };
    let shown = figures::Shown::of(choice, done);
    claims.extend(figure_claims::of(&shown));
    let report = PaperReport::on(drives, Paper::ZCacheLib, (cells.collect(), claims), (done, seed));
    PaperReport { exhibits: shown.exhibits(), notes: notes(choice), ..report }
}

/// Title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "1" => "throughput and hits once all zones are full",
        _ => "write amplification after 1400 GiB",
    }
}

fn notes(choice: &Choice) -> Vec<String> {
    let scale = CachePool::ALL.map(|workload| {
        format!("{} in {workload}", ZCacheLib::new(Scheme::RegLru, workload).objects_per_item)
    });
    let mut notes = vec![
        "ZNS-F2FS is no more than where its blocks lie: a log for new data, one for what is moved, the zones that mkfs.f2fs keeps free, and files as large as it leaves room for; neither its node blocks nor its locks are modelled, so its throughput is what the drive alone would allow".into(),
        format!(
            "scale: drives, zones, regions and memory have their full size; an item stands for so many objects: {}",
            scale.join(", ")
        ),
        "fitted: what a request costs a thread, for each workload, to the throughput of Reg-FIFO; its own throughput is no prediction".into(),
        "assumed: 24000 MB of memory in all three workloads (published for l2_wc), and that threads wait while 64 MiB of objects wait for a region".into(),
    ];
    notes.extend(figures::notes(choice));
    notes
}

#[cfg(test)]
mod tests;
