//! Test harness: runs `zonal-lab` in a folder per test.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Folder of a test, beside the build on a disk: temporary folders are often in memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Runs a command to its end.
pub(crate) fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal-lab"));
    command.current_dir(folder).stdin(Stdio::null()).args(words).output().unwrap()
}

/// Runs a command that prints one JSON document.
#[track_caller]
pub(crate) fn json(folder: &Path, words: &[&str]) -> Value {
    let output = run(folder, words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks that a command fails with `code`, prints nothing on standard output, and ends with one
/// error line that begins with `said`.
#[track_caller]
pub(crate) fn check_failure(folder: &Path, words: &[&str], (code, said): (i32, &str)) {
    let output = run(folder, words);
    let error = String::from_utf8(output.stderr).unwrap();
    // Warnings may precede.
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(output.status.code(), Some(code), "{words:?} said {error}");
    assert!(last.starts_with(&format!("zonal-lab: {said}")), "{words:?} said {error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "of {words:?}");
}
