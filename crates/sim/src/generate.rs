//! History generator: derives a history from a seed.

use zonal_base::{Blocks, Bytes, Lba, Nanos, Rng, ZoneId, mix64};
use zonal_cache::Freshness;
use zonal_device::ram::Crash;
use zonal_device::{DeviceKind, Geometry};
use zonal_emulator::{OnReset, Profile};
use zonal_policy::Spec;

use crate::cuts::cut_some;
use crate::damage::damage_some;
use crate::drive::{Fault, Model};
use crate::history::{
    Actor, Change, History, Keeping, Life, NewObject, Op, ReadStep, ScanStep, Setting, Shutdown,
    Step, WHOLE, WriteStep,
};
use crate::oracle::Tag;

/// Options of a history besides its seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Policy of every history; `None`: drawn from the seed.
    pub policy: Option<Spec>,
    /// Bug to plant in the cache.
    #[cfg(feature = "planted-bugs")]
    pub cache_bug: Option<zonal_cache::Mutation>,
    /// Bug to plant in the log.
    #[cfg(feature = "planted-bugs")]
    pub log_bug: Option<zonal_zonelog::Mutation>,
}

impl Options {
    /// Options that use one policy for every history.
    #[must_use]
    pub fn with_policy(policy: Option<Spec>) -> Self {
        Self {
            policy,
            #[cfg(feature = "planted-bugs")]
            cache_bug: None,
            #[cfg(feature = "planted-bugs")]
            log_bug: None,
        }
    }
}

/// Largest number of lives of a history.
const LIVES_MAX: u64 = 4;

/// First actor number of sequential readers.
const SCANNERS: u8 = 100;

/// Latest isolation of a device after its start, while writers are active.
const ISOLATED_WITHIN: Nanos = Nanos::millis(120);

/// Longest isolation.
const AWAY_MAX: Nanos = Nanos::millis(200);

/// Latest crash of a life after its start, in nanoseconds.
const CRASH_WITHIN: u64 = 600_000_000;

impl History {
    /// Generates the history of a seed.
    #[must_use]
    pub fn of_seed(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed);
        let mut setting = Setting::draw(&mut rng, options);
        let largest = 30_000 + rng.below(200_000);
        let mut objects: Vec<_> =
            (0..rng.below(30) + 3).map(|_| NewObject::draw(&mut rng, largest)).collect();
        pin_some(seed, &mut setting, &mut objects);
        let faults = match rng.below(8) {
            0 => Faults::Any,
            1 => Faults::LosingNothing,
            _ => Faults::None,
        };
        let drawn = Drawn { setting: &setting, objects: objects.len(), largest, faults };
        let mut lives: Vec<_> = (0..=rng.below(LIVES_MAX)).map(|_| drawn.life(&mut rng)).collect();
        let mut rng = Rng::new(mix64(seed));
        if rng.one_in(4) {
            lives.iter_mut().for_each(|life| drawn.scan(life, &mut rng));
            let chunk = setting.engine.chunk;
            setting.engine.prefetch = Bytes(chunk.0 * [2, 4, 16][draw(&mut rng, 3)]);
        }
        replace_behind(seed, objects.len(), &mut lives);
        isolate_some(seed, &mut lives);
        cut_some(seed, &mut setting, &mut objects);
        if faults == Faults::None {
            damage_some(seed, &mut setting, &objects, &mut lives);
        }
        Self { seed, setting, objects, lives }
    }
}

/// Replaces an object past the cache between a read of its beginning and one of its end, once in each
/// life of an eighth of all histories, from a random stream of its own.
fn replace_behind(seed: u64, objects: usize, lives: &mut [Life]) {
    if seed % 8 != 3 {
        return;
    }
    let mut rng = Rng::new(mix64(seed ^ 3));
    for life in lives {
        let last = life.steps.iter().map(|step| step.at).max().unwrap_or(Nanos(0));
        let object = draw(&mut rng, objects);
        let size = 10_000 + rng.below(200_000);
        let read = |range| {
            Op::Read(ReadStep {
                object,
                freshness: Freshness::Revalidate,
                absence: Nanos(0),
                stale_if_error: Nanos(0),
                stale_while_revalidate: Nanos(0),
                range: Some(range),
                head_patience: None,
                drop_after: None,
                slowness: Nanos(0),
                pieces_max: None,
            })
        };
        let change = Change::OverwriteBehind { size };
        let write = WriteStep { object, change, pauses: [Nanos(0); 2] };
        let deeds = [
            (Actor::Reader(0), read((0, WHOLE / 4))),
            (Actor::Writer(0), Op::Write(write)),
            (Actor::Reader(0), read((WHOLE / 2, WHOLE - 1))),
        ];
        for (number, (actor, deed)) in (1..).zip(deeds) {
            let at = last + Nanos::millis(30 * number);
            life.steps.push(Step { actor, at, deed });
        }
    }
}

