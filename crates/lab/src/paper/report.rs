//! Report of a paper: published figures next to the results here.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Serialize;
use zonal_emulator::Model;

use super::ours::Ours;
use super::{Claim, Exhibit, Paper, Published, Variant, Verdict};
use crate::chart::Chart;
use crate::experiment::{Done, Run};

/// Results of a paper's experiments.
#[derive(Clone, Debug, Serialize)]
pub struct PaperReport {
    /// The paper.
    pub paper: Paper,
    /// Commit of the program that ran it.
    pub commit: String,
    /// Seed of every run.
    pub seed: u64,
    /// Drive models of the runs.
    pub drives: Vec<DriveModel>,
    /// Compared figures, in the order of the tables.
    pub cells: Vec<Cell>,
    /// Claims of the paper about the chosen tables, with verdicts.
    pub claims: Vec<Claim>,
    /// The paper's cache with and without its habits, if chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Tables of results without published numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exhibits: Vec<Exhibit>,
    /// The same drives and workloads under Zonal's defaults, if chosen.
    pub ours: Vec<Ours>,
    /// Charts. They are drawn and not printed.
    #[serde(skip)]
    pub(super) charts: Vec<Chart>,
    /// Notes on what is missing, scaled, fitted and assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Drive model of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveModel {
    /// Name of the model.
    pub name: String,
    /// Fingerprint of the model's constants ([`zonal_emulator::Model::fingerprint`]) in 16 digits.
    /// `zonal-lab characterize` prints the same.
    pub constants: String,
}

impl DriveModel {
    /// Models by name. Requires: the names exist.
    pub(super) fn named(names: &[&str]) -> Vec<Self> {
        let model = |name: &&str| {
            let model = Model::by_name(name).expect("a model");
            Self { name: (*name).into(), constants: format!("{:016x}", model.fingerprint()) }
        };
        names.iter().map(model).collect()
    }
}

/// A published figure and the result here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Number of the table, or `figure 6`.
    pub table: String,
    /// Name of the row.
    pub row: String,
    /// Name of the column.
    pub column: String,
    /// Unit of both values.
    pub unit: String,
    /// Published value.
    pub published: f64,
    /// Result here.
    pub value: f64,
}

impl Cell {
    pub(super) fn new(figure: &Published, value: f64) -> Self {
        Self {
            table: figure.table.into(),
            row: figure.row.into(),
            column: figure.column.into(),
            unit: figure.unit.into(),
            published: figure.value,
            value,
        }
    }

    /// Deviation from the published value, as a fraction of it.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.value / self.published - 1.0
    }
}

impl PaperReport {
    /// The common parts of a report. Requires: `done` are the runs of the paper.
    pub(super) fn new(paper: Paper, cells: Vec<Cell>, claims: Vec<Claim>, done: &[Done]) -> Self {
        let seed = done.first().map_or(0, |done| done.experiment.seed);
        Self::on(drives(done), paper, (cells, claims), (done, seed))
    }

