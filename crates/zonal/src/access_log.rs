//! Access log file: one JSON line for each request, written by its own thread.
//!
//! Field names follow OpenTelemetry's semantic conventions where these define one, so that
//! collectors need no mapping. The other fields are named `zonal.*`.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;
use zonal_cli::Failure;
use zonal_gateway::{AccessEntry, AccessEvent, AccessEvents, AccessLog};
use zonal_s3::sigv4::Timestamp;

use crate::config::AccessTo;

/// Largest batch in bytes while lines arrive faster than the thread writes them: some hundred
/// lines.
const BATCH_BYTES: usize = 64 << 10;

/// The access log and its writer thread.
pub(crate) struct Writer {
    log: AccessLog,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Opens the target (file or standard output) and starts the writer thread.
    pub(crate) fn start(to: &AccessTo) -> Result<Self, Failure> {
        let out = match open(to) {
            Ok(out) => Some(out),
            // A full disk is no reason to serve nobody.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, %to, "access log: cannot be created yet, lines are lost");
                None
            }
            Err(error) => {
                let why = format!(
                    "log.access: {to}: {error}: name a file that can be written, or - for standard output"
                );
                return Err(Failure::request(why));
            }
        };
        let (log, events) = AccessLog::new();
        let (to, of_thread) = (to.clone(), log.clone());
        let run = move || Lines { to, out, log: of_thread, batch: Batch::default() }.run(&events);
        let thread = thread::Builder::new().name("access-log".to_owned()).spawn(run);
        Ok(Self { log, thread: thread.map_err(Failure::work)? })
    }

    /// The handle to which requests submit their lines.
    pub(crate) const fn log(&self) -> &AccessLog {
        &self.log
    }

    /// Writes the remaining lines and ends the thread. Gives up on a target that takes no bytes: it
    /// may be a pipe whose reader has stopped.
    pub(crate) fn end(self) {
        let deadline = Instant::now() + END_MAX;
        let mut is_told = false;
        while !self.thread.is_finished() {
            is_told = is_told || self.log.end();
            if deadline < Instant::now() {
                tracing::warn!("access log: its reader takes no lines, the last ones are lost");
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Longest time to write the remaining lines at the end of the process.
const END_MAX: Duration = Duration::from_secs(2);

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn open(to: &AccessTo) -> io::Result<Box<dyn Write + Send>> {
    match to {
        AccessTo::StandardOutput => Ok(Box::new(io::stdout())),
        AccessTo::File(path) => Ok(Box::new(append_to(path)?)),
    }
}

/// Opens the file. A named pipe that nobody reads is an error: the open would wait for a reader.
fn append_to(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = File::options().create(true).append(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => {
            io::Error::other("nobody reads this named pipe: start its reader first")
        }
        _ => error,
    })?;
    // Writes wait for the reader, in a thread of their own.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Serialized lines that are not written yet.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

struct Lines {
    to: AccessTo,
    /// `None`: the file could not be created. Each batch tries again.
    out: Option<Box<dyn Write + Send>>,
    log: AccessLog,
    batch: Batch,
}

impl Lines {
    fn run(mut self, events: &AccessEvents) {
        let mut has_failed = false;
        loop {
            let waiting = events.try_next();
            if waiting.is_none() || BATCH_BYTES <= self.batch.text.len() {
                has_failed = self.write(has_failed);
            }
            match waiting.unwrap_or_else(|| events.next()) {
                AccessEvent::Entry(entry) => self.batch.add(&entry),
                AccessEvent::Reopen => {
                    has_failed = self.write(has_failed);
                    self.reopen();
                }
                AccessEvent::End => {
                    self.write(has_failed);
                    return;
                }
            }
        }
    }

    /// Writes the batch, and returns whether that failed. Lines that cannot be written are lost and
    /// counted. The error is logged once until a write succeeds again.
    fn write(&mut self, has_failed: bool) -> bool {
        let Batch { text, lines } = std::mem::take(&mut self.batch);
        if text.is_empty() {
            return has_failed;
        }
        let Err(error) = self.try_write(&text) else { return false };
        self.log.lost().add(lines);
        if !has_failed {
            tracing::error!(%error, to = %self.to, "access log: write failed, lines are lost");
        }
        true
    }

    fn try_write(&mut self, text: &[u8]) -> io::Result<()> {
        let mut out = match self.out.take() {
            Some(out) => out,
            None => open(&self.to)?,
        };
        let written = out.write_all(text).and_then(|()| out.flush());
        self.out = Some(out);
        written
    }

    fn reopen(&mut self) {
        match open(&self.to) {
            Ok(out) => self.out = Some(out),
            Err(error) => tracing::error!(
                %error,
                to = %self.to,
                "access log: reopen failed, writing continues to the old file"
            ),
        }
    }
}

impl Batch {
    fn add(&mut self, entry: &AccessEntry) {
        serde_json::to_writer(&mut self.text, &LogRecord::of(entry)).expect("a line is JSON");
        self.text.push(b'\n');
        self.lines += 1;
    }
}

/// One line; the fields are written in this order. Unknown values are omitted.
#[derive(Serialize)]
struct LogRecord<'a> {
    timestamp: String,
    #[serde(rename = "aws.request_id")]
    request_id: &'a str,
    #[serde(rename = "client.address")]
    client_address: String,
    #[serde(rename = "client.port")]
    client_port: u16,
    #[serde(rename = "zonal.forwarded_for", skip_serializing_if = "Option::is_none")]
    forwarded_for: Option<&'a str>,
    #[serde(rename = "server.address", skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(rename = "zonal.access_key", skip_serializing_if = "Option::is_none")]
    access_key: Option<&'a str>,
    #[serde(rename = "rpc.method")]
    operation: &'static str,
    #[serde(rename = "aws.s3.bucket", skip_serializing_if = "str::is_empty")]
    bucket: &'a str,
    #[serde(rename = "aws.s3.key", skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(rename = "zonal.version_id", skip_serializing_if = "Option::is_none")]
    version_id: Option<&'a str>,
    #[serde(rename = "http.request.method")]
    method: &'a str,
    #[serde(rename = "url.path")]
    path: &'a str,
    #[serde(rename = "url.query", skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(rename = "http.response.status_code", skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    error_type: Option<String>,
    #[serde(rename = "zonal.x_cache", skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(rename = "zonal.x_cache_reason", skip_serializing_if = "Option::is_none")]
    bypass: Option<&'a str>,
    #[serde(rename = "http.response.body.size")]
    sent_bytes: u64,
    #[serde(rename = "zonal.object.size", skip_serializing_if = "Option::is_none")]
    object_bytes: Option<u64>,
    #[serde(rename = "zonal.time_to_first_byte", skip_serializing_if = "Option::is_none")]
    first_byte_s: Option<f64>,
    #[serde(rename = "http.server.request.duration")]
    total_s: f64,
    #[serde(rename = "user_agent.original", skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
    #[serde(rename = "http.request.header.referer", skip_serializing_if = "Option::is_none")]
    referer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<&'a str>,
}

impl<'a> LogRecord<'a> {
    fn of(entry: &'a AccessEntry) -> Self {
        Self {
            timestamp: timestamp(entry),
            request_id: &entry.request_id,
            client_address: entry.client.ip().to_canonical().to_string(),
            client_port: entry.client.port(),
            forwarded_for: entry.forwarded_for.as_deref(),
            host: entry.host.as_deref(),
            access_key: entry.access_key.as_deref(),
            operation: entry.operation.name(),
            bucket: &entry.bucket,
            key: &entry.key,
            version_id: entry.version_id.as_deref(),
            method: entry.method.as_str(),
            path: &entry.path,
            query: entry.query.as_deref(),
            status: entry.status.map(|status| status.as_u16()),
            error_type: error_type(entry),
            outcome: entry.outcome.map(|outcome| outcome.name()),
            bypass: entry.bypass.as_deref(),
            sent_bytes: entry.sent_bytes,
            object_bytes: entry.object_bytes,
            first_byte_s: entry.first_byte.map(seconds),
            total_s: seconds(entry.total),
            user_agent: entry.user_agent.as_deref(),
            referer: entry.referer.as_deref(),
            trace_id: entry.trace.as_ref().map(|trace| &*trace.trace_id),
            span_id: entry.trace.as_ref().map(|trace| &*trace.span_id),
        }
    }
}

/// ISO 8601 timestamp in UTC, in milliseconds.
fn timestamp(entry: &AccessEntry) -> String {
    let millis = entry.at.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    let second = Timestamp::from_system_time(entry.at).iso8601();
    format!("{}.{millis:03}Z", second.trim_end_matches(".000Z"))
}

/// Seconds, truncated to microseconds: more digits are noise.
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// `error.type`: the S3 error code, or the HTTP status as the conventions prescribe. Two values are
/// Zonal's own: `cut` means that the response broke off, `gone` that the client disconnected before
/// it got one.
fn error_type(entry: &AccessEntry) -> Option<String> {
    if entry.is_cut {
        return Some("cut".to_owned());
    }
    let Some(status) = entry.status else { return Some("gone".to_owned()) };
    let code = entry.error_code.as_deref().map(str::to_owned);
    code.or_else(|| (400 <= status.as_u16()).then(|| status.as_u16().to_string()))
}
