//! `zonal characterize`: what a zoned drive costs, measured as a published study measured one.
//!
//! The drive is a model of one, in virtual time: the same seed prints the same report, on any machine.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::str::FromStr;

use zonal_emulator::{Forgetful, Profile, ZonedDrive};
use zonal_lab::characterize::{
    Comparison, Detail, Progress, Report, Settings, Table, VirtualTime, write_plots, zoned,
};

use super::print;
use crate::failure::Failure;

/// Measure what a zoned drive costs, and compare it with a drive that was measured
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Latency and throughput by size, depth and zones; opening, closing, reset and finish by occupancy; reads
under writes; interference; throughput under garbage collection. Beside each figure stands that of a
WD Ultrastar DC ZN540 1 TB. The model may have been fitted to the fit set, never to the test set.

Examples: zonal characterize --device emulator:zn540
          zonal characterize --device emulator:zn540 --json > report.json
          zonal characterize --device emulator:zn540 --plots figures --all")]
pub(crate) struct Args {
    /// The drive: emulator:zn540, or emulator:zn540?zones=64
    #[arg(long, value_name = "SPEC")]
    device: Emulated,
    /// Equal seeds, equal reports
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long each run is measured, as a multiple of the default; below 0.25 the runs are too short for percentiles
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    effort: f64,
    /// Compare with nothing: show every point
    #[arg(long)]
    no_reference: bool,
    /// Below the summary show every point, not only those that are off
    #[arg(long)]
    all: bool,
    /// Draw the figures as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// A drive that is a model.
#[derive(Clone, Debug)]
struct Emulated {
    /// As it was written.
    name: String,
    profile: Profile,
}

/// Fewer, and the runs across zones have nowhere to go.
const ZONES_MIN: u32 = 32;

impl FromStr for Emulated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write emulator:zn540, or emulator:zn540?zones=64";
        let rest = text.strip_prefix("emulator:").ok_or(WRITE)?;
        let (name, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut profile = match name {
            "zn540" => Profile::zn540(),
            _ => return Err(format!("there is no model {name:?}: {WRITE}")),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let zones = option.strip_prefix("zones=").and_then(|zones| zones.parse().ok());
            let most = profile.geometry.zone_count;
            profile.geometry.zone_count = zones
                .filter(|zones| (ZONES_MIN..=most).contains(zones))
                .ok_or_else(|| format!("{option:?}: write zones={ZONES_MIN} to zones={most}"))?;
        }
        Ok(Self { name: text.into(), profile })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !(0.01..=100.0).contains(&args.effort) {
        return Err(Failure::request("write --effort 0.01 to 100"));
    }
    let report = measure(args)?;
    if let Some(folder) = &args.plots {
        let written = write_plots(&report, folder).map_err(Failure::work)?;
        eprintln!("zonal: {} figures in {}", written.len(), folder.display());
    }
    if args.json {
        return print::json(&report);
    }
    let detail = if args.all || args.no_reference { Detail::All } else { Detail::Misses };
    print::text(&Table { report: &report, detail }.to_string())
}

fn measure(args: &Args) -> Result<Report, Failure> {
    let Emulated { name, profile } = args.device.clone();
    let mut drive = ZonedDrive::new(profile, args.seed, Box::new(Forgetful));
    let comparison = if args.no_reference { Comparison::Nothing } else { Comparison::Zn540 };
    let settings = Settings { effort: args.effort, comparison, ..Settings::new(name, args.seed) };
    let is_watched = std::io::stderr().is_terminal();
    let mut on_progress = |progress: &Progress| {
        if is_watched {
            let Progress { experiment, run, of } = progress;
            // Over what was there before, to the end of the line.
            eprint!("\r{experiment}: {run} of {of}\x1b[K");
        }
    };
    let report = zoned(&mut drive, &mut VirtualTime::default(), &settings, &mut on_progress);
    if is_watched {
        eprint!("\r\x1b[K");
    }
    report.map_err(Failure::work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_and_may_have_fewer_zones() {
        let zones = |text: &str| {
            text.parse::<Emulated>().map(|emulated| emulated.profile.geometry.zone_count)
        };
        assert_eq!(zones("emulator:zn540"), Ok(904));
        assert_eq!(zones("emulator:zn540?zones=64"), Ok(64));
        for wrong in ["zn540", "emulator:", "emulator:zn540?zones=1", "emulator:zn540?size=1GiB"] {
            assert!(zones(wrong).is_err_and(|why| why.contains("write ")), "{wrong}");
        }
    }
}
