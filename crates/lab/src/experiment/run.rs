//! Runner of one experiment, from an empty cache to the last get.

use zonal_base::{Bytes, Nanos};
use zonal_device::{DeviceKind, ZonedDevice};
use zonal_emulator::ftl::FtlCounters;
use zonal_watch::Watched;

use super::ground::Part;
use super::outcome::{DriveBytes, STRETCH};
use super::{Engine, Experiment, Outcome, Precondition};
use crate::simulated::{
    Calls, ClaimOrder, Ground, Habits, HostCosts, Load, Lru, Measures, MemoryCosts, OriginTimes,
    Recording, Sequential, SequentialSettings, Simulated, SimulationSettings, Threaded,
    ThreadedSettings, Timed, ZONE_USED, ZONES_LEFT,
};
use crate::{Draw, Pace, Recorded, Workload};

/// Active zones of ZNCache on a conventional drive: as many as the zoned drive has.
const ACTIVE_ZONES: u32 = 14;

/// Largest request that Linux 6.8 makes of a larger call (`BLK_DEF_MAX_SECTORS_CAP`, 2560 sectors).
/// ZNCache's script also reads and writes this much at a time on a conventional drive.
const REQUEST: Bytes = Bytes::kib(1280);

/// Requests of one read in flight: the tags of a queue under Linux's mq-deadline. On a conventional
/// drive ZNCache sends one request after the other.
const READS_ZONED: usize = 256;

/// Time that io_uring and mq-deadline add to a 4 KiB write: 14.47 us instead of 11.36 with SPDK,
/// and 12.62 without a scheduler. The source is a table of paper 003.
const HOST_ZONED: Nanos = Nanos(3_110);
const HOST_CONVENTIONAL: Nanos = Nanos(1_260);

/// Further cost of a call in ZNCache, whose thread sleeps until the drive answers and is woken on a
/// mostly idle machine. No figure is published. The value is fitted to one cell of paper 000, the
/// mean of ZNS-64K-UNIF-10 in Table 6, 0.07 ms. All other cells are predictions.
const SLEEPING: Nanos = Nanos(27_000);

/// Cost of ZNCache's fresh buffer for each chunk on its authors' machine. The values are fitted to
/// one row of paper 000, ZNS-512M-UNIF-10 of Tables 6, 7 and 8, as no drive's constant ever is. All
/// other rows are predictions. `copying` is more than the rest of a miss there (0.56 s of 7.44):
/// its spread keeps the threads apart.
const MEMORY: MemoryCosts = MemoryCosts { copying: Nanos(2_200_000), touching: Nanos(490_000) };

/// Cost for ZNSCCache to open the device, query its zones and close it with every read and write.
/// No figure is published. The value is fitted to one cell of paper 001, the geometric mean of
/// smallquery-noevict in Table 5. All its other cells are predictions.
const REOPENING: Nanos = Nanos(890_000);

/// Costs of calls in ZNSCCache.
pub(crate) const ZNSCCACHE_HOST: HostCosts = HostCosts {
    call: HOST_ZONED,
    request: REQUEST,
    touching: MEMORY.touching,
    reopening: REOPENING,
};

/// Chunk size of Zonal, unless gets are smaller.
const ZONAL_CHUNK: Bytes = zonal_cache::Settings::CHUNK;

/// Runs an experiment. `on_progress` receives the finished fraction from time to time.
///
/// # Errors
/// When the experiment does not fit its drive, or a read returns wrong bytes.
pub fn run(experiment: &Experiment, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
    run_watched(experiment, on_progress, &Watched::default())
}

/// As [`run`], before a watcher. It sees Zonal's cache, and none of the others.
pub(super) fn run_watched(
    experiment: &Experiment,
    on_progress: &dyn Fn(f64),
    watched: &Watched,
) -> Result<Outcome, String> {
    experiment.check()?;
    let ground = Part::prepare(experiment)?;
    match experiment.cache {
        Engine::Zncache => zncache(experiment, ground, on_progress),
        Engine::Znsccache => znsccache(experiment, ground, on_progress),
        Engine::Zonal => zonal(experiment, ground, (on_progress, watched)),
    }
}

