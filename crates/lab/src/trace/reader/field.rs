//! Columns of a line.

use std::hash::{DefaultHasher, Hasher};
use std::str::FromStr;

/// What was expected of a line, and the part of it that is something else.
#[derive(Debug)]
pub(super) struct Wrong<'a> {
    pub(super) why: String,
    part: Option<&'a str>,
}

impl<'a> Wrong<'a> {
    /// Of a line as a whole.
    pub(super) fn line(why: impl Into<String>) -> Self {
        Self { why: why.into(), part: None }
    }

    /// Of a part of a line.
    pub(super) fn part(part: &'a str, why: String) -> Self {
        Self { why, part: Some(part) }
    }

    /// Where the part begins in its line, in bytes, counted from 1.
    pub(super) fn column(&self, line: &str) -> Option<usize> {
        let begin = self.part?.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
        (begin <= line.len()).then_some(begin + 1)
    }
}

/// The next column, which is `what`.
pub(super) fn next<'a>(
    columns: &mut impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<&'a str, Wrong<'a>> {
    let column = columns.next().map(str::trim);
    column.ok_or_else(|| Wrong::line(format!("the line ends where {what} was expected")))
}

/// A number, which is `what`.
pub(super) fn number<'a, T: FromStr>(text: &'a str, what: &str) -> Result<T, Wrong<'a>> {
    let wrong = |_| Wrong::part(text, format!("{what} was expected instead of {text:?}"));
    text.trim().parse().map_err(wrong)
}

/// Seconds, of a time in seconds that may have a fraction or be out of our range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by `as`")]
pub(super) fn seconds(text: &str) -> Result<u32, Wrong<'_>> {
    number(text, "a time in seconds").map(|seconds: f64| seconds as u32)
}

/// An object: a number as it is, a word hashed.
pub(super) fn object(text: &str) -> u64 {
    let text = text.trim();
    text.parse().unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        hasher.finish()
    })
}

/// A size. What does not fit into 32 bits is as large as it can be.
pub(super) fn size(text: &str) -> Result<u32, Wrong<'_>> {
    number(text, "a size in bytes").map(|size: u64| u32::try_from(size).unwrap_or(u32::MAX))
}

/// Bytes of the blocks into which requests on block devices are cut.
pub(super) const BLOCK_SIZE: u32 = 4096;

/// The first block of a run of bytes, and how many blocks it touches; at least one.
pub(super) const fn blocks(offset: u64, bytes: u64) -> (u64, u64) {
    const BLOCK: u64 = BLOCK_SIZE as u64;
    let first = offset / BLOCK;
    let bytes = if bytes == 0 { 1 } else { bytes };
    (first, offset.saturating_add(bytes - 1) / BLOCK - first + 1)
}
