//! How many of the cells of each paper came out how near to what was published.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Paper, Report};
use crate::page;

/// A row for each paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scoreboard {
    /// In the order of the papers.
    pub papers: Vec<Row>,
    /// What the program was built from.
    pub commit: String,
}

/// The cells of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which paper.
    pub paper: Paper,
    /// Cells that are compared.
    pub cells: usize,
    /// Those within 10 % of what was published.
    pub within_10: usize,
    /// Those within 25 %.
    pub within_25: usize,
    /// Those within 50 %.
    pub within_50: usize,
    /// The others.
    pub not_reproduced: usize,
}

/// Between these lines of a page stands the scoreboard.
const BEGIN: &str = "<!-- written by zonal lab paper all --page: -->";
const END: &str = "<!-- end of what is written -->";

/// What the counts are.
const WHAT: &str = "How many cells of each paper's tables came out how near to what was published; a cell within 10 % is one within 25 and 50 % as well.";

const BOUNDS: [f64; 3] = [0.10, 0.25, 0.50];

impl Scoreboard {
    /// Of whole papers.
    #[must_use]
    pub fn of(reports: &[Report]) -> Self {
        let row = |report: &Report| {
            let (within, cells) = report.within(&BOUNDS, |_| true);
            let [within_10, within_25, within_50] = within[..] else {
                unreachable!("one for each bound")
            };
            let not_reproduced = cells - within_50;
            Row { paper: report.paper, cells, within_10, within_25, within_50, not_reproduced }
        };
        let reports: Vec<&Report> =
            reports.iter().filter(|report| !report.cells.is_empty()).collect();
        let commit = reports.first().map_or_else(String::new, |report| report.commit.clone());
        Self { papers: reports.into_iter().map(row).collect(), commit }
    }

    /// Puts the scoreboard into a page, in place of the one that is there.
    ///
    /// # Errors
    /// When the page cannot be read or written, or has no place for it.
    pub fn write(&self, page: &Path) -> Result<(), String> {
        let name = page.display();
        let cannot = |error: std::io::Error| format!("{name}: {error}");
        let text = fs::read_to_string(page).map_err(cannot)?;
        let text = self.put_into(&text).ok_or_else(|| {
            format!("{name}: write where it goes, in lines of their own: {BEGIN} and, below, {END}")
        })?;
        let half = page.with_added_extension("half");
        fs::write(&half, text).map_err(cannot)?;
        fs::rename(half, page).map_err(cannot)
    }

    /// Writes it as a page of HTML that needs no other file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_html(&self, path: &Path) -> Result<(), String> {
        let made =
            format!("<code>zonal lab paper all</code>, commit {}", page::escaped(&self.commit));
        let body = format!("<p>{}</p>\n{}", page::escaped(WHAT), page::table(&self.rows()));
        let text = page::page("Published experiments, run again", &body, &made);
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// As text; the first row has the names of the columns.
    fn rows(&self) -> Vec<Vec<String>> {
        let names =
            ["paper", "cells", "within 10 %", "within 25 %", "within 50 %", "not reproduced"];
        let row = |row: &Row| {
            let (number, title) = row.paper.name();
            let Row { cells, within_10, within_25, within_50, not_reproduced, .. } = row;
            let counts = [cells, within_10, within_25, within_50, not_reproduced];
            let counts = counts.into_iter().map(ToString::to_string);
            std::iter::once(format!("{number} {title}")).chain(counts).collect()
        };
        let names = names.map(ToOwned::to_owned).to_vec();
        std::iter::once(names).chain(self.papers.iter().map(row)).collect()
    }

    fn put_into(&self, text: &str) -> Option<String> {
        let (before, rest) = text.split_once(BEGIN)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n\n{self}\n{END}{after}"))
    }
}

impl fmt::Display for Scoreboard {
    /// Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.rows().iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if at == 0 {
                writeln!(f, "| --- |{}", " ---: |".repeat(row.len() - 1))?;
            }
        }
        writeln!(f, "\nCommit {}.", self.commit)
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
        let report = Report::new(Paper::ZnCache, cells, Vec::new(), &[]);
        let scoreboard = Scoreboard::of(&[report]);
        let Row { cells, within_10, within_25, within_50, not_reproduced, .. } =
            scoreboard.papers[0];
        let counts = [cells, within_10, within_25, within_50, not_reproduced];
        assert_eq!(counts, [5, 2, 3, 3, 2]);
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let written = scoreboard.put_into(&page).expect("there is a place");
        assert!(written.starts_with("above\n") && written.ends_with("\nbelow\n"), "{written}");
        assert!(written.contains("| 5 | 2 | 3 | 3 | 2 |") && !written.contains("old"));
        assert_eq!(scoreboard.put_into(&written).as_ref(), Some(&written));
        assert_eq!(scoreboard.put_into("no place"), None);
        let path =
            std::env::temp_dir().join(format!("zonal-scoreboard-{}.html", std::process::id()));
        scoreboard.write_html(&path).expect("it can be written");
        let html = fs::read_to_string(&path).expect("it is there");
        assert!(html.contains("<td>5</td><td>2</td><td>3</td><td>3</td><td>2</td>"), "{html}");
        fs::remove_file(path).expect("it was there");
    }
}