impl Experiment {
    /// Checks that the experiment can run.
    ///
    /// # Errors
    /// When it cannot. The text starts with the key to change.
    pub fn check(&self) -> Result<(), String> {
        let have = self.drive.zones();
        if !(1..=have).contains(&self.zones) {
            return Err(format!("zones: {} has 1 to {have}, not {}", self.drive, self.zones));
        }
        let capacity = self.drive.model().geometry().zone_capacity.bytes();
        let most = match self.cache {
            Engine::Zncache => capacity,
            Engine::Znsccache => ZONE_USED,
            Engine::Zonal => OBJECT_MAX,
        };
        let is_size = Bytes::kib(4) <= self.chunk && self.chunk <= most;
        if !is_size || !self.chunk.0.is_power_of_two() {
            return Err(format!("chunk: write a power of two from 4KiB to {most}"));
        }
        if let Precondition::Random(piece) = self.precondition
            && self.has_places()
            && self.chunk < piece
        {
            return Err(format!(
                "precondition: {piece} does not fit into a chunk of {}",
                self.chunk
            ));
        }
        let (_, low) = free_zones(self.chunk);
        if self.cache == Engine::Zncache && self.zones <= low {
            return Err(format!("zones: zncache needs {low} free zones, and more to use"));
        }
        let known = self.cache.policies();
        if !known.is_empty() && !known.contains(&&*self.policy) {
            let cache = self.cache.name();
            return Err(format!("policy: {cache} supports {}", known.join(" and ")));
        }
        if self.cache != Engine::Zncache && self.hold_zone_during_fetch {
            let cache = self.cache.name();
            return Err(format!("hold-zone-during-fetch: only for zncache, not {cache}"));
        }
        self.check_sequential()?;
        let spec = self.policy.parse::<zonal_policy::Spec>().map_err(|error| error.to_string());
        spec.and_then(|spec| spec.on_device().map_err(|error| error.to_string()))
            .map_err(|why| format!("policy: {why}"))?;
        if !(1..=TASKS_MAX).contains(&self.tasks) {
            return Err(format!("tasks: write a number from 1 to {TASKS_MAX}"));
        }
        match &self.workload {
            Workload::Drawn(_) => self.check_drawn(),
            Workload::Recorded(recorded) => self.check_recorded(recorded),
        }
    }

    /// Checks the limits of ZNSCCache, and that other caches do not have its keys.
    fn check_sequential(&self) -> Result<(), String> {
        if self.cache != Engine::Znsccache {
            return match (self.habits == Habits::default(), self.limit == Nanos::MAX) {
                (false, _) => Err("habits: only for znsccache: omit it".into()),
                (_, false) => Err("limit: only for znsccache: omit it".into()),
                _ if self.origin_sd != Nanos(0) => {
                    Err("origin-sd: only for znsccache: omit it".into())
                }
                _ => Ok(()),
            };
        }
        if self.drive.model().geometry().kind != DeviceKind::Zoned {
            return Err(format!("drive: znsccache needs a zoned drive, and {} is not", self.drive));
        }
        if self.zones <= ZONES_LEFT + 1 {
            let least = ZONES_LEFT + 2;
            return Err(format!("zones: znsccache needs {least} or more"));
        }
        if self.tasks != 1 {
            return Err("tasks: znsccache serves gets one at a time: write 1".into());
        }
        if self.limit == Nanos(0) {
            return Err("limit: write a time above 0".into());
        }
        Ok(())
    }

    fn check_drawn(&self) -> Result<(), String> {
        for (key, value, made_of) in [("bytes", self.gets, "gets"), ("ratio", self.keys, "keys")] {
            if value == 0 {
                return Err(format!("{key}: missing or 0, so there are no {made_of}"));
            }
        }
        if u64::from(u32::MAX) <= self.keys {
            return Err(format!("ratio: {} keys exceed 32 bits", self.keys));
        }
        Ok(())
    }

    fn check_recorded(&self, recorded: &Recorded) -> Result<(), String> {
        recorded.check()?;
        for (key, value) in [("bytes", self.gets), ("ratio", self.keys)] {
            if value != 0 {
                return Err(format!("{key}: the trace defines it: omit {key}"));
            }
        }
        if recorded.size_of_all(self.chunk).is_none() {
            if self.cache != Engine::Zonal {
                let cache = self.cache.name();
                let why = "supports only chunks of one size, but the trace has sizes: use zonal";
                return Err(format!("cache: {cache} {why}"));
            }
            if zonal_cache::STRIPE < self.chunk {
                let most = zonal_cache::STRIPE;
                return Err(format!("chunk: write at most {most} for the objects of a trace"));
            }
        }
        if self.cache != Engine::Zonal && recorded.copies != 1 {
            let cache = self.cache.name();
            return Err(format!("copies: not supported by {cache}: omit it"));
        }
        if self.cache == Engine::Znsccache && recorded.pace != Pace::Full {
            return Err("pace: not supported by znsccache: omit pace".into());
        }
        Ok(())
    }
}

