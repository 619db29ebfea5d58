//! Tests of `zonal block`: start, NBD requests, shutdown, kill.

mod api;
mod crash;
mod damaged;
mod full;
mod linux;
mod lost;
mod real;
mod zoned;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::harness::{Process, check_failure, folder, metric, noise, run};
use crate::http::{self, Response};
use crate::metrics::{documented, exported};
use crate::nbd::{Command, Nbd};

/// Small devices, so that compaction and garbage collection start soon.
const DEVICES: [&str; 4] = [
    "--capacity",
    "file:capacity?size=128MiB&zone=4MiB",
    "--buffer",
    "file:buffer?size=16MiB&zone=2MiB",
];

/// A running `zonal block`.
pub(crate) struct Block {
    process: Process,
    socket: PathBuf,
    admin: SocketAddr,
}

impl Block {
    #[track_caller]
    pub(crate) fn start(place: &TestFolder, words: &[&str]) -> Self {
        let socket = place.socket();
        let fixed = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
        let words = [&fixed, words].concat();
        let process = Process::start(place.folder.path(), &words, "NBD has no authentication");
        let admin = process.address("--admin ", &['\n']);
        Self { process, socket, admin }
    }

    pub(crate) fn client(&self, export: &str) -> Nbd {
        Nbd::connect(&self.socket, export).unwrap()
    }

    fn ask(&self, path: &str) -> Response {
        http::get(self.admin, path).unwrap()
    }

    fn stats(&self, folder: &Path, words: &[&str]) -> Output {
        let admin = self.admin.to_string();
        run(folder, &[&["block", "stats", "--admin", &admin], words].concat())
    }

    fn scrub(&self, place: &TestFolder) -> Output {
        let admin = self.admin.to_string();
        run(place.folder.path(), &["block", "scrub", "--admin", &admin])
    }

    /// Sends SIGTERM, and expects exit code 0.
    #[track_caller]
    pub(crate) fn stop(self) {
        let Self { process, socket, .. } = self;
        process.stop();
        assert!(!socket.exists(), "its socket goes with it");
    }

    /// Sends SIGKILL.
    fn kill(self) {
        self.process.kill();
    }
}

/// A test folder, and a second one with a short path for the socket.
pub(crate) struct TestFolder {
    pub(crate) folder: TempDir,
    /// Unix socket paths have at most 107 bytes.
    sockets: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self { folder: folder(), sockets: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.sockets.path().join("nbd")
    }
}

#[test]
fn what_was_written_is_there_after_a_restart_and_exports_may_grow() {
    let place = TestFolder::new();
    let words = [&DEVICES[..], &["--export", "vm=32MiB", "--export", "db=8MiB,postgres"]].concat();
    let block = Block::start(&place, &words);
    let (mut vm, mut db) = (block.client("vm"), block.client("db"));
    assert_eq!((vm.size, db.size), (32 << 20, 8 << 20));
    let data = noise(3 << 20, 1);
    // A write that is not aligned to blocks.
    vm.carry_out(Command::Write, 12_345, &data).unwrap();
    db.carry_out(Command::Write, 0, &data[..8192]).unwrap();
    vm.ask(Command::Trim, 1, (1 << 20, 4096), &[]).unwrap();
    vm.answered().unwrap();
    vm.carry_out(Command::Flush, 0, &[]).unwrap();
    block.stop();

    let words = [&DEVICES[..], &["--export", "vm=40MiB"]].concat();
    let block = Block::start(&place, &words);
    let (mut vm, mut db) = (block.client("vm"), block.client("db"));
    assert_eq!(
        (vm.size, db.size),
        (40 << 20, 8 << 20),
        "exports stay, also when they are not named"
    );
    let mut expected = data.clone();
    expected[(1 << 20) - 12_345..][..4096].fill(0);
    assert!(vm.read(12_345, 3 << 20).unwrap() == expected);
    assert!(db.read(0, 8192).unwrap() == data[..8192]);
    assert!(vm.read(39 << 20, 1 << 20).unwrap() == vec![0; 1 << 20]);
    block.stop();
}

#[test]
fn one_device_and_a_model_of_a_drive_do_as_well() {
    for capacity in
        ["file:one?size=256MiB&zone=4MiB", "emulator:sn540?size=256MiB&zone=4MiB&backing=model"]
    {
        let place = TestFolder::new();
        let words = ["--capacity", capacity, "--export", "disk=64MiB"];
        for round in 0..2 {
            let block = Block::start(&place, &words);
            let mut client = block.client("");
            let data = noise(1 << 20, 7);
            if round == 0 {
                client.carry_out(Command::Write, 0, &data).unwrap();
            }
            assert!(client.read(0, 1 << 20).unwrap() == data, "{capacity}");
            block.stop();
        }
    }
}

