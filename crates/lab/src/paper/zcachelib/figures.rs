//! Runs of paper 002's figures, which print no numbers, and of its future work.
//!
//! The runs have a declared scale. Each figure is a series of runs along an axis.

use zonal_base::{Bytes, Nanos};

use super::super::exhibit::Exhibit;
use super::room::{Room, ZONE};
use super::{CacheLibOutcome, CacheLibSettings, Choice, Done, REGION, Scheme, ZCacheLib};
use crate::CachePool;
use crate::simulated::cachelib::{Eviction, Medium, Placing};

/// A point of a figure, with its run.
#[derive(Clone, Debug)]
pub(super) struct FigureRun {
    pub(super) place: &'static str,
    /// Label on the axis.
    pub(super) along: String,
    pub(super) scheme: String,
    pub(super) settings: CacheLibSettings,
}

/// Results of the chosen figures.
pub(super) struct Shown<'a>(Vec<(FigureRun, &'a CacheLibOutcome)>);

/// Objects that an item stands for on most of the drive. On a tenth of the drive a region would
/// have few items, so an item stands for `OBJECTS_OF_FEW`.
const OBJECTS: u32 = 8;
const OBJECTS_OF_FEW: u32 = 4;

/// Requests per changing request that only update recency.
const TOUCHES: u32 = 3;

/// Half of the tables' window.
const WINDOW: Nanos = Nanos::secs(60);

const REGION_SIZES: [Bytes; 5] = [REGION, Bytes::mib(64), Bytes::mib(256), Bytes::mib(512), ZONE];

const SPARE: [u32; 4] = [10, 15, 20, 25];

const ZONES: [u32; 4] = [200, 400, 600, 800];

const ZONE_SIZES: [u64; 4] = [128, 256, 512, 1024];

/// Share of the regions that garbage collection may drop, in percent: the paper's vOP ratio.
const DROPPED: [u32; 5] = [0, 25, 50, 75, 100];

/// Free zones at which garbage collection starts and stops, of 100 zones.
const WATERMARKS: [(u32, u32); 4] = [(2, 3), (4, 6), (8, 8), (12, 12)];

/// Schemes that Figures 8 and 9 compare.
pub(super) const COMPARED: [Scheme; 4] =
    [Scheme::ZnsF2fs, Scheme::ZnsMiddle, Scheme::ZnsDirect, Scheme::ZCacheLib];

/// Zones of Figures 7 and 10, and their spare room as a fraction of the regions: 88 GiB of regions,
/// and 13 %.
const FEW_ZONES: u32 = 100;
const FEW_SPARE: f64 = 0.195;
const RATIO_SPARE: f64 = 0.13;

/// The paper's text starts and stops garbage collection at 1 and 3 % of the zones. One zone is
/// always reserved for moved regions.
const FEW_FREE: (u32, u32) = (2, 3);

pub(super) const ALL: [&str; 5] = ["figure 2", "figure 7", "figure 8", "figure 9", "figure 10"];

/// Future work of the paper, on the zones of Figure 7.
pub(super) const WATERMARK: &str = "watermarks";
pub(super) const BY_LOAD: &str = "dropping by the load";

pub(super) fn title(place: &str) -> &'static str {
    match place {
        "figure 2" => "regions of other sizes on the drive without zones, l2_wc",
        "figure 7" => {
            "zLRU and zDrop, 100 zones, and what part of the regions zDrop may drop, l2_wc"
        }
        "figure 8" => "spare room, 904 zones, l2_wc",
        "figure 9" => "zones, 20 % spare, l2_wc",
        "figure 10" => "zones of other sizes on the drive without zones, 105 GiB, l2_wc",
        WATERMARK => "future work there: when Z-CacheLib empties zones, 100 zones, l2_wc",
        _ => {
            "future work there: old regions are dropped, young ones moved while zones are free, 100 zones"
        }
    }
}

/// Runs for the chosen figures, in their order.
pub(super) fn runs(choice: &Choice) -> Vec<FigureRun> {
    let of = |place| match place {
        "figure 2" => region_sizes(),
        "figure 7" => [components(), dropped_parts(), watermarks(), by_load()].concat(),
        "figure 8" => spare_room(),
        "figure 9" => sizes(),
        _ => zone_sizes(),
    };
    ALL.into_iter().filter(|place| choice.has(place)).flat_map(of).collect()
}

fn of(workload: CachePool, scheme: Scheme, room: Room, objects_per_item: u32) -> CacheLibSettings {
    let tables = ZCacheLib::new(scheme, workload);
    let run = match workload {
        CachePool::L2Wc => ZCacheLib { objects_per_item, touches_per_change: TOUCHES, ..tables },
        _ => tables,
    };
    let settings = run.settings_in(room);
    CacheLibSettings { window: settings.window.min(WINDOW), ..settings }
}

fn few(scheme: Scheme) -> CacheLibSettings {
    let room = Room::with_spare(FEW_ZONES, FEW_SPARE);
    CacheLibSettings { free_zones: FEW_FREE, ..of(CachePool::L2Wc, scheme, room, OBJECTS_OF_FEW) }
}

