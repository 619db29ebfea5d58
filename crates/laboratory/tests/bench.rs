//! `zonal-lab bench` on a small file for about a second: all fields exist, and the counts are
//! consistent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(device: &Path, flags: &str) -> Output {
    bench_on(&format!("file:{}?size=256MiB&zone=8MiB", device.display()), flags)
}

fn bench_on(spec: &str, flags: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zonal-lab"))
        .args(["bench", "--device", spec, "--warmup-seconds", "0.1"])
        .args(flags.split_whitespace())
        .output()
        .unwrap()
}

#[track_caller]
fn report(device: &Path, flags: &str) -> Value {
    parsed(&bench(device, flags), flags)
}

#[track_caller]
fn parsed(output: &Output, flags: &str) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{flags}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Number at a path such as `hits.flash`.
#[track_caller]
fn number(report: &Value, path: &str) -> f64 {
    let pointer = format!("/{}", path.replace('.', "/"));
    let value = report.pointer(&pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no number at {path} in {report:#}"))
}

/// Fields that scripts may rely on.
const FIELDS: &[&str] = &[
    "gets",
    "ops_per_s",
    "bytes_per_s",
    "hit_ratio",
    "hits.dram",
    "hits.flash",
    "latency_us.flash_hit.p50",
    "latency_us.flash_hit.p99",
    "latency_us.flash_hit.p999",
    "latency_us.dram_hit.p50",
    "latency_us.miss.p999",
    "admitted_bytes",
    "refused_bytes",
    "device_written_bytes",
    "found_after_insert_ratio",
    "cpu_seconds",
    "cpu_us_per_flash_hit",
    "device_written_bytes_since_open",
    "rss_bytes",
    "index_bytes_per_chunk",
];

#[test]
fn a_read_through_run_reports_every_field_and_its_counts_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let device = directory.path().join("device");
    let flags = "--dram 0 --chunk 64KiB --value 64KiB --keys 2x --dist zipf:0.99 --tasks 64 \
                 --seconds 1 --segments 2 --json";
    let report = report(&device, flags);
    for field in FIELDS {
        number(&report, field);
    }
    let at = |path| number(&report, path);

    assert_eq!(at("keys"), 8192.0, "twice what 256 MiB hold");
    assert!(0.0 < at("gets") && 0.0 < at("hits.flash") && 0.0 < at("misses"));
    assert_eq!(at("gets"), at("hits.dram") + at("hits.flash") + at("misses"));
    assert_eq!(at("hit_ratio"), (at("hits.dram") + at("hits.flash")) / at("gets"));
    assert_eq!(at("gets"), at("segments.0.gets") + at("segments.1.gets"));
    // A value is one chunk here, so the cache's own counts are equal.
    let records = ["by_record.dram_hits", "by_record.flash_hits", "by_record.misses"].map(at);
    assert_eq!(records.iter().sum::<f64>(), at("gets"));
    assert!(at("latency_us.flash_hit.p50") <= at("latency_us.flash_hit.p999"));
    // Nothing is read between the measurements, so the log's requests equal the kernel's.
    assert_eq!(at("device_read_bytes"), at("kernel_read_bytes"));
    // The cache was filled before.
    assert!(at("capacity_bytes") < at("device_written_bytes_since_open"));
    assert!(at("device_written_bytes") < at("device_written_bytes_since_open"));
    // So small a device wraps within the second: missing keys were evicted.
    let found = at("found_after_insert_ratio");
    assert!(found == 1.0 || (0.0 < found && 0.0 < at("evicted")), "{report:#}");
    assert_eq!(at("flash_hits.misses"), 0.0);
    assert_eq!(at("flash_hits.by_record.flash_hits"), at("flash_hits.gets"));
}

/// Regression: a rate in percent was refused on a drive model, because a scratch file beside the
/// model does not measure the model.
#[test]
fn a_share_of_what_a_modelled_drive_takes_is_that_of_its_model() {
    let spec = "emulator:sn540?size=512MiB&zone=16MiB";
    let flags = "--mode insert --rate 80% --keys 500 --chunk 64KiB --value 64KiB --json";
    let report = parsed(&bench_on(spec, flags), flags);
    let drive = 1187.3 * f64::from(1 << 20);
    let rate = number(&report, "detail.insert.rate_bytes_per_s") / drive;
    assert!(0.799 < rate && rate < 0.801, "{rate} of 1187 MiB/s");
    assert_eq!(number(&report, "detail.insert.found"), 500.0);
}

#[test]
fn inserted_values_are_found_and_later_runs_hit_them() {
    let directory = tempfile::tempdir().unwrap();
    let device = directory.path().join("device");
    let flags = "--mode insert --rate 100MiB --keys 500 --chunk 64KiB --json";
    let inserted = report(&device, &flags.replace("64KiB", "64KiB --value 64KiB"));
    assert_eq!(number(&inserted, "misses"), 500.0);
    assert_eq!(number(&inserted, "found_after_insert_ratio"), 1.0);
    assert_eq!(number(&inserted, "detail.insert.found"), 500.0);
    assert_eq!(number(&inserted, "detail.insert.read_back.hits.flash"), 500.0);

    let flags = "--mode hits --range 4KiB --value 256KiB --keys 100 --seconds 0.5 --json";
    let hits = report(&device, flags);
    assert_eq!(number(&hits, "misses"), 0.0);
    let read_per_get = number(&hits, "device_read_bytes") / number(&hits, "gets");
    assert_eq!(read_per_get, 32768.0, "one granule of a chunk of eight");
}

#[test]
fn what_a_churn_left_is_counted_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let device = directory.path().join("device");
    let flags = "--mode churn --rate 50MiB --keys 500 --seconds 0.5 --chunk 64KiB";
    let churn = bench(&device, flags);
    assert!(churn.status.success());
    let printed = String::from_utf8(churn.stdout).unwrap();
    let first: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(number(&first, "live"), 500.0);

    let count = report(&device, "--mode count --inserted 100 --keys 500 --chunk 64KiB --json");
    assert_eq!(number(&count, "detail.count.filled_found"), 500.0);
    assert_eq!(number(&count, "detail.count.inserted_found"), 100.0);
    assert!(number(&count, "open_seconds") < 10.0);
}

