//! Exhibit: results without published numbers to compare, as a table.

use std::fmt;

use serde::Serialize;

use super::report::short;

/// A table of results without published numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exhibit {
    /// Place in the paper: `figure 10`.
    pub place: String,
    /// Title of the table.
    pub title: String,
    /// Heading of each column, with its unit. The first column holds the row names.
    pub columns: Vec<String>,
    /// Rows, with values in the order of the columns after the first.
    pub rows: Vec<Row>,
}

/// Row of an exhibit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the row.
    pub name: String,
    /// Values. `None`: the row has no value in this column.
    pub values: Vec<Option<f64>>,
}

impl Exhibit {
    pub(super) fn new(place: &str, title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { place: place.into(), title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row. Requires: a value for each column except the first.
    pub(super) fn push(&mut self, name: impl Into<String>, values: Vec<Option<f64>>) {
        assert_eq!(values.len() + 1, self.columns.len());
        self.rows.push(Row { name: name.into(), values });
    }
}

impl fmt::Display for Exhibit {
    /// Writes the table as Markdown.
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
