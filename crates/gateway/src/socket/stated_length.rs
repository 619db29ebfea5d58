//! Detects a `Content-Length` beside a `Transfer-Encoding` in the raw bytes. hyper drops the length
//! in this case, but a proxy in front may use it (request smuggling).

use memchr::{memchr, memchr_iter};

/// Whether the request head has a `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StatedLength {
    /// Unknown: the head arrived together with the previous request, so it was not scanned.
    Unseen,
    None,
    Some,
}

impl StatedLength {
    pub(super) const fn of(number: u8) -> Self {
        match number {
            1 => Self::None,
            2 => Self::Some,
            _ => Self::Unseen,
        }
    }
}

/// Scanner of a request head that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Bytes of the current line so far. `matched` of them match `NAME`.
    line: usize,
    matched: usize,
    has_begun: bool,
    is_over: bool,
    has_length: bool,
}

const NAME: &[u8] = b"content-length:";

impl Scan {
    pub(super) const fn seen(&self) -> StatedLength {
        if self.has_length { StatedLength::Some } else { StatedLength::None }
    }

    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        if !self.has_begun && self.line == 0 && bytes.ends_with(b"\r\n\r\n") {
            return self.read_whole(bytes);
        }
        while !self.is_over && !bytes.is_empty() {
            let end = memchr(b'\n', bytes);
            let line = &bytes[..end.unwrap_or(bytes.len())];
            self.read_line(line);
            let Some(end) = end else { return };
            // Empty lines before a request are ignored.
            self.is_over = self.line == 0 && self.has_begun;
            self.has_begun |= self.line != 0;
            (self.line, self.matched) = (0, 0);
            bytes = &bytes[end + 1..];
        }
    }

    /// Fast path: nearly every head arrives in one piece.
    fn read_whole(&mut self, bytes: &[u8]) {
        let mut ends = memchr_iter(b'\n', bytes);
        let lines = std::iter::once(0).chain(ends.by_ref().map(|end| end + 1));
        for line in lines.filter_map(|start| bytes.get(start..)) {
            match line {
                [b'c' | b'C', ..] => {
                    let name = line.get(..NAME.len());
                    self.has_length |= name.is_some_and(|name| name.eq_ignore_ascii_case(NAME));
                }
                // Empty lines before a request are ignored.
                [b'\r' | b'\n', ..] if self.has_begun => break,
                [b'\r' | b'\n', ..] | [] => continue,
                _ => {}
            }
            self.has_begun = true;
        }
        self.is_over = self.has_begun;
    }

    fn read_line(&mut self, piece: &[u8]) {
        let piece = piece.strip_suffix(b"\r").unwrap_or(piece);
        let rest = &NAME[self.matched.min(NAME.len())..];
        if self.line == self.matched && !rest.is_empty() {
            let same = |(a, b): &(&u8, &u8)| a.eq_ignore_ascii_case(b);
            self.matched += rest.iter().zip(piece).take_while(same).count();
            self.has_length |= self.matched == NAME.len();
        }
        self.line += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        for at_once in [1, 2, 3, 7, text.len()] {
            let mut scan = Scan::default();
            text.as_bytes().chunks(at_once).for_each(|piece| scan.read(piece));
            assert_eq!(scan.seen() == StatedLength::Some, expected, "{text:?} by {at_once}");
        }
    }

    #[test]
    fn a_length_is_seen_wherever_the_head_was_cut() {
        check("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", true);
        check(
            "\r\n\r\nPUT / HTTP/1.1\r\ncontent-LENGTH:5\r\nTransfer-Encoding: chunked\r\n\r\n",
            true,
        );
        check("PUT / HTTP/1.1\nTransfer-Encoding: chunked\ncontent-length:5\n\n", true);
        check("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", false);
        check("PUT /content-length:1 HTTP/1.1\r\nX: content-length:\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nX-Content-Length: 5\r\nContent-Lengths: 1\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\n\r\nContent-Length: 5\r\n\r\n", false);
        check("PUT / HTTP/1.1\n\nContent-Length: 5\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nContent-Length\r\n\r\n", false);
        check("\r\nPUT / HTTP/1.1\r\nA: b\r\nCONTENT-length:\r\n\r\n", true);
    }
}
