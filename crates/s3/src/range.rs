//! `Range` header: resolves it to the requested bytes of an object, as S3 does.
//!
//! S3 ignores a header that is not one well-formed byte range, and sends the whole object. Examples
//! are several ranges, another unit, spaces, or an end before the start. S3 refuses only a
//! well-formed range outside the object.

use std::ops::Range;

use zonal_base::RangeSpec;

/// The bytes to send, and the status to send them with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedRange {
    /// The whole object, status 200.
    Whole,
    /// The byte range, end exclusive, status 206. Never empty.
    Part(Range<u64>),
    /// No bytes, status 416: the range lies outside the object.
    Unsatisfiable,
}

/// Resolves the `Range` header `header` for an object of `size` bytes.
#[must_use]
pub fn resolve(header: &str, size: u64) -> ResolvedRange {
    match parse(header) {
        None => ResolvedRange::Whole,
        Some(Spec::Suffix(0)) => ResolvedRange::Unsatisfiable,
        // For a suffix range of an empty object, S3 sends the whole object, but refuses `0-`.
        Some(Spec::Suffix(_)) if size == 0 => ResolvedRange::Whole,
        Some(Spec::Suffix(bytes)) => ResolvedRange::Part(size.saturating_sub(bytes)..size),
        Some(Spec::From(start) | Spec::Closed(start, _)) if start >= size => {
            ResolvedRange::Unsatisfiable
        }
        Some(Spec::From(start)) => ResolvedRange::Part(start..size),
        Some(Spec::Closed(start, last)) => {
            ResolvedRange::Part(start..last.saturating_add(1).min(size))
        }
    }
}

/// The bytes that the `Range` header `header` asks for, for an object of unknown size. `None`: no
/// object has them.
#[must_use]
pub fn requested(header: &str) -> Option<RangeSpec> {
    match parse(header) {
        None => Some(RangeSpec::Whole),
        Some(Spec::Suffix(0)) => None,
        Some(Spec::Suffix(bytes)) => Some(RangeSpec::Suffix(bytes)),
        Some(Spec::From(start)) => Some(RangeSpec::Int(start..u64::MAX)),
        Some(Spec::Closed(start, last)) => Some(RangeSpec::Int(start..last.saturating_add(1))),
    }
    .filter(|spec| !matches!(spec, RangeSpec::Int(range) if range.is_empty()))
}

/// One byte range of RFC 9110; `last` is inclusive.
enum Spec {
    Suffix(u64),
    From(u64),
    Closed(u64, u64),
}

fn parse(header: &str) -> Option<Spec> {
    let (unit, spec) = header.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    match spec.split_once('-')? {
        ("", last) => Some(Spec::Suffix(number(last)?)),
        (start, "") => Some(Spec::From(number(start)?)),
        (start, last) => {
            let (start, last) = (number(start)?, number(last)?);
            (start <= last).then_some(Spec::Closed(start, last))
        }
    }
}

