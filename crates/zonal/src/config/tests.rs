//! Configuration tests: the sample file, the layers, and the error for each mistake.

mod keys;
mod mistakes;
mod origins;
mod rules;
mod sample;

use std::path::PathBuf;

use clap::Parser;
use zonal_host::Freshness;

use super::{Config, ConfigError, Flags};

#[derive(Debug, Parser)]
struct TestArgs {
    #[command(flatten)]
    flags: Flags,
}

const REVALIDATE: Freshness = Freshness::Revalidate;

fn flags(words: &[&str]) -> Flags {
    TestArgs::try_parse_from([&["zonal"], words].concat()).unwrap().flags
}

fn load(words: &[&str]) -> Result<Config, ConfigError> {
    Config::of(&flags(words), &|_| None)
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("zonal.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// Checks the error for a file; the error text has FILE in place of its path.
#[track_caller]
fn check_file(text: &str, expected: &str) {
    let (_directory, path) = file(text);
    let said = load(&["--config", &path]).unwrap_err().to_string();
    assert_eq!(said.replace(&path, "FILE"), expected, "about {text:?}");
}

#[track_caller]
fn check_flags(words: &[&str], expected: &str) {
    assert_eq!(load(words).unwrap_err().to_string(), expected, "about {words:?}");
}

#[test]
fn what_a_running_process_cannot_change_is_named() {
    let before = load(&[]).unwrap();
    let same = ["--freshness", "immutable", "--keep-rule", "logs/=pin", "--chunk-rule", "a/=1MiB"];
    assert_eq!(before.fixed_that_differ(&load(&same).unwrap()), [""; 0]);
    for (words, key) in [
        (["--listen", "127.0.0.1:1"], "endpoint.listen"),
        (["--origin-retries", "7"], "origin (other than keys and CAs)"),
        (["--chunk", "64KiB"], "device"),
        (["--keep-pinned", "20%"], "keep.pinned"),
        (["--keep-pins-file", "other"], "keep.pins-file"),
        (["--limits-idle", "1s"], "limits"),
        (["--log-format", "json"], "log.format"),
        (["--access-log", "access.json"], "log.access"),
    ] {
        assert_eq!(before.fixed_that_differ(&load(&words).unwrap()), [key]);
    }
    let with_key = |key| {
        let keys = ["--origin-access-key", key, "--origin-secret-key", "s"];
        load(&[&["--origin", "s3:http://h"], &keys[..]].concat()).unwrap()
    };
    assert_eq!(with_key("a").fixed_that_differ(&with_key("b")), [""; 0]);
}
