//! Tests of a lost device: which requests still succeed, which fail, and that no acknowledged write
//! is lost once it is back.

use std::fs;
use std::time::{Duration, Instant};

use super::{Block, TestFolder};
use crate::harness::{PATIENCE, metric, noise};
use crate::nbd::{Command, Nbd};

/// Modelled drives that are offline while the files ask for it.
pub(super) const WORDS: [&str; 6] = [
    "--capacity",
    "emulator:p5800x-optane?size=1GiB&zone=64MiB&backing=capacity&trouble=capacity-trouble",
    "--buffer",
    "emulator:p5800x-optane?size=256MiB&zone=64MiB&backing=buffer&trouble=buffer-trouble",
    "--export",
    "disk=400MiB",
];

const MIB: u64 = 1 << 20;

/// MiB written before the fault: two and a half of the four buffer zones. Compaction then empties
/// the first.
pub(super) const WELL: u64 = 160;

/// EIO in the NBD protocol.
const FAILED: u32 = 5;

pub(super) fn content(mib: u64, round: u64) -> Vec<u8> {
    noise(1 << 20, mib << 8 | round)
}

#[track_caller]
pub(super) fn write(client: &mut Nbd, mib: u64, round: u64) {
    client.carry_out(Command::Write, mib * MIB, &content(mib, round)).unwrap();
}

/// NBD error of a request; 0: success.
#[track_caller]
pub(super) fn error_of(client: &mut Nbd, command: Command, mib: u64, data: &[u8]) -> u32 {
    let length = if command == Command::Read { 4096 } else { u32::try_from(data.len()).unwrap() };
    client.ask(command, 1, (mib * MIB, length), data).unwrap();
    let error = client.outcome().unwrap();
    if command == Command::Read && error == 0 {
        client.take(4096).unwrap();
    }
    error
}

/// Starts, writes, and waits until the first buffer zone has been compacted to the capacity device.
pub(super) fn start(place: &TestFolder) -> (Block, Nbd) {
    let block = Block::start(place, &WORDS);
    let mut client = block.client("disk");
    (0..WELL).for_each(|mib| write(&mut client, mib, 0));
    let begin = Instant::now();
    while metric(block.admin, "zonal_block_zones_reset_total{tier=\"buffer\"}") == 0 {
        assert!(begin.elapsed() < PATIENCE, "nothing is compacted");
        std::thread::sleep(Duration::from_millis(20));
    }
    (block, client)
}

#[track_caller]
pub(super) fn check(client: &mut Nbd, mib: u64, rounds: &[u64]) {
    let found = client.read(mib * MIB, 1 << 20).unwrap();
    let expected: Vec<Vec<u8>> = rounds.iter().map(|round| content(mib, *round)).collect();
    for (n, block) in found.chunks(4096).enumerate() {
        let is_of = |expected: &Vec<u8>| expected[n * 4096..][..4096] == *block;
        assert!(expected.iter().any(is_of), "block {n} of MiB {mib} is of none of {rounds:?}");
    }
}

#[test]
fn without_the_buffer_device_writes_fail_reads_go_on_and_all_is_there_when_it_is_back() {
    let place = TestFolder::new();
    let (block, mut client) = start(&place);
    let trouble = place.folder.path().join("buffer-trouble");
    fs::write(&trouble, "gone").unwrap();
    assert_eq!(error_of(&mut client, Command::Write, 1, &content(1, 1)), FAILED);
    assert_eq!(error_of(&mut client, Command::Flush, 0, &[]), FAILED);
    assert_eq!(
        error_of(&mut client, Command::Read, WELL - 1, &[]),
        FAILED,
        "it lies in the buffer"
    );
    check(&mut client, 0, &[0]);
    let ready = block.ask("/readyz");
    let said = "writes fail: the buffer device failed\n";
    assert_eq!((ready.status, ready.text().as_str()), (503, said));
    assert_eq!(metric(block.admin, "zonal_block_failed"), 1);
    assert!(block.process.log().contains("device lost"));
    block.kill();

    fs::remove_file(&trouble).unwrap();
    let block = Block::start(&place, &WORDS);
    let mut client = block.client("disk");
    for mib in 0..WELL {
        check(&mut client, mib, if mib == 1 { &[0, 1] } else { &[0] });
    }
    block.stop();
}

#[test]
fn without_the_capacity_device_writes_go_on_until_the_buffer_is_full_and_nothing_acknowledged_is_lost()
 {
    let place = TestFolder::new();
    let (block, mut client) = start(&place);
    let trouble = place.folder.path().join("capacity-trouble");
    fs::write(&trouble, "gone").unwrap();
    let (mut taken, mut told) = (WELL, None);
    while error_of(&mut client, Command::Write, taken, &content(taken, 0)) == 0 {
        taken += 1;
        if told.is_none() && metric(block.admin, "zonal_block_halted") == 1 {
            told = Some(block.ask("/readyz"));
        }
    }
    let told = told.expect("it is told before the buffer is full");
    let said = "compaction stopped, writes continue until the buffer is full: the capacity device \
                failed\n";
    assert_eq!((told.status, told.text().as_str()), (503, said));
    assert!((1..256).contains(&(taken - WELL)), "a buffer of 256 MiB took {}", taken - WELL);
    assert_eq!(error_of(&mut client, Command::Write, 0, &content(0, 1)), FAILED);
    assert_eq!(error_of(&mut client, Command::Flush, 0, &[]), 0, "what it took is in the buffer");
    check(&mut client, taken - 1, &[0]);
    assert_eq!(error_of(&mut client, Command::Read, 0, &[]), FAILED, "it is not there");
    let ready = block.ask("/readyz");
    let said = "writes fail: the capacity device failed\n";
    assert_eq!((ready.status, ready.text().as_str()), (503, said));
    block.kill();

    fs::remove_file(&trouble).unwrap();
    let block = Block::start(&place, &WORDS);
    let mut client = block.client("disk");
    for mib in 0..taken {
        check(&mut client, mib, if mib == 0 { &[0, 1] } else { &[0] });
    }
    block.stop();
}
