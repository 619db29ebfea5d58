//! Zonal's cache engine under paper 002's workloads, on its drive.
//!
//! CacheBench writes to the cache. Zonal takes no writes and fetches what it misses. So a get
//! requests an object, which is one chunk of its own size up to 256 KiB, from an origin that takes
//! no time. A set of CacheBench writes to the origin, so here it removes the object. The number of
//! threads and the CPU time per request are CacheLib's, so that both caches get the same load.

use serde::{Deserialize, Serialize};
use zonal_base::{Blocks, Bytes, Nanos, Rng};
use zonal_device::Geometry;
use zonal_emulator::{Profile, Tags, ZonedDrive};

use super::super::Ours;
use super::{CacheLibSettings, Done, MEMORY, Room, Scheme, ZCacheLib, request_cpu};
use crate::CachePool;
use crate::experiment::{GIB, Run};
use crate::simulated::cachelib;
use crate::simulated::{
    Latency, Load, Measures, OriginTimes, Pool, Simulated, SimulationSettings, Timed,
};

/// A workload under Zonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Served {
    workload: CachePool,
    /// The number of zones is divided by this.
    fewer: u32,
    /// The size of each zone is divided by this. Memory and keys are divided by both.
    shorter: u32,
    /// Requests of the warm-up, and of the measurement.
    requests: (u64, u64),
    seed: u64,
}

/// Result of the measured requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Came {
    gets: u64,
    hits: u64,
    got: u64,
    /// Bytes written to the drive.
    written: u64,
    /// Bytes written to the drive during the warm-up.
    written_before: u64,
    took_ns: u64,
    get: Latency,
}

/// Zonal's default policy.
const POLICY: &str = "flow";

/// All runs.
pub(in super::super) fn experiments() -> Vec<Served> {
    let of = |workload| {
        let (fewer, shorter, requests) = match workload {
            CachePool::L2Wc => (16, 1, (6_000_000, 2_000_000)),
            CachePool::L2Reg => (16, 1, (10_000_000, 2_000_000)),
            // Objects have 335 bytes on average. They are real bytes in a simulation too: a larger
            // drive would not fit into memory.
            CachePool::Flat => (8, 32, (30_000_000, 5_000_000)),
        };
        Served { workload, fewer, shorter, requests, seed: 1 }
    };
    CachePool::ALL.map(of).to_vec()
}

impl Served {
    const fn smaller(&self) -> u32 {
        self.fewer * self.shorter
    }

    fn profile(&self) -> Profile {
        let mut profile = Profile::zn540();
        let shorter = |blocks: Blocks| Blocks(blocks.0 / u64::from(self.shorter));
        let Geometry { zone_size, zone_capacity, .. } = profile.geometry;
        profile.geometry.zone_count = Room::WHOLE.zones / self.fewer;
        profile.geometry.zone_size = shorter(zone_size);
        profile.geometry.zone_capacity = shorter(zone_capacity);
        profile
    }
}

impl Run for Served {
    type Outcome = Came;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Came, String> {
        let profile = self.profile();
        let medium = Box::new(Tags::new(&profile.geometry));
        let drive = ZonedDrive::new(profile, self.seed, medium);
        let chunk = zonal_cache::Settings::CHUNK;
        let settings = SimulationSettings {
            chunk,
            get: chunk,
            policy: POLICY.parse().map_err(|error| format!("{POLICY}: {error}"))?,
            memory: Bytes(MEMORY.0 / u64::from(self.smaller())),
            tasks: self.workload.threads(),
            origin: OriginTimes::each(Nanos(0)),
            seed: self.seed,
        };
        let started = Simulated::start(drive, &settings);
        let mut simulated = started.map_err(|error| error.to_string())?;
        let (before, after) = self.requests;
        let load = |count: u64, seed: u64| {
            Load::Pool(Box::new(Pool {
                requests: self.workload.requests(f64::from(self.smaller())),
                chance: Rng::new(seed),
                all: count,
                left: count,
                cost: request_cpu(self.workload),
            }))
        };
        let part = before as f64 / (before + after) as f64;
        simulated.run(load(before, self.seed), &|done| on_progress(done * part))?;
        let written_before = simulated.cache().log().stats().device_written_bytes;
        simulated.measure(Nanos::MAX);
        let rest = |done: f64| on_progress(part + done * (1.0 - part));
        let came = simulated.run(load(after, self.seed + 1), &rest)?;
        let measures: Measures = simulated.take_measures().expect("they were asked for");
        Ok(Came {
            gets: came.gets,
            hits: came.hits,
            got: came.bytes,
            written: simulated.cache().log().stats().device_written_bytes - written_before,
            written_before,
            took_ns: came.took.0,
            get: measures.latency(Timed::Get),
        })
    }
}

/// Rows: each workload under Z-CacheLib and under Zonal.
pub(in super::super) fn rows(
    done: &[Done<CacheLibSettings>],
    served: &[Done<Served>],
) -> Vec<Ours> {
    let of = |one: &Done<Served>| {
        let Served { workload, .. } = one.experiment;
        let theirs = ZCacheLib::new(Scheme::ZCacheLib, workload).settings();
        let theirs = done.iter().find(|done| done.experiment == theirs);
        let theirs = theirs.map(|done| of_theirs(workload, &done.outcome));
        theirs.into_iter().chain([of_ours(workload, &one.outcome)])
    };
    served.iter().flat_map(of).collect()
}

fn of_theirs(workload: CachePool, outcome: &cachelib::CacheLibOutcome) -> Ours {
    Ours {
        row: workload.to_string(),
        origin_latency_ms: 0.0,
        cache: "z-cachelib",
        tasks: workload.threads(),
        get_gib_per_s: outcome.window_got as f64 / GIB * 1e9 / outcome.window.0.max(1) as f64,
        get_p99_ms: outcome.request.p99_ns as f64 / 1e6,
        hit_ratio: outcome.hit_ratio(),
        written_for_got: outcome.written_for_got(),
        write_amplification: outcome.write_amplification(),
    }
}

fn of_ours(workload: CachePool, came: &Came) -> Ours {
    Ours {
        row: workload.to_string(),
        origin_latency_ms: 0.0,
        cache: "zonal",
        tasks: workload.threads(),
        get_gib_per_s: came.got as f64 / GIB * 1e9 / came.took_ns.max(1) as f64,
        get_p99_ms: came.get.p99_ns as f64 / 1e6,
        hit_ratio: came.hits as f64 / came.gets.max(1) as f64,
        written_for_got: came.written as f64 / came.got.max(1) as f64,
        // A zoned drive programs exactly the bytes it receives.
        write_amplification: 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1/150 of the drive with enough requests to fill it. For small objects 1/4096.
    #[test]
    fn zonal_serves_what_cachebench_asks_for() {
        let of = |workload, (fewer, shorter), requests| {
            let served = Served { workload, fewer, shorter, requests, seed: 1 };
            let came = served.run(&|_| ()).expect("it can be run");
            assert!(came.gets / 4 < came.hits && 0 < came.written, "{came:?}");
            assert_eq!(served.run(&|_| ()), Ok(came));
            came.gets as f64 / requests.1 as f64
        };
        // 74 % of the requests are gets. The others go to objects that are never read.
        let part = of(CachePool::L2Wc, (150, 1), (60_000, 20_000));
        assert!((0.72..0.76).contains(&part), "{part}");
        of(CachePool::Flat, (64, 64), (60_000, 20_000));
    }
}
