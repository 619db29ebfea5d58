//! Randomized crash test: appends, replacements, removals, reclaim with rewrites, crashes. One seed
//! is one history.
//!
//! The test's owner uses the log as a cache does. It keeps an index and replaces records under a
//! tombstone with a generation between the old and the new one. Before a zone is reset, it rewrites
//! some of the zone's records and forgets the rest. After every crash these must hold, whatever was
//! in flight:
//!
//! - No record below the generation of an acknowledged removal is alive.
//! - A record that was on flash (after a power cut: and flushed) is found, unless it was replaced
//!   or reclaimed.
//! - Every found record was appended since the previous crash, or was found after that crash: lost
//!   history stays lost.
//! - The bytes of a record are right or unreadable.
//! - No crash is taken for a loss of zones.
//!
//! If a stopped device is damaged, a record that was removed or replaced may be alive again, and is
//! suspect then.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Rng, ZoneId, index};
use zonal_device::ram::Crash;
use zonal_device::{DeviceError, DeviceKind, Geometry, ZonedDevice};
use zonal_zonelog::{Extent, Key, Log, ReadError, Record, Stream, Urgency};

use crate::reclaim::reclaim_oldest_for_ever;
use crate::rig::{FoundRecord, Rig, content, geometry, read, record_of};

const WORKERS: u64 = 6;
const KEYS_PER_WORKER: u64 = 5;
const ROUNDS: u64 = 5;

type Name = (Key, u64);

#[derive(Default)]
struct Owner {
    index: BTreeMap<Key, FoundRecord>,
    keys: BTreeMap<Key, Promises>,
    /// Seed of the bytes of every record that may be on flash, by key and generation.
    versions: BTreeMap<Name, u128>,
    next_version: u128,
}

/// Guarantees for one key after a crash.
#[derive(Clone, Copy, Default)]
struct Promises {
    /// No older generation is alive: after a process crash, and after a power cut.
    floor: [u64; 2],
    /// This generation or a newer one is alive: after a process crash, and after a power cut.
    alive: [Option<u64>; 2],
}

/// State that the workers and the reclaimer share.
#[derive(Clone)]
struct World {
    log: Log,
    ports: zonal_zonelog::Ports,
    owner: Rc<RefCell<Owner>>,
    /// Percentage of records that reclaim rewrites.
    keep_percent: u64,
    shift: Rc<Shift>,
}

/// Stop signal for the workers, and the number still running.
#[derive(Default)]
struct Shift {
    is_over: Cell<bool>,
    at_work: Cell<u64>,
}

fn bytes_of(version: u128, len: u32) -> Vec<u8> {
    content(Key(version), len)
}

impl Owner {
    fn promises(&mut self, key: Key) -> &mut Promises {
        self.keys.entry(key).or_default()
    }

    /// A flush extends the guarantees of a process crash to a power cut. `before` is the state at
    /// its start.
    fn flushed(&mut self, before: &BTreeMap<Key, Promises>) {
        for (key, then) in before {
            let now = self.promises(*key);
            now.floor[1] = now.floor[1].max(then.floor[0]);
            if now.alive[0].is_some() && now.alive[0] == then.alive[0] {
                now.alive[1] = then.alive[0];
            }
        }
    }
}

impl World {
    async fn work(self, worker: u64, mut rng: Rng) {
        while !self.shift.is_over.get() {
            let key = Key(u128::from(worker * KEYS_PER_WORKER + rng.below(KEYS_PER_WORKER)) << 64);
            match rng.below(12) {
                0..5 => self.append(key, &mut rng).await,
                5 => self.remove(key).await,
                6 => self.flush().await,
                7 => self.ports.clock.sleep_until(self.ports.clock.now() + NAP).await,
                _ => self.read(key, &mut rng).await,
            }
        }
        self.shift.at_work.set(self.shift.at_work.get() - 1);
    }

    /// Appends a new version of `key`, with a tombstone before it if an old version may exist.
    async fn append(&self, key: Key, rng: &mut Rng) {
        let replaces = {
            let mut owner = self.owner.borrow_mut();
            let before = owner.index.remove(&key);
            owner.promises(key).alive = [None; 2];
            before.map(|_| self.log.next_generation())
        };
        let generation = self.log.next_generation();
        let len = [40, 700, 4000, 5000, 16_384, 40_000][index(rng.below(6))];
        let version = {
            let mut owner = self.owner.borrow_mut();
            owner.next_version += 1;
            let version = owner.next_version;
            owner.versions.insert((key, generation), version);
            version
        };
        if let Some(between) = replaces {
            if self.log.supersede(key, between).await.is_err() {
                return;
            }
            let mut owner = self.owner.borrow_mut();
            let floor = &mut owner.promises(key).floor[0];
            *floor = between.max(*floor);
        }
        let record =
            Record { generation: Some(generation), ..record_of(key, &bytes_of(version, len)) };
        let urgency = [Urgency::Linger, Urgency::Now][index(rng.below(2))];
        if let Ok(placed) = self.log.append(Stream::Fill, record, urgency).await {
            let mut owner = self.owner.borrow_mut();
            owner.index.insert(key, FoundRecord::of(&placed));
            owner.promises(key).alive[0] = Some(generation);
        }
    }

