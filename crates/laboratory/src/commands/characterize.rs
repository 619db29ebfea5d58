//! `zonal-lab characterize`: measures the performance of a drive by the method of a published
//! study.
//!
//! The drive is a model in virtual time, for which equal seeds give equal reports on any machine,
//! or a real drive, which is overwritten.

mod anywhere;
mod real;
mod spec;

use std::io::IsTerminal;
use std::path::PathBuf;

use zonal_base::{Blocks, Bytes};
use zonal_cli::{Failure, print};
use zonal_emulator::{
    Basis, ConventionalDrive, ConventionalProfile, DiscardMedium, Model, OnReset, Profile,
    ZonedDrive,
};
use zonal_hostdev::DeviceLocation;
use zonal_lab::characterize::{
    Characterization, CharacterizeSettings, ExperimentGroup, Reference, RunProgress, Table,
    TableDetail, VirtualTime, conventional, memory, write_plots, zoned,
};

use anywhere::Anywhere;
use spec::{DriveUnderTest, Emulated};

/// Characterize a drive: latency, throughput and write amplification, compared with a measured
/// drive
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Measures latency and throughput by size, depth and zones; zone open, close, reset and finish by occupancy; reads under writes;
interference; throughput under garbage collection; on a drive without zones also its write amplification. Each figure is
compared with a measured drive: a WD Ultrastar DC ZN540 1 TB, or the conventional drive that was measured beside it. Models
may be fitted to the fit set, never to the test set. Models: zn540 (zoned), sn540; p5316-qlc, p5510-tlc and p5800x-optane are
guesses: use only their write amplification.

Files and block devices are measured in real time, as drives without zones: sequential writes, reads under writes, and 1.5
hours of random overwrites, or a share of this (--effort). All their data is overwritten. A missing file is created, and deleted
afterwards. Zoned drives (zns:) are measured in real time with the experiments of the zoned models. With append=on they use
zone appends, else writes at the write pointer.

Examples: zonal-lab characterize --device emulator:zn540
          zonal-lab characterize --device emulator:sn540
          zonal-lab characterize --device emulator:zn540 --json > report.json
          zonal-lab characterize --device emulator:zn540 --plots figures --all
          zonal-lab characterize --device block:/dev/nvme1n1 --effort 0.1
          zonal-lab characterize --device 'file:scratch?size=8GiB' --effort 0.02
          zonal-lab characterize --device 'zns:/dev/nvme0n2?append=on' --only zones,opening --effort 0.1")]
