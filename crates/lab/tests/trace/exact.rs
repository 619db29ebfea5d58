//! Reference policies against libCacheSim, an independent implementation, on published traces.
//!
//! The traces may not be copied into the repository. Without them in `../shared/traces` beside the
//! repository, these tests report that and check nothing.

use std::path::{Path, PathBuf};

use zonal_lab::trace::{Capacity, Format, Room, Trace, make, replay};

const OBJECTS: &str = include_str!("expected_objects.csv");
const BYTES: &str = include_str!("expected_bytes.csv");

/// Traces with their paths and formats.
const TRACES: [(&str, &str, Format); 5] = [
    ("cloudPhysicsIO", "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst", Format::OracleGeneral),
    ("z99_1M", "zipf/z99_1M.oracleGeneral.bin.zst", Format::OracleGeneral),
    ("arc_P3", "arc/P3.lis.zst", Format::Arc),
    ("adaptsize_cdn", "caffeine/adaptsize_cdn.request.trace.xz", Format::TextSize),
    ("corda_vault", "caffeine/corda_trace_vaultservice.gz", Format::U64Be),
];

/// Path of a trace, if the file exists.
fn file(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(path);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

struct Expectation {
    policy: &'static str,
    capacity: Capacity,
    miss_ratio: f64,
    byte_miss_ratio: Option<f64>,
}

fn rows(table: &'static str, trace: &str) -> Vec<Vec<&'static str>> {
    let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let rows = rows.map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|row| row[0] == trace).collect()
}

fn expectations(trace: &str) -> Vec<Expectation> {
    let ratio = |text: &str| text.parse().expect("a ratio");
    let objects = rows(OBJECTS, trace).into_iter().map(|row| Expectation {
        policy: row[3],
        capacity: row[2].parse().expect("a number of objects"),
        miss_ratio: ratio(row[4]),
        byte_miss_ratio: None,
    });
    let bytes = rows(BYTES, trace).into_iter().map(|row| Expectation {
        policy: row[2],
        capacity: row[1].parse().expect("a size"),
        miss_ratio: ratio(row[3]),
        byte_miss_ratio: Some(row[4]).filter(|text| !text.is_empty()).map(ratio),
    });
    objects.chain(bytes).collect()
}

/// Equal to four digits.
fn agree(here: f64, there: f64) -> bool {
    (here - there).abs() < 0.00005 + 1e-9
}

#[track_caller]
fn check(name: &str) {
    let (_, path, format) =
        TRACES.iter().find(|(known, ..)| *known == name).expect("a known trace");
    let Some(path) = file(path) else { return };
    let expected = expectations(name);
    assert!(!expected.is_empty());
    let contenders = expected.iter().map(|row| {
        make(row.policy, Room { capacity: row.capacity, zones: 1 }).expect("a known policy")
    });
    let trace = Trace::new(path, *format);
    let tallies = replay(&trace, contenders.collect(), &|_| ()).expect("a whole trace");
    let mut wrong = Vec::new();
    for (row, tally) in expected.iter().zip(&tallies) {
        let Expectation { policy, capacity, miss_ratio, byte_miss_ratio } = row;
        let (objects, bytes) = (tally.miss_ratio(), tally.byte_miss_ratio());
        if !agree(objects, *miss_ratio) {
            wrong.push(format!("{policy} at {capacity}: {objects:.4}, not {miss_ratio:.4}"));
        }
        if let Some(there) = byte_miss_ratio.filter(|there| !agree(bytes, *there)) {
            wrong.push(format!("{policy} at {capacity}, bytes: {bytes:.4}, not {there:.4}"));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

#[test]
fn the_cloud_physics_sample_misses_as_often_as_in_libcachesim() {
    check("cloudPhysicsIO");
}

#[test]
fn a_zipf_trace_misses_as_often_as_in_libcachesim() {
    check("z99_1M");
}

#[test]
fn the_p3_trace_misses_as_often_as_in_libcachesim() {
    check("arc_P3");
}

#[test]
fn the_adaptsize_trace_misses_as_often_as_in_libcachesim() {
    check("adaptsize_cdn");
}

#[test]
fn the_corda_trace_misses_as_often_as_in_libcachesim() {
    check("corda_vault");
}
