//! Replay of paper 004 (CSAL): maps its runs to jobs, and checks its figures and claims.
//!
//! The paper is "A Media-Aware Cloud Storage Acceleration Layer (CSAL)" (Zhou and others, 2023).

use zonal_base::Bytes;

use super::{
    Cell, Choice, Claim, DriveModel, Paper, PaperReport, Published, Verdict, report::short, tenancy,
};
use crate::experiment::Done;
use crate::jobs::{JobOutcome, Jobs, Tenants, WriteOrder};

/// Scale factor of the drives alone, whose superblocks have 16 units. Smaller superblocks would be
/// emptied at almost no cost.
const DRIVE_SMALLER: u64 = 1024;

/// Scale factor of the block device.
const SHAPED_SMALLER: u64 = 2048;

/// Number of jobs, each on its own eighth of the device. `DEPTH` is the number of writes in flight
/// per job.
const JOBS: u64 = 8;
const DEPTH: u64 = 32;

/// Unused share of each drive, in percent.
const SPARE_PERCENT: u8 = 10;

/// Read rate that each job of Figure 9 asks for, per second.
const TARGET: Bytes = Bytes::mib(250);

/// A run of the paper: figure, and row in the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    figure: &'static str,
    row: &'static str,
}

impl Run {
    const fn of(published: &Published) -> Self {
        Self { figure: published.table, row: published.row }
    }

    /// Parameters of the run.
    fn jobs(self) -> Jobs {
        let (device, rest) = self.row.split_at(3);
        let (buffer, drive, smaller) = match device {
            "O+Q" => ("p5800x-optane", "p5316-qlc", SHAPED_SMALLER),
            "QLC" => ("none", "p5316-qlc", DRIVE_SMALLER),
            _ => ("none", "p5510-tlc", DRIVE_SMALLER),
        };
        let theta = || rest.strip_prefix(" zipf ").and_then(|theta| theta.parse().ok());
        let (write, order) = match self.figure {
            "figure 7" => (Bytes::kib(4), WriteOrder::Zipf(1.2)),
            "figure 8" => (Bytes::kib(64), theta().map_or(WriteOrder::Uniform, WriteOrder::Zipf)),
            _ => (Bytes::kib(4), WriteOrder::Uniform),
        };
        Jobs {
            jobs: JOBS,
            write,
            order,
            read: Bytes::kib(64),
            read_rate: if self.figure == "figure 9" { TARGET } else { Bytes(0) },
            depth: DEPTH,
            buffer: buffer.parse().expect("a model's name"),
            drive: drive.parse().expect("a model's name"),
            spare_percent: SPARE_PERCENT,
            smaller,
            seed: 1,
        }
    }
}

/// Published figures of the chosen places.
fn published(choice: &Choice) -> Vec<Published> {
    let mut figures = Published::of(Paper::Csal);
    figures.retain(|figure| choice.has(figure.table));
    figures
}

/// Runs for a choice, without duplicates.
pub(super) fn experiments(choice: &Choice) -> Vec<Jobs> {
    let mut experiments: Vec<Jobs> = Vec::new();
    for figure in published(choice) {
        let jobs = Run::of(&figure).jobs();
        if !experiments.contains(&jobs) {
            experiments.push(jobs);
        }
    }
    experiments
}

pub(super) fn report(
    choice: &Choice,
    done: &[Done<Jobs>],
    tenants: &[Done<Tenants>],
) -> PaperReport {
    let outcome = |run: Run| {
        let jobs = run.jobs();
        done.iter().find(|done| done.experiment == jobs).map(|done| &done.outcome)
    };
    let cells = published(choice).into_iter().filter_map(|figure| {
        let value = value(&figure, outcome(Run::of(&figure))?);
        Some(Cell::new(&figure, value))
    });
    let find = |figure, row| choice.has(figure).then(|| outcome(Run { figure, row })).flatten();
    let seed = done.first().map_or(0, |done| done.experiment.seed);
    let mut claims = claims(&find);
    claims.extend(tenancy::claims(tenants));
    let drives: &[&str] =
        if done.is_empty() { &[] } else { &["p5800x-optane", "p5316-qlc", "p5510-tlc"] };
    let drives = DriveModel::named(drives);
    let report = PaperReport::on(drives, Paper::Csal, (cells.collect(), claims), (done, seed));
    let drives = ["p5800x-optane", "zn540", "sn540"];
    let exhibits = tenancy::exhibits(tenants);
    let report = report.beside(exhibits, (tenants, tenancy::SEED), &drives);
    PaperReport { notes: notes(choice), ..report }
}

/// Value of a run in a column.
fn value(published: &Published, outcome: &JobOutcome) -> f64 {
    match published.column {
        "write" => outcome.write_rate() / JOBS as f64,
        "read" => outcome.read_rate() / JOBS as f64,
        _ => wear(published.row, outcome),
    }
}

/// Write amplification as the paper counts it: for CSAL the bytes that the drive receives, for a
/// drive the bytes that it programs.
fn wear(row: &str, outcome: &JobOutcome) -> f64 {
    match row.starts_with("O+Q") {
        true => outcome.amplification(),
        false => outcome.flash_amplification(),
    }
}