pub(crate) struct Args {
    /// Drive: emulator:MODEL, emulator:zn540?zones=64, file:PATH?size=SIZE, block:/dev/NAME or
    /// zns:/dev/NAME
    #[arg(long, value_name = "SPEC")]
    device: DriveUnderTest,
    /// Overwrite a file or block device without asking [without it: asks at a terminal, and refuses
    /// elsewhere]
    #[arg(long)]
    yes: bool,
    /// Random seed; equal seeds give equal reports
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Length of each run as a multiple of the default; below 0.25 the runs are too short for
    /// percentiles
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    effort: f64,
    /// Experiments to run: io, zones, opening, under-writes, mixed, placement, interference,
    /// garbage, amplification [without it: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = spec::experiment)]
    only: Vec<ExperimentGroup>,
    /// Show every point, without a comparison
    #[arg(long)]
    no_reference: bool,
    /// Show every point below the summary, not only those that deviate
    #[arg(long)]
    all: bool,
    /// Figure directory: draw the figures there as SVG files
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Selected experiments of a drive.
    fn chosen(&self, experiments: &[ExperimentGroup]) -> Result<Vec<ExperimentGroup>, Failure> {
        let is_chosen = |one: &&ExperimentGroup| self.only.is_empty() || self.only.contains(one);
        let chosen: Vec<_> = experiments.iter().filter(is_chosen).copied().collect();
        let names = spec::names(experiments);
        if chosen.is_empty() {
            return Err(Failure::request(format!(
                "{} has other experiments: {names}",
                self.device
            )));
        }
        Ok(chosen)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !(0.01..=100.0).contains(&args.effort) {
        return Err(Failure::request("write --effort 0.01 to 100"));
    }
    let report = measure(args)?;
    if let Some(folder) = &args.plots {
        let written = write_plots(&report, folder).map_err(Failure::work)?;
        eprintln!("zonal-lab: {} figures in {}", written.len(), folder.display());
    }
    if args.json {
        return print::json(&report);
    }
    let detail = if args.all || args.no_reference { TableDetail::All } else { TableDetail::Misses };
    print::text(&Table { report: &report, detail }.to_string())
}

fn measure(args: &Args) -> Result<Characterization, Failure> {
    let name = args.device.to_string();
    let is_watched = std::io::stderr().is_terminal();
    let mut on_progress = |progress: &RunProgress| {
        if is_watched {
            let RunProgress { experiment, run, of } = progress;
            // Overwrites the previous line on the terminal.
            eprint!("\r{experiment}: {run} of {of}\x1b[K");
        }
    };
    let comparison = if args.no_reference { Reference::Nothing } else { Reference::Measured };
    let constants = match &args.device {
        DriveUnderTest::Emulated(Emulated { model, .. }) => Some(model.fingerprint()),
        DriveUnderTest::Real(_) => None,
    };
    let settings = CharacterizeSettings {
        effort: args.effort,
        comparison,
        constants,
        ..CharacterizeSettings::new(name, args.seed, &[])
    };
    let report = match args.device.clone() {
        DriveUnderTest::Emulated(Emulated { model: Model::Zoned(profile), .. }) => {
            let experiments = args.chosen(&ExperimentGroup::ZONED)?;
            let settings = CharacterizeSettings { experiments, ..settings };
            measure_zoned(*profile, &settings, &mut on_progress)
        }
        DriveUnderTest::Emulated(Emulated { model: Model::Conventional(profile), .. }) => {
            measure_conventional(&profile, (args, settings), &mut on_progress)
        }
        DriveUnderTest::Real(spec) => {
            let is_zoned = matches!(spec.place, DeviceLocation::Zoned { .. });
            let of_kind = if is_zoned {
                &ExperimentGroup::ZONED[..]
            } else {
                &ExperimentGroup::CONVENTIONAL[..]
            };
            let settings = CharacterizeSettings { experiments: args.chosen(of_kind)?, ..settings };
            real::measure(&spec, args.yes, settings, &mut on_progress)
        }
    };
    if is_watched {
        eprint!("\r\x1b[K");
    }
    report
}

fn measure_zoned(
    profile: Profile,
    settings: &CharacterizeSettings,
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<Characterization, Failure> {
    let mut drive = ZonedDrive::new(profile, settings.seed, Box::new(DiscardMedium));
    zoned((&mut drive, memory()), &mut VirtualTime::default(), settings, on_progress)
        .map_err(Failure::work)
}

/// Size for measuring write amplification, which does not depend on the size. The time does.
const AMPLIFIED: Bytes = Bytes::mib(16 << 10);
const AMPLIFIED_ZONE: Blocks = Bytes::mib(1 << 10).blocks_ceil();

fn measure_conventional(
    profile: &ConventionalProfile,
    (args, settings): (&Args, CharacterizeSettings),
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<Characterization, Failure> {
    let is_guess = profile.drive.controller.basis == Basis::Guess;
    let (note, comparison, experiments) = match is_guess {
        true => (Some(A_GUESS), Reference::Nothing, &ExperimentGroup::CONVENTIONAL[..2]),
        false => (None, settings.comparison, &ExperimentGroup::CONVENTIONAL[..]),
    };
    let experiments =
        args.chosen(&[experiments, &[ExperimentGroup::WriteAmplification]].concat())?;
    let settings = CharacterizeSettings { note, model: profile.drive.name, ..settings };
    let mut run = |profile: ConventionalProfile, comparison, experiments: &[ExperimentGroup]| {
        let medium = Box::new(DiscardMedium);
        let drive = ConventionalDrive::new(profile, OnReset::Nothing, settings.seed, medium);
        let experiments = experiments.to_vec();
        let settings = CharacterizeSettings { comparison, experiments, ..settings.clone() };
        let mut clock = VirtualTime::default();
        conventional((&mut Anywhere(drive), memory()), &mut clock, &settings, on_progress)
            .map_err(Failure::work)
    };
    let is_amplification = |one: &ExperimentGroup| *one == ExperimentGroup::WriteAmplification;
    let (amplification, others): (Vec<_>, Vec<_>) =
        experiments.into_iter().partition(is_amplification);
    let mut report = run(profile.clone(), comparison, &others)?;
    if amplification.is_empty() {
        return Ok(report);
    }
    // The zones must cover the whole drive: unwritten blocks would act as spare space.
    let scaled = profile.clone().scaled_to(AMPLIFIED).with_zones_of(AMPLIFIED_ZONE);
    let amplified = run(scaled, settings.comparison, &amplification)?;
    report.points.extend(amplified.points);
    Ok(report)
}

/// Note above the figures of a drive that was not measured.
const A_GUESS: &str = "a guess without measurements: only the write amplification is compared";
