//! Object lists, as sent by the `zonal cache` commands: one object or prefix per line.

use std::fmt;
use std::ops::Range;

use zonal_host::{ObjectName, PREFIX_BYTES_MAX};

/// Largest list, in bytes.
pub(crate) const LIST_BYTES_MAX: usize = 16 << 20;

/// Largest number of lines. Some commands keep about 1 KiB per object until the end: 100 MiB of
/// memory.
pub(crate) const OBJECTS_MAX: usize = 100_000;

/// The target of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListedName {
    Object(ObjectName),
    Part(ObjectName, Range<u64>),
    /// All objects below a prefix.
    Below(Prefix),
}

/// All object names in a bucket that begin with `prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.prefix)
    }
}

/// Second field of a line that names a prefix.
const BELOW: &str = "*";

/// Parses a list; empty lines are ignored.
///
/// # Errors
/// The number of the first invalid line, and the reason.
pub(crate) fn parse_list(list: &str) -> Result<Vec<ListedName>, String> {
    let lines = list.lines().zip(1..).filter(|(line, _)| !line.is_empty());
    lines.map(|(line, n)| parse(line).map_err(|why| format!("line {n}: {why}"))).collect()
}

/// Parses one line: `BUCKET/KEY`, or `BUCKET/KEY` + tab + `START-END`, or `BUCKET/PREFIX` + tab +
/// `*`.
pub(crate) fn parse(line: &str) -> Result<ListedName, String> {
    let (name, rest) = match line.split_once('\t') {
        Some((name, rest)) => (name, Some(rest)),
        None => (line, None),
    };
    if let Some(name) = name.strip_prefix("s3://") {
        return Err(format!("remove s3://: write {name}"));
    }
    match (name.split_once('/'), rest) {
        (Some((bucket, prefix)), Some(BELOW)) if !bucket.is_empty() => {
            match name.len() <= PREFIX_BYTES_MAX {
                true => {
                    let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
                    Ok(ListedName::Below(Prefix { bucket, prefix }))
                }
                false => Err(format!(
                    "a prefix is limited to {PREFIX_BYTES_MAX} bytes, this one has {}",
                    name.len()
                )),
            }
        }
        (_, Some(BELOW)) => {
            Err(format!("{name:?}: write BUCKET/PREFIX, or BUCKET/ for the whole bucket"))
        }
        (Some((bucket, key)), rest) if !bucket.is_empty() && !key.is_empty() => {
            let object = ObjectName::new(bucket, key);
            match rest {
                Some(range) => parse_range(range).map(|range| ListedName::Part(object, range)),
                None => Ok(ListedName::Object(object)),
            }
        }
        _ => Err(format!("{name:?}: write BUCKET/KEY")),
    }
}

/// The line of an argument: BUCKET/KEY, and a range after a tab.
///
/// # Errors
/// The object is invalid; the text says why.
pub(crate) fn line_of(object: &str) -> Result<String, String> {
    match object.contains(['\n', '\r']) {
        true => Err(format!("{object:?}: an object in a list cannot contain line ends")),
        false => parse(object).map(|_| format!("{object}\n")),
    }
}

/// Formats the line that names a prefix.
///
/// # Errors
/// The prefix is invalid; the text says why.
pub(crate) fn line_below(prefix: &str) -> Result<String, String> {
    let line = format!("{prefix}\t{BELOW}");
    match prefix.contains(['\n', '\t']) {
        true => Err(format!("{prefix:?}: a prefix in a list cannot contain tabs or line ends")),
        false => parse(&line).map(|_| line),
    }
}

fn parse_range(range: &str) -> Result<Range<u64>, String> {
    let parts = range.split_once('-');
    let numbers = parts.and_then(|(from, to)| Some((number(from)?, number(to)?)));
    match numbers {
        Some((first, last)) if first <= last && last < u64::MAX => Ok(first..last + 1),
        _ => Err(format!("{range:?}: write START-END in bytes, as in 0-4095")),
    }
}