/// Half of the L2P map fits in memory. The rest is on the buffer device if that has zones to spare.
#[test]
fn stats_tell_where_the_rest_of_a_bounded_map_lies() {
    let of = |devices: &[&str], lies: serde_json::Value| {
        let place = TestFolder::new();
        let words = ["--export", "vm=64MiB", "--map-memory", "32KiB"];
        let words = [devices, &words].concat();
        for round in 0..2 {
            let block = Block::start(&place, &words);
            let mut client = block.client("vm");
            for mib in (0..64).step_by(4) {
                if round == 0 {
                    client.carry_out(Command::Write, mib << 20, &noise(1 << 20, mib)).unwrap();
                }
                assert!(client.read(mib << 20, 1 << 20).unwrap() == noise(1 << 20, mib), "{mib}");
            }
            let told = block.stats(place.folder.path(), &["--json"]).stdout;
            let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
            assert_eq!(told["now"]["map_pages_on"], lies);
            let text = String::from_utf8(block.stats(place.folder.path(), &[]).stdout).unwrap();
            let said = format!(" of map pages on the {} device and ", lies.as_str().unwrap());
            assert!(text.contains(&said), "{text}");
            block.stop();
        }
    };
    let capacity = "file:capacity?size=256MiB&zone=4MiB";
    let buffer = "file:buffer?size=64MiB&zone=1MiB";
    of(&["--capacity", capacity, "--buffer", buffer], "buffer".into());
    of(&["--capacity", capacity], "capacity".into());
}

#[test]
fn stats_tell_what_users_and_devices_did() {
    let place = TestFolder::new();
    let block = Block::start(&place, &[&DEVICES[..], &["--export", "vm=64MiB"]].concat());
    let mut client = block.client("vm");
    for round in 0..10 {
        for mib in 0..8 {
            client.carry_out(Command::Write, mib << 20, &noise(1 << 20, round)).unwrap();
        }
    }
    client.carry_out(Command::Flush, 0, &[]).unwrap();
    let told = block.stats(place.folder.path(), &["--json"]).stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let tenant = &told["tenants"][0];
    assert_eq!(tenant["user_written_bytes"], 80 << 20);
    assert_eq!(tenant["stored_bytes"], 8 << 20);
    assert_eq!(told["exports"][0]["writes"], 80);
    assert_eq!(told["exports"][0]["connections_open"], 1);
    let to_buffer = told["devices"]["buffer_written_bytes"].as_u64().unwrap();
    assert!(80 << 20 < to_buffer && to_buffer < 84 << 20, "{told}");
    assert!(told["failure"].is_null());
    assert!(told["now"]["map_pages_on"].is_null());

    assert_eq!(metric(block.admin, "zonal_block_written_bytes_total{export=\"vm\""), 80 << 20);
    assert_eq!(metric(block.admin, "zonal_block_user_bytes_total{tenant=\"vm\""), 80 << 20);
    assert_eq!(metric(block.admin, "zonal_block_stored_bytes"), 8 << 20);
    assert_eq!(metric(block.admin, "zonal_block_zones{tier=\"buffer\""), 8);
    let text = block.ask("/metrics").text();
    let is_of_blocks = |title: &str| ["The block device", "The process"].contains(&title);
    assert_eq!(exported(&text), documented(is_of_blocks));

    let text = String::from_utf8(block.stats(place.folder.path(), &[]).stdout).unwrap();
    for row in [
        "users ",
        "buffer ",
        "compaction ",
        "collection ",
        "map ",
        "metadata ",
        "WAF ",
        "export vm (64MiB",
    ] {
        assert!(text.contains(row), "{row} is not in\n{text}");
    }
    block.stop();
}