/// Isolates devices in a quarter of all histories, from a random stream of its own.
fn isolate_some(seed: u64, lives: &mut [Life]) {
    let mut rng = Rng::new(mix64(!seed));
    if rng.one_in(4) {
        for life in lives {
            if rng.one_in(2) {
                let after = pause(&mut rng, ISOLATED_WITHIN);
                life.shutdown = Shutdown::Isolated(after, pause(&mut rng, AWAY_MAX));
            }
        }
    }
}

/// Pins some objects in half of all histories: few enough that there often is room for them. A
/// random stream of its own keeps the rest of the history unchanged.
fn pin_some(seed: u64, setting: &mut Setting, objects: &mut [NewObject]) {
    let mut rng = Rng::new(!seed);
    if rng.one_in(2) {
        setting.engine.pinned_percent = [25, 50, 75][draw(&mut rng, 3)];
        for _ in 0..=rng.below(4) {
            let pinned = draw(&mut rng, objects.len()).min(draw(&mut rng, objects.len()));
            objects[pinned].is_pinned = true;
        }
    }
}

/// Kinds of faults that a life may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Faults {
    None,
    Any,
    /// Only faults that lose no acknowledged data.
    LosingNothing,
}

impl Setting {
    fn draw(rng: &mut Rng, options: &Options) -> Self {
        let model = Model::draw(rng);
        let geometry = geometry(rng, model);
        let mut engine = zonal_cache::Settings::for_device(&geometry);
        engine.chunk = Bytes::kib(4 << rng.below(6));
        engine.heads = [2, 1000][draw(rng, 2)];
        engine.log.segment_bytes = Bytes::kib(64);
        engine.log.linger = Nanos(rng.below(20_000_000) + 500_000);
        engine.log.fill_zones = narrow(rng.below(3) + 1);
        engine.log.backlog_max = Bytes::kib(64 << rng.below(3));
        engine.log.low_zones = 2;
        engine.log.high_zones = 3;
        #[cfg(feature = "planted-bugs")]
        {
            engine.planted = options.cache_bug;
            engine.log.planted = options.log_bug;
        }
        let device_seed = rng.next_u64();
        let name = ["zone-fifo", "zone-lru"].get(draw(rng, 3));
        let (name, memory) = waiting(Rng::new(!device_seed), name.copied());
        let drawn = name
            .map_or(Keeping::Thirds, |name| Keeping::By(name.parse().expect("a policy of ours")));
        Self {
            model,
            geometry,
            device_seed,
            engine,
            policy: options.policy.clone().map_or(drawn, Keeping::By),
            memory,
            origin_fault_rate: [0, 0, 40, 8][draw(rng, 4)],
            is_cut_by_rules: false,
        }
    }
}

/// Memory of the shard: half of all histories keep chunks in memory, and half of those also buffer
/// chunks there before flash. A random stream of its own keeps other histories unchanged.
fn waiting(mut rng: Rng, name: Option<&'static str>) -> (Option<&'static str>, Bytes) {
    let memory = Bytes::kib([64, 512, 0, 0][draw(&mut rng, 4)]);
    let policies = ["zone-fifo?admit=probation", "flow"];
    let name = match policies.get(draw(&mut rng, 4)) {
        Some(waiting) if memory != Bytes(0) => Some(*waiting),
        _ => name,
    };
    (name, memory)
}

impl Model {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(6) {
            0..3 => {
                let spread = [400_000, 400_000, 5_000_000][draw(rng, 3)];
                let latency_spread = Nanos(rng.below(spread) + 1);
                Self::Ram {
                    latency: Nanos(rng.below(100_000)),
                    latency_spread,
                    slow_reads: Nanos(0),
                }
            }
            // A buffer of the real size never fills from zones as small as these.
            3..5 => Self::Zn540 {
                is_volatile: rng.one_in(2),
                blocks_per_stream: [8, 32, 768][draw(rng, 3)],
            },
            _ => Self::Sn540 { on_reset: [OnReset::Nothing, OnReset::Trim][draw(rng, 2)] },
        }
    }
}