    async fn remove(&self, key: Key) {
        {
            let mut owner = self.owner.borrow_mut();
            owner.index.remove(&key);
            owner.promises(key).alive = [None; 2];
        }
        if let Ok(generation) = self.log.remove(key).await {
            self.owner.borrow_mut().promises(key).floor = [generation; 2];
        }
    }

    async fn flush(&self) {
        let before = self.owner.borrow().keys.clone();
        self.log.flush().await;
        if !self.log.is_gone() {
            self.owner.borrow_mut().flushed(&before);
        }
    }

    async fn read(&self, key: Key, rng: &mut Rng) {
        let found = self.owner.borrow().index.get(&key).cloned();
        let Some(found) = found else { return };
        let len = found.extent.len;
        let start = zonal_base::low_u32(index(rng.below(u64::from(len))));
        let blocks = Log::read_blocks(found.extent, &(start..len));
        let buffer = self.ports.buffers.take(blocks).await;
        // The record may have moved while the worker waited for the buffer, so it looks again.
        if self.owner.borrow().index.get(&key) != Some(&found) {
            return;
        }
        let place = (key, found.extent);
        let mut reading = self.log.start_read(place, found.checks(), &(start..len), buffer);
        match reading.done().await {
            Ok(payload) => {
                let version = self.owner.borrow().versions[&(key, found.descriptor.generation)];
                let expected = bytes_of(version, len);
                assert!(payload.as_bytes() == &expected[start as usize..], "wrong bytes");
            }
            Err(error) => self.forget(key, found.extent, error),
        }
    }

    fn forget(&self, key: Key, extent: Extent, error: ReadError) {
        assert!(is_media(error), "{key:?} at {extent:?}: {error:?}");
        let mut owner = self.owner.borrow_mut();
        if owner.index.get(&key).is_some_and(|found| found.extent == extent) {
            owner.index.remove(&key);
            owner.promises(key).alive = [None; 2];
        }
    }

    async fn reclaim_for_ever(self, mut rng: Rng) {
        loop {
            let candidates = self.log.candidates();
            let is_idle = !self.log.wants_reclaim() || candidates.is_empty();
            if is_idle {
                self.log.reclaim_wanted().await;
                continue;
            }
            let oldest = candidates.iter().min_by_key(|facts| facts.sequence);
            let any = &candidates[index(rng.below(candidates.len() as u64))];
            let victim = if rng.one_in(3) { any } else { oldest.unwrap_or(any) };
            self.empty_zone(victim.zone, &mut rng).await;
        }
    }

    async fn empty_zone(&self, zone: ZoneId, rng: &mut Rng) {
        let Ok(reclaim) = self.log.begin_reclaim(zone).await else { return };
        let in_zone = |(_, found): &(&Key, &FoundRecord)| found.extent.zone == zone;
        let records: Vec<FoundRecord> = {
            let owner = self.owner.borrow();
            owner.index.iter().filter(in_zone).map(|(_, found)| found.clone()).collect()
        };
        let mut listed = BTreeSet::new();
        if let Ok(descriptors) = reclaim.records().await {
            listed = descriptors.iter().map(|one| (one.key, one.offset)).collect();
        }
        for found in records {
            if rng.below(100) < self.keep_percent {
                assert!(listed.contains(&(found.key(), found.extent.offset)), "zone lists all");
                self.rewrite(&found).await;
            }
            let mut owner = self.owner.borrow_mut();
            if owner.index.get(&found.key()) == Some(&found) {
                owner.index.remove(&found.key());
                owner.promises(found.key()).alive = [None; 2];
            }
        }
        let _ = reclaim.finish().await;
    }

    async fn rewrite(&self, found: &FoundRecord) {
        let whole = 0..found.extent.len;
        let at = (self.log.clone(), self.ports.clone());
        let Ok(bytes) = read(at, found.clone(), whole).await else { return };
        let generation = Some(found.descriptor.generation);
        let record = Record { generation, ..record_of(found.key(), &bytes) };
        let placed = self.log.append(Stream::Rewrite, record, Urgency::Linger).await;
        let mut owner = self.owner.borrow_mut();
        if let Ok(placed) = placed
            && owner.index.get(&found.key()) == Some(found)
        {
            owner.index.insert(found.key(), FoundRecord::of(&placed));
        }
    }
}

