//! `zonal-lab run`: runs the experiments of a file.

use std::path::{Path, PathBuf};

use zonal_base::Nanos;
use zonal_cache::Cache;
use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::bench::Progress;
use zonal_lab::experiment::{
    Campaign, CampaignError, Experiments, File, Results, Shown, Watchable,
};
use zonal_shaper::Shaper;

use super::at_once;
use crate::page::{self, Destination, RecordingArgs};
use crate::recording::{Recorded, Recorder};

/// Run experiments from a file in virtual time: a cache on a drive model, or jobs on a block device
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is TOML. Each key has a value or a list of values; every combination is an experiment. docs/lab.md lists all keys;
lab/experiments/ has sample files.

A file with the key jobs is for a block device: fio-like jobs on a drive alone, or on zonal block.

A trace can be the workload, in any format of zonal-lab trace: [workload] trace = \"w.oracleGeneral.bin.zst\" (relative to the
file). Objects have their recorded sizes. The trace is replayed as fast as possible, or as recorded with pace = \"1x\".

--out writes results.csv, results.json, figures (SVG) and report.html (self-contained). The same program writes the same
files again, except for the date in the report. Earlier results of the same program are reused from OUT/runs.

Examples: zonal-lab run lab/experiments/held-zone.toml
          zonal-lab run lab/experiments/held-zone.toml --out held-zone
          zonal-lab run my.toml --json > my.json
          zonal-lab run my.toml --ui")]
pub(crate) struct Args {
    /// Experiment file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output directory: tables, figures, a report, and the stored result of each run
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of parallel runs [without it: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recording: RecordingArgs,
}

const ONE_AT_A_TIME: &str = "--record and --ui show one experiment after the other: omit --jobs";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.jobs.is_some() && args.recording.is_asked() {
        return Err(Failure::request(ONE_AT_A_TIME));
    }
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file);
    let text = text.map_err(|error| Failure::request(format!("{name}: {error}")))?;
    let file = File::parse(&text);
    let mut file = file.map_err(|error| Failure::request(format!("{name}: {error}")))?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    file.find_traces(folder).map_err(Failure::request)?;
    match file.experiments {
        Experiments::Caches(experiments) => run_all::<_, Cache>(args, file.title, experiments),
        Experiments::Jobs(experiments) => run_all::<_, Shaper>(args, file.title, experiments),
    }
}

fn run_all<E: Shown + Watchable, R: Recorded>(
    args: &Args,
    title: String,
    experiments: Vec<E>,
) -> Result<(), Failure> {
    let destination = args.recording.destination()?;
    let campaign = Campaign {
        experiments,
        at_once: at_once(args.jobs),
        kept: args.out.as_ref().map(|folder| folder.join("runs")),
        commit: COMMIT.into(),
    };
    if let Some(to) = destination {
        return run_recorded::<E, R>(args, title, (&campaign, to));
    }
    let done = campaign.run(&Progress::shown()).map_err(failure)?;
    tell(args, &Results { title, done })
}

fn tell<E: Shown>(args: &Args, results: &Results<E>) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        results.write(folder).map_err(Failure::work)?;
        eprintln!("zonal-lab: the report is {}", folder.join("report.html").display());
    }
    if args.json { print::json(results) } else { print::text(&results.to_string()) }
}

/// Speed of the page at first: a minute of virtual time takes 6 s.
const SPEED: u32 = 10;

/// Runs the experiments one after the other, and records and shows them.
fn run_recorded<E: Shown + Watchable, R: Recorded>(
    args: &Args,
    title: String,
    (campaign, to): (&Campaign<E>, Destination),
) -> Result<(), Failure> {
    for experiment in &campaign.experiments {
        let recorded = experiment.check_watchable();
        recorded.map_err(|why| Failure::request(format!("--record and --ui: {why}")))?;
    }
    let recorder = Recorder::<R>::open(to.path())?;
    let page = to.show(recorder.growth(), SPEED)?;
    let (mut number, count) = (0, campaign.experiments.len());
    let watch = |experiment: &E| {
        let subject = experiment.subject();
        let what = format!("{title}, experiment {} of {count}: {subject}", number + 1);
        number += 1;
        let watched = recorder.watch(subject);
        watched.note(Nanos(0), format_args!("{what}"));
        watched
    };
    let done = campaign.run_watched(&Progress::shown(), watch);
    let (_in_use, recorded) = recorder.finish(done.as_ref().err().map(ToString::to_string));
    let told = done.map_err(failure).and_then(|done| tell(args, &Results { title, done }));
    page::end(page, told.and(recorded))
}

fn failure(error: CampaignError) -> Failure {
    match error {
        // Includes a trace that breaks off, which shows only while it is read.
        CampaignError::Experiment(why) => Failure::Request(why),
        CampaignError::Kept(why) => Failure::Work(why),
    }
}