fn geometry(rng: &mut Rng, model: Model) -> Geometry {
    let kind = match model {
        Model::Ram { .. } if rng.one_in(2) => DeviceKind::Conventional,
        Model::Ram { .. } | Model::Zn540 { .. } => DeviceKind::Zoned,
        Model::Sn540 { .. } => DeviceKind::Conventional,
    };
    let zone_capacity = Blocks(40 + rng.below(30));
    let limits = [None, Some(2), Some(3), Some(14)];
    let (open, active) = match (limits[draw(rng, 4)], limits[draw(rng, 4)]) {
        // Only zoned devices have limits. The open limit is at most the active limit.
        _ if kind == DeviceKind::Conventional => (None, None),
        (Some(open), Some(active)) => (Some(active.min(open)), Some(active)),
        (None, Some(active)) => (Some(active), Some(active)),
        limits => limits,
    };
    Geometry {
        kind,
        zone_count: narrow(6 + rng.below(6)),
        zone_size: zone_capacity + Blocks(rng.below(3) * 8),
        zone_capacity,
        max_open_zones: open,
        max_active_zones: active,
    }
}

impl NewObject {
    fn draw(rng: &mut Rng, largest: u64) -> Self {
        let size = draw_size(rng, largest);
        let tag = [Tag::Weak, Tag::Missing].get(draw(rng, 30)).copied().unwrap_or(Tag::Strong);
        let metadata = [0, 0, 0, 3000, 6000][draw(rng, 5)];
        Self { size, tag, metadata, is_pinned: false }
    }
}

/// Parameters that are known when the lives are drawn.
struct Drawn<'a> {
    setting: &'a Setting,
    objects: usize,
    largest: u64,
    faults: Faults,
}

impl Drawn<'_> {
    fn life(&self, rng: &mut Rng) -> Life {
        let mut steps = Vec::new();
        for reader in 0..2 + narrow_u8(rng.below(4)) {
            let mut at = Nanos(0);
            for _ in 0..rng.below(50) + 5 {
                at += pause(rng, Nanos::millis(8));
                let deed = Op::Read(self.read(rng));
                steps.push(Step { actor: Actor::Reader(reader), at, deed });
            }
        }
        for writer in 0..narrow_u8(rng.below(3)) {
            let mut at = Nanos(0);
            for _ in 0..=rng.below(8) {
                at += pause(rng, Nanos::millis(25));
                let deed = Op::Write(self.write(rng));
                steps.push(Step { actor: Actor::Writer(writer), at, deed });
            }
        }
        if self.faults != Faults::None {
            let mut at = Nanos(0);
            for _ in 0..=rng.below(16) {
                at += pause(rng, Nanos::millis(50));
                let fault = self.fault(rng);
                steps.push(Step { actor: Actor::Fate, at, deed: Op::Fault(fault) });
            }
        }
        let shutdown = match rng.below(3) {
            0 => Shutdown::Graceful,
            1 => Shutdown::Crash(Crash::Process, Nanos(rng.below(CRASH_WITHIN))),
            _ => Shutdown::Crash(Crash::Power, Nanos(rng.below(CRASH_WITHIN))),
        };
        let chance = rng.next_u64();
        if self.faults == Faults::None {
            late_reads(&mut steps, &mut Rng::new(mix64(chance)));
        }
        Life { chance, steps, shutdown }
    }

    /// Adds sequential readers, and writers to the objects that they read. The random stream is
    /// separate, as for pins.
    fn scan(&self, life: &mut Life, rng: &mut Rng) {
        for number in 0..=narrow_u8(rng.below(3)) {
            let [reader, writer] = [Actor::Reader, Actor::Writer].map(|of| of(SCANNERS + number));
            let (mut at, mut writes) = (Nanos(0), Vec::new());
            for _ in 0..rng.below(6) + 1 {
                at += pause(rng, Nanos::millis(60));
                let chunk = self.setting.engine.chunk.0;
                let len = [chunk, chunk / 2, chunk / 4, 1 + rng.below(2 * chunk)][draw(rng, 4)];
                let mut read = ReadStep { range: None, ..self.read(rng) };
                // Popular objects are cached most of the time.
                read.object = draw(rng, self.objects);
                if rng.one_in(2) {
                    read.freshness = Freshness::Immutable;
                }
                let (count, is_disordered) = (rng.below(24) + 3, rng.one_in(4));
                let scan = ScanStep {
                    read,
                    len,
                    count,
                    pause: pause(rng, Nanos::millis(4)),
                    is_disordered,
                };
                life.steps.push(Step { actor: reader, at, deed: Op::Scan(scan) });
                if rng.one_in(2) {
                    let write = WriteStep { object: read.object, ..self.write(rng) };
                    let at = at + pause(rng, Nanos::millis(60));
                    writes.push(Step { actor: writer, at, deed: Op::Write(write) });
                }
            }
            life.steps.extend(writes);
        }
    }

    fn read(&self, rng: &mut Rng) -> ReadStep {
        // A random stream of its own keeps the rest of the history unchanged.
        let mut trust = Rng::new(mix64(rng.clone().next_u64()));
        let freshness = match rng.below(4) {
            0 => Freshness::Immutable,
            1 => Freshness::Ttl(Nanos::millis(rng.below(200))),
            _ if rng.one_in(2) => Freshness::Ttl(Nanos::millis(1)),
            _ => Freshness::Revalidate,
        };
        ReadStep {
            object: self.object(rng),
            freshness,
            range: (!rng.one_in(5)).then(|| (rng.below(WHOLE), rng.below(WHOLE))),
            head_patience: rng.one_in(12).then(|| Nanos(rng.below(30_000_000))),
            drop_after: rng.one_in(12).then(|| Nanos(rng.below(4_000_000))),
            slowness: if rng.one_in(4) { Nanos(rng.below(3_000_000)) } else { Nanos(0) },
            pieces_max: rng.one_in(10).then(|| rng.below(6)),
            absence: one_time_in(2, &mut trust),
            stale_if_error: one_time_in(3, &mut trust),
            stale_while_revalidate: one_time_in(4, &mut trust),
        }
    }

    fn write(&self, rng: &mut Rng) -> WriteStep {
        let object = self.object(rng);
        let size = draw_size(rng, self.largest);
        let change = match rng.below(7) {
            0 => Change::OverwriteBehind { size },
            1 => purge(rng),
            2 => Change::Delete { size },
            3 => Change::Forsaken(Nanos(rng.below(400_000))),
            _ => Change::Overwrite { size },
        };
        WriteStep { object, change, pauses: [(); 2].map(|()| pause(rng, Nanos::millis(5))) }
    }

    /// Draws an object; popular ones more often: the minimum of two draws.
    fn object(&self, rng: &mut Rng) -> usize {
        draw(rng, self.objects).min(draw(rng, self.objects))
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let geometry = &self.setting.geometry;
        let zone = ZoneId(narrow(rng.below(u64::from(geometry.zone_count))));
        let start = geometry.zone_start(zone);
        let lba = Lba(start.0 + rng.below(geometry.zone_capacity.0));
        if self.faults == Faults::Any && !rng.one_in(3) {
            return match rng.below(8) {
                0 => Fault::Offline(zone),
                1..3 => Fault::Unreadable(lba),
                3 => Fault::UnreadableWhileOn(lba),
                _ => Fault::FlipBit(lba, narrow(rng.below(1 << 15))),
            };
        }
        let dies = Profile::zn540().nand.die_count;
        match rng.below(12) {
            0 => Fault::Gone,
            1..3 => Fault::ReadOnly(zone),
            3 => Fault::LoseCommand,
            4..6 => Fault::SlowDie(narrow(rng.below(u64::from(dies))), 10 << rng.below(8)),
            6..8 => Fault::LowerLimits(narrow(rng.below(4) + 1)),
            _ => Fault::FailNextWrite(zone),
        }
    }
}

