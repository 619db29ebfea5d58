//! What came out here of a figure without printed numbers, or of an experiment that a paper only calls for: a table of our own.

use std::fmt;

use serde::Serialize;

use super::report::short;

/// A table without published figures beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exhibit {
    /// What it belongs to: `figure 10`.
    pub place: String,
    /// What it shows.
    pub title: String,
    /// What each column has, with its unit; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// In the order of the columns after the first.
    pub rows: Vec<Row>,
}

/// A row of an exhibit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// `None`: there is no such figure.
    pub values: Vec<Option<f64>>,
}

impl Exhibit {
    pub(super) fn new(place: &str, title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { place: place.into(), title: title.into(), columns, rows: Vec::new() }
    }

    /// Requires: a value for each column but the first.
    pub(super) fn push(&mut self, name: impl Into<String>, values: Vec<Option<f64>>) {
        assert_eq!(values.len() + 1, self.columns.len());
        self.rows.push(Row { name: name.into(), values });
    }
}

impl fmt::Display for Exhibit {
    /// Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.replacen('f', "F", 1);
        writeln!(f, "\n{place}: {}\n", self.title)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "| --- |{}", " ---: |".repeat(self.columns.len() - 1))?;
        self.rows.iter().try_for_each(|Row { name, values }| {
            let values = values.iter().map(|value| value.map_or_else(|| "-".into(), short));
            writeln!(f, "| {name} | {} |", values.collect::<Vec<_>>().join(" | "))
        })
    }
}
