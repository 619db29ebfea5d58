//! `zonal-lab paper`: repeats the experiments of a paper at full drive size in virtual time.

use std::path::PathBuf;
use std::str::FromStr;

use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::bench::Progress;
use zonal_lab::experiment::Campaign;
use zonal_lab::paper::{Choice, Paper, PaperReport, Scoreboard};

use super::at_once;

/// Reproduce the experiments of a paper at full drive size in virtual time: published | here |
/// deviation
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Papers: 000, \"ZNCache - ZNS Workload Analysis\" (Ramsden and Cheng, 2025), Tables 5 to 16: chunks of 64 KiB, 256 MiB and
512 MiB, a ZNS drive and its block twin; Figures 3 to 7 and 72 to 79 as plots.
001, \"ZNSCCACHE: ZNS Based Chunk Cache\" (Ramsden, 2024), Tables 3 to 5 and Figures 3 to 8:
as coded, as described in the paper, with asynchronous zone finishes, with a spread of origin latency, and with 15 million
gets; and the chunks of a B-tree.
002, \"A Zoned Storage Optimized Flash
Cache on ZNS SSDs\" (Yang and others, 2023), Tables 1 and 2 and Figures 2 and 7 to 10: CacheLib on both drives, in place, a region in
a zone, in a file, regions moved and dropped.
003, \"Performance Characterization of NVMe Flash Devices with Zoned Namespaces (ZNS)\" (Doekemeijer, Tehrany and others,
2023): its five recommendations, the engine as it is and against each.
004, \"A Media-Aware Cloud Storage Acceleration Layer (CSAL) Cache Solution\" (Zhou and others, 2023), Figures 6 to 10: zonal
block on an Optane drive and a QLC drive, compared with the QLC drive and a TLC drive alone, scaled down; tenants in separate
zones.
all: a scoreboard of how many table cells of each paper are within 10 to 50 % of the published value. --page writes the
scoreboard into a page, also for a single paper; --html writes an HTML page for all papers.

The drives are the models zn540 and sn540, and guesses in paper 004; no constant of a model was fitted to a cache.
docs/lab.md describes the method, docs/results/papers.md the results.

Each run takes one core and up to 3 GiB of memory. With --keep, results of earlier runs by the same program are reused.

Examples: zonal-lab paper 000 --table 5
          zonal-lab paper 000 --figure 5,6,7 --plots figures
          zonal-lab paper 001 --figure 6,7
          zonal-lab paper 002 --table 1,2 --keep lab-papers
          zonal-lab paper 004 --figure 6,7
          zonal-lab paper 000 --keep lab-papers --ours
          zonal-lab paper 000 --table 5,6 --json
          zonal-lab paper all --keep lab-papers --page docs/results/papers.md")]
pub(crate) struct Args {
    /// Number of the paper, or all
    #[arg(value_name = "NUMBER")]
    papers: Papers,
    /// Tables to run, comma-separated [without it and --figure: all]
    #[arg(long = "table", value_name = "N", value_delimiter = ',')]
    tables: Vec<u32>,
    /// Figures to run, comma-separated
    #[arg(long = "figure", value_name = "N", value_delimiter = ',')]
    figures: Vec<u32>,
    /// Figure directory: draw the figures of paper 000 there as SVG files
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Run the same drives and workloads under Zonal's own defaults, too
    #[arg(long)]
    ours: bool,
    /// Page to update with the scoreboard of the chosen papers
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// HTML page to write with the scoreboard of all papers
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Result directory: store the result of each run, and reuse results of earlier runs
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Number of parallel runs [without it: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
enum Papers {
    One(Paper),
    All,
}

impl FromStr for Papers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::One).map_err(|why: String| format!("{why}, or all")),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let choice = Choice { tables: args.tables.clone(), figures: args.figures.clone() };
    match args.papers {
        Papers::One(_) if args.html.is_some() => {
            Err(Failure::request("--html needs the scoreboard: write zonal-lab paper all"))
        }
        Papers::One(_) if args.page.is_some() && choice != Choice::default() => {
            Err(Failure::request(
                "the scoreboard covers all tables and figures: omit --table and --figure",
            ))
        }
        Papers::One(paper) => {
            paper.check(&choice).map_err(Failure::request)?;
            check_plots(paper, &choice, args)?;
            let report = report(paper, &choice, args)?;
            let drawn = args.plots.as_deref().map(|folder| report.draw(folder));
            let drawn = drawn.transpose().map_err(Failure::work)?.unwrap_or_default();
            if let Some(page) = &args.page {
                let scoreboard = Scoreboard::of(std::slice::from_ref(&report));
                scoreboard.write(page).map_err(Failure::work)?;
            }
            if args.json {
                return print::json(&report);
            }
            let drawn = drawn.iter().map(|path| format!("drawn: {}\n", path.display()));
            print::text(&(report.to_string() + &drawn.collect::<String>()))
        }
        Papers::All if args.plots.is_some() => {
            Err(Failure::request("--plots needs one paper: write zonal-lab paper 000"))
        }
        Papers::All if choice != Choice::default() || args.ours => Err(Failure::request(
            "the scoreboard covers all tables and figures: omit --table, --figure and --ours",
        )),
        Papers::All => scoreboard(args),
    }
}

/// Creates the folder before hours of work, so that a bad path fails at once.
fn check_plots(paper: Paper, choice: &Choice, args: &Args) -> Result<(), Failure> {
    let is_of_tables = choice.figures.is_empty() && !choice.tables.is_empty();
    match (paper.has_charts(), &args.plots) {
        (true, None) if !choice.figures.is_empty() => Err(Failure::request(format!(
            "--figure: the figures of paper {paper} are drawn as files: add --plots DIR"
        ))),
        (false, Some(_)) => Err(Failure::request(format!(
            "--plots: the figures of paper {paper} are printed as tables: omit --plots"
        ))),
        (true, Some(_)) if is_of_tables => {
            Err(Failure::request("--plots: no figure is selected: add --figure, or omit --table"))
        }
        (true, Some(folder)) => std::fs::create_dir_all(folder)
            .map_err(|error| Failure::request(format!("--plots: {}: {error}", folder.display()))),
        _ => Ok(()),
    }
}

fn scoreboard(args: &Args) -> Result<(), Failure> {
    let reports = Paper::ALL.map(|paper| report(paper, &paper.scored(), args));
    let reports: Result<Vec<PaperReport>, Failure> = reports.into_iter().collect();
    let scoreboard = Scoreboard::of(&reports?);
    if let Some(page) = &args.page {
        scoreboard.write(page).map_err(Failure::work)?;
    }
    if let Some(path) = &args.html {
        scoreboard.write_html(path).map_err(Failure::work)?;
    }
    if args.json { print::json(&scoreboard) } else { print::text(&scoreboard.to_string()) }
}

fn report(paper: Paper, choice: &Choice, args: &Args) -> Result<PaperReport, Failure> {
    if args.ours && !paper.has_ours() {
        return Err(Failure::request(format!(
            "--ours: not available for paper {paper}: omit --ours"
        )));
    }
    let campaign = Campaign {
        experiments: Vec::new(),
        at_once: at_once(args.jobs),
        kept: args.keep.clone(),
        commit: COMMIT.into(),
    };
    let progress = Progress::shown();
    paper.run((choice, args.ours), &campaign, &progress).map_err(Failure::work)
}
