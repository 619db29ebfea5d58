//! Trace parser: turns lines or records of a trace file into runs of requests ([`Run`]).
//!
//! Rules that all formats share:
//!
//! - A read is a request. A write or delete invalidates the object, because a cache in front of an
//!   object store does not see the written bytes. An invalidation counts neither as a request nor
//!   as a hit or a miss. (libCacheSim counts every operation as a read; a format's file says where
//!   that matters.)
//! - A numeric object id is used as it is. A textual id is hashed to 64 bits.
//! - Requests on block devices are cut into blocks, one request per block. Otherwise overlapping
//!   ranges would be different objects. The formats `arc`, `msr` and `spc` do that.

mod arc;
mod cachelib;
mod msr;
mod oracle_general;
mod plain;
mod plausible;
mod spc;
mod text;
mod twitter;

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;

use super::field::{self, Wrong};
use super::input::Input;
use super::log::{LogReader, Skipped};
use super::source::TraceFile;
use super::{Format, Request, TraceError};
pub use text::TimeUnit;

/// One or more requests that differ only by object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    next: Request,
    left: u64,
    /// Increment of the object id from one request to the next.
    step: u64,
}

impl Run {
    const fn one(request: Request) -> Self {
        Self { next: request, left: 1, step: 0 }
    }
}

/// A text format with one run per line.
trait Lines: Send {
    /// Parses one line; `None` for a header. The error says what was expected.
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>>;
}

/// A binary format with records of a fixed length, one request each.
struct Records {
    /// Length of a record in bytes.
    each: usize,
    parse: fn(&[u8]) -> Request,
    buffer: Vec<u8>,
}

enum Kind {
    Lines(Box<dyn Lines>),
    Records(Records),
}

/// Iterates over the requests of a trace.
pub struct Reader {
    source: Source,
    /// Name of the first file.
    name: String,
    /// Bytes of all files on disk, or the number of requests in memory.
    file_bytes: u64,
}

enum Source {
    /// Files of a trace format, one after the other.
    Traces(Box<Traces>),
    /// Access logs, merged by time.
    Logs(Box<LogReader>),
    /// Requests in memory, and the number of those that were taken.
    Held(Arc<[Request]>, usize),
}

/// Files of a trace format, and the position in them.
struct Traces {
    format: Format,
    files: VecDeque<TraceFile>,
    open: Option<(Input, Kind)>,
    /// Unread requests of the current line.
    run: Option<Run>,
    /// Bytes on disk of the files before the open one.
    bytes_before: u64,
    unit: TimeUnit,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Records per read.
const RECORDS: usize = 4096;

impl Reader {
    pub(super) fn open(files: &[TraceFile], format: Format) -> Result<Self, TraceError> {
        let source = match format.log() {
            Some(log) => Source::Logs(Box::new(LogReader::open(files, log)?)),
            None => Source::Traces(Box::new(Traces::open(files, format)?)),
        };
        let bytes = files.iter().filter_map(|file| fs::metadata(&file.path).ok());
        let file_bytes = bytes.map(|file| file.len()).sum();
        let name = files.first().map_or_else(String::new, |file| file.name.clone());
        Ok(Self { source, name, file_bytes })
    }

    pub(super) fn of_held(name: &str, held: Arc<[Request]>) -> Self {
        let file_bytes = held.len() as u64;
        Self { source: Source::Held(held, 0), name: name.into(), file_bytes }
    }

    /// Share of the files read so far, from 0 to 1.
    #[must_use]
    pub fn done(&self) -> f64 {
        let read = match &self.source {
            Source::Traces(traces) => traces.bytes_read(),
            Source::Logs(logs) => logs.bytes_read(),
            Source::Held(_, taken) => *taken as u64,
        };
        if self.file_bytes == 0 { 1.0 } else { read as f64 / self.file_bytes as f64 }
    }

    /// Replaces the contents of `batch` with at most `most` requests, or slightly more in binary
    /// formats. An empty batch marks the end of the trace.
    ///
    /// # Errors
    /// When a file does not match its format, or ends within a record.
    pub fn batch(&mut self, batch: &mut Vec<Request>, most: usize) -> Result<(), TraceError> {
        batch.clear();
        match &mut self.source {
            Source::Traces(traces) => traces.batch(batch, most),
            Source::Logs(logs) => logs.batch(batch, most),
            Source::Held(held, taken) => {
                let end = held.len().min(*taken + most);
                batch.extend_from_slice(&held[*taken..end]);
                *taken = end;
                Ok(())
            }
        }
    }

    /// Entries of access logs so far that are no reads, writes or deletions of objects.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        match &self.source {
            Source::Traces(_) | Source::Held(..) => Skipped::default(),
            Source::Logs(logs) => logs.skipped(),
        }
    }

    /// Unit of the times in the trace.
    #[must_use]
    pub const fn time_unit(&self) -> TimeUnit {
        match &self.source {
            Source::Traces(traces) => traces.unit,
            Source::Logs(_) | Source::Held(..) => TimeUnit::Seconds,
        }
    }

    /// Error of a trace that ended after `requests` without a read.
    pub(crate) fn without_reads(&self, requests: usize) -> TraceError {
        let skipped = self.skipped();
        self.error(match requests {
            0 if skipped == Skipped::default() => "the trace is empty: it has no request".into(),
            0 => format!("the log has no read of an object, only {skipped}"),
            removals => format!("the trace has no reads, only {removals} writes or deletions"),
        })
    }

    /// Error of the trace as a whole.
    pub(crate) fn error(&self, why: String) -> TraceError {
        TraceError::in_file(&self.name, why)
    }
}

