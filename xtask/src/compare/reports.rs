//! Reports of the laboratory and the drive models, all in virtual time: equal seeds give equal
//! reports.
//!
//! A report is one command in its own folder. Its record has the command's output, then the written
//! files: text as it is, other files as length and hash.

use std::fs;
use std::path::Path;

use super::part::{self, Context};
use super::program::on_all_cores;

/// A trace that several reports read, and the command that writes it.
const TRACE: &str = "made.oracleGeneral.bin";
const MAKE_TRACE: &str =
    "make zipf:0.9 --keys 50000 --requests 300000 --out made.oracleGeneral.bin";
/// Experiments of `run`. The file is written to the report's folder.
const EXPERIMENT: &str = "experiment.toml";
const RUN: &str = "run experiment.toml --jobs 1 --out out";
const RUN_WRITES: &[&str] = &["out/results.csv", "out/results.json"];

/// A report.
struct Report {
    name: &'static str,
    arguments: &'static str,
    /// Text of [`EXPERIMENT`], or empty.
    experiment: &'static str,
    /// Files that the command writes.
    writes: &'static [&'static str],
}

/// The longest come first, so that no core waits long for the last. Each takes less than 20 CPU
/// seconds. To add one, add an entry.
const REPORTS: &[Report] = &[
    experiment("cache", include_str!("experiments/cache.toml")),
    Report {
        name: "paper-001-table-4",
        arguments: "paper 001 --table 4 --jobs 1",
        experiment: "",
        writes: &[],
    },
    experiment("block", include_str!("experiments/block.toml")),
    experiment("threads", include_str!("experiments/threads.toml")),
    printed(
        "drive-zoned",
        "characterize --device emulator:zn540 --all --effort 0.25 \
         --only io,zones,opening,under-writes,mixed,placement,garbage",
    ),
    printed(
        "drive-conventional",
        "characterize --device emulator:sn540 --all --effort 0.25 --only io,garbage,amplification",
    ),
    printed(
        "policies",
        "trace made.oracleGeneral.bin --capacity 256MiB,1GiB --policy flow,zone-fifo,zone-lru,\
         epoch,chunk-lru,region-fifo,region-lru,direct,zlru,zdrop,zlru+zdrop,lru,fifo,clock,sieve,\
         s3-fifo,arc,belady",
    ),
    printed("advice", "advise --trace made.oracleGeneral.bin --capacity 17GiB --jobs 1"),
    experiment("trace", include_str!("experiments/trace.toml")),
    experiment("chunk-cache", include_str!("experiments/chunk-cache.toml")),
    Report {
        name: "make-objects",
        arguments: MAKE_TRACE,
        experiment: "",
        writes: &["made.oracleGeneral.bin"],
    },
    Report {
        name: "make-keys",
        arguments: "make ycsb-scrambled --keys 10000 --requests 100000 --churn 20 --out y.u32le",
        experiment: "",
        writes: &["y.u32le"],
    },
    Report {
        name: "make-tree",
        arguments: "make uniform --btree --keys 1000000 --requests 50000 --out tree.u32le",
        experiment: "",
        writes: &["tree.u32le"],
    },
];

const fn experiment(name: &'static str, experiment: &'static str) -> Report {
    Report { name, arguments: RUN, experiment, writes: RUN_WRITES }
}

const fn printed(name: &'static str, arguments: &'static str) -> Report {
    Report { name, arguments, experiment: "", writes: &[] }
}

/// Writes a file for each report.
pub(super) fn record(context: &Context) -> Result<(), String> {
    let words: Vec<&str> = MAKE_TRACE.split(' ').collect();
    let mut make = context.programs.having(&words)?;
    context.programs.output(make.current_dir(&context.scratch))?;
    on_all_cores(REPORTS, |report| record_one(context, report))?;
    Ok(())
}

fn record_one(context: &Context, report: &Report) -> Result<(), String> {
    let folder = context.scratch.join(report.name);
    part::make_folder(&folder)?;
    if !report.experiment.is_empty() {
        part::write(&folder.join(EXPERIMENT), report.experiment)?;
    }
    if !report.writes.contains(&TRACE) {
        fs::hard_link(context.scratch.join(TRACE), folder.join(TRACE))
            .map_err(|error| format!("{TRACE}: {error}"))?;
    }
    let words: Vec<&str> = report.arguments.split(' ').collect();
    let mut command = context.programs.having(&words)?;
    let mut text = context.programs.output(command.current_dir(&folder))?;
    for name in report.writes {
        let written = file_text(&folder.join(name)).map_err(|why| format!("{name}: {why}"))?;
        text += &format!("\n== {name}\n{}", context.programs.without_commit(&written));
    }
    context.write(&format!("{}.txt", report.name), &text)
}

/// Text of a file; length and hash of a binary file.
fn file_text(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    let is_text = !bytes.contains(&0);
    let summary = format!("{} bytes, hash {:016x}\n", bytes.len(), part::hash(&bytes));
    Ok(String::from_utf8(bytes).ok().filter(|_| is_text).unwrap_or(summary))
}
