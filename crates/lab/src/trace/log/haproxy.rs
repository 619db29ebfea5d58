//! HTTP log of HAProxy (`option httplog` or `option httpslog`), with or without the head of syslog.
//!
//! `client:port [time] frontend backend/server timers status bytes … "request"`. Times have no zone
//! and are taken as UTC. The bytes include the response's headers, so sizes are right to about a
//! kilobyte. Other messages of HAProxy are skipped.

use super::super::field::{self, Wrong};
use super::http::{HttpRequest, request_line};
use super::tokens::{quoted, tokens};
use super::{LogLine, LogLines, Skip, Transfer, time};

pub(super) struct Haproxy;

impl LogLines for Haproxy {
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>> {
        let Some((begin, time_ms)) = line.match_indices(" [").find_map(|(at, _)| {
            let end = line[at..].find(']')?;
            let time_ms = time::common(&line[at + 2..at + end]).ok()?;
            Some((at + end + 1, time_ms))
        }) else {
            return Ok(LogLine::NoRequest);
        };
        // A connection without HTTP has a termination state where an HTTP request has a status.
        let mut fields = tokens(&line[begin..]).skip(3);
        let status = fields.next().and_then(|status| status.parse().ok());
        let Some((status, bytes)) = status.zip(fields.next()) else {
            return Ok(LogLine::NoRequest);
        };
        let bytes = field::number(bytes.trim_start_matches('+'), "a number of bytes")?;
        let request = line[begin..].split_once(" \"").map(|(_, behind)| quoted(behind).0);
        let Some((method, target)) = request.and_then(request_line) else {
            return Ok(LogLine::Skipped(Skip::Failure));
        };
        // HTTP/2 is logged with the whole URL.
        let (host, target) = match target.split_once("://") {
            None => ("", target),
            Some((_, behind)) => behind.split_at(behind.find('/').unwrap_or(behind.len())),
        };
        let transfer = Transfer { bytes, has_headers: true, ..Transfer::default() };
        Ok(HttpRequest { time_ms, host, method, target, status, transfer }.line())
    }
}
