//! Scanner for Rust source: separates code from comments and strings, and finds functions and
//! tests.
//!
//! A scanner, not a parser: enough for checks that count lines and search words, without a
//! dependency to build. It knows strings, raw strings, characters, lifetimes and nested comments.

use std::ops::Range;

/// A scanned Rust file.
#[derive(Debug)]
pub(crate) struct RustText {
    /// Source with blanked comments and literals: same length, same lines.
    pub(crate) code: String,
    /// Contents of string literals, with escapes as written, and the line of each.
    pub(crate) strings: Vec<(usize, String)>,
    /// All functions with a body, in source order.
    pub(crate) functions: Vec<Function>,
    /// Byte ranges of items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of the keyword `fn`, counted from 1.
    pub(crate) line: usize,
    /// Parameters besides `self`.
    pub(crate) parameters: usize,
    pub(crate) is_test: bool,
}

impl RustText {
    pub(crate) fn scan(source: &str) -> Self {
        let mut scanner = Scanner::new(source);
        scanner.run();
        let code = String::from_utf8_lossy(&scanner.code).into_owned();
        let strings = scanner.strings;
        let tests = test_ranges(&code);
        let mut text = Self { code, strings, functions: Vec::new(), tests };
        text.functions = functions(&text);
        text
    }

    /// Line of a byte offset, counted from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        line_of(self.code.as_bytes(), offset)
    }

    /// True if a byte offset is inside an item under `#[cfg(test)]`.
    pub(crate) fn in_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// True if a line, counted from 1, starts inside an item under `#[cfg(test)]`.
    pub(crate) fn line_in_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| {
            (self.line_of(range.start)..=self.line_of(range.end.saturating_sub(1))).contains(&line)
        })
    }

    /// Number of lines outside `#[cfg(test)]`.
    pub(crate) fn lines_without_tests(&self) -> usize {
        let tests: usize =
            self.tests.iter().map(|range| lines_between(&self.code, range.start, range.end)).sum();
        self.code.lines().count().saturating_sub(tests)
    }

    /// Offsets of `word` in the code, as a whole identifier.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bytes = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let end = at + word.len();
            let free_before = at == 0 || !is_identifier(bytes[at - 1]);
            let free_after = end == bytes.len() || !is_identifier(bytes[end]);
            free_before && free_after
        })
    }
}

/// Scans the source once, and blanks everything but code.
struct Scanner<'a> {
    source: &'a [u8],
    code: Vec<u8>,
    strings: Vec<(usize, String)>,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a str) -> Self {
        let source = source.as_bytes();
        Self { source, code: source.to_vec(), strings: Vec::new(), at: 0 }
    }

    fn run(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'\'' => self.character_or_lifetime(),
                byte if is_identifier(byte) => match self.raw_string_hashes() {
                    Some(hashes) => self.raw_string(hashes),
                    None => self.word(),
                },
                _ => self.at += 1,
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    fn blank(&mut self, range: Range<usize>) {
        for byte in &mut self.code[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        self.blank(start..self.at);
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0;
        while self.peek(0).is_some() {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => (depth, self.at) = (depth + 1, self.at + 2),
                (Some(b'*'), Some(b'/')) => (depth, self.at) = (depth - 1, self.at + 2),
                _ => self.at += 1,
            }
            if depth == 0 {
                break;
            }
        }
        self.blank(start..self.at);
    }

    fn string(&mut self) {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.keep_string(start);
        self.at = (self.at + 1).min(self.source.len());
    }

    fn keep_string(&mut self, start: usize) {
        let end = self.at.min(self.source.len());
        let content = String::from_utf8_lossy(&self.source[start..end]).into_owned();
        self.strings.push((line_of(self.source, start), content));
        self.blank(start..end);
    }

    /// Number of hashes of the raw string that begins here, if any.
    fn raw_string_hashes(&self) -> Option<usize> {
        let rest = &self.source[self.at..];
        let prefix =
            [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| rest.starts_with(prefix))?;
        let rest = &rest[prefix.len()..];
        let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
        (rest.get(hashes) == Some(&b'"')).then_some(hashes)
    }

    fn raw_string(&mut self, hashes: usize) {
        while self.peek(0) != Some(b'"') {
            self.at += 1;
        }
        self.at += 1;
        let start = self.at;
        while self.peek(0).is_some() && !self.ends_raw_string(hashes) {
            self.at += 1;
        }
        self.keep_string(start);
        self.at = (self.at + 1 + hashes).min(self.source.len());
    }

    fn ends_raw_string(&self, hashes: usize) -> bool {
        self.peek(0) == Some(b'"') && (1..=hashes).all(|ahead| self.peek(ahead) == Some(b'#'))
    }

    fn character_or_lifetime(&mut self) {
        let rest = &self.source[self.at + 1..];
        let is_escape = rest.first() == Some(&b'\\');
        let width = rest.first().map_or(0, |&byte| utf8_width(byte));
        if is_escape {
            let close = rest.iter().skip(2).position(|&byte| byte == b'\'').map_or(0, |at| at + 2);
            self.blank(self.at + 1..self.at + 1 + close);
            self.at += close + 2;
        } else if rest.get(width) == Some(&b'\'') {
            self.blank(self.at + 1..self.at + 1 + width);
            self.at += width + 2;
        } else {
            self.at += 1;
        }
    }

    /// Skips a whole word, so that the `r` of `for` does not start a raw string.
    fn word(&mut self) {
        while self.peek(0).is_some_and(is_identifier) {
            self.at += 1;
        }
    }
}

