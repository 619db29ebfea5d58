//! Access logs: the requests of S3, of HTTP servers and of Zonal itself, as a trace.
//!
//! 1. A format parses an entry: time, object, and what was done (`s3`, `cloudtrail`, `cloudfront`,
//!    `nginx`, `haproxy`, `zonal`; `http` for those that log a request line).
//! 2. Entries of all files are merged in the order of their times (`merge`).
//! 3. An entry becomes a request for bytes of an object of known size (`objects`).
//!
//! Rules that all formats share:
//!
//! - A GET that was answered 200 or 206 is a read of the bytes that were sent.
//! - An upload, copy or deletion of an object invalidates it.
//! - Everything else is skipped and counted: HEAD, lists, parts of uploads, failures.

mod cloudfront;
mod cloudtrail;
mod haproxy;
mod http;
mod merge;
mod nginx;
mod objects;
mod s3;
mod time;
mod tokens;
mod zonal;

use std::fmt;

use serde::Serialize;

use super::TraceError;
use super::field::Wrong;
use super::input::Input;
pub(super) use merge::LogReader;

/// Format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Server access log of an S3 bucket.
    S3,
    /// Data events of S3 in AWS CloudTrail.
    CloudTrail,
    /// Standard log of Amazon CloudFront.
    CloudFront,
    /// Common and combined log format of nginx and Apache.
    Nginx,
    /// HTTP log of HAProxy.
    Haproxy,
    /// Access log of Zonal.
    Zonal,
}

impl LogFormat {
    /// Every format, in the order in which they are tried on an unknown file.
    pub(super) const ALL: [Self; 6] =
        [Self::S3, Self::CloudFront, Self::Zonal, Self::CloudTrail, Self::Haproxy, Self::Nginx];

    /// Whether a line is an entry of this format, or another line that belongs to it.
    pub(super) fn is_line(self, line: &str) -> bool {
        match self {
            Self::S3 => s3::S3.parse(line).is_ok(),
            Self::CloudFront => line.starts_with("#Fields:") || line.starts_with("#Version:"),
            Self::Zonal => zonal::Zonal.parse(line).is_ok(),
            Self::CloudTrail => cloudtrail::is_begin(line),
            Self::Haproxy => matches!(
                haproxy::Haproxy.parse(line),
                Ok(LogLine::Entry(_) | LogLine::Skipped(Skip::Operation | Skip::Failure))
            ),
            Self::Nginx => nginx::Nginx.parse(line).is_ok(),
        }
    }
}

/// An entry of a log, before its object's size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Milliseconds since 1970.
    time_ms: i64,
    /// Hash of the bucket and the key.
    object: u64,
    action: Action,
}

/// What a request did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Read(Transfer),
    /// Upload, copy or deletion, and the new size if the log has one.
    Write(Option<u64>),
}

/// Bytes that a read transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    /// Bytes that were sent.
    bytes: u64,
    /// Size of the object, if the log has it.
    size: Option<u64>,
    /// False for a range (206), `None` if the log does not tell.
    is_whole: Option<bool>,
    /// First byte of a range, if the log has it.
    offset: Option<u64>,
    /// The number of bytes includes response headers.
    has_headers: bool,
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogLine {
    Entry(Entry),
    Skipped(Skip),
    /// A line without a request: names of columns, a message of the server.
    NoRequest,
}

/// Why an entry is no request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    /// An operation that neither reads nor changes an object's bytes.
    Operation,
    /// A request that failed, or was answered without bytes (304).
    Failure,
}

/// Numbers of entries that are no requests of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Operations that neither read nor change an object's bytes: HEAD, lists, parts of uploads.
    pub operations: u64,
    /// Requests that failed or were answered without bytes: 304, 403, 404, 5xx.
    pub failures: u64,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, failures } = self;
        write!(f, "{operations} other operations (HEAD, lists) and {failures} failures or 304")
    }
}

/// A log format with one entry per line.
trait LogLines: Send {
    /// Parses one line. The error says what was expected.
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>>;
}

/// Entries of a log file.
enum LogFile {
    Lines(Input, Box<dyn LogLines>),
    CloudTrail(cloudtrail::Documents),
}

impl LogFile {
    fn new(input: Input, format: LogFormat) -> Self {
        match format {
            LogFormat::S3 => Self::Lines(input, Box::new(s3::S3)),
            LogFormat::CloudFront => Self::Lines(input, Box::<cloudfront::CloudFront>::default()),
            LogFormat::Nginx => Self::Lines(input, Box::new(nginx::Nginx)),
            LogFormat::Haproxy => Self::Lines(input, Box::new(haproxy::Haproxy)),
            LogFormat::Zonal => Self::Lines(input, Box::new(zonal::Zonal)),
            LogFormat::CloudTrail => Self::CloudTrail(cloudtrail::Documents::new(input)),
        }
    }

    /// Next line; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<LogLine>, TraceError> {
        let (input, lines) = match self {
            Self::CloudTrail(documents) => return documents.next(),
            Self::Lines(input, lines) => (input, lines),
        };
        let Some(line) = input.log_line()? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(LogLine::NoRequest));
        }
        match lines.parse(&line) {
            Ok(line) => Ok(Some(line)),
            Err(wrong) => {
                let (column, why) = (wrong.column(&line), wrong.why);
                drop(line);
                Err(input.in_line(column, format!("{why}. If the line is damaged, remove it")))
            }
        }
    }

    const fn input(&self) -> &Input {
        match self {
            Self::Lines(input, _) => input,
            Self::CloudTrail(documents) => documents.input(),
        }
    }
}

/// Whether an S3 operation replaces or removes an object.
fn is_write(operation: &str) -> bool {
    const WRITES: [&str; 5] =
        ["PutObject", "CopyObject", "PostObject", "CompleteMultipartUpload", "DeleteObject"];
    WRITES.contains(&operation)
}

/// Hash of the parts of an object's name.
fn object(parts: &[&str]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write(part.as_bytes());
        hasher.write_u8(0xFF);
    }
    hasher.finish()
}
