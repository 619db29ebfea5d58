//! Percent-encoding by SigV4's rules: only letters, digits, `-`, `.`, `_` and `~` stand for themselves.

use std::borrow::Cow;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether a `/` stands for itself: in a path it does, in a query it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slash {
    Kept,
    Encoded,
}

/// Whether a `+` on the wire means a space: in a query it does (as in HTML forms, and as S3's own
/// parsers read it), in a path it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Itself,
    Space,
}

/// An object's key as it stands in a path: encoded once, never normalised.
#[must_use]
pub fn encode_path(key: &str) -> String {
    encoded(key.as_bytes(), Slash::Kept)
}

/// A name or value as it stands in a query.
#[must_use]
pub fn encode_query_value(value: &str) -> String {
    encoded(value.as_bytes(), Slash::Encoded)
}

/// The path that `raw_path` stands for; `None`: its encoding is broken, or it is not UTF-8.
#[must_use]
pub fn decode_path(raw_path: &str) -> Option<Cow<'_, str>> {
    decoded(raw_path, Plus::Itself)
}

/// The name or value that `raw` stands for; `None`: its encoding is broken, or it is not UTF-8.
pub(crate) fn decode_query_value(raw: &str) -> Option<Cow<'_, str>> {
    decoded(raw, Plus::Space)
}

/// Knows no leniency: two hexadecimal digits stand behind each `%`.
fn decoded(raw: &str, plus: Plus) -> Option<Cow<'_, str>> {
    if !raw.contains(['%', '+']) {
        return Some(Cow::Borrowed(raw));
    }
    let is_whole = |escape: &str| escape.as_bytes().get(..2).is_some_and(is_hex);
    if !raw.split('%').skip(1).all(is_whole) {
        return None;
    }
    String::from_utf8(Decoder::new(raw, plus).collect()).ok().map(Cow::Owned)
}

fn is_hex(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

/// The names and values of a query as they stand on the wire; a name without `=` has the value "".
pub(crate) fn query_pairs(raw_query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = raw_query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// The path as it is signed.
pub(super) fn canonical_path(raw_path: &str, text: &mut Vec<u8>) {
    if raw_path.is_empty() {
        text.push(b'/');
    }
    for byte in Decoder::new(raw_path, Plus::Itself) {
        encode(byte, Slash::Kept, text);
    }
}

/// The query as it is signed: each name with its value, sorted by both, without the signature.
pub(super) fn canonical_query(raw_query: &str, text: &mut Vec<u8>) {
    if raw_query.is_empty() {
        return;
    }
    let canonical = |raw| {
        let mut text = Vec::with_capacity(raw_query.len());
        Decoder::new(raw, Plus::Space).for_each(|byte| encode(byte, Slash::Encoded, &mut text));
        text
    };
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = query_pairs(raw_query)
        .map(|(name, value)| (canonical(name), canonical(value)))
        .filter(|(name, _)| name != b"X-Amz-Signature")
        .collect();
    pairs.sort_unstable();
    for (n, (name, value)) in pairs.iter().enumerate() {
        if n != 0 {
            text.push(b'&');
        }
        text.extend_from_slice(name);
        text.push(b'=');
        text.extend_from_slice(value);
    }
}

fn encoded(bytes: &[u8], slash: Slash) -> String {
    let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 4);
    bytes.iter().for_each(|byte| encode(*byte, slash, &mut text));
    String::from_utf8(text).expect("percent-encoded text is ASCII")
}

fn encode(byte: u8, slash: Slash, text: &mut Vec<u8>) {
    let stands_for_itself = byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~')
        || (byte == b'/' && slash == Slash::Kept);
    if stands_for_itself {
        text.push(byte);
    } else {
        text.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Yields the bytes that percent-encoded text stands for. A `%` that opens no valid escape stands
/// for itself: what was signed is written down before it is judged.
struct Decoder<'a> {
    rest: &'a [u8],
    plus: Plus,
}

impl<'a> Decoder<'a> {
    fn new(raw: &'a str, plus: Plus) -> Self {
        Self { rest: raw.as_bytes(), plus }
    }
}

impl Iterator for Decoder<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        if let (b'%', [high, low, rest @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low))
        {
            self.rest = rest;
            return Some(high << 4 | low);
        }
        self.rest = rest;
        Some(if first == b'+' && self.plus == Plus::Space { b' ' } else { first })
    }
}

/// The value of one hexadecimal digit.
pub(super) fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_path(raw: &str, expected: &str) {
        let mut text = Vec::new();
        canonical_path(raw, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), expected, "canonical path of {raw:?}");
    }

    #[track_caller]
    fn check_query(raw: &str, expected: &str) {
        let mut text = Vec::new();
        canonical_query(raw, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), expected, "canonical query of {raw:?}");
    }

    #[test]
    fn a_path_is_encoded_once_and_never_normalised() {
        check_path("", "/");
        check_path("/a//b/../c/./", "/a//b/../c/./");
        check_path("/a%20b+c", "/a%20b%2Bc");
        check_path("/test$file.text", "/test%24file.text");
        check_path("/%e4%BD%a0", "/%E4%BD%A0");
        check_path("/a%2Fb", "/a/b");
        check_path("/50%/%zz%4", "/50%25/%25zz%254");
    }

    #[test]
    fn a_query_is_sorted_by_name_then_value() {
        check_query("", "");
        check_query("acl", "acl=");
        check_query("b=2&a=1&a=0", "a=0&a=1&b=2");
        check_query("a=1&a-b=2&A=3", "A=3&a=1&a-b=2");
        check_query("prefix=a/b c+d&&x", "prefix=a%2Fb%20c%20d&x=");
        check_query("X-Amz-Signature=00&X-Amz-Date=1", "X-Amz-Date=1");
        check_query("k=a=b", "k=a%3Db");
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let key = "odd/ key+with %41 & Ω\u{0}.parquet";
        assert_eq!(decode_path(&encode_path(key)).unwrap(), key);
        assert_eq!(decode_query_value(&encode_query_value(key)).unwrap(), key);
        assert_eq!(decode_path("a+b").unwrap(), "a+b");
        for broken in ["%ff", "%", "%4", "%zz", "%%41", "%+1", "a%4g"] {
            assert_eq!(decode_path(broken), None, "{broken}");
            assert_eq!(decode_query_value(broken), None, "{broken}");
        }
    }
}