/// Notes on the chosen figures.
fn notes(choice: &Choice) -> Vec<String> {
    let mut notes = Vec::new();
    if !published(choice).is_empty() {
        let of_reads = match choice.has("figure 9") {
            true => format!(
                ", and in Figure 9 up to as many reads, {TARGET} a second; the paper says neither"
            ),
            false => "; the paper does not say it".into(),
        };
        notes.extend([
            format!(
                "scale: the drives alone are {DRIVE_SMALLER} times smaller, the block device {SHAPED_SMALLER} times; of zipf as many ranks are one block of the block device"
            ),
            "the drives' timing is a guess, not fitted to anything: their rates are not scored, and a rate says no more than what is slow beside what".into(),
            format!("assumed: {DEPTH} writes of each job under way{of_reads}"),
        ]);
    }
    if choice.has("figure 10") {
        notes.push(
            "Figure 10 prints no numbers, and does not say what its tenants write: the workloads are ours. The same writes come in the same order on each device, as much data on the SN540 as on its twin with zones".into(),
        );
    }
    notes
}

/// Title of a figure.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "figure 6" => "writes of 4 KiB, all blocks alike",
        "figure 7" => "writes of 4 KiB, zipf 1.2",
        "figure 8" => "writes of 64 KiB, zipf 0.8 and 1.2",
        _ => "writes of 4 KiB and reads of 64 KiB, all blocks alike",
    }
}

/// Claim, figure, the two compared rows, and the published ratio.
type Ratio = (&'static str, &'static str, [&'static str; 2], f64);

const RATES: [Ratio; 6] = [
    ("4 KiB, all alike: rate of O+Q over QLC", "figure 6", ["O+Q", "QLC"], 14.0),
    ("4 KiB, zipf 1.2: rate of O+Q over TLC", "figure 7", ["O+Q", "TLC"], 2.5),
    ("4 KiB, zipf 1.2: rate of O+Q over QLC", "figure 7", ["O+Q", "QLC"], 145.0),
    ("64 KiB, zipf 0.8: rate of O+Q over TLC", "figure 8", ["O+Q zipf 0.8", "TLC zipf 0.8"], 0.84),
    ("64 KiB, zipf 1.2: rate of O+Q over QLC", "figure 8", ["O+Q zipf 1.2", "QLC zipf 1.2"], 10.6),
    ("mixed: rate of writes of O+Q over QLC", "figure 9", ["O+Q", "QLC"], 18.0),
];

const WEAR: [Ratio; 6] = [
    ("4 KiB, all alike: amplification of O+Q over QLC", "figure 6", ["O+Q", "QLC"], 0.082),
    ("4 KiB, zipf 1.2: amplification of O+Q over TLC", "figure 7", ["O+Q", "TLC"], 0.23),
    ("4 KiB, zipf 1.2: amplification of O+Q over QLC", "figure 7", ["O+Q", "QLC"], 0.008),
    (
        "64 KiB, zipf 0.8: amplification of O+Q over QLC",
        "figure 8",
        ["O+Q zipf 0.8", "QLC zipf 0.8"],
        1.02,
    ),
    (
        "64 KiB, zipf 1.2: amplification of O+Q over TLC",
        "figure 8",
        ["O+Q zipf 1.2", "TLC zipf 1.2"],
        0.366,
    ),
    ("mixed: amplification of O+Q over QLC", "figure 9", ["O+Q", "QLC"], 0.087),
];

/// Claims of the paper whose runs are done.
fn claims<'a>(find: &dyn Fn(&'static str, &'static str) -> Option<&'a JobOutcome>) -> Vec<Claim> {
    let of = |(claim, figure, rows, published): Ratio, value: fn(&str, &JobOutcome) -> f64| {
        let [one, other] = rows;
        let here = value(one, find(figure, one)?) / value(other, find(figure, other)?);
        Some(of_ratio(claim, published, here))
    };
    let rates = RATES.into_iter().filter_map(|ratio| of(ratio, |_, outcome| outcome.write_rate()));
    rates.chain(WEAR.into_iter().filter_map(|ratio| of(ratio, wear))).collect()
}

/// Two devices count as equal when their ratio is this near to 1.
const ALIKE: f64 = 0.05;

fn of_ratio(claim: &str, published: f64, here: f64) -> Claim {
    let verdict = match here.ln() / published.ln() {
        _ if (published - 1.0).abs() <= ALIKE && (here - 1.0).abs() <= 2.0 * ALIKE => {
            Verdict::Holds
        }
        part if 0.5 <= part => Verdict::Holds,
        part if 0.0 < part => Verdict::HoldsWeaker,
        _ => Verdict::DoesNotHold,
    };
    let text = |ratio| format!("x {}", short(ratio));
    Claim {
        claim: claim.into(),
        published: text(published),
        here: text(here),
        verdict,
        why: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_of_the_figures_that_were_chosen() {
        let of = |figures: &[u32]| notes(&Choice { tables: Vec::new(), figures: figures.to_vec() });
        let [tenants] = &of(&[10])[..] else { panic!("one note: {:?}", of(&[10])) };
        assert!(tenants.starts_with("Figure 10 "), "{tenants}");
        let writes = of(&[6]);
        assert_eq!(writes.len(), 3);
        assert!(!writes.iter().any(|note| note.contains("Figure ")), "{writes:?}");
        assert!(of(&[9])[2].contains("in Figure 9"));
        assert_eq!(of(&[9, 10]), notes(&Choice::default()));
    }
}