impl Engine {
    /// Name of the cache in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Zncache => "zncache",
            Self::Znsccache => "znsccache",
            Self::Zonal => "zonal",
        }
    }

    /// Policies of a published cache. Empty for Zonal, which takes all policies.
    pub(super) const fn policies(self) -> &'static [&'static str] {
        match self {
            Self::Zncache => &["zone-lru", "chunk-lru"],
            Self::Znsccache => &["epoch"],
            Self::Zonal => &[],
        }
    }
}

impl Experiment {
    /// True when every chunk has a fixed place on the drive and is overwritten there, so that no
    /// zone is emptied.
    pub(super) fn has_places(&self) -> bool {
        self.cache == Engine::Zncache
            && self.policy == "chunk-lru"
            && self.drive.model().geometry().kind == DeviceKind::Conventional
    }
}

/// Spare room in percent for ZNCache's chunk LRU on zones. More spare room means more garbage in a
/// victim zone. A tenth is usual in drives for mixed use; ZNCache leaves it open.
const SPARE_PERCENT: u64 = 10;

/// Largest number of gets in flight: a quarter of the executor's tasks, because gets start others.
pub(crate) const TASKS_MAX: usize = 16 << 10;

/// Size of the objects that Zonal's gets lie in.
const OBJECT_MAX: Bytes = Bytes::mib(1024);

/// Free zones at which ZNCache starts and stops to empty zones, as in its runs.
fn free_zones(chunk: Bytes) -> (u32, u32) {
    if chunk < Bytes::mib(256) { (1, 2) } else { (8, 16) }
}

fn load(experiment: &Experiment) -> Result<Load, String> {
    match &experiment.workload {
        Workload::Drawn(distribution) => {
            let draw = Draw::new(*distribution, experiment.keys, experiment.seed);
            Ok(Load::Drawn(experiment.gets, draw))
        }
        Workload::Recorded(recorded) => {
            let recording = Recording::open(recorded, experiment.chunk);
            let recording = recording.map_err(|error| error.to_string())?;
            Ok(Load::Recorded(Box::new(recording)))
        }
    }
}

/// True when gets read objects of their own sizes, and `chunk` is their chunk size.
fn has_objects(experiment: &Experiment) -> bool {
    match &experiment.workload {
        Workload::Drawn(_) => false,
        Workload::Recorded(recorded) => recorded.size_of_all(experiment.chunk).is_none(),
    }
}

fn zncache(
    experiment: &Experiment,
    ground: Ground<Part>,
    on_progress: &dyn Fn(f64),
) -> Result<Outcome, String> {
    let (reads, host) = match ground.drive.geometry().kind {
        DeviceKind::Zoned => (READS_ZONED, HOST_ZONED),
        DeviceKind::Conventional => (1, HOST_CONVENTIONAL),
    };
    let lru = match (&*experiment.policy, experiment.has_places()) {
        ("chunk-lru", false) => Lru::Chunks { spare_percent: SPARE_PERCENT },
        // A place is a zone of one chunk.
        _ => Lru::Zones,
    };
    let (high, low) = free_zones(experiment.chunk);
    let zones = ground.drive.geometry().zone_count;
    let per_zone = zones / experiment.zones;
    let settings = ThreadedSettings {
        chunk: experiment.chunk,
        zones,
        lru,
        active_zones: ACTIVE_ZONES,
        threads: experiment.tasks,
        origin_latency: experiment.origin_latency,
        claim: match experiment.hold_zone_during_fetch {
            true => ClaimOrder::BeforeFetch,
            false => ClaimOrder::AfterFetch,
        },
        free_zones: (high * per_zone, low * per_zone),
        memory: MEMORY,
        calls: Calls { request: REQUEST.min(experiment.chunk), reads, host: host + SLEEPING },
        seed: experiment.seed,
    };
    let before = ground.drive.ftl();
    let capacity = ground.drive.geometry().zone_capacity;
    let threads = Threaded::new(ground, settings, load(experiment)?, STRETCH);
    let (came, ground) = threads.run(on_progress)?;
    let chunks = came.measures.latency(Timed::Write).count + came.moved;
    let written = chunks * experiment.chunk.0;
    let per_zone = capacity.0 / experiment.chunk.blocks_ceil().0 * experiment.chunk.blocks_ceil().0;
    let padded = came.finished * (capacity.0 - per_zone) * zonal_base::BLOCK_BYTES as u64;
    let drive = DriveBytes { written, programmed: programmed(before, &ground, written + padded) };
    let gets = came.measures.latency(Timed::Get).count;
    let got = Got {
        gets,
        hits: came.hits,
        origin_requests: gets - came.hits,
        bytes: gets * experiment.chunk.0,
        took: came.took,
    };
    Ok(outcome(got, came.measures, drive))
}

