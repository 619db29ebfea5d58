//! Stages that run tools of the Python environment: S3 clients, attacks and the commands of the
//! pages against `zonal`, spelling and links.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, cargo};
use crate::setup;

/// Four clients without common code: boto3, the AWS command line, the C++ SDK and Rust's
/// object_store.
const FOUR: [&str; 4] = ["boto3", "aws", "pyarrow", "obstore"];

/// Real clients read and write through Zonal, and get the same results as without it.
pub(super) fn four(root: &Path) -> Outcome {
    let words = FOUR.map(|client| ["--client", client]);
    run(root, &["versitygw"], "clients/reads.py", words.as_flattened())
}

/// All other clients.
pub(super) fn others(root: &Path) -> Outcome {
    let words = FOUR.map(|client| ["--without", client]);
    run(root, &["versitygw"], "clients/reads.py", words.as_flattened())
}

/// The AWS SDKs for Java and JavaScript get cache hits; `make clients` includes Hadoop's S3A.
pub(super) fn sdks(root: &Path) -> Outcome {
    let words = ["--client", "java", "--client", "javascript"];
    run(root, &["versitygw", "sdks"], "clients/sdks.py", &words)
}

/// Each client reads and writes a little over HTTPS; `make clients` does it all.
pub(super) fn https(root: &Path) -> Outcome {
    run(root, &["versitygw", "openssl"], "clients/reads.py", &["--https", "--quick"])
}

/// One response is one version, while writers overwrite what readers read.
pub(super) fn writers(root: &Path) -> Outcome {
    run(root, &["versitygw"], "clients/writers.py", &[])
}

/// Faults of everything for a minute; `make soak-serve` takes half an hour.
pub(super) fn soak(root: &Path) -> Outcome {
    run(root, &[], "soak", &["--minutes", "1.2"])
}

/// Part of an S3 server's own suite; `make conformance` runs it all.
pub(super) fn conformance(root: &Path) -> Outcome {
    run(root, &["versitygw"], "clients/conformance.py", &["--core"])
}

/// The page at `/ui/` in a browser, before a simulation and before Zonal.
pub(super) fn ui(root: &Path) -> Outcome {
    let missing = ["node", "chromium", "playwright"].iter();
    if let Some(why) = missing.filter_map(|tool| setup::ready(root, tool).err()).next() {
        return Outcome::Skipped(why);
    }
    match cargo::build(root) {
        Outcome::Passed => {}
        other => return other,
    }
    let tests = ["--test", "--test-concurrency=1", "--test-reporter=spec"];
    let mut command = Command::new("node");
    command.args(tests).current_dir(root.join("tests/ui"));
    follow(command.env("ZONAL", cargo::binary(root)))
}

/// Commands of the pages that users meet first.
pub(super) fn docs(root: &Path) -> Outcome {
    run(root, &["curl", "nbdinfo", "openssl"], "docs", &[])
}

/// Attacks on authorization, some hundred; `make attacks` runs all, over three servers.
pub(super) fn attacks(root: &Path) -> Outcome {
    run(root, &["versitygw"], "attacks", &["--core", "--versitygw", ".tools/bin/versitygw"])
}

/// 150 damaged caches and block devices on files and conventional drives; `make damage` has zoned
/// drives as well.
pub(super) fn damage(root: &Path) -> Outcome {
    run(root, &[], "damage", &["--trials", "150", "--only", "*/[fc]*"])
}

/// Three nodes behind HAProxy: losing one costs only its share of the hits.
pub(super) fn nodes(root: &Path) -> Outcome {
    run(root, &["haproxy", "ip"], "clients/nodes.py", &[])
}

/// Memory with idle, slow and many clients, and origin requests under a crowd.
pub(super) fn memory(root: &Path) -> Outcome {
    run(root, &["openssl"], "clients/memory.py", &[])
}

/// Spell check (typos) of all files that git does not ignore; `typos.toml` lists accepted words.
pub(super) fn spelling(root: &Path) -> Outcome {
    match installed(root, "typos") {
        Ok(typos) => follow(Command::new(typos).current_dir(root)),
        Err(why) => Outcome::Skipped(why),
    }
}

/// Link check (lychee) of all pages, files and headings. Other hosts are not asked.
pub(super) fn links(root: &Path) -> Outcome {
    let lychee = match installed(root, "lychee") {
        Ok(lychee) => lychee,
        Err(why) => return Outcome::Skipped(why),
    };
    let options = ["--offline", "--include-fragments", "--no-progress", "--extensions", "md", "."];
    follow(Command::new(lychee).args(options).current_dir(root))
}

/// Path of a program that comes with the Python packages.
fn installed(root: &Path, program: &str) -> Result<PathBuf, String> {
    let python = root.join(setup::ready(root, "clients")?);
    let path = python.with_file_name(program);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{program} has no package for this machine"))
    }
}

/// Runs a script of the tests, if its tools are ready.
fn run(root: &Path, tools: &[&str], script: &str, words: &[&str]) -> Outcome {
    if let Some(why) = tools.iter().find_map(|tool| setup::ready(root, tool).err()) {
        return Outcome::Skipped(why);
    }
    let python = match setup::ready(root, "clients") {
        Ok(python) => root.join(python),
        Err(why) => return Outcome::Skipped(why),
    };
    match cargo::build(root) {
        Outcome::Passed => {}
        other => return other,
    }
    let mut command = Command::new(python);
    command.arg(root.join("tests").join(script)).arg("--zonal").arg(cargo::binary(root));
    command.args(words).current_dir(root).env("PYTHONUNBUFFERED", "1");
    follow(&mut command)
}

/// Runs a script and forwards its output. The last line is the reason for a skip.
fn follow(command: &mut Command) -> Outcome {
    let mut last = String::new();
    match cargo::follow(command, |line| line.clone_into(&mut last)) {
        Some(status) if status.code() == Some(CANNOT) => Outcome::Skipped(last),
        Some(status) if status.success() => Outcome::Passed,
        _ => Outcome::failed(),
    }
}

/// Exit code of a script that the machine does not allow to run.
const CANNOT: i32 = 77;
