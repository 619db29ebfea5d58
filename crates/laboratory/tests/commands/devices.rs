//! Devices that `zonal-lab bench` refuses with one line. Their contents stay.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::harness::{check_failure, folder, run};

#[test]
fn what_is_no_cache_is_not_written_over() {
    let folder = folder();
    let here = folder.path();
    let file = File::create(here.join("part")).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"somebody's", 1 << 20).unwrap();
    let before = fs::read(here.join("part")).unwrap();
    let shown = "at byte 1048576: \"somebody\\'s\\x00";
    let said = format!("part: holds data that is not a cache ({shown}");
    check_failure(here, &["bench", "--device", "file:part"], (2, &said));
    check_failure(here, &["bench", "--device", "file:part", "--format"], (2, &said));
    let output = run(here, &["bench", "--device", "file:part"]);
    let told = "or erase it: zonal device format 'file:part' --yes\n";
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.ends_with(told), "{said}");
    assert!(fs::read(here.join("part")).unwrap() == before, "nothing was written");
}

#[test]
fn a_device_that_cannot_serve_is_not_made() {
    let folder = folder();
    let here = folder.path();
    let too_few = "small: a shard would have 1 zone and needs 4: use fewer shards, a larger device (of a file write a larger size=) or smaller zones (zone=)";
    check_failure(here, &["bench", "--device", "file:small?size=64MiB"], (2, too_few));
    let none = "--shards must be at least 1";
    check_failure(here, &["bench", "--device", "file:x?size=1GiB", "--shards", "0"], (2, none));
    let whole = ["bench", "--device", "emulator:zn540"];
    check_failure(here, &whole, (2, "zn540: needs up to 950.79GiB of memory, and "));
    assert_eq!(fs::read_dir(here).unwrap().count(), 0);
}

#[test]
fn a_device_that_was_divided_otherwise_says_how_and_what_to_write() {
    let folder = folder();
    let here = folder.path();
    let spec = "file:flash?size=1GiB&zone=64MiB";
    let words = ["bench", "--device", spec, "--seconds", "0.1", "--keys", "1", "--shards"];
    let formatted = run(here, &[&words[..], &["3", "--format"]].concat());
    assert_eq!(formatted.status.code(), Some(0), "{formatted:?}");
    let said = format!(
        "flash: was formatted for 3 shards, not 2: write --shards 3, or omit --shards, or erase \
         it: zonal device format '{spec}' --yes --shards 2"
    );
    check_failure(here, &[&words[..], &["2"]].concat(), (2, &said));
}

#[test]
fn who_names_no_command_is_shown_which_there_are() {
    let output = run(folder().path(), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    assert!(said.contains("\nUsage: zonal-lab") && said.contains("\n  trace "), "{said}");
}
