//! What a cache must offer to be measured.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use zonal_base::Bytes;

use super::Error;
use crate::{Check, Generator};

/// One loop of gets.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache's memory.
    Dram,
    /// The cache's flash.
    Flash,
    /// The origin.
    Miss,
}

/// What a cache counts, as far as it does. All but the last three only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records served from memory.
    pub dram_hits: u64,
    /// Records read from flash.
    pub flash_hits: u64,
    /// Records asked of the origin, by this get or by another that it joined.
    pub misses: u64,
    /// Bytes of values that went to flash.
    pub admitted_bytes: u64,
    /// Bytes of values that did not, though they should have.
    pub refused_bytes: u64,
    /// Bytes sent to the device.
    pub device_written_bytes: u64,
    /// Bytes asked of the device.
    pub device_read_bytes: u64,
    /// Zones (or what the cache calls its unit of reclaim) that were emptied.
    pub reclaims: u64,
    /// Writes that had to wait for reclaim.
    pub foreground_waits: u64,
    /// Records forgotten to make room.
    pub evicted: u64,
    /// Records that turned out to be damaged.
    pub damaged: u64,
    /// Gauge: records that the index knows.
    pub records: u64,
    /// Gauge: memory of the index.
    pub index_bytes: u64,
    /// Gauge: bytes on their way to flash.
    pub backlog_bytes: u64,
}

impl Counters {
    /// What was added after `earlier`; gauges as they are.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            dram_hits: self.dram_hits - earlier.dram_hits,
            flash_hits: self.flash_hits - earlier.flash_hits,
            misses: self.misses - earlier.misses,
            admitted_bytes: self.admitted_bytes - earlier.admitted_bytes,
            refused_bytes: self.refused_bytes - earlier.refused_bytes,
            device_written_bytes: self.device_written_bytes - earlier.device_written_bytes,
            device_read_bytes: self.device_read_bytes - earlier.device_read_bytes,
            reclaims: self.reclaims - earlier.reclaims,
            foreground_waits: self.foreground_waits - earlier.foreground_waits,
            evicted: self.evicted - earlier.evicted,
            damaged: self.damaged - earlier.damaged,
            ..self
        }
    }

    /// Two spans that follow each other; gauges of the later.
    #[must_use]
    pub const fn and_then(self, later: Self) -> Self {
        Self {
            records: later.records,
            index_bytes: later.index_bytes,
            backlog_bytes: later.backlog_bytes,
            ..self.beside(later)
        }
    }

    /// Two parts of one cache.
    #[must_use]
    pub const fn beside(self, other: Self) -> Self {
        Self {
            dram_hits: self.dram_hits + other.dram_hits,
            flash_hits: self.flash_hits + other.flash_hits,
            misses: self.misses + other.misses,
            admitted_bytes: self.admitted_bytes + other.admitted_bytes,
            refused_bytes: self.refused_bytes + other.refused_bytes,
            device_written_bytes: self.device_written_bytes + other.device_written_bytes,
            device_read_bytes: self.device_read_bytes + other.device_read_bytes,
            reclaims: self.reclaims + other.reclaims,
            foreground_waits: self.foreground_waits + other.foreground_waits,
            evicted: self.evicted + other.evicted,
            damaged: self.damaged + other.damaged,
            records: self.records + other.records,
            index_bytes: self.index_bytes + other.index_bytes,
            backlog_bytes: self.backlog_bytes + other.backlog_bytes,
        }
    }
}

/// A cache under test. Keys are numbers; values are what [`Subject::origin`] makes of them.
pub trait Subject: Send + Sync + 'static {
    /// Name, version and settings, for the report.
    fn describe(&self) -> Vec<(&'static str, String)>;

    /// Its size on flash.
    fn capacity(&self) -> Bytes;

    /// Where missing values are made.
    fn origin(&self) -> &Generator;

    /// Runs a loop where the cache's front ends run. `task` counts from 0.
    fn place(&self, task: usize, work: Work);

    /// Reads a range of a value, missing ones through the origin, and gives `check` every byte.
    ///
    /// # Errors
    /// When it could not be had; the text says why.
    fn get(
        &self,
        key: u64,
        range: Range<u64>,
        check: &mut Check,
    ) -> impl Future<Output = Result<Source, String>> + Send;

    /// Whether a get of the whole value would hit, now.
    fn contains(&self, key: u64) -> impl Future<Output = bool> + Send;

    /// Waits until everything that was admitted is on flash.
    fn settle(&self) -> impl Future<Output = ()> + Send;

    /// The counters now.
    fn counters(&self) -> impl Future<Output = Counters> + Send;

    /// Bytes per second that the device takes when nothing else uses it.
    ///
    /// # Errors
    /// When it cannot be measured, or not without harm; the text says what to do instead.
    fn write_bandwidth(&self) -> impl Future<Output = Result<u64, Error>> + Send;
}
