//! Tests of a device that takes no writes, such as a full thin pool: reads go on, writes fail with
//! ENOSPC, and everything goes on once it takes them again.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::lost::{WELL, WORDS, check, content, error_of, start, write};
use super::{Block, TestFolder};
use crate::harness::{PATIENCE, check_failure, metric};
use crate::nbd::{Command, Nbd};
use crate::viewer::Viewer;

/// ENOSPC in the NBD protocol.
const NO_SPACE: u32 = 28;

/// Makes a device full.
fn fill(place: &TestFolder, tier: &str) -> PathBuf {
    let trouble = place.folder.path().join(format!("{tier}-trouble"));
    fs::write(&trouble, "full").unwrap();
    trouble
}

#[track_caller]
fn check_ready(block: &Block, expected: &str) {
    let ready = block.ask("/readyz");
    let status = if expected.contains("takes no writes") { 503 } else { 200 };
    assert_eq!((ready.status, ready.text().as_str()), (status, expected));
}

/// Writes until the device takes it again.
fn write_once_it_can_be(client: &mut Nbd, mib: u64, round: u64) {
    let begin = Instant::now();
    while error_of(client, Command::Write, mib, &content(mib, round)) != 0 {
        assert!(begin.elapsed() < PATIENCE, "the device has room, and writes still fail");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check_all(client: &mut Nbd, count: u64, rewritten: &[u64]) {
    for mib in 0..count {
        check(client, mib, if rewritten.contains(&mib) { &[0, 1] } else { &[0] });
    }
}

#[test]
fn while_the_buffer_is_full_writes_fail_and_reads_go_on() {
    let place = TestFolder::new();
    let (block, mut client) = start(&place);
    let full = fill(&place, "buffer");
    for mib in [1, 2, 1] {
        let error = error_of(&mut client, Command::Write, mib, &content(mib, 1));
        assert_eq!(error, NO_SPACE);
    }
    assert_eq!(error_of(&mut client, Command::Flush, 0, &[]), 0, "what was taken is durable");
    check_all(&mut client, WELL, &[1, 2]);
    check_ready(
        &block,
        "the buffer device takes no writes; is it full? writes fail with ENOSPC until it does; \
         reads go on\n",
    );
    assert_eq!(metric(block.admin, "zonal_block_read_only{tier=\"buffer\"}"), 1);
    assert_eq!(metric(block.admin, "zonal_block_failed"), 0);
    let viewer = Viewer::connect(block.admin);
    assert_eq!(viewer.document["ready"], false);
    assert_eq!(viewer.document["trouble"][0]["alert"], "ZonalBlockReadOnly");
    assert_eq!(viewer.document["tiers"]["buffer"]["read_only"], true);
    assert!(block.process.log().contains("the buffer device takes no writes"));

    fs::remove_file(&full).unwrap();
    write_once_it_can_be(&mut client, 3, 1);
    check_ready(&block, "reads and writes are served\n");
    assert_eq!(metric(block.admin, "zonal_block_read_only{tier=\"buffer\"}"), 0);
    (4..WELL).for_each(|mib| write(&mut client, mib, 0));
    check_all(&mut client, WELL, &[1, 2, 3]);
    drop(client);
    block.stop();
    let block = Block::start(&place, &WORDS);
    check_all(&mut block.client("disk"), WELL, &[1, 2, 3]);
    block.stop();
}

#[test]
fn while_the_capacity_is_full_writes_go_on_until_the_buffer_is_full_too() {
    let place = TestFolder::new();
    let (block, mut client) = start(&place);
    let full = fill(&place, "capacity");
    let mut taken = WELL;
    loop {
        match error_of(&mut client, Command::Write, taken, &content(taken, 0)) {
            0 => taken += 1,
            error => break assert_eq!(error, NO_SPACE),
        }
    }
    assert!((1..256).contains(&(taken - WELL)), "a buffer of 256 MiB took {}", taken - WELL);
    assert_eq!(error_of(&mut client, Command::Write, 0, &content(0, 1)), NO_SPACE);
    assert_eq!(error_of(&mut client, Command::Flush, 0, &[]), 0);
    check_all(&mut client, taken, &[0]);
    check_ready(
        &block,
        "the capacity device takes no writes; is it full? writes fail with ENOSPC as soon as the \
         buffer has no room; reads go on\n",
    );
    assert_eq!(metric(block.admin, "zonal_block_read_only{tier=\"capacity\"}"), 1);

    fs::remove_file(&full).unwrap();
    write_once_it_can_be(&mut client, taken, 0);
    (2..WELL).for_each(|mib| write(&mut client, mib, 0));
    check_all(&mut client, taken + 1, &[0]);
    assert_eq!(metric(block.admin, "zonal_block_halted"), 0);
    drop(client);
    block.stop();
    let block = Block::start(&place, &WORDS);
    check_all(&mut block.client("disk"), taken + 1, &[0]);
    block.stop();
}

#[test]
fn a_stop_while_a_device_is_full_loses_nothing_and_a_start_names_the_device() {
    for tier in ["buffer", "capacity"] {
        let place = TestFolder::new();
        let (block, mut client) = start(&place);
        let full = fill(&place, tier);
        let mut taken = WELL;
        while error_of(&mut client, Command::Write, taken, &content(taken, 0)) == 0 {
            taken += 1;
        }
        drop(client);
        let Block { mut process, .. } = block;
        process.terminate();
        let (code, log) = (process.wait().code(), process.log());
        assert_eq!(code, Some(1), "{log}");
        assert!(log.lines().last().unwrap().contains("takes no writes"), "{log}");

        let socket = place.socket();
        let words = [&["block", "--socket", socket.to_str().unwrap()][..], &WORDS].concat();
        let said = format!("{tier}: the {tier} device takes no writes: if it is full");
        check_failure(place.folder.path(), &words, (1, &said));
        fs::remove_file(&full).unwrap();
        let block = Block::start(&place, &WORDS);
        check_all(&mut block.client("disk"), taken, &[]);
        block.stop();
    }
}
