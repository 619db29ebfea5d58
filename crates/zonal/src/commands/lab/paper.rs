//! `zonal lab paper`: a paper's experiments at full drive size in virtual time.

use std::path::PathBuf;

use zonal_lab::bench::Progress;
use zonal_lab::experiment::Campaign;
use zonal_lab::paper::Report;

use super::super::print;
use super::at_once;
use crate::failure::Failure;

/// Run a paper's experiments again, at full drive size in virtual time: published | here | deviation
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Papers: 000, \"ZNCache - ZNS Workload Analysis\" (Ramsden and Cheng, 2025), Tables 5 to 16: chunks of 64 KiB, 256 MiB and
512 MiB, a ZNS drive and its block twin. The drives are the models zn540 and sn540; no constant of theirs
was fitted to a cache. docs/lab.md says how the runs are made, docs/results/papers.md what came out.

Every run takes one core and up to 3 GiB. With --keep a run that was done before, by the same program, is not run again.

Examples: zonal lab paper 000 --table 5
          zonal lab paper 000 --keep lab-000
          zonal lab paper 000 --keep lab-000 --ours
          zonal lab paper 000 --table 5,6 --json")]
pub(crate) struct Args {
    /// The paper's number
    #[arg(value_name = "NUMBER", value_parser = ["000"])]
    paper: String,
    /// These tables only, with commas between them
    #[arg(long = "table", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(5..=16))]
    tables: Vec<u32>,
    /// Also the same drives and workloads under Zonal's own defaults
    #[arg(long)]
    ours: bool,
    /// Keep what each run gave in this folder, and take from there what was run before
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Runs at the same time; as many as the machine has cores unless it says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let tables: Vec<u32> =
        if args.tables.is_empty() { (5..=16).collect() } else { args.tables.clone() };
    let campaign = Campaign {
        experiments: Report::experiments(&tables, args.ours),
        at_once: at_once(args.jobs),
        kept: args.keep.clone(),
        commit: zonal_sim::COMMIT.into(),
    };
    let done = campaign.run(&Progress::on_terminal()).map_err(Failure::work)?;
    let report = Report::of_paper_000(&tables, &done);
    if args.json { print::json(&report) } else { print::text(&report.to_string()) }
}
