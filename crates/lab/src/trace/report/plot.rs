//! Replay plot: draws one panel per metric with one line per policy over the capacity.

use std::path::Path;

use super::{ReplayReport, ReplayRow};
use crate::chart::{Along, Chart, ChartLine, write_panels};

/// A metric of a row, with its name.
type Figure = (&'static str, fn(&ReplayRow) -> f64);

const FIGURES: [Figure; 4] = [
    ("miss ratio", |row| row.miss_ratio),
    ("byte miss ratio", |row| row.byte_miss_ratio),
    ("flash bytes per request", |row| row.flash_bytes_per_request),
    ("write amplification", |row| row.write_amplification),
];

impl ReplayReport {
    /// Draws the rows as an SVG file with four panels.
    ///
    /// # Errors
    /// When the file cannot be written; the text says why.
    pub fn write_plot(&self, path: &Path) -> Result<(), String> {
        let panels = FIGURES.map(|figure| self.panel(figure));
        write_panels(&panels, path).map_err(|why| format!("cannot write {}: {why}", path.display()))
    }

    fn panel(&self, (name, figure): Figure) -> Chart {
        let mut capacities: Vec<String> = self.rows.iter().map(ReplayRow::room).collect();
        capacities.dedup();
        let mut lines: Vec<ChartLine> = Vec::new();
        for row in &self.rows {
            let place = capacities.iter().position(|room| *room == row.room()).unwrap_or(0) as f64;
            let line = match lines.iter().position(|line| line.name == row.policy) {
                Some(known) => &mut lines[known],
                None => {
                    lines.push(ChartLine { name: row.policy.clone(), ..ChartLine::default() });
                    let last = lines.len() - 1;
                    &mut lines[last]
                }
            };
            line.here.push((place, figure(row)));
        }
        let along = Along::Places(capacities);
        Chart { file: "", title: name, x: "capacity", y: name, along, lines }
    }
}
