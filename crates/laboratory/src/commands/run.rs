//! `zonal-lab run`: runs the experiments of a file.

use std::path::{Path, PathBuf};

use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::bench::Progress;
use zonal_lab::experiment::{Campaign, CampaignError, Experiments, File, Results, Shown};

use super::at_once;

/// Run the experiments of a file, in virtual time: a cache on the model of a drive, or jobs on a block device
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is TOML. Each key has a value or a list of values; every combination is an experiment. docs/lab.md has all keys, and
lab/experiments/ files to begin with.

A file with the key jobs is about a block device: jobs that write and read as those of fio, on a drive alone or on zonal block.

A trace is a workload as well, in all formats of zonal-lab trace: [workload] trace = \"w.oracleGeneral.bin.zst\", looked for beside
the file. Objects have their sizes; it is asked as fast as it goes, or with pace = \"1x\" as it was recorded.

With --out the folder has results.csv, results.json, figures (SVG) and report.html, which needs no other file; they are
the same whenever the same program makes them again, but for the date in the report. Runs that were done before,
by the same program, are taken from OUT/runs.

Examples: zonal-lab run lab/experiments/held-zone.toml
          zonal-lab run lab/experiments/held-zone.toml --out held-zone
          zonal-lab run my.toml --json > my.json")]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write tables, figures and a report to this folder, and keep there what each run gave
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at the same time; as many as the machine has cores unless it says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file);
    let text = text.map_err(|error| Failure::request(format!("{name}: {error}")))?;
    let file = File::parse(&text);
    let mut file = file.map_err(|error| Failure::request(format!("{name}: {error}")))?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    file.find_traces(folder).map_err(Failure::request)?;
    match file.experiments {
        Experiments::Caches(experiments) => run_all(args, file.title, experiments),
        Experiments::Jobs(experiments) => run_all(args, file.title, experiments),
    }
}

fn run_all<E: Shown>(args: &Args, title: String, experiments: Vec<E>) -> Result<(), Failure> {
    let campaign = Campaign {
        experiments,
        at_once: at_once(args.jobs),
        kept: args.out.as_ref().map(|folder| folder.join("runs")),
        commit: COMMIT.into(),
    };
    let done = campaign.run(&Progress::on_terminal()).map_err(|error| match error {
        // Includes a trace that breaks off, which shows only while it is read.
        CampaignError::Experiment(why) => Failure::Request(why),
        CampaignError::Kept(why) => Failure::Work(why),
    })?;
    let results = Results { title, done };
    if let Some(folder) = &args.out {
        results.write(folder).map_err(Failure::work)?;
        eprintln!("zonal-lab: the report is {}", folder.join("report.html").display());
    }
    if args.json { print::json(&results) } else { print::text(&results.to_string()) }
}
