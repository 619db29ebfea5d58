//! Tests of refused commands: each prints one line with the reason before anything is changed.

use std::fs;
use std::net::TcpListener;

use crate::harness::{
    DEVICE, TestFolder, Zonal, check_failure, entries, finished, folder, run, zonal,
};

#[test]
fn a_request_that_cannot_be_meant_ends_with_2_and_changes_nothing() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("zonal.toml"), "[endpoint]\nlisten = '127.0.0.1:0'\nport = 9000\n")
        .unwrap();
    let from_file = ["serve", "--config", "zonal.toml"];
    check_failure(here, &from_file, (2, "zonal.toml: line 3: unknown field `port`"));
    let said = "device.policy: there is no policy \"lru\": write one of";
    check_failure(here, &["serve", "--policy", "lru"], (2, said));
    check_failure(here, &["serve", "--devise", "x"], (2, "unexpected argument '--devise'"));
    check_failure(
        here,
        &["serve", "--device", "flash"],
        (2, "device.spec: device \"flash\": write"),
    );
    check_failure(here, &["cerve"], (2, "unrecognized subcommand 'cerve'"));
    check_failure(here, &["inspect", "flash"], (2, "device \"flash\": write"));
    let one_address = ["serve", "--listen", "127.0.0.1:9100", "--admin", "127.0.0.1:9100"];
    check_failure(
        here,
        &one_address,
        (2, "admin.listen: 127.0.0.1:9100 conflicts with the S3 endpoint's"),
    );
    assert_eq!(entries(here), ["zonal.toml"]);
}

/// Regression: the error said that a subcommand was missing, but did not list the subcommands.
#[test]
fn who_names_no_command_is_shown_which_there_are() {
    let folder = folder();
    for (words, command) in [(&[][..], "serve"), (&["cache"], "warm"), (&["device"], "format")] {
        let output = run(folder.path(), words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{words:?}");
        assert!(said.contains("\nUsage: zonal"), "{words:?}: {said}");
        assert!(said.contains(&format!("\n  {command} ")), "{words:?}: {said}");
    }
}

#[test]
fn who_asks_for_a_command_of_the_other_program_is_told_its_name() {
    let folder = folder();
    for (words, command) in [
        (&["lab", "run", "x.toml", "--jobs", "1"][..], "zonal-lab run x.toml --jobs 1"),
        (&["lab"], "zonal-lab"),
        (&["sim", "--seed", "7", "--trace"], "zonal-lab sim --seed 7 --trace"),
        (&["bench", "--help"], "zonal-lab bench --help"),
        (&["characterize", "--device", "x"], "zonal-lab characterize --device x"),
    ] {
        let said = format!("this is a command of zonal-lab: {command}");
        check_failure(folder.path(), words, (2, &said));
    }
    let help = String::from_utf8(run(folder.path(), &["--help"]).stdout).unwrap();
    assert!(!help.contains("  lab") && !help.contains("  bench"), "{help}");
}

/// Regression: the prefetch window was silently limited to what the buffers allow.
#[test]
fn what_can_be_had_in_part_only_is_told() {
    let place = TestFolder::new();
    let words = ["--prefetch", "32MiB", "--buffers", "100MiB"];
    let zonal = place.start(&words);
    zonal.await_log("pinned_max_bytes");
    let log = zonal.log();
    let told =
        log.lines().find(|line| line.contains("prefetch limited: device.buffers is too small"));
    let told = told.unwrap_or_else(|| panic!("{log}"));
    assert!(told.contains("prefetch=32MiB ahead=16.66MiB buffers=100MiB"), "{told}");
    zonal.stop();
    let zonal = place.start(&["--prefetch", "32MiB", "--buffers", "192MiB"]);
    assert!(!zonal.log()[log.len()..].contains("device.prefetch"), "{}", zonal.log());
    zonal.stop();
}

#[test]
fn a_variable_counts_as_its_flag_does_and_a_misspelt_one_is_refused() {
    let folder = folder();
    for (name, value, expected) in [
        ("ZONAL_DEVICE_CHUNK", "1MB", "zonal: device.chunk: 1000000B: write a power of two"),
        ("ZONAL_DEVISE_CHUNK", "1MiB", "zonal: unknown environment variable ZONAL_DEVISE_CHUNK"),
    ] {
        let output = finished(zonal(folder.path()).arg("serve").env(name, value));
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(expected), "{said}");
    }
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn an_address_in_use_is_found_before_anything_is_made() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = format!("cannot listen on {address}: Address already in use");
    let why = |name: &str| {
        format!("{said} (os error 98): stop the process that uses it, or name another with {name}")
    };
    let endpoint = ["serve", "--listen", &address, "--admin", "127.0.0.1:0"];
    check_failure(folder.path(), &endpoint, (1, &why("--listen (endpoint.listen)")));
    let admin = ["serve", "--listen", "127.0.0.1:0", "--admin", &address];
    check_failure(folder.path(), &admin, (1, &why("--admin (admin.listen)")));
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let words =
        ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", "file/data"];
    check_failure(folder.path(), &words, (2, "cannot create the data directory file/data: "));
    let words = [&words[..5], &["--data-dir", "no/data"]].concat();
    let said = "cannot create the data directory no/data: No such file or directory (os error 2): \
                create its parent directory, or name another with --data-dir";
    check_failure(folder.path(), &words, (2, said));
    // Regression: the path was accepted while nothing in it was needed, and the first pin command
    // failed.
    let named =
        ["--device", DEVICE, "--origin", "file:.", "--access-key", "a", "--secret-key", "b"];
    check_failure(folder.path(), &[&words[..], &named].concat(), (2, said));
    assert_eq!(entries(folder.path()), ["file"]);
}

