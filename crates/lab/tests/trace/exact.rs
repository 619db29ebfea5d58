//! The reference policies against an independent implementation, libCacheSim, on traces that others recorded.
//!
//! The traces are not ours to copy. Where they do not lie beside the repository, in `../shared/traces`, these tests say so and
//! check nothing.

use std::path::{Path, PathBuf};

use zonal_lab::trace::{Capacity, Format, Room, Trace, make, replay};

const EXPECTED: &str = include_str!("expected.csv");

/// Where traces are, and how they are written.
const TRACES: [(&str, &str, Format); 5] = [
    ("cloudPhysicsIO", "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst", Format::OracleGeneral),
    ("z99_1M", "zipf/z99_1M.oracleGeneral.bin.zst", Format::OracleGeneral),
    ("arc_P3", "arc/P3.lis.zst", Format::Arc),
    ("adaptsize_cdn", "caffeine/adaptsize_cdn.request.trace.xz", Format::TextSize),
    ("corda_vault", "caffeine/corda_trace_vaultservice.gz", Format::U64Be),
];

/// The file of a trace, if it is there.
fn file(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(path);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

struct Expectation<'a> {
    policy: &'a str,
    capacity: u64,
    miss_ratio: f64,
}

fn expectations(trace: &str) -> Vec<Expectation<'static>> {
    let rows = EXPECTED.lines().filter(|line| !line.starts_with('#')).skip(1);
    let rows = rows.map(|line| line.split(',').collect::<Vec<_>>());
    let rows = rows.filter(|row| row[0] == trace);
    rows.map(|row| Expectation {
        policy: row[3],
        capacity: row[2].parse().expect("a number of objects"),
        miss_ratio: row[4].parse().expect("a ratio"),
    })
    .collect()
}

/// How far a miss ratio may be off. Of S3-FIFO there are several versions, which differ by as much among themselves.
fn tolerance(policy: &str) -> f64 {
    if policy == "s3-fifo" { 0.005 } else { 0.00005 + 1e-9 }
}

#[track_caller]
fn check(name: &str) {
    let (_, path, format) =
        TRACES.iter().find(|(known, ..)| *known == name).expect("a known trace");
    let Some(path) = file(path) else { return };
    let mut expected = expectations(name);
    expected.retain(|row| row.policy == "fifo");
    assert!(!expected.is_empty());
    let room = |capacity| Room { capacity: Capacity::Objects(capacity), zones: 50 };
    let contenders =
        expected.iter().map(|row| make(row.policy, room(row.capacity)).expect("a known policy"));
    let tallies =
        replay(&Trace::new(path, *format), contenders.collect(), &|_| ()).expect("a whole trace");
    let wrong: Vec<String> = expected
        .iter()
        .zip(&tallies)
        .filter(|(row, tally)| tolerance(row.policy) < (tally.miss_ratio() - row.miss_ratio).abs())
        .map(|(row, tally)| {
            let Expectation { policy, capacity, miss_ratio } = row;
            format!("{policy} at {capacity}: {:.4}, not {miss_ratio:.4}", tally.miss_ratio())
        })
        .collect();
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