fn run(place: &'static str, along: String, scheme: &str, settings: CacheLibSettings) -> FigureRun {
    FigureRun { place, along, scheme: scheme.into(), settings }
}

/// Figure 2b, and the scheme that the figure explains.
fn region_sizes() -> Vec<FigureRun> {
    let of_size = |scheme: Scheme| {
        let settings = of(CachePool::L2Wc, scheme, Room::WHOLE, OBJECTS);
        let at = move |region: Bytes| {
            let regions = Room::WHOLE.regions.0 / region.0;
            let regions = zonal_base::low_u32(zonal_base::index(regions));
            let settings = CacheLibSettings { region, regions, ..settings };
            run("figure 2", format!("{region}"), &scheme.to_string(), settings)
        };
        REGION_SIZES.into_iter().map(at)
    };
    let direct = of(CachePool::L2Wc, Scheme::ZnsDirect, Room::WHOLE, OBJECTS);
    let direct = run("figure 2", format!("{ZONE}"), &Scheme::ZnsDirect.to_string(), direct);
    of_size(Scheme::RegFifo).chain(of_size(Scheme::RegLru)).chain([direct]).collect()
}

pub(super) const LRU: &str = "LRU";
pub(super) const Z_LRU: &str = "zLRU";
pub(super) const Z_DROP: &str = "zDrop";
pub(super) const BOTH: &str = "zLRU and zDrop";
pub(super) const Z_LRU_TEXT: &str = "zLRU as described";
const BOTH_TEXT: &str = "both as described";

/// Figure 7a.
fn components() -> Vec<FigureRun> {
    let (moved, both) = (few(Scheme::ZnsMiddle), few(Scheme::ZCacheLib));
    let z_lru = CacheLibSettings { eviction: Eviction::ZoneLru, ..moved };
    let z_drop = CacheLibSettings { eviction: Eviction::Lru, ..both };
    let of = |(scheme, settings)| run("figure 7", "parts".into(), scheme, settings);
    let code = [(LRU, moved), (Z_LRU, z_lru), (Z_DROP, z_drop), (BOTH, both)];
    let text = [(Z_LRU_TEXT, as_described(z_lru)), (BOTH_TEXT, as_described(both))];
    code.into_iter().chain(text).map(of).collect()
}

/// The rule of the paper's text, which differs from its code.
///
/// An old region goes first when its zone holds fewer young regions than the average. Young regions
/// are neither old nor evicted. The average is known: all regions except the oldest part, divided
/// by the zones.
fn as_described(settings: CacheLibSettings) -> CacheLibSettings {
    let slots = zonal_base::low_u32(zonal_base::index(settings.zone.0 / settings.region.0));
    let old = (f64::from(settings.regions) * settings.old_part).ceil();
    let young = (f64::from(settings.regions) - old) / f64::from(settings.zones);
    let old_in_zone = (0..slots).rfind(|old| young <= f64::from(slots - old)).unwrap_or(0);
    CacheLibSettings { old_in_zone, ..settings }
}

/// Figure 7b.
fn dropped_parts() -> Vec<FigureRun> {
    let room = Room::with_spare(FEW_ZONES, RATIO_SPARE);
    let all = CacheLibSettings {
        free_zones: FEW_FREE,
        eviction: Eviction::Lru,
        placing: Placing::OldDropped,
        ..of(CachePool::L2Wc, Scheme::ZCacheLib, room, OBJECTS_OF_FEW)
    };
    let at = |percent: u32| {
        let settings = CacheLibSettings { old_part: f64::from(percent) / 100.0, ..all };
        run("figure 7", format!("{percent} % may be dropped"), Z_DROP, settings)
    };
    DROPPED.map(at).to_vec()
}

fn watermarks() -> Vec<FigureRun> {
    let at = |free_zones: (u32, u32)| {
        let settings = CacheLibSettings { free_zones, ..few(Scheme::ZCacheLib) };
        let along = format!("{} to {} free", free_zones.0, free_zones.1);
        run(WATERMARK, along, &Scheme::ZCacheLib.to_string(), settings)
    };
    WATERMARKS.map(at).to_vec()
}

pub(super) const ALL_DROPPED: &str = "all dropped";
pub(super) const OLD_DROPPED: &str = "old ones dropped";
pub(super) const LOAD_DROPPED: &str = "by the load";

fn by_load() -> Vec<FigureRun> {
    let of_workload = |workload| {
        let room = Room::with_spare(FEW_ZONES, FEW_SPARE);
        let all = of(workload, Scheme::ZCacheLib, room, OBJECTS_OF_FEW);
        let at = move |(scheme, placing)| {
            run(BY_LOAD, format!("{workload}"), scheme, CacheLibSettings { placing, ..all })
        };
        [
            (ALL_DROPPED, Placing::Dropped),
            (OLD_DROPPED, Placing::OldDropped),
            (LOAD_DROPPED, Placing::DroppedByLoad),
        ]
        .map(at)
    };
    [CachePool::L2Wc, CachePool::L2Reg].into_iter().flat_map(of_workload).collect()
}

