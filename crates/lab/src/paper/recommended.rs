//! Paper 003's five recommendations for ZNS drives, each tested against Zonal's cache engine.
//!
//! Paper 003 is "Performance Characterization of NVMe Flash Devices with Zoned Namespaces (ZNS)".
//! The engine runs on the drive model as it is, and follows the recommendations. For each
//! recommendation it also runs on a drive that is used against it.

mod contrary;

use serde::{Deserialize, Serialize};
use zonal_base::{Bytes, Nanos};
use zonal_emulator::{Profile, Tags, ZonedDrive};

use super::exhibit::Exhibit;
use super::{Paper, PaperReport};
use crate::experiment::{Done, Engine, Experiment, Precondition, Run};
use crate::simulated::{Habits, Load, OriginTimes, Simulated, SimulationSettings, Timed};
use crate::{Distribution, Draw};
use contrary::{Contrary, Way};

/// A run of the engine on a drive. Equal settings give equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advised {
    ground: Ground,
    gets: u64,
    seed: u64,
}

/// Drive of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ground {
    /// The ZN540, used in this way.
    Zoned(Way),
    /// Its conventional twin, preconditioned with writes over the whole drive.
    Conventional,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shown {
    took_ns: u64,
    hits: u64,
    gets: u64,
    /// Bytes written to the drive.
    written: u64,
    /// Get latencies in nanoseconds: 99th and 99.9th percentile.
    p99_ns: u64,
    p999_ns: u64,
}

/// Seed of every run.
const SEED: u64 = 1;

/// 33.7 GiB, and four times as many keys. The gets write 100 GiB.
const ZONES: u32 = 32;
const CHUNK: Bytes = Bytes::kib(64);
const KEYS: u64 = 4 * 32 * 1077 * 16;
const GETS: u64 = 2_200_000;
/// With this many tasks, misses arrive about as fast as the drive writes.
const TASKS: usize = 24;
const ORIGIN: Nanos = Nanos::millis(1);
const POLICY: &str = "zone-fifo";

/// Slightly larger than the zones in use.
const TWIN: &str = "sn540?size=35GiB";

/// Each recommendation, and the run against it.
const RECOMMENDED: [(&str, Ground); 5] = [
    ("1: writes, no appends", Ground::Zoned(Way::Appends)),
    ("2: large requests, not of 4 KiB", Ground::Zoned(Way::SmallRequests)),
    ("3: zones written to their end, not finished at half", Ground::Zoned(Way::HalfZones)),
    ("4: the drive's peak is there, and no garbage collection", Ground::Conventional),
    ("5: resets beside other work, not alone", Ground::Zoned(Way::QuietResets)),
];

const fn run(ground: Ground) -> Advised {
    Advised { ground, gets: GETS, seed: SEED }
}

/// All runs: the engine as it is, then one run against each recommendation.
pub(super) fn runs() -> Vec<Advised> {
    let against = RECOMMENDED.map(|(_, ground)| run(ground));
    std::iter::once(run(Ground::Zoned(Way::AsItIs))).chain(against).collect()
}

impl Run for Advised {
    type Outcome = Shown;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Shown, String> {
        match self.ground {
            Ground::Zoned(way) => self.on_zones(way, on_progress),
            Ground::Conventional => self.on_twin(on_progress),
        }
    }
}

impl Advised {
    fn on_zones(&self, way: Way, on_progress: &dyn Fn(f64)) -> Result<Shown, String> {
        let profile = Profile::zn540();
        let medium = Box::new(Tags::new(&profile.geometry));
        let drive = Contrary::new(ZonedDrive::new(profile, self.seed, medium), ZONES, way);
        let settings = SimulationSettings {
            chunk: CHUNK,
            get: CHUNK,
            policy: POLICY.parse().map_err(|error| format!("policy: {error}"))?,
            memory: Bytes(0),
            tasks: TASKS,
            origin: OriginTimes::for_chunks(CHUNK, ORIGIN),
            seed: self.seed,
        };
        let mut simulated =
            Simulated::start(drive, &settings).map_err(|error| error.to_string())?;
        simulated.measure(Nanos::secs(60));
        let draw = Draw::new(Distribution::Uniform, KEYS, self.seed);
        let begun = simulated.now();
        let came = simulated.run(Load::Drawn(self.gets, draw), on_progress)?;
        let took_ns = simulated.now().since(begun).0;
        let measures = simulated.take_measures().expect("they were asked for");
        let get = measures.latency(Timed::Get);
        let written = simulated.cache().log().stats().device_written_bytes;
        let (p99_ns, p999_ns) = (get.p99_ns, get.p999_ns);
        Ok(Shown { took_ns, hits: came.hits, gets: came.gets, written, p99_ns, p999_ns })
    }

