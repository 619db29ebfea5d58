//! Published figures, as the papers print them.

use super::Paper;

/// A number that a paper prints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Number of the table, or `figure 6`.
    pub table: &'static str,
    /// Name of the row.
    pub row: &'static str,
    /// Name of the column.
    pub column: &'static str,
    /// `ms`, `GiB/s`, `MOPM`, `%` or `WA`. Empty for a ratio or a count.
    pub unit: &'static str,
    /// Published value, in `unit`.
    pub value: f64,
}

impl Published {
    /// All published figures of a paper that are compared, in the paper's order.
    #[must_use]
    pub fn of(paper: Paper) -> Vec<Self> {
        let file = match paper {
            Paper::ZnCache => include_str!("../../data/paper000.csv"),
            Paper::ZnsCCache => include_str!("../../data/paper001.csv"),
            Paper::ZCacheLib => include_str!("../../data/paper002.csv"),
            // The drive model is fitted to this paper's figures and compared with them.
            Paper::Zns => return Vec::new(),
            Paper::Csal => include_str!("../../data/paper004.csv"),
        };
        let lines = file.lines().filter(|line| !line.starts_with('#')).skip(1);
        lines.map(|line| Self::parse(line).expect("the file is a part of this program")).collect()
    }

    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        let (table, row, column, unit) = (next()?, next()?, next()?, next()?);
        let value = next()?.parse().ok()?;
        Some(Self { table, row, column, unit, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_all_its_cells() {
        let count = |paper, table: &str| {
            let published = Published::of(paper);
            assert!(published.iter().all(|figure| 0.0 < figure.value));
            published.iter().filter(|figure| figure.table == table).count()
        };
        for table in 5..=16 {
            let cells = count(Paper::ZnCache, &table.to_string());
            assert_eq!(cells, if table <= 10 { 32 } else { 8 }, "table {table}");
        }
        let cells = ["3", "4", "5", "figure 6", "figure 8"];
        assert_eq!(cells.map(|table| count(Paper::ZnsCCache, table)), [10, 4, 16, 1, 2]);
        assert_eq!(["1", "2"].map(|table| count(Paper::ZCacheLib, table)), [36, 12]);
    }
}
