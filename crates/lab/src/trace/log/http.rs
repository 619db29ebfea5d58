//! HTTP requests in access logs: what a method, a path and a status did to an object.

use super::{Action, Entry, LogLine, Skip, Transfer, object};

/// Query parameters that make a request one about something else than an object's bytes.
const SUBRESOURCES: [&str; 24] = [
    "accelerate",
    "acl",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "notification",
    "ownershipControls",
    "policy",
    "prefix",
    "replication",
    "restore",
    "retention",
    "tagging",
    "torrent",
    "uploads",
    "versioning",
    "versions",
];

/// A request as an HTTP server logs it.
pub(super) struct HttpRequest<'a> {
    pub(super) time_ms: i64,
    /// Virtual host, where the log has it.
    pub(super) host: &'a str,
    pub(super) method: &'a str,
    /// Path, with the query behind `?`.
    pub(super) target: &'a str,
    pub(super) status: u16,
    pub(super) transfer: Transfer,
}

impl HttpRequest<'_> {
    /// The line of a trace that the request is. The object is the path without the query: the
    /// query of S3 is a signature, or asks for something else.
    pub(super) fn line(self) -> LogLine {
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        let has = |wanted: &str| {
            query.split('&').any(|part| part.split('=').next().unwrap_or_default() == wanted)
        };
        let is_part = has("uploadId") && (has("partNumber") || self.method != "POST");
        let is_object = path.len() > 1 && !is_part && !SUBRESOURCES.iter().any(|name| has(name));
        if !is_object {
            return LogLine::Skipped(Skip::Operation);
        }
        let action = match (self.method, self.status) {
            ("GET", 200) => Action::Read(Transfer { is_whole: Some(true), ..self.transfer }),
            ("GET", 206) => Action::Read(Transfer { is_whole: Some(false), ..self.transfer }),
            ("PUT" | "POST" | "DELETE", 200..=299) => Action::Write(None),
            ("GET" | "PUT" | "POST" | "DELETE", _) => return LogLine::Skipped(Skip::Failure),
            _ => return LogLine::Skipped(Skip::Operation),
        };
        let object = object(&[self.host, path]);
        LogLine::Entry(Entry { time_ms: self.time_ms, object, action })
    }
}

/// Splits a request line: `GET /path HTTP/1.1`. `None` for anything else, which clients send too.
pub(super) fn request_line(text: &str) -> Option<(&str, &str)> {
    let (method, rest) = text.split_once(' ')?;
    let target = rest.split(' ').next()?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    is_method.then_some((method, target))
}
