//! Tests of the load generator, on a RAM device with a fixed latency.

mod flat;

use std::collections::BTreeSet;
use std::thread;

use zonal_base::{Blocks, Nanos, ZoneId};
use zonal_device::ram::{RamDevice, RamOptions};
use zonal_device::{DeviceKind, Geometry};

use super::bench::Bench;
use super::load::{Pace, Stack, Stream, StreamOutcome, Window, Work};
use super::{
    Characterization, CharacterizeError, CharacterizeSettings, ExperimentGroup, Point, RealTime,
    Reference, Set, Statistic, Table, TableDetail, VirtualTime, conventional, memory, write_plots,
    zoned,
};
use flat::Flat;

const LATENCY: Nanos = Nanos::micros(100);

fn geometry() -> Geometry {
    Geometry {
        kind: DeviceKind::Zoned,
        zone_count: 24,
        zone_size: Blocks(128),
        zone_capacity: Blocks(96),
        max_open_zones: Some(14),
        max_active_zones: Some(14),
    }
}

fn ram(queue_depth: usize) -> RamDevice {
    ram_of(geometry(), queue_depth)
}

fn ram_of(geometry: Geometry, queue_depth: usize) -> RamDevice {
    let options = RamOptions { seed: 1, queue_depth, latency: LATENCY, ..RamOptions::default() };
    RamDevice::new(geometry, options)
}

fn stream(work: Work, depth: usize) -> Stream {
    Stream { work, blocks: Blocks(1), depth, pace: Pace::Free, stack: Stack::default() }
}

const WINDOW: Window = Window {
    warm_up: Nanos::millis(10),
    warm_up_count: 1,
    at_least: Nanos::millis(100),
    count: 1,
    at_most: Nanos::secs(10),
};

/// Runs streams with four readable zones, and full ones if requested.
fn run(
    device: &mut RamDevice,
    full: usize,
    streams: &[Stream],
    window: Window,
) -> Vec<StreamOutcome> {
    let mut clock = VirtualTime::default();
    let mut bench = Bench::new((device, memory()), &mut clock, 1).unwrap();
    bench.make_readable(4).unwrap();
    bench.make_full(full).unwrap();
    bench.run(streams, window).unwrap()
}

fn near(value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.unwrap();
    assert!((value - expected).abs() <= tolerance * expected, "{value} instead of {expected}");
}

#[test]
fn a_command_of_known_latency_has_exactly_that_mean() {
    for work in [Work::Write, Work::Append, Work::Read(Some(0))] {
        let outcome = &run(&mut ram(64), 0, &[stream(work, 1)], WINDOW)[0];
        let (did, other) = match work {
            Work::Read(_) => (&outcome.reads, &outcome.others),
            _ => (&outcome.others, &outcome.reads),
        };
        assert_eq!((did.mean_us(), other.count()), (Some(100.0), 0), "{work:?}");
        near(did.quantile_us(0.99), 100.0, 1e-3);
        near(did.per_second(), 10_000.0, 0.02);
    }
}

#[test]
fn eight_in_flight_are_eight_times_the_iops_at_the_same_latency() {
    let outcome = &run(&mut ram(64), 0, &[stream(Work::Read(None), 8)], WINDOW)[0];
    assert_eq!(outcome.reads.mean_us(), Some(100.0));
    near(outcome.reads.per_second(), 80_000.0, 0.01);
    let writers = run(&mut ram(64), 0, &[stream(Work::Write, 1); 8], WINDOW);
    for writer in &writers {
        near(writer.others.per_second(), 10_000.0, 0.05);
    }
}

#[test]
fn a_full_queue_holds_commands_back_and_loses_none() {
    let outcome = &run(&mut ram(2), 0, &[stream(Work::Append, 8)], WINDOW)[0];
    near(outcome.others.per_second(), 20_000.0, 0.02);
}

#[test]
fn a_rate_is_held_and_what_was_missed_is_made_up_for() {
    let slow = Stream { pace: Pace::PerSecond(500.0), ..stream(Work::Write, 4) };
    let window = Window { at_least: Nanos::secs(1), ..WINDOW };
    near(run(&mut ram(64), 0, &[slow], window)[0].others.per_second(), 500.0, 0.01);
    // A rate above the device's: the device's rate results.
    let fast = Stream { pace: Pace::PerSecond(50_000.0), ..stream(Work::Write, 1) };
    near(run(&mut ram(64), 0, &[fast], window)[0].others.per_second(), 10_000.0, 0.05);
}

#[test]
fn a_stream_in_step_with_another_keeps_the_ratio() {
    let pace = Pace::Follow { leader: 0, per_command: 0.25 };
    let follower = Stream { pace, ..stream(Work::Write, 1) };
    let outcomes = run(&mut ram(64), 0, &[stream(Work::Read(None), 2), follower], WINDOW);
    near(outcomes[0].reads.per_second(), 20_000.0, 0.01);
    near(outcomes[1].others.per_second(), 5_000.0, 0.02);
}

