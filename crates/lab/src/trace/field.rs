//! Field parsers: numbers, times, sizes and object ids from the columns of a text trace.

use std::hash::{DefaultHasher, Hasher};
use std::str::FromStr;

/// Parse error: what was expected, and the text found instead.
#[derive(Debug)]
pub(super) struct Wrong<'a> {
    pub(super) why: String,
    part: Option<&'a str>,
}

impl<'a> Wrong<'a> {
    /// Error of a line as a whole.
    pub(super) fn line(why: impl Into<String>) -> Self {
        Self { why: why.into(), part: None }
    }

    /// Error of a part of a line.
    pub(super) fn part(part: &'a str, why: String) -> Self {
        Self { why, part: Some(part) }
    }

    /// Position of the part in its line: a byte column, counted from 1.
    pub(super) fn column(&self, line: &str) -> Option<usize> {
        let begin = self.part?.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
        (begin <= line.len()).then_some(begin + 1)
    }
}

/// Returns the next column. `what` names the column in the error.
pub(super) fn next<'a>(
    columns: &mut impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<&'a str, Wrong<'a>> {
    let column = columns.next().map(str::trim);
    column.ok_or_else(|| Wrong::line(format!("the line ends early: expected {what}")))
}

/// Parses a number. `what` names the number in the error.
pub(super) fn number<'a, T: FromStr>(text: &'a str, what: &str) -> Result<T, Wrong<'a>> {
    let wrong = |_| Wrong::part(text, format!("expected {what}, not {text:?}"));
    text.trim().parse().map_err(wrong)
}

/// Parses a time in seconds. Fractions are cut off; values out of range saturate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by `as`")]
pub(super) fn seconds(text: &str) -> Result<u32, Wrong<'_>> {
    number(text, "a time in seconds").map(|seconds: f64| seconds as u32)
}

/// Object id: a number as it is, a word hashed.
pub(super) fn object(text: &str) -> u64 {
    let text = text.trim();
    text.parse().unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        hasher.finish()
    })
}

/// Largest object size: 1 EiB. A larger number is no size.
const SIZE_MAX: u64 = 1 << 60;

/// Size in bytes.
pub(super) fn size(text: &str) -> Result<u64, Wrong<'_>> {
    let size = number(text, "a size in bytes")?;
    if SIZE_MAX < size {
        return Err(Wrong::part(text, format!("expected a size in bytes, not {text:?}")));
    }
    Ok(size)
}

/// Block size in bytes into which requests on block devices are cut.
pub(super) const BLOCK_SIZE: u64 = 4096;

/// First block of a byte range, and the number of blocks it touches, at least 1.
pub(super) const fn blocks(offset: u64, bytes: u64) -> (u64, u64) {
    let first = offset / BLOCK_SIZE;
    let bytes = if bytes == 0 { 1 } else { bytes };
    (first, offset.saturating_add(bytes - 1) / BLOCK_SIZE - first + 1)
}