const fn utf8_width(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}

/// True if a byte may be part of an identifier. Bytes of non-ASCII characters count: in code they
/// occur in identifiers only.
pub(crate) const fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    1 + bytes[..offset].iter().filter(|&&byte| byte == b'\n').count()
}

fn lines_between(code: &str, start: usize, end: usize) -> usize {
    1 + code.as_bytes()[start..end].iter().filter(|&&byte| byte == b'\n').count()
}

/// Items whose first attribute names `test`.
fn test_ranges(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for opening in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for (start, _) in code.match_indices(opening) {
            let end = item_end(code, start + opening.len());
            ranges.push(start..end);
        }
    }
    ranges.sort_by_key(|range| range.start);
    // A test item inside a test module belongs to the module.
    let mut kept: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        if kept.last().is_none_or(|last| last.end <= range.start) {
            kept.push(range);
        }
    }
    kept
}

/// End of the item that begins at `start`: after its `;` or its closing brace.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    let mut nested = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b'}' if nested <= 1 => return at + 1,
            b'}' => nested -= 1,
            b';' if nested == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn functions(text: &RustText) -> Vec<Function> {
    text.words("fn").filter_map(|at| function_at(text, at)).collect()
}

/// The function whose keyword `fn` is at `at`, if it has a name and a body.
fn function_at(text: &RustText, at: usize) -> Option<Function> {
    let code = &text.code;
    let after = code[at + 2..].trim_start();
    let name: String =
        after.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect::<String>();
    if name.is_empty() {
        return None;
    }
    let name_end = code.len() - after.len() + name.len();
    let open = parameters_open(code, name_end)?;
    let (parameters, close) = count_parameters(code, open);
    // A declaration without a body is skipped.
    body_open(code, close)?;
    Some(Function { name, line: text.line_of(at), parameters, is_test: text.in_test(at) })
}

/// Opening parenthesis of the parameters: the first one outside the generics.
fn parameters_open(code: &str, from: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut angles = 0_usize;
    for at in from..bytes.len() {
        match bytes[at] {
            b'<' => angles += 1,
            b'>' if bytes[at - 1] != b'-' => angles = angles.saturating_sub(1),
            b'(' if angles == 0 => return Some(at),
            b'{' | b';' => return None,
            _ => {}
        }
    }
    None
}

/// Opening brace of the body; `None` for a declaration, which ends in a semicolon.
fn body_open(code: &str, from: usize) -> Option<usize> {
    let mut nested = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b'{' if nested == 0 => return Some(at),
            b';' if nested == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Counts the parameters besides `self`, and finds the end of their list.
fn count_parameters(code: &str, open: usize) -> (usize, usize) {
    let bytes = code.as_bytes();
    let (mut nested, mut count, mut start) = (0_usize, 0, open + 1);
    for at in open..bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' | b'<' => nested += 1,
            b'>' if bytes[at - 1] == b'-' || bytes[at - 1] == b'=' => {}
            b')' | b']' | b'}' | b'>' => nested = nested.saturating_sub(1),
            b',' if nested == 1 => {
                count += usize::from(is_parameter(&code[start..at]));
                start = at + 1;
            }
            _ => {}
        }
        if nested == 0 {
            count += usize::from(is_parameter(&code[start..at]));
            return (count, at + 1);
        }
    }
    (count, bytes.len())
}

fn is_parameter(text: &str) -> bool {
    let pattern = text.split(':').next().unwrap_or_default().trim();
    let is_self = pattern.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "self");
    !pattern.is_empty() && !is_self
}

#[cfg(test)]
mod tests;