/// Parses decimal digits; unlike Rust's parser, a sign is refused.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_names_an_object_a_part_of_one_or_all_below_a_prefix() {
        let object = |key| ObjectName::new("b", key);
        let below = |prefix: &str| {
            ListedName::Below(Prefix { bucket: "b".to_owned(), prefix: prefix.to_owned() })
        };
        let list = parse_list("b/a\n\nb/c d/e\t0-0\r\nb/f\t10-19\nb/g/\t*\nb/\t*").unwrap();
        assert_eq!(
            list,
            [
                ListedName::Object(object("a")),
                ListedName::Part(object("c d/e"), 0..1),
                ListedName::Part(object("f"), 10..20),
                below("g/"),
                below(""),
            ]
        );
        assert_eq!(parse_list("\n").unwrap(), []);
        assert_eq!(parse(&line_below("b/g").unwrap()), Ok(below("g")));
    }

    #[test]
    fn a_line_that_cannot_be_meant_is_named() {
        let write = "write START-END in bytes, as in 0-4095";
        let below = "write BUCKET/PREFIX, or BUCKET/ for the whole bucket";
        for (list, why) in [
            ("b/a\nb", "line 2: \"b\": write BUCKET/KEY".to_owned()),
            ("/a", "line 1: \"/a\": write BUCKET/KEY".to_owned()),
            ("\n\nb/", "line 3: \"b/\": write BUCKET/KEY".to_owned()),
            ("b/a\t", format!("line 1: \"\": {write}")),
            ("b/a\t5", format!("line 1: \"5\": {write}")),
            ("b/a\t5-4", format!("line 1: \"5-4\": {write}")),
            ("b/a\t-4", format!("line 1: \"-4\": {write}")),
            ("b/a\t0-18446744073709551615", format!("line 1: \"0-18446744073709551615\": {write}")),
            ("b\t*", format!("line 1: \"b\": {below}")),
            ("/a\t*", format!("line 1: \"/a\": {below}")),
        ] {
            assert_eq!(parse_list(list), Err(why), "{list:?}");
        }
        assert_eq!(line_below("b"), Err(format!("\"b\": {below}")));
        assert!(line_below("b/a\nc").is_err());
    }

    fn line(wanted: &ListedName) -> String {
        match wanted {
            ListedName::Object(name) => name.to_string(),
            ListedName::Part(name, range) => format!("{name}\t{}-{}", range.start, range.end - 1),
            ListedName::Below(prefix) => format!("{prefix}\t*"),
        }
    }

    proptest! {
        #[test]
        fn a_list_is_read_as_it_was_written(
            lines in prop::collection::vec(("[a-z0-9]{1,4}", "[^\t\r\n]{1,6}", 0..3u8, any::<(u64, u64)>()), 0..6),
        ) {
            let wanted: Vec<ListedName> = lines
                .into_iter()
                .map(|(bucket, key, kind, (one, other))| match kind {
                    0 => ListedName::Object(ObjectName::new(&bucket, &key)),
                    1 => ListedName::Below(Prefix { bucket, prefix: key }),
                    _ => {
                        let (first, end) = (one.min(other), one.max(other));
                        ListedName::Part(ObjectName::new(&bucket, &key), first..end.max(first + 1))
                    }
                })
                .collect();
            let list: String = wanted.iter().map(|wanted| line(wanted) + "\n").collect();
            prop_assert_eq!(parse_list(&list), Ok(wanted));
        }

        /// Regression: `+5` was accepted as a number, as Rust parses it.
        #[test]
        fn what_is_read_of_a_line_is_what_it_says(
            text in prop_oneof!["[a-z/]{0,4}\t[0-9+*-]{0,8}", "(s3://)?[a-z/\t*0-9-]{0,12}", ".*"],
        ) {
            if let Ok(wanted) = parse(&text) {
                // Only leading zeros of numbers may differ.
                let plain = |text: &str| {
                    let (name, rest) = text.split_once('\t').unwrap_or((text, ""));
                    let numbers = rest.split('-').map(|n| n.trim_start_matches('0').to_owned());
                    (name.to_owned(), numbers.collect::<Vec<_>>())
                };
                prop_assert_eq!(plain(&line(&wanted)), plain(&text));
            }
        }
    }
}