#[test]
fn mixed_commands_keep_their_ratio() {
    let work = Work::Mixed { read_percent: 75, zones: 4 };
    let outcome = &run(&mut ram(64), 0, &[stream(work, 4)], WINDOW)[0];
    let (reads, writes) = (outcome.reads.count() as f64, outcome.others.count() as f64);
    near(Some(reads / (reads + writes)), 0.75, 0.05);
}

#[test]
fn the_host_adds_its_share_to_the_latency_and_between_commands() {
    let stack = Stack { latency: Nanos::micros(20), turnaround: Nanos::micros(80) };
    let reader = Stream { stack, ..stream(Work::Read(None), 1) };
    let outcome = &run(&mut ram(64), 0, &[reader], WINDOW)[0];
    assert_eq!(outcome.reads.mean_us(), Some(120.0));
    near(outcome.reads.per_second(), 5_000.0, 0.01);
}

#[test]
fn resets_beside_writes_are_seen_and_end_with_the_full_zones() {
    let paced = Stream { pace: Pace::PerSecond(50.0), ..stream(Work::Reset, 1) };
    let window =
        Window { warm_up: Nanos(0), warm_up_count: 1, at_least: Nanos(0), count: 99, ..WINDOW };
    let outcomes = run(&mut ram(64), 8, &[paced, stream(Work::Write, 1)], window);
    // The first completion opens the window and is not counted.
    assert!((6..=8).contains(&outcomes[0].others.count()), "{}", outcomes[0].others.count());
    assert_eq!(outcomes[0].others.mean_us(), Some(100.0));
    near(outcomes[0].others.per_second(), 50.0, 0.01);
    near(outcomes[1].others.per_second(), 10_000.0, 0.05);
}

#[test]
fn a_finish_is_counted_without_the_block_before_it() {
    let window = Window { at_least: Nanos(0), count: 5, warm_up: Nanos(0), ..WINDOW };
    let outcome = &run(&mut ram(64), 0, &[stream(Work::Finish, 1)], window)[0];
    assert_eq!(outcome.others.mean_us(), Some(100.0));
    near(outcome.others.per_second(), 5_000.0, 0.01);
}

#[test]
fn writers_go_round_in_zones_that_they_reset_themselves() {
    let mut device = ram(64);
    let window = Window { at_least: Nanos::millis(400), ..WINDOW };
    let outcomes = run(&mut device, 0, &[stream(Work::Append, 4); 2], window);
    // 2 x 0.4 s at 40,000 per second: 32,000 blocks, of which 20 zones hold 1920.
    let blocks: u64 = outcomes.iter().map(|outcome| outcome.others.count()).sum();
    assert!(20_000 < blocks, "{blocks}");
}

#[test]
fn every_zone_but_the_readable_ones_is_empty_after_a_run() {
    let mut device = ram(64);
    run(&mut device, 0, &[stream(Work::Append, 4), stream(Work::Finish, 1)], WINDOW);
    let mut clock = VirtualTime::default();
    let mut bench = Bench::new((&mut device, memory()), &mut clock, 1).unwrap();
    for zone in 4..24 {
        // Writing from the start fails unless the zone is empty.
        bench.fill(ZoneId(zone), Blocks(0), Blocks(1)).unwrap();
        bench.manage(ZoneId(zone), zonal_device::ZoneAction::Reset).unwrap();
    }
}

fn settings(experiments: &[ExperimentGroup]) -> CharacterizeSettings {
    CharacterizeSettings { effort: 0.01, ..CharacterizeSettings::new("ram", 7, experiments) }
}

fn characterize(settings: &CharacterizeSettings) -> Characterization {
    let zones = Geometry { zone_size: Blocks(2048), zone_capacity: Blocks(1536), ..geometry() };
    let mut device = ram_of(zones, 1024);
    zoned((&mut device, memory()), &mut VirtualTime::default(), settings, &mut |_| ()).unwrap()
}

#[test]
fn zone_management_on_a_flat_device_costs_the_same_everywhere() {
    let report =
        characterize(&settings(&[ExperimentGroup::ZoneManagement, ExperimentGroup::OpenClose]));
    assert_eq!(report.points.len(), 3 * (21 + 13));
    for point in report.points.iter().filter(|point| point.statistic == Statistic::Mean) {
        let us = if point.unit == "ms" { point.value * 1e3 } else { point.value };
        assert!((us - 100.0).abs() < 1e-9, "{} {us}", point.id);
    }
    let half =
        report.points.iter().find(|point| point.id == "reset.50pct.latency_ms.mean").unwrap();
    assert_eq!((half.reference, half.observation, half.set), (Some(11.608_277), 10, Set::Fit));
    assert!(half.source.starts_with("zn540/zone_management.csv "), "{}", half.source);
}

