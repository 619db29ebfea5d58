//! Crash tests of the cache: `kill -9` at random moments, under traffic.
//!
//! Each round: start, check every object, read and write for a while, kill. After each kill:
//!
//! - no response has a wrong byte: it is one whole version of its object,
//! - no version that was overwritten or removed with acknowledgement comes back, though the
//!   freshness rule is `immutable`,
//! - objects served from the cache 1 s before the kill are still served from it, as the policy
//!   admits everything.
//!
//! `ZONAL_KILL_ROUNDS` sets the number of rounds (30, and a sixth of them on a modelled drive),
//! `ZONAL_KILL_SEED` the seed.

use std::io::{self, ErrorKind::UnexpectedEof};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use zonal_base::Rng;

use crate::harness::{DEVICE, TestFolder, Zonal, noise};
use crate::http::{Response, S3};
use crate::zoned;

const ROUNDS: u64 = 30;

/// Number of objects. At about 60 KiB each they fit on the device several times, so that none is
/// evicted.
const OBJECTS: usize = 240;

const THREADS: usize = 4;

/// Time from start to kill, in ms: often long enough that objects cached at first are 1 s old.
const TRAFFIC_MS: std::ops::Range<u64> = 200..1800;

/// Largest share of the objects cached for 1 s that may be lost, in thousandths.
const LOST_PER_MILLE_MAX: usize = 5;

/// Age from which a cached object must survive a kill.
const SETTLED: Duration = Duration::from_secs(1);

/// Expected state of one object. Versions count up; some are removals.
#[derive(Default)]
struct Object {
    /// Oldest version that a read may return: the last acknowledged one, or an older one if a later
    /// write had an unknown outcome.
    oldest: u64,
    /// Youngest version begun.
    youngest: u64,
    /// Time since which the object is known to be cached.
    cached_since: Option<Instant>,
}

/// One version in five is a removal.
const fn is_removal(version: u64) -> bool {
    version % 5 == 4
}

/// Content of a version: its number, then noise specific to it.
fn content(object: usize, version: u64) -> Vec<u8> {
    let seed = (object as u64) << 32 | version;
    let bytes = 16 + zonal_base::index(Rng::new(seed).below(120_000));
    let mut content = noise(bytes, seed);
    content[..8].copy_from_slice(&version.to_le_bytes());
    content
}

struct World {
    objects: Vec<Mutex<Object>>,
    place: TestFolder,
}

impl World {
    fn new() -> Self {
        let place = TestFolder::new();
        for object in 0..OBJECTS {
            place.object(&object.to_string(), &content(object, 0));
        }
        Self { objects: (0..OBJECTS).map(|_| Mutex::default()).collect(), place }
    }

