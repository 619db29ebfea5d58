//! Common and combined log format, as nginx and Apache write it.
//!
//! `client - user [time] "request" status bytes`, and perhaps referer, user agent and more. The
//! bytes are those of the body. The object's size is known from complete answers only.

use super::super::field::{self, Wrong};
use super::http::{HttpRequest, request_line};
use super::tokens::tokens;
use super::{LogLine, LogLines, Skip, Transfer, time};

pub(super) struct Nginx;

impl LogLines for Nginx {
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>> {
        // The user's name may contain blanks.
        let Some(begin) = line.find(" [") else {
            return Err(Wrong::line("expected a time in brackets, as in combined log format"));
        };
        let mut fields = tokens(&line[begin + 1..]);
        let mut next = |what| field::next(&mut fields, what);
        let time_ms = time::common(next("a time")?)?;
        let request = next("a request")?;
        let status = field::number(next("a status")?, "a status")?;
        let bytes = match next("a number of bytes")? {
            "-" => 0,
            bytes => field::number(bytes, "a number of bytes")?,
        };
        // Whatever a client sends is logged, also if it is no HTTP.
        let Some((method, target)) = request_line(request) else {
            return Ok(LogLine::Skipped(Skip::Failure));
        };
        let transfer = Transfer { bytes, ..Transfer::default() };
        Ok(HttpRequest { time_ms, host: "", method, target, status, transfer }.line())
    }
}