const NAP: zonal_base::Nanos = zonal_base::Nanos::millis(3);

/// True for errors that a damaged or torn medium causes. Any other error is a bug of the log.
fn is_media(error: ReadError) -> bool {
    use DeviceError as E;
    match error {
        ReadError::Check => true,
        ReadError::Device(error) => {
            matches!(error, E::Media | E::ZoneOffline | E::DeviceGone)
        }
    }
}

struct History {
    rig: Rig,
    owner: Rc<RefCell<Owner>>,
    keep_percent: u64,
    /// False once a power cut may have taken blocks from the middle of a zone.
    medium_is_whole: bool,
}

impl History {
    fn new(seed: u64, geometry: Geometry) -> Self {
        let mut rig = Rig::new(geometry, seed);
        let keep_percent = [0, 20, 60][index(rig.rng.below(3))];
        Self { rig, owner: Rc::default(), keep_percent, medium_is_whole: true }
    }

    /// Opens the log and checks the found records and their bytes against the guarantees.
    fn start(&mut self, after: Option<Crash>) -> World {
        let (log, found) = self.rig.open();
        assert_eq!((log.damage(), log.suspect_below()), (Vec::new(), 0), "nothing was damaged");
        self.check_found(&log, found, after);
        let world = World {
            log,
            ports: self.rig.ports(),
            owner: self.owner.clone(),
            keep_percent: self.keep_percent,
            shift: Rc::default(),
        };
        self.check_bytes(&world);
        world
    }

    fn check_found(&mut self, log: &Log, found: Vec<FoundRecord>, after: Option<Crash>) {
        let mut owner = self.owner.borrow_mut();
        let mut versions = BTreeMap::new();
        let mut index: BTreeMap<Key, FoundRecord> = BTreeMap::new();
        for record in found {
            let name = (record.key(), record.descriptor.generation);
            let version = owner.versions.get(&name);
            let version = version.unwrap_or_else(|| panic!("{name:?}: lost history came back"));
            versions.insert(name, *version);
            let newest = index.entry(record.key()).or_insert_with(|| record.clone());
            if newest.descriptor.generation <= record.descriptor.generation {
                *newest = record;
            }
        }
        index.retain(|key, found| {
            log.tombstone(*key).is_none_or(|removed| removed <= found.descriptor.generation)
        });
        let kind = usize::from(after == Some(Crash::Power));
        let youngest = log.next_generation();
        for (key, promised) in &mut owner.keys {
            let alive = index.get(key).map(|found| found.descriptor.generation);
            let floor = promised.floor[kind];
            assert!(alive.is_none_or(|alive| floor <= alive), "{key:?}: {alive:?} below {floor}");
            if let Some(wanted) = promised.alive[kind] {
                assert!(Some(wanted) <= alive, "{key:?}: {alive:?}, and {wanted} was promised");
            }
            // Records that survived the crash may still be in the device's volatile cache only.
            // Lost generations are assigned again, so every floor is capped at the youngest
            // assigned one.
            let floor = [floor, promised.floor[1]].map(|floor| floor.min(youngest));
            *promised = Promises { floor, alive: [alive, None] };
        }
        (owner.index, owner.versions) = (index, versions);
    }

    /// Checks the bytes of every record. All must be readable while no crash has damaged the
    /// medium.
    fn check_bytes(&mut self, world: &World) {
        let index: Vec<FoundRecord> = self.owner.borrow().index.values().cloned().collect();
        for found in index {
            let at = (world.log.clone(), world.ports.clone());
            let whole = 0..found.extent.len;
            match self.rig.run(read(at, found.clone(), whole)) {
                Ok(bytes) => {
                    let name = (found.key(), found.descriptor.generation);
                    let version = self.owner.borrow().versions[&name];
                    assert!(bytes == bytes_of(version, found.extent.len), "{name:?}: wrong bytes");
                }
                Err(error) => {
                    assert!(!self.medium_is_whole, "{found:?}: {error:?}");
                    world.forget(found.key(), found.extent, error);
                }
            }
        }
    }

    fn set_to_work(&mut self, world: &World) {
        world.shift.at_work.set(WORKERS);
        for worker in 0..WORKERS {
            let rng = Rng::new(self.rig.rng.next_u64());
            self.rig.spawn(world.clone().work(worker, rng));
        }
        let rng = Rng::new(self.rig.rng.next_u64());
        self.rig.spawn(world.clone().reclaim_for_ever(rng));
    }

