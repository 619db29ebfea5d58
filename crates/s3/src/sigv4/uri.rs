//! Percent-encoding by SigV4's rules: all bytes except letters, digits, `-`, `.`, `_` and `~` are
//! escaped.
//!
//! This code runs for every request, so it has two fast paths. Unreserved bytes, the most frequent,
//! are copied in runs. A query that is already sorted, as clients usually send it, is written only
//! once.

use std::borrow::Cow;
use std::ops::Range;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// For each byte, true if the byte is not escaped.
type Plain = [bool; 256];

const PLAIN_IN_QUERY: Plain = plain(b"-._~");

/// In a path, `/` is not escaped either.
const PLAIN_IN_PATH: Plain = plain(b"-._~/");

const fn plain(marks: &[u8]) -> Plain {
    let mut plain = [false; 256];
    let letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut n = 0;
    while n < letters.len() + marks.len() {
        let byte = if n < letters.len() { letters[n] } else { marks[n - letters.len()] };
        plain[byte as usize] = true;
        n += 1;
    }
    plain
}

/// Meaning of `+` on the wire. In a query it is a space, as in HTML forms and in S3's own parsers.
/// In a path it is a plus sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Itself,
    Space,
}

/// Percent-encodes an object key for a path: once, never normalised.
#[must_use]
pub fn encode_path(key: &str) -> String {
    encoded(key.as_bytes(), &PLAIN_IN_PATH)
}

/// Percent-encodes a name or value for a query.
#[must_use]
pub fn encode_query_value(value: &str) -> String {
    encoded(value.as_bytes(), &PLAIN_IN_QUERY)
}

/// Decodes a path. `None` if an escape is invalid or the result is not UTF-8.
#[must_use]
pub fn decode_path(raw_path: &str) -> Option<Cow<'_, str>> {
    decoded(raw_path, Plus::Itself)
}

/// Decodes a name or value of a query. `None` if an escape is invalid or the result is not UTF-8.
pub fn decode_query_value(raw: &str) -> Option<Cow<'_, str>> {
    decoded(raw, Plus::Space)
}

/// Strict: two hexadecimal digits must follow every `%`.
fn decoded(raw: &str, plus: Plus) -> Option<Cow<'_, str>> {
    let special = |bytes: &[u8]| bytes.iter().position(|byte| matches!(byte, b'%' | b'+'));
    let Some(mut run) = special(raw.as_bytes()) else { return Some(Cow::Borrowed(raw)) };
    let (mut rest, mut text) = (raw.as_bytes(), Vec::with_capacity(raw.len()));
    loop {
        text.extend_from_slice(&rest[..run]);
        rest = &rest[run..];
        let Some(&first) = rest.first() else { break };
        let (byte, wire_bytes) = decode_first(first, rest, plus);
        if first == b'%' && wire_bytes == 1 {
            return None;
        }
        text.push(byte);
        rest = &rest[wire_bytes..];
        run = special(rest).unwrap_or(rest.len());
    }
    String::from_utf8(text).ok().map(Cow::Owned)
}

/// The first decoded byte, and its length on the wire in bytes. A `%` without a valid escape
/// decodes to itself, because the canonical request is built before the request is validated.
fn decode_first(first: u8, bytes: &[u8], plus: Plus) -> (u8, usize) {
    match (first, bytes) {
        (b'%', [_, high, low, ..]) => match (hex_digit(*high), hex_digit(*low)) {
            (Some(high), Some(low)) => (high << 4 | low, 3),
            _ => (first, 1),
        },
        (b'+', _) if plus == Plus::Space => (b' ', 1),
        _ => (first, 1),
    }
}

/// The raw names and values of a query, not decoded. A name without `=` has the value "".
pub fn query_pairs(raw_query: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(raw_query);
    let pairs = std::iter::from_fn(move || {
        let text = rest?;
        let (pair, behind) = split_at_byte(text, b'&');
        rest = behind;
        Some(pair)
    });
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = split_at_byte(pair, b'=');
        (name, value.unwrap_or_default())
    })
}

/// Splits at the first `byte`, which must be ASCII: the text before it and the text after it.
fn split_at_byte(text: &str, byte: u8) -> (&str, Option<&str>) {
    match text.bytes().position(|each| each == byte) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Appends the canonical path, as signed.
pub(super) fn canonical_path(raw_path: &str, text: &mut Vec<u8>) {
    if raw_path.is_empty() {
        text.push(b'/');
    }
    encode_again(raw_path, Plus::Itself, &PLAIN_IN_PATH, text);
}

/// Appends the canonical query, as signed: pairs sorted by name, then value, without the signature.
pub(super) fn canonical_query(raw_query: &str, text: &mut Vec<u8>) {
    let start = text.len();
    let mut pairs: Vec<Pair> = Vec::with_capacity(PAIRS_EXPECTED);
    for (name, value) in query_pairs(raw_query) {
        let before = text.len();
        if !pairs.is_empty() {
            text.push(b'&');
        }
        let name_start = text.len();
        encode_again(name, Plus::Space, &PLAIN_IN_QUERY, text);
        if text[name_start..] == *b"X-Amz-Signature" {
            text.truncate(before);
            continue;
        }
        let name_end = text.len();
        text.push(b'=');
        encode_again(value, Plus::Space, &PLAIN_IN_QUERY, text);
        pairs.push(Pair { name: name_start..name_end, value: name_end + 1..text.len() });
    }
    if !pairs.is_sorted_by_key(|pair| pair.of(text)) {
        let unsorted = text.clone();
        pairs.sort_unstable_by_key(|pair| pair.of(&unsorted));
        text.truncate(start);
        for (n, pair) in pairs.iter().enumerate() {
            if n != 0 {
                text.push(b'&');
            }
            text.extend_from_slice(&unsorted[pair.name.start..pair.value.end]);
        }
    }
}

/// Expected pairs in a query, to size vectors: a presigned URL, its `x-id` and an override.
pub const PAIRS_EXPECTED: usize = 8;

/// Positions of a name and its value in a text.
struct Pair {
    name: Range<usize>,
    value: Range<usize>,
}

impl Pair {
    fn of<'a>(&self, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (&text[self.name.clone()], &text[self.value.clone()])
    }
}