    fn on_twin(&self, on_progress: &dyn Fn(f64)) -> Result<Shown, String> {
        let experiment = Experiment {
            cache: Engine::Zonal,
            drive: TWIN.parse()?,
            precondition: Precondition::Random(CHUNK),
            zones: ZONES,
            chunk: CHUNK,
            policy: POLICY.into(),
            dram: Bytes(0),
            workload: Distribution::Uniform.into(),
            keys: KEYS,
            gets: self.gets,
            tasks: TASKS,
            origin_latency: ORIGIN,
            origin_sd: Nanos(0),
            hold_zone_during_fetch: false,
            habits: Habits::default(),
            limit: Nanos::MAX,
            seed: self.seed,
        };
        let came = experiment.run(on_progress)?;
        Ok(Shown {
            took_ns: came.took_ns,
            hits: came.hits,
            gets: came.gets,
            written: came.drive.written,
            p99_ns: came.get.p99_ns,
            p999_ns: came.get.p999_ns,
        })
    }
}

impl Shown {
    fn gib_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / self.took_ns as f64 * 1e9 / (1_u64 << 30) as f64
    }

    fn written_gib_per_s(&self) -> f64 {
        self.gib_per_s(self.written)
    }

    /// Values of a table row.
    fn figures(&self) -> [f64; 5] {
        let hits = self.hits as f64 / self.gets as f64 * 100.0;
        let millis = |nanos: u64| nanos as f64 / 1e6;
        let got = self.gib_per_s(self.gets * CHUNK.0);
        [got, self.written_gib_per_s(), hits, millis(self.p99_ns), millis(self.p999_ns)]
    }
}

pub(super) fn report(done: &[Done<Advised>]) -> PaperReport {
    let find = |ground| {
        let run = run(ground);
        done.iter().find(|done| done.experiment == run).map(|done| done.outcome)
    };
    let columns = [
        "asked so",
        "get GiB/s",
        "written GiB/s",
        "hits %",
        "p99 ms",
        "p99.9 ms",
        "written, part of the engine's",
    ];
    let title = "five recommendations, and the engine against each";
    let mut exhibit = Exhibit::new("recommendations", title, &columns);
    let engine = find(Ground::Zoned(Way::AsItIs));
    let rows = std::iter::once(("as the engine does", engine));
    let against = RECOMMENDED.map(|(name, ground)| (name, find(ground)));
    for (name, shown) in rows.chain(against) {
        let part = shown
            .zip(engine)
            .map(|(one, engine)| one.written_gib_per_s() / engine.written_gib_per_s());
        let figures = shown.map(|shown| shown.figures());
        let name =
            name.strip_prefix("as").map_or_else(|| format!("against {name}"), |_| name.into());
        let figures = (0..5).map(|at| figures.map(|figures| figures[at]));
        exhibit.push(name, figures.chain([part]).collect());
    }
    let report = PaperReport::on(Vec::new(), Paper::Zns, (Vec::new(), Vec::new()), (done, SEED));
    report.beside(vec![exhibit], (done, SEED), &["zn540", "sn540"])
}

/// Heading of the results. The paper has no table for them.
pub(super) const TITLE: &str = "recommendations";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(way: Way) -> Shown {
        let run = Advised { gets: 120_000, ..run(Ground::Zoned(way)) };
        run.run(&|_| ()).expect("the engine takes any way")
    }

    #[test]
    fn the_engine_does_worse_in_requests_of_a_block() {
        let [engine, small] = [Way::AsItIs, Way::SmallRequests].map(shown);
        assert!(small.written_gib_per_s() < engine.written_gib_per_s(), "{engine:?} {small:?}");
        assert_eq!(shown(Way::AsItIs), engine);
    }
}
