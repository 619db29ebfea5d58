//! Merge of log files: entries of all files, in the order of their times.
//!
//! S3 writes many small files, each about in order; a set of servers writes one file each, of the
//! same time. A file is opened when the others have reached its first entry. A window of entries
//! sorts what is out of order within it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::super::input::Input;
use super::super::source::TraceFile;
use super::super::{Request, TraceError};
use super::objects::Objects;
use super::{Entry, LogFile, LogFormat, LogLine, Skip, Skipped};

/// Entries that are sorted by time, 10 MB of them.
const WINDOW: usize = 1 << 17;

/// Files that are open at the same time, each with its buffers.
const OPEN_MAX: usize = 64;

/// Entries of a file that are read at a time.
const RUN: usize = 64;

/// Requests of access logs.
pub(in crate::trace) struct LogReader {
    format: LogFormat,
    /// Files that are not open yet, by the time of their first entry.
    waiting: VecDeque<(i64, TraceFile)>,
    /// Open files by the time of the last entry and the number of the file: the first one is behind
    /// the others.
    open: BTreeMap<(i64, u64), LogFile>,
    opened: u64,
    /// Entries by time, and for equal times as they were read.
    window: BinaryHeap<Reverse<(i64, u64, Entry)>>,
    read: u64,
    objects: Objects,
    skipped: Skipped,
    /// Bytes on disk of the files that were read to their end.
    bytes_done: u64,
}

impl LogReader {
    pub(in crate::trace) fn open(
        files: &[TraceFile],
        format: LogFormat,
    ) -> Result<Self, TraceError> {
        let mut waiting = Vec::new();
        for file in files {
            // A single file need not wait for others.
            let first = if files.len() == 1 { i64::MIN } else { first_time(file, format)? };
            waiting.push((first, file.clone()));
        }
        waiting.sort_by_key(|(first, _)| *first);
        let mut reader = Self {
            format,
            waiting: waiting.into(),
            open: BTreeMap::new(),
            opened: 0,
            window: BinaryHeap::new(),
            read: 0,
            objects: Objects::default(),
            skipped: Skipped::default(),
            bytes_done: 0,
        };
        // So that a file that does not exist is known at once.
        reader.open_next()?;
        Ok(reader)
    }

    pub(in crate::trace) fn batch(
        &mut self,
        batch: &mut Vec<Request>,
        most: usize,
    ) -> Result<(), TraceError> {
        while batch.len() < most {
            while self.window.len() < WINDOW && self.read_on()? {}
            let Some(Reverse((_, _, entry))) = self.window.pop() else { break };
            batch.push(self.objects.request(&entry));
        }
        Ok(())
    }

    pub(in crate::trace) const fn skipped(&self) -> Skipped {
        self.skipped
    }

    pub(in crate::trace) fn bytes_read(&self) -> u64 {
        let open = self.open.values().map(|file| file.input().file_bytes_read());
        self.bytes_done + open.sum::<u64>()
    }

    /// Reads some entries of the file that is behind the others. False when all files are read.
    fn read_on(&mut self) -> Result<bool, TraceError> {
        self.open_due()?;
        let Some(((mut time_ms, number), mut file)) = self.open.pop_first() else {
            return Ok(false);
        };
        for _ in 0..RUN {
            match file.next()? {
                None => {
                    self.bytes_done += file.input().file_bytes_read();
                    return Ok(true);
                }
                Some(LogLine::NoRequest) => {}
                Some(LogLine::Skipped(Skip::Operation)) => self.skipped.operations += 1,
                Some(LogLine::Skipped(Skip::Failure)) => self.skipped.failures += 1,
                Some(LogLine::Entry(entry)) => {
                    time_ms = time_ms.max(entry.time_ms);
                    self.window.push(Reverse((entry.time_ms, self.read, entry)));
                    self.read += 1;
                }
            }
        }
        self.open.insert((time_ms, number), file);
        Ok(true)
    }

    /// Opens the files that begin before the open ones have gone on.
    fn open_due(&mut self) -> Result<(), TraceError> {
        while self.open.len() < OPEN_MAX
            && let Some((first, _)) = self.waiting.front()
            && self.open.keys().next().is_none_or(|(behind, _)| first <= behind)
        {
            self.open_next()?;
        }
        Ok(())
    }

    fn open_next(&mut self) -> Result<(), TraceError> {
        let Some((time_ms, file)) = self.waiting.pop_front() else { return Ok(()) };
        let file = LogFile::new(Input::open(&file)?, self.format);
        self.opened += 1;
        self.open.insert((time_ms, self.opened), file);
        Ok(())
    }
}

/// Time of the first entry of a file. A file without one comes last: what it skips is counted.
fn first_time(file: &TraceFile, format: LogFormat) -> Result<i64, TraceError> {
    let mut log = LogFile::new(Input::open(file)?, format);
    while let Some(line) = log.next()? {
        if let LogLine::Entry(entry) = line {
            return Ok(entry.time_ms);
        }
    }
    Ok(i64::MAX)
}