    fn crash(&mut self, crash: Crash) {
        let conventional = self.rig.device.geometry().kind == DeviceKind::Conventional;
        // A power cut may take any blocks from the middle of a conventional device's zones.
        self.medium_is_whole &= !(conventional && crash == Crash::Power);
        self.rig.crash(crash);
    }

    /// Asserts that the device answered no error and that the log is not gone.
    fn check_health(&self, world: &World) {
        assert_eq!((&self.rig.refusals[..], world.log.is_gone()), (&[][..], false));
    }

    /// Asserts that each zone lists the records that the owner has in it.
    fn check_listings(&mut self, world: &World) {
        let index: Vec<FoundRecord> = self.owner.borrow().index.values().cloned().collect();
        for zone in self.rig.device.geometry().zones() {
            let log = world.log.clone();
            let listing = self.rig.run(async move { log.list_zone(zone).await });
            let listing = listing.expect("the device is healthy");
            assert!(listing.is_intact, "{zone}");
            for found in index.iter().filter(|found| found.extent.zone == zone) {
                assert!(listing.records.contains(&found.descriptor), "{zone} lists {found:?}");
            }
        }
    }

    fn run(&mut self) -> u64 {
        let mut after = None;
        for _ in 0..ROUNDS {
            let world = self.start(after);
            self.set_to_work(&world);
            let steps = 1 + self.rig.rng.below(2000);
            self.rig.run_steps(steps);
            self.check_health(&world);
            let crash = [Crash::Process, Crash::Power][index(self.rig.rng.below(2))];
            self.crash(crash);
            drop(world);
            after = Some(crash);
        }
        let world = self.start(after);
        self.set_to_work(&world);
        self.rig.run_steps(1000);
        world.shift.is_over.set(true);
        self.rig.run_until_idle();
        assert_eq!(
            world.shift.at_work.get(),
            0,
            "somebody waits for ever: {:?}",
            world.log.zone_counts()
        );
        assert_eq!((world.log.held(), world.log.slots_balance()), (0, true));
        self.check_health(&world);
        self.check_listings(&world);
        self.rig.commands
    }
}

impl History {
    /// Rounds of work, a graceful stop or a power cut at rest, and damage to a zone. Returns true if
    /// a record was alive that had been removed or replaced.
    fn run_and_damage(&mut self) -> bool {
        let end = [Crash::Process, Crash::Power][index(self.rig.rng.below(2))];
        let (mut after, mut earlier) = (None, Vec::new());
        for round in 0..3 {
            let world = self.start(after);
            self.set_to_work(&world);
            let steps = 500 + self.rig.rng.below(2000);
            self.rig.run_steps(steps);
            if round == 2 {
                world.shift.is_over.set(true);
                self.rig.run_until_idle();
                if end == Crash::Process {
                    let log = world.log.clone();
                    self.rig.run(async move { log.close().await });
                    self.rig.run_until_idle();
                }
            }
            drop(world);
            self.crash(if round == 2 { end } else { Crash::Process });
            after = Some(Crash::Process);
            if round < 2 {
                earlier.push(self.zones());
            }
        }
        let before = self.zones();
        let what = self.damage(&before, &earlier);
        let (log, found) = self.rig.open();
        let came_back = self.check_suspects(&log, &found, &what);
        if self.zones() == before && log.suspect_below() != 0 {
            panic!("{what}: {:?}", log.damage());
        }
        let suspect_below = log.suspect_below();
        // The bound holds from the next write on, whatever is found later.
        let log = self.reopened_after_a_write(log);
        assert_eq!(log.suspect_below(), suspect_below, "{what}");
        came_back
    }

    fn zones(&self) -> Vec<Vec<u8>> {
        let zones = self.rig.device.geometry().zones();
        zones.map(|zone| self.rig.device.zone_bytes(zone)).collect()
    }