/// Parses a decimal number as HTTP writes it: digits only. `None` for other characters, and for a
/// number that exceeds 64 bits.
pub fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Parses digits only. A number that exceeds 64 bits saturates at `u64::MAX`, because it lies
/// beyond the end of every object.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Parses a `Content-Range` of `bytes FIRST-LAST/SIZE` or `bytes FIRST-LAST/*`. Returns the range, end
/// exclusive, and the size of the object.
#[must_use]
pub fn parse_content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (digits(first)?, digits(last)?);
    let size = if size == "*" { None } else { Some(digits(size)?) };
    let end = last.checked_add(1)?;
    let is_sound = first < end && size.is_none_or(|size| end <= size);
    is_sound.then_some((first..end, size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(size: u64, cases: &[(&str, ResolvedRange)]) {
        for (header, expected) in cases {
            assert_eq!(resolve(header, size), *expected, "{header:?} of {size} bytes");
        }
    }

    #[test]
    fn one_well_formed_range_is_served_and_cut_at_the_end_of_the_object() {
        check(
            100,
            &[
                ("bytes=0-0", ResolvedRange::Part(0..1)),
                ("bytes=0-99", ResolvedRange::Part(0..100)),
                ("bytes=0-100", ResolvedRange::Part(0..100)),
                ("bytes=0-99999999999999999999999", ResolvedRange::Part(0..100)),
                ("bytes=0-18446744073709551615", ResolvedRange::Part(0..100)),
                ("bytes=99-99", ResolvedRange::Part(99..100)),
                ("bytes=00-01", ResolvedRange::Part(0..2)),
                ("bytes=50-", ResolvedRange::Part(50..100)),
                ("bytes=0-", ResolvedRange::Part(0..100)),
                ("Bytes=0-1", ResolvedRange::Part(0..2)),
            ],
        );
    }

    #[test]
    fn a_suffix_counts_from_the_end_and_may_be_longer_than_the_object() {
        check(
            100,
            &[
                ("bytes=-1", ResolvedRange::Part(99..100)),
                ("bytes=-100", ResolvedRange::Part(0..100)),
                ("bytes=-101", ResolvedRange::Part(0..100)),
                ("bytes=-99999999999999999999999", ResolvedRange::Part(0..100)),
                ("bytes=-0", ResolvedRange::Unsatisfiable),
            ],
        );
    }

    #[test]
    fn a_range_behind_the_end_is_refused() {
        check(
            100,
            &[
                ("bytes=100-", ResolvedRange::Unsatisfiable),
                ("bytes=100-100", ResolvedRange::Unsatisfiable),
                ("bytes=99999999999999999999999-", ResolvedRange::Unsatisfiable),
            ],
        );
    }

    #[test]
    fn an_empty_object_has_no_ranges() {
        check(
            0,
            &[
                ("bytes=0-", ResolvedRange::Unsatisfiable),
                ("bytes=0-0", ResolvedRange::Unsatisfiable),
                ("bytes=-0", ResolvedRange::Unsatisfiable),
                ("bytes=-1", ResolvedRange::Whole),
            ],
        );
    }

    #[test]
    fn whatever_is_not_one_range_of_bytes_is_ignored() {
        let ignored = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=,",
            "bytes= -1",
            "bytes=0 -1",
            "bytes=--1",
            "bytes=0--1",
            "bytes=10-5",
            "bytes=102-0",
            "bytes=abc",
            "bytes=a-z",
            "bytes=100-x",
            "bytes=+1-2",
            "bytes=0-0,1-2",
            "bytes=0-0,-1",
            "octets=0-1",
            "bytes:0-1",
        ];
        for header in ignored {
            check(100, &[(header, ResolvedRange::Whole)]);
        }
    }

    /// Second definition of a range that [`resolve`] accepts, as an oracle.
    fn is_one_range(header: &str) -> bool {
        let Some((unit, spec)) = header.split_once('=') else { return false };
        let numbers: Vec<&str> = spec.split('-').collect();
        let are_digits = numbers.iter().all(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
        unit.eq_ignore_ascii_case("bytes") && are_digits && numbers.len() == 2 && spec != "-"
    }

    #[test]
    fn a_content_range_is_read_strictly() {
        assert_eq!(parse_content_range("bytes 0-9/100"), Some((0..10, Some(100))));
        assert_eq!(parse_content_range("bytes 5-5/*"), Some((5..6, None)));
        for text in [
            "",
            "bytes 0-9",
            "bytes */100",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "bytes -1-9/100",
            "0-9/100",
            "bytes 0--1/0",
            "bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(parse_content_range(text), None, "{text:?}");
        }
    }

    /// A request before the size is known asks for the bytes that are sent once it is.
    #[test]
    fn a_header_asks_for_what_it_resolves_to() {
        let headers = [
            "bytes=0-0",
            "bytes=3-",
            "bytes=3-5",
            "bytes=90-200",
            "bytes=-7",
            "bytes=-200",
            "bytes=5-3",
            "bytes=100-",
            "bytes=-0",
            "bytes=18446744073709551615-",
            "octets=0-1",
            "bytes=0-1,3-4",
        ];
        for header in headers {
            let range = requested(header).map(|spec| spec.in_object(100));
            let resolved = match resolve(header, 100) {
                ResolvedRange::Whole => 0..100,
                ResolvedRange::Part(range) => range,
                ResolvedRange::Unsatisfiable => 0..0,
            };
            let range = range.filter(|range| !range.is_empty()).unwrap_or(0..0);
            assert_eq!(range, resolved, "{header:?}");
        }
    }

    proptest! {
        /// `+5` was accepted as a number, because Rust's parser accepts it.
        #[test]
        fn a_content_range_says_what_is_read_of_it(
            text in prop_oneof!["bytes [-0-9*/+ ]{0,16}", "bytes [0-9]{1,20}-[0-9]{1,20}/[0-9*]{1,20}", ".*"],
        ) {
            if let Some((range, size)) = parse_content_range(&text) {
                let size = size.map_or("*".to_owned(), |size| size.to_string());
                let told = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                // HTTP allows leading zeros.
                let plain: Vec<_> = text[6..].split(['-', '/']).map(|n| n.trim_start_matches('0')).collect();
                let again: Vec<_> = told[6..].split(['-', '/']).map(|n| n.trim_start_matches('0')).collect();
                prop_assert_eq!(plain, again);
            }
        }

        #[test]
        fn what_is_served_lies_in_the_object_and_was_asked_for(
            header in prop_oneof!["[bB]ytes=[0-9]{0,21}-[0-9]{0,3}", "bytes[= ][-0-9, +a]{0,12}", ".*"],
            size in prop_oneof![0..1000u64, any::<u64>()],
        ) {
            match resolve(&header, size) {
                ResolvedRange::Whole => {}
                ResolvedRange::Unsatisfiable => prop_assert!(is_one_range(&header)),
                ResolvedRange::Part(part) => {
                    prop_assert!(part.start < part.end && part.end <= size);
                    prop_assert!(is_one_range(&header));
                }
            }
        }

        #[test]
        fn bytes_within_the_object_are_served_as_asked(size in 1u64.., at: (u64, u64)) {
            let (first, last) = (at.0 % size, at.1 % size);
            let (first, last) = (first.min(last), first.max(last));
            let part = ResolvedRange::Part(first..last + 1);
            prop_assert_eq!(resolve(&format!("bytes={first}-{last}"), size), part);
            prop_assert_eq!(resolve(&format!("bytes={first}-"), size), ResolvedRange::Part(first..size));
            let suffix = ResolvedRange::Part(size - (last + 1)..size);
            prop_assert_eq!(resolve(&format!("bytes=-{}", last + 1), size), suffix);
        }
    }
}