/// Adds late reads to one life in three. At a time they are fewer than the tries of a reclaim.
fn late_reads(steps: &mut Vec<Step>, rng: &mut Rng) {
    if !rng.one_in(3) {
        return;
    }
    let mut at = Nanos(0);
    for _ in 0..=rng.below(24) {
        at += pause(rng, Nanos::millis(20));
        let fault = Fault::LateReads(narrow(rng.below(3) + 1));
        steps.push(Step { actor: Actor::Fate, at, deed: Op::Fault(fault) });
    }
}

/// Draws a purge, from a random stream of its own.
fn purge(rng: &Rng) -> Change {
    let mut own = Rng::new(mix64(rng.clone().next_u64()));
    match own.one_in(2) {
        true => Change::Purge,
        false => Change::PurgeBelow { cut: draw(&mut own, 3) },
    }
}

fn draw_size(rng: &mut Rng, largest: u64) -> u64 {
    match rng.below(8) {
        0 => rng.below(3),
        1 => rng.below(4096) + 1,
        _ => rng.below(largest) + 1,
    }
}

/// A staleness that a reader accepts: in one of `n` cases up to two seconds, else 0.
fn one_time_in(n: u64, rng: &mut Rng) -> Nanos {
    if rng.one_in(n) { Nanos::millis(rng.below(2000)) } else { Nanos(0) }
}

fn pause(rng: &mut Rng, most: Nanos) -> Nanos {
    Nanos(rng.below(most.0) + 1)
}

pub(crate) fn draw(rng: &mut Rng, count: usize) -> usize {
    zonal_base::index(rng.below(count as u64))
}

/// Requires: `n` was drawn below a small bound.
pub(crate) fn narrow(n: u64) -> u32 {
    zonal_base::low_u32(zonal_base::index(n))
}

/// Requires: `n` was drawn below a small bound.
fn narrow_u8(n: u64) -> u8 {
    n.to_le_bytes()[0]
}