#[test]
fn reclaim_runs_in_the_second_window_and_not_in_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let flags = "--mode reclaim --format --chunk 64KiB --value 64KiB --keys 0.2x --rate 60MiB \
                 --seconds 1 --json";
    let report = report(&directory.path().join("device"), flags);
    assert!(0.0 < number(&report, "reclaims"));
    assert_eq!(number(&report, "detail.reclaim.without.reclaims"), 0.0);
    assert!(0.0 < number(&report, "detail.reclaim.p999_ratio"));
}

#[test]
fn an_idle_cache_costs_next_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let idle = report(&directory.path().join("device"), "--mode idle --seconds 1 --json");
    assert!(number(&idle, "detail.idle.cpu_share") < 0.02, "{idle:#}");
}

#[track_caller]
fn check_refused(flags: &str, why: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(&directory.path().join("device"), flags);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{flags}: {error}");
    assert!(error.contains(why), "{flags}: {error}");
}

#[test]
fn flags_that_make_no_sense_are_refused_with_what_to_write() {
    check_refused("--dist normal", "write uniform, zipf:THETA");
    check_refused("--value 64XB", "write a whole number and B, KiB, MiB, GiB or TiB");
    check_refused("--range 1MiB", "at most --value");
    check_refused("--tasks 0", "write 1 to 4096");
    check_refused("--chunk 3KiB --seconds 1", "a power of two");
    check_refused("--rate 10MiB", "--rate needs");
    check_refused("--policy mru", "there is no policy");
    check_refused("--policy flow?memory=5%", "set in bytes, apart from its policy");
}