#[test]
fn what_cannot_be_meant_or_done_is_refused_with_what_to_do() {
    let place = TestFolder::new();
    let folder = place.folder.path();
    let refused = |words: &[&str], expected| {
        check_failure(folder, &[&["block", "--listen", "127.0.0.1:0"], words].concat(), expected);
    };
    let with = |more: &[&'static str]| [&DEVICES[..], more].concat();
    refused(
        &["--buffer", "file:b?size=64MiB&zone=4MiB"],
        (2, "block.capacity: a buffer device needs"),
    );
    refused(&with(&["--export", "vm"]), (2, "block.exports: \"vm\": write NAME=SIZE"));
    refused(
        &with(&["--export", "a/b=1MiB"]),
        (2, "block.exports: \"a/b=1MiB\": invalid name \"a/b\""),
    );
    refused(
        &with(&["--export", "a=1000B"]),
        (2, "block.exports: \"a=1000B\": 1000B is not a multiple"),
    );
    refused(
        &with(&["--export", "a=4KiB", "--export", "a=8KiB"]),
        (2, "block.exports: \"a=8KiB\": duplicate export name"),
    );
    refused(&with(&["--export", "a=1TiB"]), (2, "the exports want 1TiB together"));
    refused(&with(&["--spare", "0%"]), (2, "block.spare: \"0%\": write a share from 1% to 90%"));
    refused(&with(&["--connections", "0"]), (2, "nbd.connections: \"0\": write a number"));
    refused(&with(&["--memory", "1MiB"]), (2, "block.memory: 1MiB is too small"));
    assert!(!folder.join("capacity").exists(), "nothing was made");

    fs::write(folder.join("capacity"), noise(128 << 20, 1)).unwrap();
    refused(&DEVICES, (2, "capacity: holds data that is not a Zonal block device"));
    fs::remove_file(folder.join("capacity")).unwrap();
    fs::write(folder.join("file"), "of somebody").unwrap();
    let words = [&["block", "--socket", "file"], &DEVICES[..]].concat();
    check_failure(folder, &words, (2, "cannot listen on file: "));

    let block = Block::start(&place, &with(&["--export", "vm=32MiB"]));
    let socket = block.socket.display().to_string();
    let words = [&["block", "--socket", &socket], &DEVICES[..]].concat();
    check_failure(folder, &words, (1, &format!("cannot listen on {socket}: ")));
    block.stop();
    refused(&with(&["--export", "vm=16MiB"]), (2, "the export \"vm\" is larger than that already"));
    refused(&["--capacity", DEVICES[1]], (2, ""));
    let cache =
        ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DEVICES[1]];
    check_failure(
        folder,
        &cache,
        (2, "capacity: holds data that is not a cache (a part of a Zonal block device"),
    );
}

/// Regression: the help listed these flags under "Log:".
#[test]
fn what_is_no_setting_stands_apart_from_them_in_the_help() {
    let folder = folder();
    for (words, flag) in [(&["block"][..], "--salvage"), (&["block", "format"], "--yes")] {
        let help = run(folder.path(), &[words, &["--help"]].concat()).stdout;
        let help = String::from_utf8(help).unwrap();
        assert!(help.find(flag) < help.find("Devices and exports:"), "{help}");
    }
}

#[test]
fn a_block_device_is_made_anew_only_when_its_loss_is_meant() {
    let place = TestFolder::new();
    let folder = place.folder.path();
    let words = [&DEVICES[..], &["--export", "vm=32MiB"]].concat();
    let block = Block::start(&place, &words);
    block.client("vm").carry_out(Command::Write, 0, &noise(4096, 1)).unwrap();
    block.stop();
    let format = [&["block", "format"], &words[..]].concat();
    check_failure(folder, &format, (2, "file:buffer?size=16MiB&zone=2MiB holds"));
    let formatted = run(folder, &[&format[..], &["--yes"]].concat());
    assert_eq!(String::from_utf8(formatted.stdout).unwrap(), "vm  32MiB  of tenant vm\n");
    let formatted = run(folder, &[&format[..], &["--yes", "--json"]].concat());
    let formatted: serde_json::Value = serde_json::from_slice(&formatted.stdout).unwrap();
    let made = serde_json::json!({ "name": "vm", "tenant": "vm", "size_bytes": 32 << 20 });
    assert_eq!(formatted, serde_json::json!({ "exports": [made] }));
    let block = Block::start(&place, &DEVICES);
    assert_eq!(block.client("vm").read(0, 4096).unwrap(), [0; 4096]);
    block.stop();
}

#[test]
fn a_socket_that_a_killed_process_left_is_taken_over() {
    let place = TestFolder::new();
    let words = [&DEVICES[..], &["--export", "vm=32MiB"]].concat();
    let block = Block::start(&place, &words);
    block.kill();
    assert!(place.socket().exists());
    Block::start(&place, &words).stop();
}
