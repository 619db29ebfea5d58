//! Scoreboard: per paper, how many cells are how near to the published figures.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Paper, PaperReport};
use crate::page;

/// A row per paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scoreboard {
    /// Rows, in the order of the papers.
    pub papers: Vec<ScoreRow>,
}

/// Counts of a paper's cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreRow {
    /// The paper.
    pub paper: Paper,
    /// Compared cells.
    pub cells: usize,
    /// Cells within 10 % of the published value.
    pub within_10: usize,
    /// Cells within 25 % of the published value.
    pub within_25: usize,
    /// Cells within 50 % of the published value.
    pub within_50: usize,
    /// Cells further away than 50 %.
    pub not_reproduced: usize,
    /// Commit of the program that ran the paper.
    pub commit: String,
}

/// Lines of a page that enclose the scoreboard.
const BEGIN: &str = "<!-- written by zonal-lab paper all --page: -->";
const END: &str = "<!-- end of what is written -->";

/// Explanation above the table.
const WHAT: &str = "How many cells of each paper's tables came out how near to what was published; a cell within 10 % is one within 25 and 50 % as well.";

const BOUNDS: [f64; 3] = [0.10, 0.25, 0.50];

impl Scoreboard {
    /// Scoreboard of complete reports. Reports without cells are left out.
    #[must_use]
    pub fn of(reports: &[PaperReport]) -> Self {
        let row = |report: &PaperReport| {
            let (within, cells) = report.within(&BOUNDS, |_| true);
            let [within_10, within_25, within_50] = within[..] else {
                unreachable!("one for each bound")
            };
            let not_reproduced = cells - within_50;
            let (paper, commit) = (report.paper, report.commit.clone());
            ScoreRow { paper, cells, within_10, within_25, within_50, not_reproduced, commit }
        };
        let with_cells = reports.iter().filter(|report| !report.cells.is_empty());
        Self { papers: with_cells.map(row).collect() }
    }

    /// Writes the scoreboard into a page. Rows of the same papers are replaced, and others stay.
    ///
    /// # Errors
    /// When the page cannot be read or written, or lacks the two marker lines.
    pub fn write(&self, page: &Path) -> Result<(), String> {
        let name = page.display();
        let cannot = |error: std::io::Error| format!("{name}: {error}");
        let text = fs::read_to_string(page).map_err(cannot)?;
        let text = self.put_into(&text).ok_or_else(|| {
            format!(
                "{name}: mark the place for the scoreboard with two lines: {BEGIN} and, below it, \
                 {END}"
            )
        })?;
        let half = page.with_added_extension("half");
        fs::write(&half, text).map_err(cannot)?;
        fs::rename(half, page).map_err(cannot)
    }

    /// Writes the scoreboard as a self-contained HTML page.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_html(&self, path: &Path) -> Result<(), String> {
        let body = format!("<p>{}</p>\n{}", page::escaped(WHAT), page::table(&self.rows()));
        let made = "<code>zonal-lab paper all</code>";
        let text = page::page("Published experiments, run again", &body, made);
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Rows of text. The first row holds the column names.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |row: &ScoreRow| {
            let (number, title) = row.paper.name();
            let ScoreRow { cells, within_10, within_25, within_50, not_reproduced, commit, .. } =
                row;
            let counts = [cells, within_10, within_25, within_50, not_reproduced];
            let counts = counts.into_iter().map(ToString::to_string);
            let name = format!("{number} {title}");
            std::iter::once(name).chain(counts).chain([commit.clone()]).collect()
        };
        let names = COLUMNS.map(ToOwned::to_owned).to_vec();
        std::iter::once(names).chain(self.papers.iter().map(row)).collect()
    }

    fn put_into(&self, text: &str) -> Option<String> {
        let (before, rest) = text.split_once(BEGIN)?;
        let (old, after) = rest.split_once(END)?;
        let is_new = |line: &str| self.papers.iter().any(|row| line.starts_with(&begin(row.paper)));
        let is_row = |line: &&str| Paper::ALL.iter().any(|paper| line.starts_with(&begin(*paper)));
        let kept = old.lines().filter(is_row).filter(|line| !is_new(line)).map(ToOwned::to_owned);
        let [names, rows @ ..] = &self.rows()[..] else { unreachable!("names are there") };
        let mut lines: Vec<String> = kept.chain(rows.iter().map(|row| line(row))).collect();
        // Each line begins with the paper's number.
        lines.sort();
        let lines = format!("{}\n{}\n{}", line(names), rule(names), lines.join("\n"));
        Some(format!("{before}{BEGIN}\n\n{lines}\n\n{END}{after}"))
    }
}

const COLUMNS: [&str; 7] =
    ["paper", "cells", "within 10 %", "within 25 %", "within 50 %", "not reproduced", "commit"];

/// Start of a paper's line.
fn begin(paper: Paper) -> String {
    format!("| {} ", paper.name().0)
}

fn line(row: &[String]) -> String {
    format!("| {} |", row.join(" | "))
}

/// Line below the column names. Counts are right-aligned.
fn rule(names: &[String]) -> String {
    format!("| --- |{} --- |", " ---: |".repeat(names.len() - 2))
}

impl fmt::Display for Scoreboard {
    /// Writes the table as Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.rows().iter().enumerate() {
            writeln!(f, "{}", line(row))?;
            if at == 0 {
                writeln!(f, "{}", rule(row))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{Cell, Published};

    #[test]
    fn cells_are_counted_by_how_near_they_are() {
        let figure = Published::of(Paper::ZnCache)[0];
        let cell = |part: f64| Cell::new(&figure, figure.value * part);
        let cells = [1.0, 0.92, 1.2, 1.6, 0.0].map(cell).to_vec();
        let report = PaperReport::new(Paper::ZnCache, cells, Vec::new(), &[]);
        let scoreboard = Scoreboard::of(&[report]);
        let ScoreRow { cells, within_10, within_25, within_50, not_reproduced, .. } =
            scoreboard.papers[0];
        let counts = [cells, within_10, within_25, within_50, not_reproduced];
        assert_eq!(counts, [5, 2, 3, 3, 2]);
        let other = "| 001 another | 1 | 1 | 1 | 1 | 0 | c0ffee |";
        let page = format!("above\n{BEGIN}\nold\n{other}\n| 000 old | 1 |\n{END}\nbelow\n");
        let written = scoreboard.put_into(&page).expect("there is a place");
        assert!(written.starts_with("above\n") && written.ends_with("\nbelow\n"), "{written}");
        assert!(written.contains("| 5 | 2 | 3 | 3 | 2 |") && !written.contains("old"));
        // The other paper's row stays, below.
        let (first, _) = written.split_once(other).expect("it is still there");
        assert!(first.contains("| 000 ZNCache"), "{written}");
        assert_eq!(scoreboard.put_into(&written).as_ref(), Some(&written));
        assert_eq!(scoreboard.put_into("no place"), None);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scoreboard.html");
        scoreboard.write_html(&path).expect("it can be written");
        let html = fs::read_to_string(&path).expect("it is there");
        assert!(html.contains("<td>5</td><td>2</td><td>3</td><td>3</td><td>2</td>"), "{html}");
    }
}
