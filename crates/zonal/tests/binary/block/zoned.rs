//! Tests of the block device on a zoned capacity drive, under a real kernel. `make test-zoned`
//! boots such kernels and runs these tests there. `ZONAL_TEST_ZONED_DEVICE` names the drive to
//! overwrite, `ZONAL_TEST_FIO` the fio program.

use super::crash::check_kills;
use super::real::run;
use super::{Block, TestFolder};
use crate::crash::number;
use crate::harness::{folder, metric};
use crate::zoned::{formatted, json};

/// Flags for the zoned capacity drive and a write buffer in a file.
pub(super) fn devices(spec: &str) -> [&str; 4] {
    ["--capacity", spec, "--buffer", "file:buffer?size=16MiB&zone=2MiB"]
}

/// Size in MiB of an export that takes two thirds of the drive: written twice, it forces garbage
/// collection.
pub(super) fn export_mib(spec: &str) -> u64 {
    let info = json(folder().path(), &["device", "info", spec, "--json"]);
    let number = |key: &str| info[key].as_u64().unwrap();
    (number("zone_count") * number("zone_capacity_bytes") * 2 / 3) >> 20
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9() {
    let Some(spec) = formatted() else { return };
    // An emulated CPU writes little between two kills.
    check_kills(&devices(&spec), number("ZONAL_KILL_ROUNDS", 18) / 6, 20);
}

#[test]
fn what_fio_wrote_while_zones_were_collected_is_there_also_after_kill_9() {
    let Ok(fio) = std::env::var("ZONAL_TEST_FIO") else {
        return println!("skipped: ZONAL_TEST_FIO names no program");
    };
    let Some(spec) = formatted() else { return };
    let (place, mib) = (TestFolder::new(), export_mib(&spec));
    let export = format!("disk={mib}MiB");
    let words = [&devices(&spec)[..], &["--export", &export, "--log-level", "warn"]].concat();
    let uri = format!("--uri=nbd+unix:///disk?socket={}", place.socket().display());
    let size = format!("--size={mib}m");
    let fixed = [fio.as_str(), "--name=a", "--ioengine=nbd", &uri, &size, "--verify=crc32c"];
    let job = |words: &[&str]| {
        let said = run(&place, &[&fixed[..], &["--verify_fatal=1"], words].concat());
        assert!(said.contains("err= 0"), "{said}");
    };
    let block = Block::start(&place, &words);
    job(&["--rw=write", "--bs=256k", "--iodepth=4", "--do_verify=0"]);
    let scattered = ["--rw=randwrite", "--bs=64k", "--iodepth=16", "--fsync=64"];
    job(&scattered);
    let collected = metric(block.admin, "zonal_block_zones_reset_total{tier=\"capacity\"}");
    assert!(0 < collected, "no zone of {spec} was collected");
    println!("{mib} MiB written twice, {collected} zones collected");
    block.kill();

    let block = Block::start(&place, &words);
    job(&[&scattered[..], &["--verify_only"]].concat());
    block.stop();
}