fn znsccache(
    experiment: &Experiment,
    ground: Ground<Part>,
    on_progress: &dyn Fn(f64),
) -> Result<Outcome, String> {
    let settings = SequentialSettings {
        chunk: experiment.chunk,
        get: experiment.chunk,
        zones: experiment.zones,
        origin_latency: experiment.origin_latency,
        origin_sd: experiment.origin_sd,
        limit: experiment.limit,
        habits: experiment.habits,
        host: ZNSCCACHE_HOST,
        seed: experiment.seed,
    };
    let capacity = ground.drive.geometry().zone_capacity.bytes().0;
    let cache = Sequential::new(ground, settings, load(experiment)?, STRETCH);
    let came = cache.run(on_progress)?;
    let written = came.chunks_written * experiment.chunk.0;
    let padded = came.zones_finished * (capacity - ZONE_USED.0);
    let drive = DriveBytes { written, programmed: written + padded };
    let gets = came.measures.latency(Timed::Get).count;
    let got = Got {
        gets,
        hits: came.hits,
        origin_requests: gets - came.hits,
        bytes: gets * experiment.chunk.0,
        took: came.took,
    };
    let first_emptied_ns = came.first_emptied.map(|at| at.0);
    Ok(Outcome { first_emptied_ns, ..outcome(got, came.measures, drive) })
}

fn zonal(
    experiment: &Experiment,
    ground: Ground<Part>,
    (on_progress, watched): (&dyn Fn(f64), &Watched),
) -> Result<Outcome, String> {
    let policy = experiment.policy.parse().map_err(|error| format!("policy: {error}"))?;
    let (chunk, origin) = match has_objects(experiment) {
        true => (experiment.chunk, OriginTimes::for_objects(experiment.origin_latency)),
        false => {
            let origin = OriginTimes::for_chunks(experiment.chunk, experiment.origin_latency);
            (experiment.chunk.min(ZONAL_CHUNK), origin)
        }
    };
    let settings = SimulationSettings {
        chunk,
        get: experiment.chunk,
        policy,
        memory: experiment.dram,
        tasks: experiment.tasks,
        origin,
        seed: experiment.seed,
    };
    let (before, begun) = (ground.drive.ftl(), ground.now);
    let started = Simulated::start(ground, &settings);
    let mut simulated = started.map_err(|error| error.to_string())?;
    simulated.show(watched);
    simulated.measure(STRETCH);
    let came = simulated.run(load(experiment)?, on_progress)?;
    let took = simulated.now().since(begun);
    let measures = simulated.take_measures().expect("they were asked for");
    let written = simulated.cache().log().stats().device_written_bytes;
    let stats = simulated.cache().stats();
    let got = Got {
        gets: came.gets,
        hits: came.hits,
        origin_requests: stats.fetches + stats.head_fetches,
        bytes: came.bytes,
        took,
    };
    let ground = simulated.into_ground();
    let drive = DriveBytes { written, programmed: programmed(before, &ground, written) };
    Ok(outcome(got, measures, drive))
}

/// Totals of all gets.
struct Got {
    gets: u64,
    hits: u64,
    origin_requests: u64,
    bytes: u64,
    took: Nanos,
}

/// Bytes that the drive programmed since `before`. A zoned drive programs exactly what it receives.
fn programmed(before: Option<FtlCounters>, ground: &Ground<Part>, given: u64) -> u64 {
    let units = before.zip(ground.drive.ftl()).map(|(before, now)| now.since(&before).programs());
    units.map_or(given, |units| units * ground.drive.ftl_unit().bytes().0)
}

fn outcome(got: Got, measures: Measures, drive: DriveBytes) -> Outcome {
    let latency = |what| measures.latency(what);
    Outcome {
        gets: got.gets,
        hits: got.hits,
        origin_requests: got.origin_requests,
        bytes: got.bytes,
        took_ns: got.took.0,
        get: latency(Timed::Get),
        hit: latency(Timed::Hit),
        miss: latency(Timed::Miss),
        read: latency(Timed::Read),
        write: latency(Timed::Write),
        finish: latency(Timed::Finish),
        first_emptied_ns: None,
        drive,
        moved: measures.moved(),
    }
}
