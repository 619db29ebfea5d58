//! Standard log of CloudFront: W3C format, columns split by tabs and named by `#Fields:`.
//!
//! `sc-content-len` is the length of a response's body; without it `sc-bytes` is taken, which
//! includes the headers. `sc-range-start` and `sc-range-end` are those of a range.

use super::super::field::Wrong;
use super::http::HttpRequest;
use super::{LogLine, LogLines, Transfer, time};

/// Parser state: the columns, known after the line with their names.
#[derive(Default)]
pub(super) struct CloudFront {
    columns: Option<Columns>,
}

struct Columns {
    date: usize,
    time: usize,
    method: usize,
    host: usize,
    stem: usize,
    status: usize,
    bytes: usize,
    query: Option<usize>,
    length: Option<usize>,
    range_start: Option<usize>,
}

impl Columns {
    fn of(names: &str) -> Result<Self, Wrong<'_>> {
        let all: Vec<&str> = names.split_ascii_whitespace().collect();
        let find = |name: &str| all.iter().position(|column| *column == name);
        let need = |name: &str| {
            find(name).ok_or_else(|| Wrong::part(names, format!("expected a column {name}")))
        };
        Ok(Self {
            date: need("date")?,
            time: need("time")?,
            method: need("cs-method")?,
            host: need("cs(Host)")?,
            stem: need("cs-uri-stem")?,
            status: need("sc-status")?,
            bytes: need("sc-bytes")?,
            query: find("cs-uri-query"),
            length: find("sc-content-len"),
            range_start: find("sc-range-start"),
        })
    }
}

impl LogLines for CloudFront {
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>> {
        if let Some(names) = line.strip_prefix("#Fields:") {
            self.columns = Some(Columns::of(names)?);
            return Ok(LogLine::NoRequest);
        }
        if line.starts_with('#') {
            return Ok(LogLine::NoRequest);
        }
        let Some(columns) = &self.columns else {
            return Err(Wrong::line("expected a line that begins with #Fields: first"));
        };
        let fields: Vec<&str> = line.split('\t').collect();
        let at = |column: usize| {
            let count = fields.len();
            fields.get(column).copied().ok_or_else(|| {
                Wrong::line(format!("the line has {count} columns, fewer than #Fields"))
            })
        };
        let (date, time) = (at(columns.date)?, at(columns.time)?);
        let time_ms = time::w3c(date, time).ok_or_else(|| {
            let why = format!("expected a date and a time in UTC, not {date:?} and {time:?}");
            Wrong::part(date, why)
        })?;
        let number = |column: Option<usize>| -> Option<u64> { at(column?).ok()?.parse().ok() };
        let length = number(columns.length);
        let bytes = length.or_else(|| number(Some(columns.bytes)));
        let transfer = Transfer {
            bytes: bytes.unwrap_or(0),
            offset: number(columns.range_start),
            has_headers: length.is_none(),
            ..Transfer::default()
        };
        let (method, host) = (at(columns.method)?, at(columns.host)?);
        let stem = at(columns.stem)?;
        let target = match columns.query.map(at).transpose()? {
            None | Some("-" | "") => stem.to_owned(),
            Some(query) => format!("{stem}?{query}"),
        };
        // 000: the viewer closed the connection before the answer.
        let status = at(columns.status)?.parse().unwrap_or(0);
        Ok(HttpRequest { time_ms, host, method, target: &target, status, transfer }.line())
    }
}