#[test]
fn equal_seeds_give_equal_reports() {
    let experiments = settings(&[ExperimentGroup::MixedRatio, ExperimentGroup::Placement]);
    let settings = CharacterizeSettings { effort: 0.002, ..experiments };
    let report = characterize(&settings);
    assert_eq!(report, characterize(&settings));
    let other = CharacterizeSettings { seed: 8, ..settings };
    assert_ne!(report.points, characterize(&other).points);
}

#[test]
fn every_row_of_the_tables_is_run_and_no_id_is_given_twice() {
    let zones = Geometry {
        zone_count: 200,
        zone_size: Blocks(1 << 14),
        zone_capacity: Blocks(1 << 13),
        ..geometry()
    };
    let settings = CharacterizeSettings {
        effort: 0.002,
        ..CharacterizeSettings::new("flat", 7, &ExperimentGroup::ZONED)
    };
    let mut runs = 0;
    let mut count = |_: &super::RunProgress| runs += 1;
    let mut device = Flat::new(zones);
    let report =
        zoned((&mut device, memory()), &mut VirtualTime::default(), &settings, &mut count).unwrap();
    assert_eq!((report.skipped.clone(), runs), (Vec::new(), 300 + 21 + 1 + 61 + 48 + 90 + 162 + 3));
    let ids: BTreeSet<&str> = report.points.iter().map(|point| point.id.as_str()).collect();
    assert_eq!(ids.len(), report.points.len());
    let observations: BTreeSet<u8> = report.points.iter().map(|point| point.observation).collect();
    assert_eq!(observations, (3..=13).collect());
    // Two means of the reads beside finishes only: runs as short as these end with their first
    // finish.
    assert_eq!(report.scores().fit_means.of, 2 * 300 + 20 + 13 + 2);
}

#[test]
fn a_conventional_drive_is_measured_under_random_overwrites() {
    let zones = Geometry { kind: DeviceKind::Conventional, zone_count: 64, ..geometry() };
    let mut device = Flat::new(Geometry { zone_size: Blocks(4096), ..zones });
    device.takes_writes_anywhere = true;
    let experiments = [ExperimentGroup::GarbageCollection, ExperimentGroup::WriteAmplification];
    let settings = CharacterizeSettings {
        effort: 0.01,
        model: "sn540",
        ..CharacterizeSettings::new("flat", 7, &experiments)
    };
    let mut clock = VirtualTime::default();
    let report = conventional((&mut device, memory()), &mut clock, &settings, &mut |_| ()).unwrap();
    assert_eq!((report.points.len(), report.series.len()), (3 * 5 + 2, 3));
    let amplified =
        report.points.iter().filter(|point| point.id.ends_with("programmed_per_written"));
    assert!(amplified.clone().all(|point| point.value == 2.0), "{:?}", report.points);
    let expected: Vec<_> = amplified.filter_map(|point| point.reference).collect();
    assert_eq!(expected, [1.0, 4.154], "what is published about one model");
    for series in &report.series {
        assert_eq!((series.write_mib_s.len(), series.read_mib_s.len()), (12, 12));
        assert!(series.write_mib_s.iter().all(|mib| 500.0 < *mib), "{series:?}");
    }
}

#[test]
fn in_real_time_a_command_takes_the_time_that_the_device_takes() {
    let mut device = ram(1);
    let mut clock = RealTime::new(|_: &mut RamDevice, _| thread::yield_now());
    let mut bench = Bench::new((&mut device, memory()), &mut clock, 1).unwrap();
    let took = bench.manage(ZoneId(0), zonal_device::ZoneAction::Open).unwrap();
    assert!(LATENCY <= took, "{took}");
}

/// Random writes with repetition were a bug: they leave the drive less to collect at the end of a
/// round, and more in its middle.
#[test]
fn every_place_of_a_region_is_overwritten_once_in_a_round_and_in_another_order_in_the_next() {
    let mut device = Flat::new(geometry());
    device.takes_writes_anywhere = true;
    let mut clock = VirtualTime::default();
    let mut bench = Bench::new((&mut device, memory()), &mut clock, 1).unwrap();
    let work = Work::Overwrite { first: Blocks(64), span: Blocks(32) };
    let window =
        Window { warm_up: Nanos(0), warm_up_count: 0, at_least: Nanos(0), count: 62, ..WINDOW };
    for _ in 0..2 {
        bench.run(&[stream(work, 1)], window).unwrap();
    }
    let written = device.lbas;
    let (first, second) = written.split_at(written.len() / 2);
    assert_eq!(first, second, "runs are equal");
    let round = |n: usize| first.iter().skip(32 * n).take(32).map(|lba| lba.0).collect::<Vec<_>>();
    let sorted = |mut lbas: Vec<u64>| {
        lbas.sort_unstable();
        lbas
    };
    assert_eq!(sorted(round(0)), (64..96).collect::<Vec<_>>());
    assert_ne!(round(0)[..30], round(1)[..30]);
}