/// Figure 8.
fn spare_room() -> Vec<FigureRun> {
    let of_spare = |percent: u32| {
        let spare = f64::from(percent) / 100.0;
        let room = Room { aged: Room::WHOLE.aged, ..Room::with_spare(Room::WHOLE.zones, spare) };
        let at = move |scheme: Scheme| {
            let settings = of(CachePool::L2Wc, scheme, room, OBJECTS);
            run("figure 8", format!("{percent} % spare"), &scheme.to_string(), settings)
        };
        COMPARED.map(at)
    };
    SPARE.into_iter().flat_map(of_spare).collect()
}

/// Figure 9.
fn sizes() -> Vec<FigureRun> {
    let of_zones = |zones: u32| {
        let at = move |scheme: Scheme| {
            let settings = of(CachePool::L2Wc, scheme, Room::with_spare(zones, 0.2), OBJECTS);
            run("figure 9", format!("{zones} zones"), &scheme.to_string(), settings)
        };
        COMPARED.map(at)
    };
    ZONES.into_iter().flat_map(of_zones).collect()
}

/// Figure 10.
fn zone_sizes() -> Vec<FigureRun> {
    let of_size = |mib: u64| {
        let room = Room::with_spare(FEW_ZONES, 0.2).with_zones_of(Bytes::mib(mib));
        let at = move |scheme: Scheme| {
            let settings = of(CachePool::L2Wc, scheme, room, OBJECTS_OF_FEW);
            let (medium, free_zones) = (Medium::Conventional, FEW_FREE);
            let settings = CacheLibSettings { medium, free_zones, ..settings };
            run("figure 10", format!("zones of {mib} MiB"), &scheme.to_string(), settings)
        };
        [Scheme::ZnsDirect, Scheme::ZCacheLib].map(at)
    };
    ZONE_SIZES.into_iter().flat_map(of_size).collect()
}

impl<'a> Shown<'a> {
    pub(super) fn of(choice: &Choice, done: &'a [Done<CacheLibSettings>]) -> Self {
        let find = |run: FigureRun| {
            let found = done.iter().find(|done| done.experiment == run.settings)?;
            Some((run, &found.outcome))
        };
        Self(runs(choice).into_iter().filter_map(find).collect())
    }

    /// Runs of a figure with this name, in the order of the axis.
    pub(super) fn along(
        &self,
        place: &str,
        scheme: &str,
    ) -> Vec<(&FigureRun, &'a CacheLibOutcome)> {
        let is_it =
            |(run, _): &&(FigureRun, &CacheLibOutcome)| run.place == place && run.scheme == scheme;
        self.0.iter().filter(is_it).map(|(run, outcome)| (run, *outcome)).collect()
    }

    /// A table for each chosen figure.
    pub(super) fn exhibits(&self) -> Vec<Exhibit> {
        let mut exhibits: Vec<Exhibit> = Vec::new();
        for (run, outcome) in &self.0 {
            if exhibits.last().is_none_or(|exhibit| exhibit.place != run.place) {
                exhibits.push(Exhibit::new(run.place, title(run.place), &COLUMNS));
            }
            let values = [
                outcome.mopm(),
                outcome.hit_ratio() * 100.0,
                outcome.write_amplification(),
                outcome.written_mib_per_s(),
            ];
            let name = format!("{}, {}", run.along, run.scheme);
            let exhibit = exhibits.last_mut().expect("there is one now");
            exhibit.push(name, values.map(Some).to_vec());
        }
        exhibits
    }
}

/// The cache's writes do not include moved bytes.
const COLUMNS: [&str; 5] = ["at, scheme", "MOPM", "hits, %", "WA", "written by the cache, MiB/s"];

pub(super) fn notes(choice: &Choice) -> Option<String> {
    let is_any = ALL.into_iter().any(|place| choice.has(place));
    is_any.then(|| {
        format!(
            "figures: an item stands for {OBJECTS} objects ({OBJECTS_OF_FEW} on 100 zones), {TOUCHES} requests only say what is read for each that changes anything, and {WINDOW} are timed; memory is that of the tables however many zones there are; on 100 zones they are emptied when fewer than {} are free, until {} are, as the paper's text has it",
            FEW_FREE.0, FEW_FREE.1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_large_as_the_paper_says() {
        let all = runs(&Choice::default());
        let count = |place: &str| all.iter().filter(|run| run.place == place).count();
        assert_eq!(ALL.map(count), [11, 11, 16, 16, 8]);
        assert_eq!([WATERMARK, BY_LOAD].map(count), [4, 6]);
        for FigureRun { place, scheme, settings, .. } in &all {
            let regions = settings.region.0 * u64::from(settings.regions);
            let room = settings.zone.0 * u64::from(settings.zones);
            assert!(regions < room, "{place}, {scheme}: {settings:?}");
        }
        let components = &runs(&Choice { tables: Vec::new(), figures: vec![7] })[0].settings;
        assert_eq!((components.region.0 * u64::from(components.regions)) >> 30, 88);
    }
}
