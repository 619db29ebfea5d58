//! Counters of an export, on one thread.

use std::cell::Cell;

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(Cell<u64>);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }

    fn get(&self) -> u64 {
        self.0.get()
    }
}

/// What is counted of one export.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: Count,
    pub(crate) disconnections: Count,
    pub(crate) reads: Count,
    pub(crate) read_bytes: Count,
    pub(crate) writes: Count,
    pub(crate) written_bytes: Count,
    pub(crate) clears: Count,
    pub(crate) cleared_bytes: Count,
    pub(crate) flushes: Count,
    pub(crate) statuses: Count,
    pub(crate) refusals: Count,
    pub(crate) failures: Count,
}

/// What was asked of one export since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportStats {
    /// Connections that chose it.
    pub connections: u64,
    /// Those of them that have ended: the rest is open.
    pub disconnections: u64,
    /// Reads that were carried out.
    pub reads: u64,
    /// Bytes that they asked for.
    pub read_bytes: u64,
    /// Writes that were carried out.
    pub writes: u64,
    /// Bytes that they brought.
    pub written_bytes: u64,
    /// Trims and requests for zeros that were carried out.
    pub clears: u64,
    /// Bytes that they named.
    pub cleared_bytes: u64,
    /// Flushes that were carried out.
    pub flushes: u64,
    /// Questions for what is stored that were answered.
    pub statuses: u64,
    /// Requests that were not what the protocol allows, or lay beyond the end.
    pub refusals: u64,
    /// Requests that the volume did not carry out.
    pub failures: u64,
}

impl Counts {
    pub(crate) fn snapshot(&self) -> ExportStats {
        ExportStats {
            connections: self.connections.get(),
            disconnections: self.disconnections.get(),
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            writes: self.writes.get(),
            written_bytes: self.written_bytes.get(),
            clears: self.clears.get(),
            cleared_bytes: self.cleared_bytes.get(),
            flushes: self.flushes.get(),
            statuses: self.statuses.get(),
            refusals: self.refusals.get(),
            failures: self.failures.get(),
        }
    }
}
