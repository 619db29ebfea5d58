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
mod field;
mod msr;
mod oracle_general;
mod plain;
mod spc;
mod text;
mod twitter;

use field::Wrong;

use super::input::Input;
use super::{Format, Request, TraceError};

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
    input: Input,
    kind: Kind,
    /// Unread requests of the current line.
    run: Option<Run>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("input", &self.input).finish_non_exhaustive()
    }
}

/// Records per read.
const RECORDS: usize = 4096;

impl Reader {
    pub(super) fn new(input: Input, format: Format) -> Self {
        let records =
            |(each, parse)| Kind::Records(Records { each, parse, buffer: vec![0; each * RECORDS] });
        let kind = match format {
            Format::OracleGeneral => records((oracle_general::BYTES, oracle_general::parse)),
            Format::U32Le => records((4, plain::u32le)),
            Format::U32Be => records((4, plain::u32be)),
            Format::U64Le => records((8, plain::u64le)),
            Format::U64Be => records((8, plain::u64be)),
            Format::Arc => Kind::Lines(Box::new(arc::Arc)),
            Format::Cachelib => Kind::Lines(Box::<cachelib::Cachelib>::default()),
            Format::Twitter => Kind::Lines(Box::new(twitter::Twitter)),
            Format::Msr => Kind::Lines(Box::<msr::Msr>::default()),
            Format::Spc => Kind::Lines(Box::new(spc::Spc)),
            Format::Text => Kind::Lines(Box::new(text::Text)),
            Format::TextSize => Kind::Lines(Box::new(text::TextSize)),
        };
        Self { input, kind, run: None }
    }

    /// Share of the file read so far, from 0 to 1.
    #[must_use]
    pub fn done(&self) -> f64 {
        self.input.done()
    }

    /// Replaces the contents of `batch` with at most `most` requests, or slightly more in binary
    /// formats. An empty batch marks the end of the trace.
    ///
    /// # Errors
    /// When the file does not match its format, or ends within a record.
    pub fn batch(&mut self, batch: &mut Vec<Request>, most: usize) -> Result<(), TraceError> {
        batch.clear();
        match &mut self.kind {
            Kind::Records(records) => records.fill(&mut self.input, batch, most),
            Kind::Lines(lines) => {
                while batch.len() < most {
                    if self.run.is_none() {
                        let Some(line) = self.input.line()? else { break };
                        self.run = match lines.parse(line) {
                            Ok(run) => run,
                            Err(wrong) => {
                                let (column, why) = (wrong.column(line), wrong.why);
                                return Err(self.input.in_line(column, why));
                            }
                        };
                    }
                    if let Some(run) = &mut self.run {
                        run.take(batch, most);
                        self.run = self.run.filter(|run| run.left != 0);
                    }
                }
                Ok(())
            }
        }
    }

    /// Error of the trace as a whole.
    pub(crate) fn error(&self, why: String) -> TraceError {
        self.input.in_file(why)
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
    fn fill(
        &mut self,
        input: &mut Input,
        batch: &mut Vec<Request>,
        most: usize,
    ) -> Result<(), TraceError> {
        while batch.len() < most {
            let filled = input.records(&mut self.buffer, self.each)?;
            if filled == 0 {
                break;
            }
            batch.extend(self.buffer[..filled].chunks_exact(self.each).map(self.parse));
        }
        Ok(())
    }
}