#[test]
fn a_device_with_too_few_zones_is_refused_or_spared() {
    let small = Geometry { zone_count: 4, ..geometry() };
    let mut device = RamDevice::new(small, RamOptions::default());
    let settings = settings(&[ExperimentGroup::Placement]);
    let result =
        zoned((&mut device, memory()), &mut VirtualTime::default(), &settings, &mut |_| ());
    assert_eq!(result, Err(CharacterizeError::TooFewZones));
}

fn point(set: Set, statistic: Statistic, value: f64) -> Point {
    let (id, source) = ("write.4KiB.qd1.latency_us.mean".into(), String::new());
    let (observation, unit, reference) = (3, "us", Some(100.0));
    Point { id, observation, unit, statistic, set, reference, source, value }
}

fn report(points: Vec<Point>) -> Characterization {
    let (skipped, series) = (Vec::new(), Vec::new());
    Characterization {
        note: None,
        constants: Some(0x0123_4567_89ab_cdef),
        device: "emulator:zn540".into(),
        seed: 7,
        effort: 1.0,
        points,
        skipped,
        series,
    }
}

#[test]
fn scores_count_means_and_tails_by_set() {
    let report = report(vec![
        point(Set::Fit, Statistic::Mean, 104.9),
        point(Set::Fit, Statistic::Mean, 94.0),
        point(Set::Fit, Statistic::P99, 81.0),
        point(Set::Fit, Statistic::Median, 300.0),
        point(Set::Test, Statistic::Mean, 109.0),
        point(Set::Test, Statistic::P99, 300.0),
        point(Set::Unscored, Statistic::Mean, 300.0),
    ]);
    let text = report.scores().to_string();
    assert_eq!(
        text,
        "fit set: 1 of 2 means within 5 %, 1 of 1 p99 within 20 %\n\
         test set: 1 of 1 means within 10 %"
    );
    let misses = Table { report: &report, detail: TableDetail::Misses }.to_string();
    assert_eq!(misses.matches("latency_us").count(), 1, "{misses}");
    assert!(misses.contains("-6.0 % !"), "{misses}");
}

/// The note once stood below hundreds of rows, so that a run too short looked like a bad drive.
#[test]
fn the_summary_comes_first_and_says_when_the_runs_were_too_short() {
    let mut report = report(vec![point(Set::Fit, Statistic::Mean, 94.0)]);
    let table = |report: &Characterization| Table { report, detail: TableDetail::All }.to_string();
    let text = table(&report);
    let at = |what: &str| text.find(what).expect("it is there");
    assert!(at("constants 0123456789abcdef") < at("fit set: 0 of 1"), "{text}");
    assert!(at("fit set: 0 of 1") < at("0 of 1  observation 3"), "{text}");
    assert!(at("0 of 1  observation 3") < at("latency_us.mean"), "{text}");
    assert!(!text.contains("warning"), "{text}");
    report.effort = 0.01;
    let text = table(&report);
    assert!(text.lines().nth(1).expect("a second line").starts_with("warning: "), "{text}");
}

#[test]
fn the_json_has_the_agreed_fields_and_no_others() {
    let mut without = point(Set::Fit, Statistic::Mean, 11.400_04);
    without.reference = None;
    let report = report(vec![point(Set::Fit, Statistic::Mean, 11.5), without]);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        json,
        "{\"device\":\"emulator:zn540\",\"seed\":7,\"points\":[\
         {\"id\":\"write.4KiB.qd1.latency_us.mean\",\"observation\":3,\"unit\":\"us\",\
         \"reference\":100.0,\"value\":11.5},\
         {\"id\":\"write.4KiB.qd1.latency_us.mean\",\"observation\":3,\"unit\":\"us\",\
         \"reference\":null,\"value\":11.4}]}"
    );
}

#[test]
fn nothing_is_compared_when_nothing_is_asked_for() {
    let mut settings = settings(&[ExperimentGroup::OpenClose]);
    settings.comparison = Reference::Nothing;
    let report = characterize(&settings);
    assert!(report.points.iter().all(|point| point.reference.is_none()));
    assert!(!Table { report: &report, detail: TableDetail::All }.to_string().contains("fit set"));
}

#[test]
fn a_figure_is_drawn_for_what_was_measured_and_for_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = characterize(&settings(&[ExperimentGroup::ZoneManagement]));
    let files = write_plots(&report, folder.path()).unwrap();
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(names, ["figure-5a-reset.svg", "figure-5b-finish.svg"]);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert!(text.contains("reset after finish") && text.contains("</svg>"), "{text}");
}
