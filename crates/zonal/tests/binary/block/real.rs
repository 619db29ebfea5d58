//! Tests with real NBD clients. They run if `ZONAL_NBD_CLIENTS` is set, as in the stage `nbd` of
//! `cargo xtask ci`.

use std::process::{Command, Stdio};

use super::{Block, TestFolder};
use crate::harness::noise;

/// Runs a client and returns its output.
#[track_caller]
pub(super) fn run(place: &TestFolder, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).current_dir(&place.folder).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}\n{text}{errors}");
    text
}

/// The devices have one and a half times the size of the export, so all data is compacted and
/// garbage collected.
const WORDS: [&str; 6] = [
    "--capacity",
    "file:capacity?size=192MiB&zone=4MiB",
    "--buffer",
    "file:buffer?size=24MiB&zone=2MiB",
    "--export",
    "disk=128MiB",
];

#[test]
fn real_clients_find_what_they_wrote_also_after_a_restart() {
    if std::env::var_os("ZONAL_NBD_CLIENTS").is_none() {
        return;
    }
    let place = TestFolder::new();
    let uri = format!("nbd+unix:///disk?socket={}", place.socket().display());
    let block = Block::start(&place, &WORDS);
    let of_fio = format!("--uri={uri}");
    for (pattern, depth, blocks) in [
        ("randwrite", 64, "--bs=4k"),
        ("randwrite", 16, "--bsrange=4k-1m"),
        ("randrw", 64, "--bs=4k"),
        // fio sends a write right after the trim of the same blocks and expects this order of
        // execution.
        ("randtrimwrite", 1, "--bs=64k"),
    ] {
        let (pattern, depth) = (format!("--rw={pattern}"), format!("--iodepth={depth}"));
        let fixed = ["--size=128m", "--verify=crc32c", "--verify_fatal=1", "--fsync=64"];
        let words = ["fio", "--name=a", "--ioengine=nbd", &of_fio, &pattern, &depth, blocks];
        let said = run(&place, &[&words[..], &fixed].concat());
        assert!(said.contains("err= 0"), "{said}");
    }
    let mut image = noise(128 << 20, 3);
    image[40 << 20..70 << 20].fill(0);
    std::fs::write(place.folder.path().join("image"), &image).unwrap();
    run(&place, &["nbdcopy", "--flush", "image", &uri]);
    block.stop();

    let block = Block::start(&place, &WORDS);
    run(&place, &["qemu-img", "compare", "-f", "raw", "-F", "raw", "image", &uri]);
    run(&place, &["nbdcopy", &uri, "back"]);
    assert!(std::fs::read(place.folder.path().join("back")).unwrap() == image);
    let map = run(&place, &["nbdinfo", "--map", &uri]);
    assert!(map.contains("hole,zero"), "{map}");
    block.stop();
}
