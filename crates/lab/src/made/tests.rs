//! Generated traces are read back unchanged.

use std::path::PathBuf;

use tempfile::TempDir;
use zonal_base::Bytes;

use super::{Drifting, Made, Maker, Output};
use crate::Distribution;
use crate::bench::Progress;
use crate::trace::{Format, Request, Trace};

fn made(
    folder: &TempDir,
    name: &str,
    (keys, requests): (u64, u64),
) -> (PathBuf, Result<(), String>) {
    let path = folder.path().join(name);
    let drawn = Drifting::new(Distribution::Uniform, (keys, 1), 0.0, Bytes::kib(64));
    let made = Made { maker: Maker::Drawn(drawn), requests, requests_per_s: 100, seed: 7 };
    let output: Output = path.to_str().expect("text").parse().expect("a name that says it");
    assert_eq!(output.path(), path);
    let written = made.write(&output, &Progress::hidden());
    (path, written)
}

fn read(path: PathBuf, format: Format) -> Vec<Request> {
    let mut reader = Trace::new(path, format).open().expect("it is there");
    let mut all = Vec::new();
    reader.batch(&mut all, usize::MAX).expect("it is whole");
    all
}

#[test]
fn keys_and_objects_are_read_again_as_they_were_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, written) = made(&folder, "keys.u32le", (1000, 5000));
    assert_eq!(written, Ok(()));
    assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 4 * 5000);
    let keys = read(path, Format::U32Le);
    let (path, written) = made(&folder, "objects.oracleGeneral.bin", (1000, 5000));
    assert_eq!(written, Ok(()));
    let objects = read(path, Format::OracleGeneral);
    let ids = |all: &[Request]| all.iter().map(|request| request.id).collect::<Vec<_>>();
    assert_eq!((ids(&keys), keys.len()), (ids(&objects), 5000));
    assert!(objects.iter().all(|request| request.size == 64 << 10));
    let times: Vec<u32> = objects.iter().map(|request| request.time_s).collect();
    assert_eq!((times[99], times[100], times[4999]), (0, 1, 49));
    let (path, written) = made(&folder, "log.s3-log", (1000, 5000));
    assert_eq!(written, Ok(()));
    let logged = read(path, "s3-log".parse().expect("ours"));
    let began = logged[0].time_s;
    assert!(logged.iter().zip(&times).all(|(request, time)| request.time_s - began == *time));
    assert!(logged.iter().all(|request| (request.size, request.bytes) == (64 << 10, 64 << 10)));
    let same = |at: usize, other: usize| objects[at].id == objects[other].id;
    assert!((0..999).all(|at| same(at, at + 1) == (logged[at].id == logged[at + 1].id)));
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    assert!("keys.csv".parse::<Output>().expect_err("csv").starts_with("write a name that ends"));
    let folder = tempfile::tempdir().expect("a folder");
    let (path, refused) = made(&folder, "many.u32le", (1 << 40, 10));
    assert!(refused.expect_err("too many").contains("exceeds 32 bits"));
    assert!(!path.exists() && !path.with_added_extension("half").exists());
}