    fn object(&self, object: usize) -> MutexGuard<'_, Object> {
        self.objects[object].lock().unwrap()
    }

    /// Reads an object and checks the response. True if it came from the cache.
    fn read(&self, s3: &S3, object: usize) -> io::Result<bool> {
        let oldest = self.object(object).oldest;
        let asked_at = Instant::now();
        let answer = match s3.get(&path(object)) {
            // The version being read is gone at the origin, so the server can only break off the
            // response.
            Err(error)
                if error.kind() == UnexpectedEof && self.object(object).youngest != oldest =>
            {
                return Ok(false);
            }
            answer => answer?,
        };
        let youngest = self.object(object).youngest;
        let seen = judge(object, &answer, oldest..=youngest);
        let is_hit = answer.header("x-cache") == "HIT";
        let mut known = self.object(object);
        // A write that began meanwhile may have removed the version read.
        if is_hit && seen == known.youngest {
            known.cached_since.get_or_insert(asked_at);
        }
        Ok(is_hit)
    }

    /// Writes or removes an object. Requires: no other thread writes this object.
    fn write(&self, s3: &S3, object: usize) -> io::Result<()> {
        let version = {
            let mut known = self.object(object);
            known.cached_since = None;
            known.youngest += 1;
            known.youngest
        };
        let answer = match is_removal(version) {
            true => s3.delete(&path(object))?,
            false => s3.put(&path(object), &content(object, version))?,
        };
        assert!(matches!(answer.status, 200 | 204), "{answer:?}");
        self.object(object).oldest = version;
        Ok(())
    }

    /// Reads and writes until the server is gone.
    fn traffic(&self, s3: &S3, thread: usize, mut rng: Rng, killed: &AtomicBool) {
        loop {
            let object = zonal_base::index(rng.below(OBJECTS as u64));
            // Each object has one writer thread; all threads read all objects.
            let result = match object % THREADS == thread && rng.one_in(3) {
                true => self.write(s3, object),
                false => self.read(s3, object).map(drop),
            };
            if let Err(error) = result {
                assert!(
                    killed.load(Ordering::SeqCst),
                    "the server failed before it was killed: {error}"
                );
                return;
            }
        }
    }

    /// Kills the server under traffic; returns the objects that must still be cached.
    fn crash(&self, zonal: Zonal, rng: &mut Rng) -> Vec<usize> {
        let span = TRAFFIC_MS.end - TRAFFIC_MS.start;
        let after = Duration::from_millis(TRAFFIC_MS.start + rng.below(span));
        let killed = AtomicBool::new(false);
        let s3 = zonal.s3();
        let killed_at = thread::scope(|scope| {
            for thread in 0..THREADS {
                let (s3, killed, rng) = (&s3, &killed, Rng::new(rng.next_u64()));
                scope.spawn(move || self.traffic(s3, thread, rng, killed));
            }
            // This test needs a crash at a random moment, so it sleeps instead of waiting for an
            // event.
            thread::sleep(after);
            killed.store(true, Ordering::SeqCst);
            zonal.kill();
            Instant::now()
        });
        let is_settled = |since: &Instant| SETTLED <= killed_at.duration_since(*since);
        let settled =
            |object: &usize| self.object(*object).cached_since.as_ref().is_some_and(is_settled);
        (0..OBJECTS).filter(settled).collect()
    }

    /// Reads everything once; returns how many of `expected` are no longer cached.
    fn check(&self, s3: &S3, expected: &[usize]) -> usize {
        let missed = (0..OBJECTS).filter(|object| {
            self.object(*object).cached_since = None;
            !self.read(s3, *object).expect("the server is up")
        });
        missed.filter(|object| expected.contains(object)).count()
    }
}

fn path(object: usize) -> String {
    format!("/bucket/{object}")
}

/// The version in a response. Checks that it is whole and one of `allowed`.
fn judge(object: usize, answer: &Response, allowed: std::ops::RangeInclusive<u64>) -> u64 {
    let version = match answer.status {
        200 => u64::from_le_bytes(answer.body[..8].try_into().unwrap()),
        404 => {
            let removal = allowed.clone().rev().find(|version| is_removal(*version));
            return removal
                .unwrap_or_else(|| panic!("object {object} is gone; {allowed:?} are not"));
        }
        _ => panic!("object {object}: {answer:?}"),
    };
    assert!(allowed.contains(&version), "object {object}: saw {version}, not one of {allowed:?}");
    assert!(!is_removal(version) && answer.body == content(object, version), "{object} {version}");
    version
}

pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn a_killed_server_keeps_what_it_had_and_brings_nothing_back() {
    check_kills(DEVICE, number("ZONAL_KILL_ROUNDS", ROUNDS));
}

#[test]
fn so_does_one_on_a_modelled_drive_that_knows_its_zones() {
    check_kills("emulator:zn540?zones=4&backing=drive", number("ZONAL_KILL_ROUNDS", ROUNDS) / 6);
}

#[test]
fn so_does_one_on_a_zoned_drive_under_a_real_kernel() {
    if let Some(device) = zoned::formatted() {
        check_kills(&device, number("ZONAL_KILL_ROUNDS", ROUNDS) / 6);
    }
}

#[track_caller]
fn check_kills(device: &str, rounds: u64) {
    let world = World::new();
    let mut rng = Rng::new(number("ZONAL_KILL_SEED", 1));
    // A policy that writes everything. Under `flow`, once flash has been full, objects are also
    // served from memory while they wait for their flash write.
    let words = ["--freshness", "immutable", "--chunk", "64KiB", "--policy", "zone-lru"];
    let start = || world.place.start_on(device, &words);
    let (mut expected_count, mut lost_count) = (0, 0);
    let mut expected = Vec::new();
    for _ in 0..rounds {
        let zonal = start();
        expected_count += expected.len();
        lost_count += world.check(&zonal.s3(), &expected);
        expected = world.crash(zonal, &mut rng);
    }
    println!("{lost_count} of {expected_count} objects were lost that had been cached for 1 s");
    // Otherwise the rounds were too short for any loss.
    assert!(rounds <= expected_count as u64, "{expected_count} in {rounds} rounds");
    assert!(lost_count * 1000 <= expected_count * LOST_PER_MILLE_MAX);
}