/// Regression: a failed start left a data directory with keys that no user had seen, and samples.
#[test]
fn a_start_that_fails_leaves_nothing_of_what_it_made() {
    let place = TestFolder::new();
    let first = place.start(&[]);
    let before = entries(place.path());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    // The start finds the device in use after it has created keys and samples.
    let words = [&serve[..], &["--device", DEVICE]].concat();
    check_failure(place.path(), &words, (1, "flash: in use"));
    assert_eq!(entries(place.path()), before);
    // Existing files are left alone.
    let data = place.path().join("zonal-data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("note"), "mine").unwrap();
    check_failure(place.path(), &words, (1, "flash: in use"));
    assert_eq!(entries(&data), ["note"]);
    first.stop();
    // Files of a successful start survive the failure of a later one.
    Zonal::start(place.path(), &[]).stop();
    let before = entries(&data);
    assert_eq!(before, ["credentials", "flash", "lock", "note", "origin"]);
    check_failure(
        place.path(),
        &[&serve[..], &["--origin", "file:no"]].concat(),
        (2, "origin folder no: "),
    );
    assert_eq!(entries(&data), before);
}

#[track_caller]
fn check_foreign(content: &[u8], position: usize, said: &str) {
    let place = TestFolder::new();
    let mut disk = vec![0; 64 << 20];
    disk[position..position + content.len()].copy_from_slice(content);
    let path = place.path().join("flash");
    fs::write(&path, &disk).unwrap();
    let spec = "file:flash?zone=8MiB";
    let words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--device",
        spec,
        "--origin",
        "file:origin",
        "--access-key",
        "a",
        "--secret-key",
        "b",
    ];
    let told = format!("flash: holds data that is not a cache ({said})");
    check_failure(place.path(), &words, (2, &told));
    let told = format!("{spec} holds data of another program: {said}: add --yes to erase it");
    check_failure(place.path(), &["device", "format", spec], (2, &told));
    assert!(fs::read(&path).unwrap() == disk, "what it held is as it was");
}

#[test]
fn a_device_with_something_else_on_it_is_left_alone() {
    check_foreign(b"\x53\xEF", 0x438, "an ext2, ext3 or ext4 file system");
    // btrfs leaves the first block of every zone blank.
    check_foreign(b"_BHRfS_M", 0x10040, "a btrfs file system");
    check_foreign(
        b"my thesis",
        8 << 20,
        "at byte 8388608: \"my thesis\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"",
    );
}

#[test]
fn a_device_in_use_is_refused_to_a_second_server() {
    let place = TestFolder::new();
    let _first = place.start(&[]);
    let words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--device",
        DEVICE,
        "--origin",
        "file:origin",
        "--access-key",
        "a",
        "--secret-key",
        "b",
    ];
    check_failure(place.path(), &words, (1, "flash: in use"));
}

#[test]
fn an_origin_that_is_not_there_is_named() {
    let folder = folder();
    let words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--device",
        DEVICE,
        "--origin",
        "file:nowhere",
        "--access-key",
        "a",
        "--secret-key",
        "b",
    ];
    check_failure(
        folder.path(),
        &words,
        (
            2,
            "origin folder nowhere: No such file or directory (os error 2): create it, or name \
             another",
        ),
    );
    assert_eq!(entries(folder.path()), [""; 0]);
}
