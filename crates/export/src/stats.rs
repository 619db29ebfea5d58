//! Counters of an export. They are not thread-safe: a server runs on one thread.

use std::cell::Cell;

use zonal_base::LatencyHistogram;

/// Single-threaded counter.
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

/// Counters of one export.
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
    pub(crate) latencies: ExportLatencies,
}

/// Times from the arrival of a complete request until its reply was queued, of successful requests.
#[derive(Debug, Default)]
pub struct ExportLatencies {
    /// Reads.
    pub reads: LatencyHistogram,
    /// Writes.
    pub writes: LatencyHistogram,
    /// Trims and write-zeroes requests.
    pub clears: LatencyHistogram,
    /// Flushes.
    pub flushes: LatencyHistogram,
}

/// Requests to one export since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportStats {
    /// Connections that chose this export.
    pub connections: u64,
    /// Connections among them that have ended. `connections` minus this are open.
    pub disconnections: u64,
    /// Successful reads.
    pub reads: u64,
    /// Bytes requested by them.
    pub read_bytes: u64,
    /// Successful writes.
    pub writes: u64,
    /// Bytes written by them.
    pub written_bytes: u64,
    /// Successful trims and write-zeroes requests.
    pub clears: u64,
    /// Bytes in their ranges.
    pub cleared_bytes: u64,
    /// Successful flushes.
    pub flushes: u64,
    /// Successful block status requests.
    pub statuses: u64,
    /// Requests that the protocol does not allow, or beyond the end of the export.
    pub refusals: u64,
    /// Requests that failed in the volume.
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
