//! Development commands of the project: `cargo xtask ci`, `tidy`, `compare`, `record`, `setup`,
//! `release`, `package`, `dist`, `limit`, `test-zoned` and `zoned-f2fs`.
//!
//! Uses: `rustix` and `signal-hook` alone, so that it compiles in seconds.
//! Knows nothing of: how the crates work; it reads their text and runs `cargo` and built programs.
//! Read in this order: `ci`, `limit`, `libtest`, `tidy`, `rust_text`, `compare`, `setup`,
//! `release`, `package`, `dist`, `zoned`.

mod ci;
mod compare;
mod dist;
mod libtest;
mod limit;
mod package;
mod release;
mod rust_text;
mod setup;
mod tidy;
mod zoned;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--rest | STAGE...] [--keep-times]
                 the stages of `make test`, the others (`make test-all`), or those that are named; --keep-times adds what
                 they took to docs/results/gate-times.csv
  ci flaky [--times N]
                 runs the stage `tests` N times (3), and lists the tests that did not always pass
  stage NAME     one stage, without the limits that `ci` sets it
  limit [--cpu SECONDS] [--idle SECONDS] [--wall SECONDS] [--test SECONDS] COMMAND...
                 runs a command as `ci` runs a stage: over a limit it is killed with all that it started
                 (status 124)
  tidy           the checks of the text alone
  compare COMMIT [--seeds N]
                 what behaves otherwise than at COMMIT: histories of N seeds (1000), reports, golden
                 bytes, metrics, help and configurations
  record [--seeds N]
                 what `compare` writes down of the working tree, and where
  setup [--rest] the tools of `make test`, or of all stages: under .tools/, and Debian's packages with your consent
  release        target/shipped/zonal and zonal-lab, each with its symbols in a file beside it
  package [deb] [rpm] [archive] [image] [--target TRIPLE]
                 packages in target/dist (all kinds, or those that are named)
  dist TAG [--target TRIPLE]...
                 a release from a tag, in target/releases: packages, an archive for each target, sources, bills of
                 materials, notes, checksums
  test-zoned [KERNEL|DRIVE|SUITE...]
                 zoned drives under real kernels, in QEMU (all, or what is named)
  zoned-f2fs [TIMES]
                 a cache on a file of F2FS beside one on the same zoned drive, in QEMU, until each
                 has written what it holds so often (4)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match arguments.as_slice() {
        ["ci", "flaky", words @ ..] => ci::flaky(&root, words),
        ["ci", stages @ ..] => ci::run(&root, stages),
        ["stage", name] => ci::stage(&root, name),
        ["limit", words @ ..] => limit::command(words),
        ["release"] => exit_code(release::run(&root)),
        ["package", kinds @ ..] => exit_code(package::run(&root, kinds)),
        ["dist", words @ ..] => exit_code(dist::run(&root, words)),
        ["tidy"] => exit_code(tidy::run(&root)),
        ["setup"] => exit_code(setup::run(&root, ci::Tier::Test)),
        ["setup", "--rest"] => exit_code(setup::run(&root, ci::Tier::Rest)),
        ["compare", words @ ..] => compare::compare(&root, words),
        ["record", words @ ..] => compare::record(&root, words),
        ["test-zoned", names @ ..] => zoned::named(&root, names),
        ["zoned-f2fs", words @ ..] => zoned::compare_with_f2fs(&root, words),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Top of the checkout: the parent of this package's folder.
fn root() -> PathBuf {
    // The variable of this run: checkouts may share a target folder, so the compiled-in path may be
    // another checkout's.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Commit that is checked out, with its date, for pages of results.
fn commit(root: &Path) -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["log", "-1", "--format=%h of %cs"]) else {
        return "no commit".into();
    };
    // A run writes the file of stage times itself, so it does not count as a change.
    let changes = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        ":!docs/results/gate-times.csv",
    ];
    match git(&changes).as_deref() {
        Some("") => commit,
        _ => format!("{commit}, with changes"),
    }
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
