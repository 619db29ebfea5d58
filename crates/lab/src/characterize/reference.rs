//! Reference tables: the runs, and the measured figures of the drive.
//!
//! The tables are in `crates/lab/reference`. Each begins with its source and the rule by which its
//! rows were chosen. They are compiled in, because a row also defines a run on any device.

use std::str::FromStr;

/// Reference of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// The same runs on a measured drive: a WD Ultrastar DC ZN540 1 TB, or the conventional drive
    /// beside it.
    #[default]
    Measured,
    /// No comparison.
    Nothing,
}

/// Zone capacity of the reference drive in blocks of 4 KiB, for rows with an occupancy in blocks.
pub(super) const ZONE_BLOCKS: u64 = 275_712;

macro_rules! table {
    ($name:ident, $file:literal) => {
        pub(super) fn $name() -> ReferenceTable {
            ReferenceTable::parse($file, include_str!(concat!("../../reference/", $file)))
        }
    };
}
table!(io_grid, "zn540/io_grid.csv");
table!(zone_management, "zn540/zone_management.csv");
table!(open_close, "zn540/open_close.csv");
table!(read_under_writes, "zn540/read_under_writes.csv");
table!(mixed_ratio, "zn540/mixed_ratio.csv");
table!(placement, "zn540/placement.csv");
table!(interference, "zn540/interference.csv");
table!(gc, "zn540/gc.csv");
table!(conventional_io_grid, "conventional/io_grid.csv");
table!(conventional_read_under_writes, "conventional/read_under_writes.csv");
table!(conventional_gc, "conventional/gc.csv");
table!(write_amplification, "conventional/write_amplification.csv");

/// Table: rows of text under named columns.
#[derive(Debug)]
pub(super) struct ReferenceTable {
    file: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

/// Row of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    table: &'a ReferenceTable,
    cells: &'a [&'static str],
}

impl ReferenceTable {
    /// Lines that begin with `#` are comments. The first other line names the columns. Quotes are
    /// not supported.
    ///
    /// # Panics
    /// The text is not such a table: a bug, because it is compiled in.
    fn parse(file: &'static str, text: &'static str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let columns: Vec<&str> = lines.next().expect("a table has a head").split(',').collect();
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == columns.len()), "{file}: cells missing");
        Self { file, columns, rows }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { table: self, cells })
    }
}

impl Row<'_> {
    pub(super) fn text(self, column: &str) -> &'static str {
        let at = self.table.columns.iter().position(|name| *name == column);
        at.map_or_else(|| panic!("{}: no column {column}", self.table.file), |at| self.cells[at])
    }

    pub(super) fn value<T: FromStr>(self, column: &str) -> T {
        let text = self.text(column);
        let file = self.table.file;
        text.parse().unwrap_or_else(|_| panic!("{file}: {column} of a row is {text:?}"))
    }

    /// `None` where the source has no figure: a 0 in the table.
    pub(super) fn figure(self, column: &str) -> Option<f64> {
        Some(self.value(column)).filter(|figure| *figure != 0.0)
    }

    pub(super) fn source(self) -> String {
        format!("{} {}", self.table.file, self.text("source"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(table: &ReferenceTable, rows: usize, columns: &[&str]) {
        assert_eq!(table.rows().count(), rows, "{}", table.file);
        for row in table.rows() {
            assert!(!row.text("source").is_empty());
            for column in columns {
                let figure: f64 = row.value(column);
                assert!(figure.is_finite() && 0.0 <= figure, "{}: {column}", table.file);
            }
        }
    }

    #[test]
    fn the_tables_hold_every_row_of_their_rules() {
        check(&io_grid(), 300, &["bs_bytes", "zones", "qd", "iops", "lat_mean_us", "p99_us"]);
        check(&zone_management(), 21, &["written_blocks", "mean_ms", "p99_ms"]);
        check(&open_close(), 13, &["mean_us", "p99_us"]);
        check(&read_under_writes(), 61, &["write_mib_s", "read_qd", "read_iops", "read_mean_us"]);
        check(&mixed_ratio(), 48, &["read_percent", "qd", "read_iops", "write_iops"]);
        check(&placement(), 90, &["write_share", "read_share", "read_mean_us", "write_mean_us"]);
        check(&interference(), 162, &["jobs", "depth", "management_per_s", "io_iops"]);
        for table in [gc(), conventional_gc()] {
            check(&table, 3, &["write_mean", "write_sd", "read_mean", "read_sd"]);
        }
        check(&conventional_io_grid(), 54, &["bs_bytes", "qd", "iops", "lat_mean_us", "p99_us"]);
        check(&conventional_read_under_writes(), 61, &["write_mib_s", "read_iops", "read_mean_us"]);
        check(&write_amplification(), 8, &["used_percent", "programmed_per_written"]);
    }

    #[test]
    fn a_figure_that_the_source_lacks_is_none() {
        let table = ReferenceTable::parse("t", "# why\na,b,source\n0,1.5,x/y\n");
        let row = table.rows().next().unwrap();
        assert_eq!((row.figure("a"), row.figure("b")), (None, Some(1.5)));
        assert_eq!(row.source(), "t x/y");
    }
}
