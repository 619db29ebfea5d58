//! Trace formats `text` and `text-size`: one request per line, columns split by blanks or commas.
//!
//! `text` is `object`, or `time object`. `text-size` is `object size`, or `time object size`. The
//! unit of the times follows from their values: times since 1970 are in seconds, milliseconds,
//! microseconds or nanoseconds, depending on their magnitude; other times are in seconds. A first
//! column that counts the lines is no time.

use std::fmt;

use serde::Serialize;

use super::super::{Request, SIZE_UNKNOWN};
use super::field::Wrong;
use super::{Lines, Run, field};

/// Unit of the times of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// The trace has no times.
    #[default]
    None,
    /// The first column counts the requests.
    Sequence,
    /// Seconds.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// Microseconds since 1970.
    Microseconds,
    /// Nanoseconds since 1970.
    Nanoseconds,
}

/// Lines by which the unit is decided.
const LINES: usize = 64;

/// Lines below which a column of consecutive numbers may be times.
const COUNTED_MIN: usize = 8;

impl TimeUnit {
    /// Detects the unit by the first lines of a file, whose time is the first of `columns` columns.
    pub(super) fn of_head(head: &str, columns: usize) -> Self {
        let times = head.lines().take(LINES).map_while(|line| {
            let fields = self::columns(line).ok()?;
            (fields.len() == columns).then(|| fields[0].parse::<f64>().ok())?
        });
        let times: Vec<f64> = times.collect();
        let Some(first) = times.first() else { return Self::None };
        let is_count = |pair: &[f64]| pair[1] - pair[0] == 1.0;
        match first.abs() {
            // Nobody counts lines from a billion on: those are seconds since 1970.
            ..1e9 if COUNTED_MIN <= times.len() && times.windows(2).all(is_count) => Self::Sequence,
            ..1e11 => Self::Seconds,
            ..1e14 => Self::Milliseconds,
            ..1e17 => Self::Microseconds,
            _ => Self::Nanoseconds,
        }
    }

    /// Seconds of a time. Parts are cut off; values out of range saturate.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    const fn seconds(self, time: f64) -> u32 {
        match self {
            Self::None | Self::Sequence => 0,
            Self::Seconds => time as u32,
            Self::Milliseconds => (time / 1e3) as u32,
            Self::Microseconds => (time / 1e6) as u32,
            Self::Nanoseconds => (time / 1e9) as u32,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "the trace has no times",
            Self::Sequence => "the first column counts the requests, so there are no times",
            Self::Seconds => "times are in seconds",
            Self::Milliseconds => "times are in milliseconds since 1970",
            Self::Microseconds => "times are in microseconds since 1970",
            Self::Nanoseconds => "times are in nanoseconds since 1970",
        })
    }
}

pub(super) struct Text {
    pub(super) unit: TimeUnit,
}

pub(super) struct TextSize {
    pub(super) unit: TimeUnit,
}

/// Columns of a line. Between commas a column may not be empty; blanks count as one.
fn columns(line: &str) -> Result<Vec<&str>, Wrong<'_>> {
    let columns: Vec<&str> = match line.contains(',') {
        true => line.split(',').map(str::trim).collect(),
        false => line.split_ascii_whitespace().collect(),
    };
    match columns.iter().position(|column| column.is_empty()) {
        Some(at) => Err(Wrong::part(columns[at], format!("column {} is empty", at + 1))),
        None => Ok(columns),
    }
}

impl Lines for Text {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let (time, id) = match columns(line)?[..] {
            [id] => ("0", id),
            [time, id] => (time, id),
            _ => return Err(Wrong::line("expected an object, or a time and an object")),
        };
        request((time, self.unit), id, SIZE_UNKNOWN)
    }
}

impl Lines for TextSize {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let (time, id, size) = match columns(line)?[..] {
            [id, size] => ("0", id, size),
            [time, id, size] => (time, id, size),
            _ => {
                let why = "expected an object and its size, or a time before them";
                return Err(Wrong::line(why));
            }
        };
        request((time, self.unit), id, field::size(size)?)
    }
}

fn request<'a>(
    (time, unit): (&'a str, TimeUnit),
    id: &str,
    size: u64,
) -> Result<Option<Run>, Wrong<'a>> {
    let time = field::number(time, "a time")?;
    Ok(Some(Run::one(Request::read(field::object(id), size, unit.seconds(time)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: u64, step: u64, expected: TimeUnit, seconds: u32) {
        let lines: String = (0..20).map(|n| format!("{},k{n},5\n", first + n * step)).collect();
        let unit = TimeUnit::of_head(&lines, 3);
        assert_eq!((unit, unit.seconds(first as f64)), (expected, seconds), "{first} + {step}");
    }

    #[test]
    fn the_unit_of_times_follows_from_their_values() {
        const NOW: u64 = 1_795_607_940;
        check(NOW, 1, TimeUnit::Seconds, 1_795_607_940);
        check(NOW * 1_000, 2, TimeUnit::Milliseconds, 1_795_607_940);
        check(NOW * 1_000_000, 7, TimeUnit::Microseconds, 1_795_607_940);
        check(NOW * 1_000_000_000, 7, TimeUnit::Nanoseconds, 1_795_607_940);
        check(0, 1, TimeUnit::Sequence, 0);
        check(0, 3, TimeUnit::Seconds, 0);
        assert_eq!(TimeUnit::of_head("a 5\nb 6\n", 3), TimeUnit::None);
        // Too few to be sure that they are counted.
        assert_eq!(TimeUnit::of_head("1 a 5\n2 b 6\n", 3), TimeUnit::Seconds);
    }
}
