//! A paper's tables beside what came out here.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Serialize;
use zonal_emulator::Model;

use super::ours::Ours;
use super::{Claim, Exhibit, Paper, Published, Variant, Verdict};
use crate::chart::Chart;
use crate::experiment::{Done, Run};

/// A paper's tables, run again.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The paper's number.
    pub paper: Paper,
    /// What the program was built from.
    pub commit: String,
    /// The seed of every run.
    pub seed: u64,
    /// The models of the drives.
    pub drives: Vec<DriveModel>,
    /// The figures, in the order of the tables.
    pub cells: Vec<Cell>,
    /// What the paper says follows from them, as far as its tables were asked for.
    pub claims: Vec<Claim>,
    /// The paper's cache with its habits and without, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// What has no published figures: those of the paper that print none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exhibits: Vec<Exhibit>,
    /// The same drives and workloads under Zonal's own defaults, if that was asked for.
    pub ours: Vec<Ours>,
    /// The figures that are drawn, and not told.
    #[serde(skip)]
    pub(super) charts: Vec<Chart>,
    /// What is missing, scaled, fitted and assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A model of a drive that was run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveModel {
    /// Its name.
    pub name: String,
    /// Its constants ([`zonal_emulator::Model::fingerprint`]), in 16 digits: those that `zonal-lab characterize` says of the model.
    pub constants: String,
}

impl DriveModel {
    /// Models by their names. Requires: there are such.
    pub(super) fn named(names: &[&str]) -> Vec<Self> {
        let model = |name: &&str| {
            let model = Model::by_name(name).expect("a model");
            Self { name: (*name).into(), constants: format!("{:016x}", model.fingerprint()) }
        };
        names.iter().map(model).collect()
    }
}

/// A figure, as published and as it came out here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The table's number, or `figure 6`.
    pub table: String,
    /// The row's name.
    pub row: String,
    /// The column's.
    pub column: String,
    /// Of both figures.
    pub unit: String,
    /// As published.
    pub published: f64,
    /// As it came out here.
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

    /// How far it is from what was published, as a part of that.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.value / self.published - 1.0
    }
}

impl Report {
    /// What all papers have alike. Requires: `done` are the runs of the paper.
    pub(super) fn new(paper: Paper, cells: Vec<Cell>, claims: Vec<Claim>, done: &[Done]) -> Self {
        let seed = done.first().map_or(0, |done| done.experiment.seed);
        Self::on(drives(done), paper, (cells, claims), (done, seed))
    }

    /// The same of runs that say themselves what they run on.
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

    /// The same with what runs of another kind, on these drives, showed beside it.
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

    /// Draws the figures that were chosen into this folder, as SVG, and names the files.
    ///
    /// # Errors
    /// When the folder or a file cannot be written.
    pub fn draw(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let draw = |chart: &Chart| {
            let path = folder.join(format!("{}.svg", chart.file));
            chart.write_with_names_below(&path).map(|()| path)
        };
        self.charts.iter().map(draw).collect()
    }

    /// Of the cells that `which` picks, how many are within each of these deviations, and how many there are.
    #[must_use]
    pub fn within(&self, bounds: &[f64], which: impl Fn(&Cell) -> bool) -> (Vec<usize>, usize) {
        let cells: Vec<&Cell> = self.cells.iter().filter(|cell| which(cell)).collect();
        let within =
            |bound: &f64| cells.iter().filter(|cell| cell.deviation().abs() <= *bound).count();
        (bounds.iter().map(within).collect(), cells.len())
    }
}

/// The models that were run on, each once.
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

/// Bounds that cells are counted by: the goals are 15 % on the drive with zones and 30 % on the other.
const BOUNDS: [f64; 5] = [0.10, 0.15, 0.25, 0.30, 0.50];

impl fmt::Display for Report {
    /// Markdown, aligned so that it can be read as it is.
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

/// Three or four digits that matter.
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
            Self::DeviceContents => "holds",
            Self::HoldsWeaker => "holds weaker",
            Self::DoesNotHold => "does not hold",
        })
    }
}
