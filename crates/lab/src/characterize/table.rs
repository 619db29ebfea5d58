//! Report as text: the summary, then a table of reference, value and deviation by observation.

use std::collections::BTreeMap;
use std::fmt;

use super::{Characterization, Point};

/// Points that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableDetail {
    /// All points.
    All,
    /// Points outside their tolerance.
    Misses,
}

/// Text form of a report, through `Display`.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Report to display.
    pub report: &'a Characterization,
    /// Points to list below the summary.
    pub detail: TableDetail,
}

/// Observations of the paper, and the part of the system that each is a property of.
const OBSERVATIONS: [(u8, &str); 13] = [
    (1, "the LBA format matters (out of scope: blocks are 4 KiB here)"),
    (2, "SPDK is the fastest stack (host stage: its share is added to each run as stated)"),
    (3, "write and append throughput depends on the request size"),
    (4, "writes are faster than appends"),
    (5, "depth within a zone gives more IOPS than more zones do"),
    (6, "append throughput does not care which of the two it is"),
    (7, "in one zone reads scale best"),
    (8, "large requests reach the drive's limit either way"),
    (9, "opening and closing cost little"),
    (10, "reset and finish depend on the occupancy"),
    (11, "throughput is steady under writes (raw data win over the text)"),
    (12, "what resets and finishes do to I/O (raw data win over the text)"),
    (13, "what I/O does to resets and finishes (raw data win over the text)"),
];

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: BTreeMap<u8, Vec<&Point>> = BTreeMap::new();
        for point in &self.report.points {
            groups.entry(point.observation).or_default().push(point);
        }
        self.summary(f, &groups)?;
        for (number, what) in OBSERVATIONS {
            let points = groups.get(&number).map_or(&[][..], Vec::as_slice);
            self.group(f, (number, what), points)?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn summary(
        &self,
        f: &mut fmt::Formatter<'_>,
        groups: &BTreeMap<u8, Vec<&Point>>,
    ) -> fmt::Result {
        let Characterization { device, note, constants, seed, effort, points, skipped, .. } =
            self.report;
        write!(f, "{device}, ")?;
        if let Some(constants) = constants {
            write!(f, "constants {constants:016x}, ")?;
        }
        writeln!(f, "seed {seed}: {} points", points.len())?;
        if let Some(note) = note {
            writeln!(f, "{note}")?;
        }
        if self.report.is_too_short() {
            writeln!(
                f,
                "warning: at --effort {effort} the runs are too short: their 99th percentiles, and what a \
                 full write\nbuffer does to their means, are not the device's"
            )?;
        }
        if !skipped.is_empty() {
            writeln!(f, "not run, too few zones: {}", skipped.join(", "))?;
        }
        if points.iter().all(|point| point.reference.is_none()) {
            return Ok(());
        }
        writeln!(f, "{}\n", self.report.scores())?;
        for (number, what) in OBSERVATIONS {
            let points = groups.get(&number).into_iter().flatten();
            let verdicts: Vec<bool> = points.filter_map(|point| point.is_within()).collect();
            let within = verdicts.iter().filter(|is_within| **is_within).count();
            let counts = match verdicts.len() {
                0 => "-".into(),
                of => format!("{within} of {of}"),
            };
            writeln!(f, "  {counts:>12}  observation {number}: {what}")?;
        }
        Ok(())
    }

    fn group(
        &self,
        f: &mut fmt::Formatter<'_>,
        (number, what): (u8, &str),
        points: &[&Point],
    ) -> fmt::Result {
        let is_shown = |point: &Point| match self.detail {
            TableDetail::All => true,
            TableDetail::Misses => point.is_within() == Some(false),
        };
        let shown: Vec<&&Point> = points.iter().filter(|point| is_shown(point)).collect();
        if shown.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nobservation {number}: {what}")?;
        let (drive, here) = ("on the drive", "here");
        writeln!(f, "  {:<58} {drive:>13} {here:>13} {:<5} deviation", "", "")?;
        shown.into_iter().try_for_each(|point| line(f, point))
    }
}

fn line(f: &mut fmt::Formatter<'_>, point: &Point) -> fmt::Result {
    let Point { id, unit, reference, value, .. } = point;
    let drive = reference.map_or_else(|| "-".into(), figure);
    let (here, unit) = (figure(*value), *unit);
    let deviation = point.deviation().map_or_else(String::new, |share| {
        let mark = if point.is_within() == Some(false) { " !" } else { "" };
        format!("{:+.1} %{mark}", share * 100.0)
    });
    writeln!(f, "  {id:<58} {drive:>13} {here:>13} {unit:<5} {deviation}")
}

/// Four significant digits, or all digits before the point.
fn figure(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