    fn damage(&mut self, now: &[Vec<u8>], earlier: &[Vec<Vec<u8>>]) -> String {
        let rng = &mut self.rig.rng;
        let any = |rng: &mut Rng, below: usize| index(rng.below(below as u64));
        let used: Vec<usize> = (0..now.len()).filter(|zone| !now[*zone].is_empty()).collect();
        let [one, other] = [(); 2].map(|()| used[any(rng, used.len())]);
        let blocks = now[one].len() / BLOCK_BYTES;
        let mut after = now.to_vec();
        let what = match rng.below(6) {
            0 => {
                after[one].fill(0);
                "is zeroed"
            }
            1 => {
                after[one][any(rng, blocks) * BLOCK_BYTES..].fill(0);
                "has lost its tail"
            }
            2 => {
                after[one].resize(now[other].len().max(now[one].len()), 0);
                let len = now[other].len().min(now[one].len());
                let (first, second) = (now[one][..len].to_vec(), now[other][..len].to_vec());
                after[one][..len].copy_from_slice(&second);
                after[other][..len].copy_from_slice(&first);
                "is exchanged"
            }
            3 => {
                let older = &earlier[any(rng, earlier.len())][one];
                let len = older.len().min(now[one].len());
                after[one][..len].copy_from_slice(&older[..len]);
                after[one][len..].fill(0);
                "is an older one"
            }
            4 => {
                let at = any(rng, blocks) * BLOCK_BYTES;
                after[one][at + any(rng, BLOCK_BYTES)] ^= 1;
                "has a flipped bit"
            }
            _ => {
                let at = any(rng, blocks) * BLOCK_BYTES;
                after[one][at..at + BLOCK_BYTES].fill(0);
                "has a block of zeros"
            }
        };
        for (zone, bytes) in (0..).map(ZoneId).zip(after) {
            self.rig.device.replace_zone_bytes(zone, bytes);
        }
        format!("zone {one} (with {other}) {what}")
    }

    fn check_suspects(&mut self, log: &Log, found: &[FoundRecord], what: &str) -> bool {
        let owner = self.owner.borrow();
        let mut newest: BTreeMap<Key, u64> = BTreeMap::new();
        for record in found {
            let generation = newest.entry(record.key()).or_default();
            *generation = record.descriptor.generation.max(*generation);
        }
        let mut came_back = false;
        for (key, generation) in newest {
            let is_removed = log.tombstone(key).is_some_and(|removed| generation < removed);
            let floor = owner.keys.get(&key).map_or(0, |promises| promises.floor[0]);
            if !is_removed && generation < floor {
                came_back = true;
                let bound = log.suspect_below();
                assert!(generation < bound, "{what}: {key:?} is back, {generation}, {floor}");
            }
        }
        came_back
    }

    fn reopened_after_a_write(&mut self, log: Log) -> Log {
        self.rig.spawn(reclaim_oldest_for_ever(log.clone()));
        let writer = log.clone();
        let written = self.rig.run(async move { writer.remove(Key(1)).await });
        drop(log);
        self.crash(Crash::Power);
        let (log, _) = self.rig.open();
        assert!(written.is_err() || log.tombstone(Key(1)).is_some());
        log
    }
}

/// Seeds per test; `SLOW_TESTS` multiplies them by 100.
const SEEDS: u64 = 60;

fn check(shape: fn(u64) -> Geometry) {
    let slow = std::env::var_os("SLOW_TESTS").is_some();
    for seed in 0..SEEDS * if slow { 100 } else { 1 } {
        let run = std::panic::catch_unwind(|| History::new(seed, shape(seed)).run());
        if run.is_err() {
            panic!("seed {seed} on {:?}", shape(seed));
        }
    }
}

#[test]
fn histories_on_zoned_devices_keep_every_promise() {
    check(|seed| Geometry {
        max_active_zones: [None, Some(2), Some(3), Some(14)][index(seed % 4)],
        max_open_zones: [None, Some(2)][index(seed / 4 % 2)],
        ..geometry(DeviceKind::Zoned, zonal_base::low_u32(index(4 + seed % 5)))
    });
}

#[test]
fn histories_on_conventional_devices_keep_every_promise() {
    check(|seed| geometry(DeviceKind::Conventional, zonal_base::low_u32(index(4 + seed % 5))));
}

#[test]
fn what_damage_brings_back_is_suspect() {
    let slow = std::env::var_os("SLOW_TESTS").is_some();
    for kind in [DeviceKind::Zoned, DeviceKind::Conventional] {
        let mut came_back = 0;
        for seed in 0..SEEDS * if slow { 100 } else { 1 } {
            let shape = geometry(kind, zonal_base::low_u32(index(4 + seed % 5)));
            let run = std::panic::catch_unwind(|| History::new(seed, shape).run_and_damage());
            came_back += u32::from(run.unwrap_or_else(|_| panic!("seed {seed} on {shape:?}")));
        }
        assert!(5 < came_back, "the damage must matter, or this test proves nothing: {came_back}");
    }
}

#[test]
fn one_seed_is_one_history() {
    let shape = geometry(DeviceKind::Zoned, 6);
    let commands = |seed| History::new(seed, shape).run();
    assert_eq!(commands(42), commands(42));
    assert_ne!(commands(42), commands(43), "the seed must matter, or this test proves nothing");
}
