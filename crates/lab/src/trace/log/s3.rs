//! Server access log of S3: one line per request, fields split by blanks.
//!
//! Fields: owner, bucket, `[time]`, client, requester, request ID, operation, key, `"request"`,
//! status, error, bytes sent, object size, total time, turn-around time, `"referer"`,
//! `"user agent"`, version ID, and more. Lines may have more fields in future.

use super::super::field::{self, Wrong};
use super::tokens::tokens;
use super::{Action, Entry, LogLine, LogLines, Skip, Transfer, object, time};

pub(super) struct S3;

impl LogLines for S3 {
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>> {
        let mut fields = tokens(line);
        let mut next = |what| field::next(&mut fields, what);
        let _owner = next("the bucket's owner")?;
        let bucket = next("a bucket")?;
        let time_ms = time::common(next("a time")?)?;
        for what in ["a client", "a requester", "a request ID"] {
            next(what)?;
        }
        let operation = next("an operation")?;
        let Some((origin, what)) = operation.split_once('.') else {
            let why = format!("expected an operation such as REST.GET.OBJECT, not {operation:?}");
            return Err(Wrong::part(operation, why));
        };
        let key = next("a key")?;
        next("a request")?;
        let status = number(next("a status")?)?;
        next("an error code")?;
        let bytes = number(next("bytes sent")?)?;
        let size = number(next("an object size")?)?;
        let action = match (origin, what) {
            (_, "GET.OBJECT") => Action::Read(Transfer {
                bytes: bytes.unwrap_or(0),
                size,
                is_whole: status.map(|status| status != 206),
                ..Transfer::default()
            }),
            (_, "PUT.OBJECT" | "COPY.OBJECT" | "POST.OBJECT" | "POST.UPLOAD" | "DELETE.OBJECT")
            | ("S3", "EXPIRE.OBJECT" | "CREATE.DELETEMARKER") => Action::Write(size),
            _ => return Ok(LogLine::Skipped(Skip::Operation)),
        };
        // Lifecycle entries have no status.
        let is_done = matches!(status, None | Some(200 | 204 | 206));
        if !is_done || key == "-" {
            return Ok(LogLine::Skipped(Skip::Failure));
        }
        // Behind the object's size: two times, referer, user agent.
        let version = fields.nth(4).filter(|version| *version != "-").unwrap_or("");
        let object = match action {
            Action::Read(_) => object(&[bucket, key, version]),
            // A new version hides the object; the old one remains under its ID.
            Action::Write(_) => object(&[bucket, key, ""]),
        };
        Ok(LogLine::Entry(Entry { time_ms, object, action }))
    }
}

/// A number, or `-` for none.
fn number(text: &str) -> Result<Option<u64>, Wrong<'_>> {
    if text == "-" {
        return Ok(None);
    }
    field::number(text, "a number or -").map(Some)
}
