//! Times of access logs, as milliseconds since 1970.

use chrono::{DateTime, NaiveDateTime};

use super::super::field::Wrong;

/// Time of the common log format: `25/Nov/2026:10:59:00 +0100`. HAProxy writes milliseconds and no
/// zone: `25/Nov/2026:10:59:00.123`, taken as UTC.
pub(super) fn common(text: &str) -> Result<i64, Wrong<'_>> {
    let zoned = DateTime::parse_from_str(text, "%d/%b/%Y:%H:%M:%S %z");
    let ms = zoned.map(|time| time.timestamp_millis()).or_else(|_| {
        let local = NaiveDateTime::parse_from_str(text, "%d/%b/%Y:%H:%M:%S%.f");
        local.map(|time| time.and_utc().timestamp_millis())
    });
    ms.map_err(|_| {
        let why = format!("expected a time such as 25/Nov/2026:10:59:00 +0000, not {text:?}");
        Wrong::part(text, why)
    })
}

/// Time of RFC 3339: `2026-11-25T10:59:00Z`, with or without parts of a second.
pub(super) fn rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}

/// Date and time of the W3C format, in UTC: `2026-11-25`, `10:59:00`.
pub(super) fn w3c(date: &str, time: &str) -> Option<i64> {
    rfc3339(&format!("{date}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1970_in_utc() {
        let noon = 1_795_607_940_000;
        assert_eq!(common("25/Nov/2026:11:59:00 +0000").unwrap(), noon);
        assert_eq!(common("25/Nov/2026:12:59:00 +0100").unwrap(), noon);
        assert_eq!(common("25/Nov/2026:11:59:00.123").unwrap(), noon + 123);
        assert_eq!(rfc3339("2026-11-25T11:59:00.5Z"), Some(noon + 500));
        assert_eq!(w3c("2026-11-25", "11:59:00"), Some(noon));
        assert!(common("25/Nov/2026").is_err());
    }
}