/// Decodes a raw text, and encodes it by the strict rules.
fn encode_again(raw: &str, plus: Plus, plain: &Plain, text: &mut Vec<u8>) {
    let mut rest = raw.as_bytes();
    while let Some(&first) = take_plain(&mut rest, plain, text) {
        let (byte, wire_bytes) = decode_first(first, rest, plus);
        encode(byte, plain, text);
        rest = &rest[wire_bytes..];
    }
}

/// Moves a run of unescaped bytes from `rest` into `text`. Returns the first byte that needs
/// escaping, which stays in `rest`.
fn take_plain<'a>(rest: &mut &'a [u8], plain: &Plain, text: &mut Vec<u8>) -> Option<&'a u8> {
    let is_special = |byte: &u8| !plain[usize::from(*byte)];
    let (run, behind) = rest.split_at(rest.iter().position(is_special).unwrap_or(rest.len()));
    text.extend_from_slice(run);
    *rest = behind;
    behind.first()
}

fn encoded(bytes: &[u8], plain: &Plain) -> String {
    let (mut rest, mut text) = (bytes, Vec::with_capacity(bytes.len() + bytes.len() / 4));
    while let Some(&special) = take_plain(&mut rest, plain, &mut text) {
        encode(special, plain, &mut text);
        rest = &rest[1..];
    }
    String::from_utf8(text).expect("percent-encoded text is ASCII")
}

fn encode(byte: u8, plain: &Plain, text: &mut Vec<u8>) {
    if plain[usize::from(byte)] {
        text.push(byte);
    } else {
        text.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Value of a hexadecimal digit, upper or lower case.
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
        check_query("X-Amz-Signature=1&b&%58-Amz-Signature=2&a", "a=&b=");
        check_query("b=1&a%3d=2&a=", "a=&a%3D=2&b=1");
    }

    /// Reference implementation, byte by byte: the oracle for the fast paths above.
    mod definition {
        fn encoded(bytes: impl Iterator<Item = u8>, is_path: bool) -> String {
            let stands_for_itself = |byte: u8| {
                byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (is_path && byte == b'/')
            };
            let text = bytes.map(|byte| match stands_for_itself(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            });
            text.collect()
        }

        fn decoded(mut raw: &[u8], is_path: bool) -> Vec<u8> {
            let mut bytes = Vec::new();
            while let [first, rest @ ..] = raw {
                let escape = rest.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
                let escape =
                    escape.and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
                let (byte, taken) = match (first, escape) {
                    (b'%', Some(byte)) => (byte, 3),
                    (b'+', _) if !is_path => (b' ', 1),
                    (byte, _) => (*byte, 1),
                };
                bytes.push(byte);
                raw = &raw[taken..];
            }
            bytes
        }

        pub(super) fn canonical(raw: &str, is_path: bool) -> String {
            encoded(decoded(raw.as_bytes(), is_path).into_iter(), is_path)
        }

        pub(super) fn canonical_query(raw: &str) -> String {
            let pairs = raw.split('&').filter(|pair| !pair.is_empty());
            let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let mut pairs: Vec<(String, String)> = pairs
                .map(|(name, value)| (canonical(name, false), canonical(value, false)))
                .filter(|(name, _)| name != "X-Amz-Signature")
                .collect();
            pairs.sort();
            let pairs: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join("&")
        }
    }

    proptest::proptest! {
        #[test]
        fn any_path_and_query_are_what_the_definition_says(
            raw in "([a-cA-C/&=+%~._-]|%[0-9a-fA-F]{2}|X-Amz-Signature|\\PC){0,24}",
        ) {
            if !raw.is_empty() {
                check_path(&raw, &definition::canonical(&raw, true));
            }
            check_query(&raw, &definition::canonical_query(&raw));
        }

        #[test]
        fn any_text_is_itself_again(text in "\\PC*") {
            assert_eq!(decode_path(&encode_path(&text)).as_deref(), Some(&*text));
            assert_eq!(decode_query_value(&encode_query_value(&text)).as_deref(), Some(&*text));
        }
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
