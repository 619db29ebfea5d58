//! Columns of a line.

use std::hash::{DefaultHasher, Hasher};
use std::str::FromStr;

/// The next column, which is `what`.
pub(super) fn next<'a>(
    columns: &mut impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<&'a str, String> {
    columns.next().map(str::trim).ok_or_else(|| format!("the line ends where {what} was expected"))
}

/// A number, which is `what`.
pub(super) fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{what} was expected instead of {text:?}"))
}

/// Seconds, of a time in seconds that may have a fraction or be out of our range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by `as`")]
pub(super) fn seconds(text: &str) -> Result<u32, String> {
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
pub(super) fn size(text: &str) -> Result<u32, String> {
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
