//! Costs of each ZNSCCache habit, on a drive of four zones.

use zonal_base::{Bytes, Nanos};
use zonal_emulator::{DiscardMedium, Profile, ZonedDrive};

use super::{Habit, Habits, HostCosts, Sequential, SequentialOutcome, SequentialSettings};
use crate::simulated::feed::Load;
use crate::simulated::measures::{Latency, Timed};
use crate::{Distribution, Draw};

const ZONES: u32 = 4;
const FETCH: Nanos = Nanos::millis(10);
const REOPENING: Nanos = Nanos::micros(930);

fn settings(habits: &[Habit]) -> SequentialSettings {
    SequentialSettings {
        chunk: Bytes::mib(16),
        get: Bytes::mib(16),
        zones: ZONES,
        origin_latency: FETCH,
        origin_sd: Nanos(0),
        limit: Nanos::MAX,
        habits: Habits::of(habits),
        host: HostCosts {
            call: Nanos(3_110),
            request: Bytes::kib(1280),
            touching: Nanos(490_000),
            reopening: REOPENING,
        },
        seed: 1,
    }
}

fn run(settings: SequentialSettings, gets: u64, keys: u64) -> SequentialOutcome {
    let mut profile = Profile::zn540();
    profile.geometry.zone_count = ZONES;
    let drive = ZonedDrive::new(profile, settings.seed, Box::new(DiscardMedium));
    let draw = Draw::new(Distribution::YcsbZipf { theta: 0.99 }, keys, settings.seed);
    let cache = Sequential::new(drive.into(), settings, Load::Drawn(gets, draw), Nanos::secs(60));
    cache.run(&|_| ()).expect("the drive takes everything")
}

fn of(outcome: &SequentialOutcome, what: Timed) -> Latency {
    outcome.measures.latency(what)
}

#[test]
fn what_fits_is_missed_once_and_nothing_is_emptied() {
    // The drive has 4 zones of 64 chunks.
    let outcome = run(settings(&[]), 2000, 100);
    let misses = of(&outcome, Timed::Miss).count;
    assert!(misses <= 100 && outcome.hits == 2000 - misses, "{misses} misses");
    assert_eq!((outcome.chunks_written, outcome.first_emptied), (misses, None));
    let miss = of(&outcome, Timed::Miss).mean_ns;
    assert!(FETCH.0 + of(&outcome, Timed::Write).mean_ns <= miss + 1000, "{miss}");
}

#[test]
fn a_finish_is_waited_for_or_not() {
    let waiting = run(settings(&[Habit::FinishInLine]), 1500, 4000);
    let finishes = of(&waiting, Timed::Finish);
    assert_eq!(finishes.count, waiting.zones_finished);
    assert!(5 < finishes.count && finishes.count == waiting.chunks_written / 64, "{finishes:?}");
    // A finish fills the last 53 MiB of the zone at the speed of the drive.
    assert!((40e6..60e6).contains(&(finishes.mean_ns as f64)), "{finishes:?}");
    let behind = run(settings(&[]), 1500, 4000);
    assert_eq!((behind.zones_finished, behind.hits), (waiting.zones_finished, waiting.hits));
    assert_eq!(of(&behind, Timed::Finish).count, 0);
    let longest = |outcome| of(outcome, Timed::Write).max_ns as f64;
    assert!(
        longest(&behind) + 15e6 < longest(&waiting),
        "{} {}",
        longest(&behind),
        longest(&waiting)
    );
}

#[test]
fn reopening_and_small_writes_cost_what_they_cost() {
    let (plain, reopening) =
        (run(settings(&[]), 500, 60), run(settings(&[Habit::Reopen]), 500, 60));
    let mean = |outcome, what| of(outcome, what).mean_ns;
    let more = mean(&reopening, Timed::Read) - mean(&plain, Timed::Read);
    // A drive that was idle for so long is a little faster.
    assert!((REOPENING.0 - 60_000..=REOPENING.0).contains(&more), "{more}");
    // A write opens and closes its zone as well.
    let more = mean(&reopening, Timed::Write) - mean(&plain, Timed::Write);
    assert!(more.abs_diff(REOPENING.0) < 80_000, "{more}");
    let small = mean(&run(settings(&[Habit::SmallWrites]), 500, 60), Timed::Write);
    // 4,096 pieces at queue depth 1: 11.4 us each in the drive, 3.1 us in the host.
    let each = small as f64 / 4096.0;
    assert!((13_500.0..16_000.0).contains(&each), "{each} ns");
}

#[test]
fn with_the_epoch_of_the_code_one_zone_is_never_used() {
    let described = run(settings(&[]), 3000, 4000);
    let coded = run(settings(&[Habit::InsertEpoch]), 3000, 4000);
    // Both start to empty zones when three are full. The first then empties two of them, the second
    // one of them and an empty one.
    assert_eq!(described.first_emptied.is_some(), coded.first_emptied.is_some());
    assert_ne!(described.hits, coded.hits);
    for outcome in [&described, &coded] {
        assert!((300..2700).contains(&outcome.hits), "{} hits", outcome.hits);
    }
}

#[test]
fn nothing_begins_after_the_limit() {
    let limit = Nanos::secs(2);
    let outcome = run(SequentialSettings { limit, ..settings(&[]) }, 1_000_000, 1_000_000);
    let gets = of(&outcome, Timed::Get);
    assert!(limit <= outcome.took && outcome.took.0 < limit.0 + gets.max_ns + 1_000_000);
    assert!((20..200).contains(&gets.count), "{gets:?}");
}
