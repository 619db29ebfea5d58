//! Tests of the file descriptor limit: raised to the maximum, with a warning if that is too low.

use std::fs;

use rustix::process::{Resource, getrlimit};

use crate::harness::{TestFolder, Zonal};

/// Soft limit on open files of a running Zonal, as the kernel reports it.
fn soft_limit(zonal: &Zonal) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{}/limits", zonal.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn the_soft_limit_is_raised_and_a_hard_one_that_is_too_low_is_told() {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let place = TestFolder::new();
    let zonal = place.start(&["--limits-connections", "100"]);
    assert_eq!(soft_limit(&zonal), hard);
    assert!(!zonal.log().contains("file descriptor"), "{}", zonal.log());
    zonal.stop();

    let connections = u32::try_from(hard).unwrap_or(u32::MAX).to_string();
    let zonal = place.start(&["--limits-connections", &connections]);
    zonal.await_log("file descriptor limit too low");
    zonal.stop();
}
