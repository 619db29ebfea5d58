//! Figures as they were published.

/// A figure of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The table's number.
    pub table: u32,
    /// The row's name.
    pub row: &'static str,
    /// The column's.
    pub column: &'static str,
    /// `ms` or `GiB/s`.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

/// "ZNCache - ZNS Workload Analysis".
const PAPER_000: &str = include_str!("../../data/paper000.csv");

impl Published {
    /// All figures of Tables 5 to 16 of "ZNCache - ZNS Workload Analysis", in their order.
    #[must_use]
    pub fn of_paper_000() -> Vec<Self> {
        let lines = PAPER_000.lines().filter(|line| !line.starts_with('#')).skip(1);
        lines.map(|line| Self::parse(line).expect("the file is a part of this program")).collect()
    }

    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        let table = next()?.parse().ok()?;
        let (row, column, unit) = (next()?, next()?, next()?);
        let value = next()?.parse().ok()?;
        Some(Self { table, row, column, unit, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_all_its_cells() {
        let published = Published::of_paper_000();
        for table in 5..=16 {
            let cells = published.iter().filter(|figure| figure.table == table).count();
            assert_eq!(cells, if table <= 10 { 32 } else { 8 }, "table {table}");
        }
        assert!(published.iter().all(|figure| 0.0 < figure.value));
    }
}
