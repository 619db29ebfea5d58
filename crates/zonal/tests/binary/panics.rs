//! Tests of panics: a bug in Zonal ends the process with its reason, instead of a process that
//! looks healthy but answers no request.

use std::fs;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;

use crate::block::{self, Block};
use crate::harness::{PATIENCE, TestFolder, finished, noise, zonal};
use crate::nbd::Command;
use crate::service_manager::{SERVING, ServiceManager};

/// A modelled drive that violates the device contract while the file asks for it. The engine
/// asserts the contract.
const DRIVE: &str = "emulator:p5800x-optane?size=256MiB&zone=8MiB&backing=drive&trouble=trouble";

/// The start formats this drive's zones in a task of the engine's executor.
const BLANK: &str = "emulator:zn540?zones=8&trouble=trouble";

const BLOCK: [&str; 6] = [
    "--capacity",
    "emulator:p5800x-optane?size=512MiB&zone=16MiB&backing=capacity",
    "--buffer",
    "emulator:p5800x-optane?size=256MiB&zone=16MiB&backing=buffer&trouble=trouble",
    "--export",
    "disk=64MiB",
];

const PANICKED: [&str; 2] = ["STOPPING=1", "STATUS=ended by a bug (a panic): see the log"];

/// Checks the traces of a panic for a supervisor: a distinct exit code, and the reason with its
/// location in the log and on the last line.
#[track_caller]
fn check_end(status: ExitStatus, log: &str, place: &str) {
    assert_eq!(status.code(), Some(101), "{log}");
    let last = log.lines().last().unwrap_or_default();
    assert!(last.starts_with("zonal: a bug in Zonal: ") && last.contains(place), "{log}");
    assert!(log.contains("please report it"), "{log}");
}

/// Regression: the shard's thread was gone, `/readyz` reported ready, and clients waited for ever.
#[test]
fn a_panic_of_a_shard_ends_the_process_with_its_reason() {
    let place = TestFolder::new();
    place.object("a", &noise(300_000, 1));
    place.object("b", &noise(300_000, 2));
    let manager = ServiceManager::listen(place.path());
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DRIVE];
    let more = ["--origin", "file:origin", "--shards", "1", "--dram", "0B", "--access-key", "a"];
    let words = [&words[..], &more, &["--secret-key", "secret-key"]].concat();
    let mut served = manager.start(place.path(), &words, "survives a restart");
    assert_eq!(manager.hears(), SERVING);
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let endpoint = served.address("serves S3 at http://", &[',']);
    let s3 = crate::http::S3::new(endpoint, "a", "secret-key");
    // The read data is written to flash, and the drive completes that write twice.
    let _ = s3.get("/bucket/a");
    check_end(served.wait(), &served.log(), "thread shard-0-0)");
    assert_eq!(manager.hears(), PANICKED);

    fs::remove_file(place.path().join("trouble")).unwrap();
    let served = place.start_on(DRIVE, &["--shards", "1"]);
    assert!(served.s3().get("/bucket/a").unwrap().body == noise(300_000, 1));
    served.stop();
}

/// Regression: the start waited for ever for a task that had panicked.
#[test]
fn a_panic_of_an_engines_task_ends_a_start() {
    let place = TestFolder::new();
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", BLANK];
    let more = ["--origin", "file:origin", "--shards", "1"];
    let output = finished(zonal(place.path()).args(words).args(more));
    check_end(output.status, &String::from_utf8(output.stderr).unwrap(), "zonelog/src/");
}

/// Regression: reads from memory continued, and every write waited for ever.
#[test]
fn a_panic_of_the_block_devices_engine_ends_the_process_and_nothing_acknowledged_is_lost() {
    let place = block::TestFolder::new();
    let manager = ServiceManager::listen(place.folder.path());
    let socket = place.socket();
    let words = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
    let words = [&words[..], &BLOCK].concat();
    let mut served = manager.start(place.folder.path(), &words, "NBD has no authentication");
    assert_eq!(manager.hears(), SERVING);
    let mut client = crate::nbd::Nbd::connect(&socket, "disk").unwrap();
    for mib in 0..4 {
        client.carry_out(Command::Write, mib << 20, &noise(1 << 20, mib)).unwrap();
    }
    fs::write(place.folder.path().join("trouble"), "breaks-contract").unwrap();
    let lost = client.carry_out(Command::Write, 4 << 20, &noise(1 << 20, 4));
    assert!(lost.is_err(), "the connection is gone");
    check_end(served.wait(), &served.log(), "thread main)");
    assert_eq!(manager.hears(), PANICKED);

    fs::remove_file(place.folder.path().join("trouble")).unwrap();
    let block = Block::start(&place, &BLOCK);
    let mut client = block.client("disk");
    for mib in 0..4 {
        assert!(client.read(mib << 20, 1 << 20).unwrap() == noise(1 << 20, mib), "{mib}");
    }
    block.stop();
}

/// A log pipe without a reader must not block the exit.
#[test]
fn a_log_that_nobody_reads_does_not_keep_the_process() {
    let place = TestFolder::new();
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    // The pipe is full, so every write to it blocks.
    let filler = writer.try_clone().unwrap();
    rustix::io::ioctl_fionbio(&filler, true).unwrap();
    while rustix::io::write(&filler, &[b'.'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&filler, false).unwrap();
    drop(filler);
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", BLANK];
    let more = ["--origin", "file:origin", "--log-level", "off"];
    let mut command = zonal(place.path());
    let mut child = command.args(words).args(more).stderr(writer).spawn().unwrap();
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait().unwrap()));
    let status = ended.recv_timeout(PATIENCE).expect("it ends");
    assert!(!status.success());
    drop(reader);
}
