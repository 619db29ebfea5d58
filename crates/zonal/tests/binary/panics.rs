//! A bug in Zonal ends the process with its reason: it does not go on as one that answers nobody and looks well.

use std::fs;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;

use crate::block::{self, Block};
use crate::harness::{PATIENCE, TestFolder, noise, zonal};
use crate::nbd::Command;
use crate::service_manager::{SERVING, ServiceManager};

/// Models of drives that break the contract of a device while the file says so: the engine asserts what they break.
const DRIVE: &str = "emulator:p5800x-optane?size=256MiB&zone=8MiB&backing=drive&trouble=trouble";

/// Of this one a start formats the zones that the drive says it has: in a task of the engine's executor.
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

/// What whoever looks after the process finds: an exit code of its own, and the reason with its place, in the log and on the
/// last line.
#[track_caller]
fn check_end(status: ExitStatus, log: &str, place: &str) {
    assert_eq!(status.code(), Some(101), "{log}");
    let last = log.lines().last().unwrap_or_default();
    assert!(last.starts_with("zonal: a bug in Zonal: ") && last.contains(place), "{log}");
    assert!(log.contains("please report it"), "{log}");
}

/// The shard's thread was gone, `/readyz` said that all is well, and clients waited for ever.
#[test]
fn a_panic_of_a_shard_ends_the_process_with_its_reason() {
    let place = TestFolder::new();
    place.object("a", &noise(300_000, 1));
    place.object("b", &noise(300_000, 2));
    let manager = ServiceManager::listen(place.path());
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DRIVE];
    let more = ["--origin", "file:origin", "--shards", "1", "--dram", "0B", "--access-key", "a"];
    let words = [&words[..], &more, &["--secret-key", "secret-key"]].concat();
    let mut served = manager.start(place.path(), &words, "Read an object twice");
    assert_eq!(manager.hears(), SERVING);
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let endpoint = served.address("AWS_ENDPOINT_URL=http://", &[' ', '\n']);
    let s3 = crate::http::S3::new(endpoint, "a", "secret-key");
    // What is read is written to flash, and that write is answered twice.
    let _ = s3.get("/bucket/a");
    check_end(served.wait(), &served.log(), "thread shard-0-0)");
    assert_eq!(manager.hears(), PANICKED);

    fs::remove_file(place.path().join("trouble")).unwrap();
    let served = place.start_on(DRIVE, &["--shards", "1"]);
    assert!(served.s3().get("/bucket/a").unwrap().body == noise(300_000, 1));
    served.stop();
}

/// A start that waited for a task that was no more.
#[test]
fn a_panic_of_an_engines_task_ends_a_start() {
    let place = TestFolder::new();
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", BLANK];
    let more = ["--origin", "file:origin", "--shards", "1"];
    let output = zonal(place.path()).args(words).args(more).output().unwrap();
    check_end(output.status, &String::from_utf8(output.stderr).unwrap(), "zonelog/src/");
}

/// Reads of what is in memory went on, and every write waited for ever.
#[test]
fn a_panic_of_the_block_devices_engine_ends_the_process_and_nothing_acknowledged_is_lost() {
    let place = block::TestFolder::new();
    let manager = ServiceManager::listen(place.folder.path());
    let socket = place.socket();
    let words = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
    let words = [&words[..], &BLOCK].concat();
    let mut served = manager.start(place.folder.path(), &words, "Whoever reaches it");
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

/// The end must not wait for whoever does not read the log.
#[test]
fn a_log_that_nobody_reads_does_not_keep_the_process() {
    let place = TestFolder::new();
    fs::write(place.path().join("trouble"), "breaks-contract").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    // Full: whatever is written to it waits.
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