    /// As [`PaperReport::new`], for runs of any kind on the given drives.
    pub(super) fn on<E: Run>(
        drives: Vec<DriveModel>,
        paper: Paper,
        (cells, claims): (Vec<Cell>, Vec<Claim>),
        (done, seed): (&[Done<E>], u64),
    ) -> Self {
        Self {
            paper,
            commit: done.first().map_or_else(String::new, |done| done.commit.clone()),
            seed,
            drives,
            cells,
            claims,
            variants: Vec::new(),
            exhibits: Vec::new(),
            ours: Vec::new(),
            charts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the exhibits of runs of another kind on these drives.
    pub(super) fn beside<E: Run>(
        mut self,
        exhibits: Vec<Exhibit>,
        (done, seed): (&[Done<E>], u64),
        drives: &[&str],
    ) -> Self {
        let Some(first) = done.first() else { return self };
        if self.commit.is_empty() {
            (self.commit, self.seed) = (first.commit.clone(), seed);
        }
        for drive in DriveModel::named(drives) {
            if !self.drives.contains(&drive) {
                self.drives.push(drive);
            }
        }
        self.exhibits.extend(exhibits);
        self
    }

    /// Draws the chosen figures as SVG files into a directory. Returns the paths.
    ///
    /// # Errors
    /// When the directory or a file cannot be written.
    pub fn draw(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let draw = |chart: &Chart| {
            let path = folder.join(format!("{}.svg", chart.file));
            chart.write_with_names_below(&path).map(|()| path)
        };
        self.charts.iter().map(draw).collect()
    }

    /// Number of cells within each deviation of `bounds`, and of all cells. `which` selects the
    /// cells.
    #[must_use]
    pub fn within(&self, bounds: &[f64], which: impl Fn(&Cell) -> bool) -> (Vec<usize>, usize) {
        let cells: Vec<&Cell> = self.cells.iter().filter(|cell| which(cell)).collect();
        let within =
            |bound: &f64| cells.iter().filter(|cell| cell.deviation().abs() <= *bound).count();
        (bounds.iter().map(within).collect(), cells.len())
    }
}

/// Drive models of the runs, without duplicates.
fn drives(done: &[Done]) -> Vec<DriveModel> {
    let mut drives: Vec<DriveModel> = Vec::new();
    for Done { experiment, .. } in done {
        let name = experiment.drive.to_string();
        if drives.iter().all(|known| known.name != name) {
            let constants = format!("{:016x}", experiment.drive.model().fingerprint());
            drives.push(DriveModel { name, constants });
        }
    }
    drives
}

/// Deviations for the count of cells. The goals are 15 % on the zoned drive and 30 % on the other.
const BOUNDS: [f64; 5] = [0.10, 0.15, 0.25, 0.30, 0.50];

impl fmt::Display for PaperReport {
    /// Writes the report as Markdown with aligned columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.cells.iter().map(|cell| cell.column.len());
        let width = widths.max().unwrap_or(0).max("column".len());
        let mut table = "";
        for cell in &self.cells {
            if cell.table != table {
                table = &cell.table;
                let name = match table.parse::<u32>() {
                    Ok(number) => format!("Table {number}"),
                    Err(_) => table.replacen('f', "F", 1),
                };
                writeln!(f, "\n{name}: {}\n", self.paper.title(table))?;
                writeln!(
                    f,
                    "| {:<19} | {:<width$} | unit  | {:>10} | {:>10} | {:>9} |",
                    "row", "column", "published", "here", "deviation"
                )?;
                writeln!(
                    f,
                    "| {:-<19} | {:-<width$} | ----- | {:->10} | {:->10} | {:->9} |",
                    "", "", ":", ":", ":"
                )?;
            }
            let (published, here) = (short(cell.published), short(cell.value));
            let deviation = format!("{:+.0} %", cell.deviation() * 100.0);
            let Cell { row, column, unit, .. } = cell;
            writeln!(
                f,
                "| {row:<19} | {column:<width$} | {unit:<5} | {published:>10} | {here:>10} | {deviation:>9} |"
            )?;
        }
        self.exhibits.iter().try_for_each(|exhibit| write!(f, "{exhibit}"))?;
        if !self.claims.is_empty() {
            writeln!(f, "\nWhat the paper says of them:\n")?;
            writeln!(f, "| claim | published | here | verdict |\n| --- | --- | --- | --- |")?;
        }
        for Claim { claim, published, here, verdict, why } in &self.claims {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            writeln!(f, "| {claim} | {published} | {here} | {verdict}{why} |")?;
        }
        if !self.cells.is_empty() {
            writeln!(f, "\nCells within 10, 15, 25, 30 and 50 % of what was published:\n")?;
        }
        for (name, prefix) in self.paper.groups() {
            let (within, all) = self.within(&BOUNDS, |cell| cell.row.starts_with(prefix));
            if 0 < all {
                let within: Vec<String> = within.iter().map(ToString::to_string).collect();
                writeln!(f, "- {name}: {} of {all}", within.join(", "))?;
            }
        }
        Variant::write_table(&self.variants, f)?;
        Ours::write_table(&self.ours, f)?;
        if !self.notes.is_empty() {
            writeln!(f, "\nNotes:\n")?;
        }
        for note in &self.notes {
            writeln!(f, "- {note}")?;
        }
        write!(f, "\nSeed {}, commit {}", self.seed, self.commit)?;
        for DriveModel { name, constants } in &self.drives {
            write!(f, ", {name} with constants {constants}")?;
        }
        writeln!(f, ".")
    }
}

/// Formats a value with three or four significant digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        value_abs if 100.0 <= value_abs => format!("{value:.0}"),
        value_abs if 10.0 <= value_abs => format!("{value:.1}"),
        value_abs if 1.0 <= value_abs => format!("{value:.2}"),
        value_abs if 0.01 <= value_abs => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::HoldsWeaker => "holds weaker",
            Self::DoesNotHold => "does not hold",
        })
    }
}
