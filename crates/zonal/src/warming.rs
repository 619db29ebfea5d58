//! What `zonal cache warm` and the admin endpoint say to each other: lists of objects, and reports.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use zonal_host::ObjectName;

/// Where a list is posted.
pub(crate) const PATH: &str = "/cache/warm";

/// Bytes of a list.
pub(crate) const LIST_BYTES_MAX: usize = 16 << 20;

/// Objects of a list. At about 1 KiB for each until the end, 100 MiB of memory.
pub(crate) const OBJECTS_MAX: usize = 100_000;

/// What is to be on flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) object: ObjectName,
    /// All of it, unless named.
    pub(crate) range: Option<Range<u64>>,
}

/// The lines of a list; empty ones do not count.
///
/// # Errors
/// The number of the first line that cannot be meant, and why.
pub(crate) fn parse_list(list: &str) -> Result<Vec<Wanted>, String> {
    let lines = list.lines().zip(1..).filter(|(line, _)| !line.is_empty());
    lines.map(|(line, n)| parse(line).map_err(|why| format!("line {n}: {why}"))).collect()
}

/// One line: `BUCKET/KEY`, or that, a tab, and `START-END`.
pub(crate) fn parse(line: &str) -> Result<Wanted, String> {
    let (name, range) = match line.split_once('\t') {
        Some((name, range)) => (name, Some(parse_range(range)?)),
        None => (line, None),
    };
    match name.split_once('/') {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
            Ok(Wanted { object: ObjectName::new(bucket, key), range })
        }
        _ => Err(format!("{name:?}: write BUCKET/KEY")),
    }
}

fn parse_range(range: &str) -> Result<Range<u64>, String> {
    let parts = range.split_once('-');
    let numbers = parts.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match numbers {
        Some((first, last)) if first <= last && last < u64::MAX => Ok(first..last + 1),
        _ => Err(format!("{range:?}: write START-END in bytes, as in 0-4095")),
    }
}

/// A line of the report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Object(Told),
    /// The last one.
    Sum(Sum),
}

/// What became of one object. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) name: String,
    /// Of what was asked for; 0 when that is not known.
    pub(crate) size: u64,
    /// Before anything was done for this line.
    pub(crate) was_on_flash: u64,
    /// Read because they were neither on flash nor in memory.
    pub(crate) fetched: u64,
    /// When its turn was over.
    pub(crate) on_flash: u64,
    /// Why not all of it is on flash.
    pub(crate) why: Option<String>,
}

/// What holds when the list is done: everything was looked up again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) objects: u64,
    /// Of them, all of what was asked for is on flash.
    pub(crate) objects_on_flash: u64,
    pub(crate) size: u64,
    pub(crate) was_on_flash: u64,
    pub(crate) fetched: u64,
    pub(crate) on_flash: u64,
    /// They had more on flash when their turn was over.
    pub(crate) objects_evicted: u64,
    pub(crate) evicted: u64,
}

impl Sum {
    /// Counts an object of which `on_flash` bytes are there at the end.
    pub(crate) fn add(&mut self, told: &Told, on_flash: u64, is_whole: bool) {
        self.objects += 1;
        self.objects_on_flash += u64::from(is_whole);
        self.size += told.size;
        self.was_on_flash += told.was_on_flash;
        self.fetched += told.fetched;
        self.on_flash += on_flash;
        let evicted = told.on_flash.saturating_sub(on_flash);
        self.objects_evicted += u64::from(0 < evicted);
        self.evicted += evicted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_object_in_each_line_and_maybe_a_range() {
        let wanted = |key, range| Wanted { object: ObjectName::new("b", key), range };
        let list = parse_list("b/a\n\nb/c d/e\t0-0\r\nb/f\t10-19").unwrap();
        assert_eq!(
            list,
            [wanted("a", None), wanted("c d/e", Some(0..1)), wanted("f", Some(10..20))]
        );
        assert_eq!(parse_list("\n").unwrap(), []);
    }

    #[test]
    fn a_line_that_cannot_be_meant_is_named() {
        let write = "write START-END in bytes, as in 0-4095";
        for (list, why) in [
            ("b/a\nb", "line 2: \"b\": write BUCKET/KEY".to_owned()),
            ("/a", "line 1: \"/a\": write BUCKET/KEY".to_owned()),
            ("\n\nb/", "line 3: \"b/\": write BUCKET/KEY".to_owned()),
            ("b/a\t", format!("line 1: \"\": {write}")),
            ("b/a\t5", format!("line 1: \"5\": {write}")),
            ("b/a\t5-4", format!("line 1: \"5-4\": {write}")),
            ("b/a\t-4", format!("line 1: \"-4\": {write}")),
            ("b/a\t0-18446744073709551615", format!("line 1: \"0-18446744073709551615\": {write}")),
        ] {
            assert_eq!(parse_list(list), Err(why), "{list:?}");
        }
    }

    #[test]
    fn what_is_no_longer_there_at_the_end_is_told() {
        let told = Told {
            name: "b/a".to_owned(),
            size: 10,
            was_on_flash: 2,
            fetched: 8,
            on_flash: 10,
            why: None,
        };
        let mut sum = Sum::default();
        sum.add(&told, 10, true);
        sum.add(&told, 7, false);
        assert_eq!((sum.objects, sum.objects_on_flash, sum.on_flash), (2, 1, 17));
        assert_eq!((sum.objects_evicted, sum.evicted), (1, 3));
    }
}