impl Kind {
    fn of(format: Format, unit: TimeUnit) -> Self {
        let records =
            |(each, parse)| Self::Records(Records { each, parse, buffer: vec![0; each * RECORDS] });
        match format {
            Format::OracleGeneral => records((oracle_general::BYTES, oracle_general::parse)),
            Format::U32Le => records((4, plain::u32le)),
            Format::U32Be => records((4, plain::u32be)),
            Format::U64Le => records((8, plain::u64le)),
            Format::U64Be => records((8, plain::u64be)),
            Format::Arc => Self::Lines(Box::new(arc::Arc)),
            Format::Cachelib => Self::Lines(Box::<cachelib::Cachelib>::default()),
            Format::Twitter => Self::Lines(Box::new(twitter::Twitter)),
            Format::Msr => Self::Lines(Box::<msr::Msr>::default()),
            Format::Spc => Self::Lines(Box::new(spc::Spc)),
            Format::Text => Self::Lines(Box::new(text::Text { unit })),
            Format::TextSize => Self::Lines(Box::new(text::TextSize { unit })),
            Format::Log(_) => unreachable!("logs have a reader of their own"),
        }
    }
}

impl Traces {
    /// Opens the first file, so that its absence is known at once.
    fn open(files: &[TraceFile], format: Format) -> Result<Self, TraceError> {
        let files = files.iter().cloned().collect();
        let unit = TimeUnit::default();
        let mut traces = Self { format, files, open: None, run: None, bytes_before: 0, unit };
        traces.next_file()?;
        Ok(traces)
    }

    /// Opens the next file. False after the last one.
    fn next_file(&mut self) -> Result<bool, TraceError> {
        if let Some((input, _)) = self.open.take() {
            self.bytes_before += input.file_bytes_read();
        }
        let Some(file) = self.files.pop_front() else { return Ok(false) };
        let mut input = Input::open(&file)?;
        if self.bytes_before == 0 {
            self.unit = unit(self.format, &mut input)?;
        }
        let kind = Kind::of(self.format, self.unit);
        if let Kind::Records(Records { each, .. }) = kind {
            plausible::check(self.format, each, &mut input)?;
        }
        self.open = Some((input, kind));
        Ok(true)
    }

    fn batch(&mut self, batch: &mut Vec<Request>, most: usize) -> Result<(), TraceError> {
        while batch.len() < most {
            let is_over = match &mut self.open {
                None => true,
                Some((input, Kind::Records(records))) => !records.fill(input, batch)?,
                Some((input, Kind::Lines(lines))) => {
                    let is_over =
                        self.run.is_none() && !next_run(input, &mut **lines, &mut self.run)?;
                    if let Some(run) = &mut self.run {
                        run.take(batch, most);
                        self.run = self.run.filter(|run| run.left != 0);
                    }
                    is_over
                }
            };
            if is_over && !self.next_file()? {
                break;
            }
        }
        Ok(())
    }

    fn bytes_read(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |(input, _)| input.file_bytes_read());
        self.bytes_before + open
    }
}

/// Bytes of a file by which the unit of its times is decided.
const HEAD: usize = 16 << 10;

/// Unit of the times in a file.
fn unit(format: Format, input: &mut Input) -> Result<TimeUnit, TraceError> {
    let columns = match format {
        Format::Text => 2,
        Format::TextSize => 3,
        _ if format.may_have_times() => return Ok(TimeUnit::Seconds),
        _ => return Ok(TimeUnit::None),
    };
    let head = input.head(HEAD)?;
    // Bytes that are no text are an error of their line.
    let text = str::from_utf8(head).unwrap_or_default();
    Ok(TimeUnit::of_head(text, columns))
}

/// Reads and parses a line. False at the end of the file.
fn next_run(
    input: &mut Input,
    lines: &mut dyn Lines,
    run: &mut Option<Run>,
) -> Result<bool, TraceError> {
    let Some(line) = input.line()? else { return Ok(false) };
    match lines.parse(line) {
        Ok(parsed) => {
            *run = parsed;
            Ok(true)
        }
        Err(wrong) => {
            let (column, why) = (wrong.column(line), wrong.why);
            Err(input.in_line(column, why))
        }
    }
}

impl Run {
    fn take(&mut self, batch: &mut Vec<Request>, most: usize) {
        while self.left != 0 && batch.len() < most {
            batch.push(self.next);
            self.next.id = self.next.id.wrapping_add(self.step);
            self.left -= 1;
        }
    }
}

impl Records {
    /// Reads some records. False at the end of the file.
    fn fill(&mut self, input: &mut Input, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        let filled = input.records(&mut self.buffer, self.each)?;
        batch.extend(self.buffer[..filled].chunks_exact(self.each).map(self.parse));
        Ok(filled != 0)
    }
}
