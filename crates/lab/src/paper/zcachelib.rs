//! "A Zoned Storage Optimized Flash Cache on ZNS SSDs" (Yang, Guo, Zhao and Cao, 2023): which of its runs are which here,
//! what its tables show, and what it says follows from them.

mod claims;
mod figure_claims;
mod figures;
mod room;
mod served;

use std::fmt;

use zonal_base::{Bytes, Nanos};

use super::report::{Cell, DriveModel, Report};
use super::{Choice, Paper, Published};
use crate::CachePool;
use crate::experiment::Done;
use crate::simulated::cachelib::{Eviction, Medium, Outcome, Placing, Settings};
use room::{FileRoom, OTHER_LOGS, Room};
pub(super) use served::{experiments as ours, rows as ours_rows};

/// How CacheLib keeps its regions on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// In place on the SN540, first in, first out.
    RegFifo,
    /// In place on the SN540, least recently used.
    RegLru,
    /// In a file of F2FS on zones.
    ZnsF2fs,
    /// A region is a zone.
    ZnsDirect,
    /// Regions are mapped to zones, and moved when a zone is emptied.
    ZnsMiddle,
    /// Likewise, but dropped, and old regions of zones with many old ones go first.
    ZCacheLib,
}

/// A run: a cell of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZCacheLib {
    /// How regions are kept.
    pub scheme: Scheme,
    /// What is asked for.
    pub workload: CachePool,
    /// Everything is so many times smaller: keys, memory, regions, zones.
    pub smaller: u32,
    /// Objects that are one item here.
    pub objects_per_item: u32,
    /// Requests that say which regions are used, for each that changes anything.
    pub touches_per_change: u32,
}

const REGION: Bytes = Bytes::mib(16);

/// The first zone is kept for what is stored when the cache stops.
const ZONES_KEPT: u32 = 1;

/// `cacheSizeMB` of the configuration of `l2_wc`; those of the two others were not published in their last state.
const MEMORY: Bytes = Bytes::mib(24_000);

/// Zones are emptied when fewer are free: 8 of 904 in the paper's code, and until as many are.
const FREE_ZONES: (u32, u32) = (8, 8);

/// The part of the regions that `zLRU` may evict out of turn, as the paper's code has it.
const OLD_PART: f64 = 0.3;

/// Regions of the oldest part in a zone, of all that it has, from which on they go first: 48 of 67 in the paper's code.
const OLD_IN_ZONE: (u64, u64) = (48, 67);

impl Scheme {
    /// All of them, in the order of the tables.
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
    /// The run as the tables are made from it.
    #[must_use]
    pub const fn new(scheme: Scheme, workload: CachePool) -> Self {
        let (objects_per_item, touches_per_change) = match workload {
            CachePool::L2Wc => (4, 3),
            CachePool::L2Reg => (32, 0),
            CachePool::Flat => (256, 0),
        };
        Self { scheme, workload, smaller: 1, objects_per_item, touches_per_change }
    }

    /// All of the tables' runs.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |workload| Scheme::ALL.map(|scheme| Self::new(scheme, workload));
        CachePool::ALL.into_iter().flat_map(of).collect()
    }

    /// What is simulated for it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings_in(Room::WHOLE)
    }

    fn settings_in(&self, room: Room) -> Settings {
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
            // A zone takes seconds to be filled.
            (settle, window) = (settle.max(Nanos::secs(15)), window.max(Nanos::secs(40)));
        }
        Settings {
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

/// What a request costs a thread of the paper's machine, beyond the drive. Fitted to Reg-FIFO alone, one for each workload, so that
/// its throughput is the published one; every other row is a prediction.
const fn request_cpu(workload: CachePool) -> Nanos {
    match workload {
        CachePool::L2Wc => Nanos(1_065_000),
        CachePool::L2Reg => Nanos(133_000),
        CachePool::Flat => Nanos(36_800),
    }
}

/// Outcomes by run.
struct Outcomes<'a>(Vec<(ZCacheLib, &'a Outcome)>);

impl Outcomes<'_> {
    fn get(&self, scheme: Scheme, workload: CachePool) -> Option<&Outcome> {
        let found = self.0.iter().find(|(run, _)| (run.scheme, run.workload) == (scheme, workload));
        found.map(|(_, outcome)| *outcome)
    }
}

/// The run that a published figure is of.
fn run_of(figure: &Published) -> Option<(Scheme, CachePool)> {
    let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.name() == figure.row)?;
    Some((scheme, figure.column.parse().ok()?))
}

/// A published figure. The tables have it, as a test sees to.
fn published(unit: &str, scheme: Scheme, workload: CachePool) -> Option<f64> {
    let figures = Published::of(Paper::ZCacheLib);
    let found = figures
        .iter()
        .find(|figure| figure.unit == unit && run_of(figure) == Some((scheme, workload)));
    found.map(|figure| figure.value)
}

fn value(unit: &str, outcome: &Outcome) -> f64 {
    match unit {
        "MOPM" => outcome.mopm(),
        "%" => outcome.hit_ratio() * 100.0,
        _ => outcome.write_amplification(),
    }
}

/// What is simulated for a choice, each once: both tables need all of theirs.
pub(super) fn runs(choice: &Choice) -> Vec<Settings> {
    let tables = if has_tables(choice) { ZCacheLib::all() } else { Vec::new() };
    let mut runs: Vec<Settings> = tables.iter().map(ZCacheLib::settings).collect();
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

/// From what these runs gave.
pub(super) fn report(choice: &Choice, done: &[Done<Settings>]) -> Report {
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
    let report = Report::on(drives, Paper::ZCacheLib, (cells.collect(), claims), (done, seed));
    Report { exhibits: shown.exhibits(), notes: notes(choice), ..report }
}

/// What a table shows.
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
