//! Interface of a cache under test: gets, counters and properties that the benchmark needs.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use zonal_base::Bytes;

use super::BenchError;
use crate::{Check, Generator};

/// One loop of gets, as a future to be spawned.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tier that served a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Served from the cache's memory.
    Dram,
    /// Served from the cache's flash.
    Flash,
    /// Fetched from the origin.
    Miss,
}

/// Counters of a cache; zero where the cache does not count. All but the last three only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records served from memory.
    pub dram_hits: u64,
    /// Records read from flash.
    pub flash_hits: u64,
    /// Records requested from the origin, by this get or by another that it joined.
    pub misses: u64,
    /// Bytes of values admitted to flash.
    pub admitted_bytes: u64,
    /// Bytes of values that should have been admitted to flash but were not.
    pub refused_bytes: u64,
    /// Bytes sent to the device.
    pub device_written_bytes: u64,
    /// Bytes read from the device.
    pub device_read_bytes: u64,
    /// Zones emptied by garbage collection, or the cache's own unit of it.
    pub reclaims: u64,
    /// Writes that waited for garbage collection.
    pub foreground_waits: u64,
    /// Records evicted to make room.
    pub evicted: u64,
    /// Records found damaged.
    pub damaged: u64,
    /// Gauge: records in the index.
    pub records: u64,
    /// Gauge: memory of the index, in bytes.
    pub index_bytes: u64,
    /// Gauge: bytes waiting to be written to flash.
    pub backlog_bytes: u64,
}

impl Counters {
    /// Counts added since `earlier`; gauges keep their present value.
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

    /// Adds two consecutive spans; gauges are those of `later`.
    #[must_use]
    pub const fn and_then(self, later: Self) -> Self {
        Self {
            records: later.records,
            index_bytes: later.index_bytes,
            backlog_bytes: later.backlog_bytes,
            ..self.beside(later)
        }
    }

    /// Adds the counters and gauges of two parts of one cache.
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

/// A cache under test. Keys are numbers; [`Subject::origin`] makes their values.
pub trait Subject: Send + Sync + 'static {
    /// Name, version and settings, for the report.
    fn describe(&self) -> Vec<(&'static str, String)>;

    /// Size of the cache on flash.
    fn capacity(&self) -> Bytes;

    /// Generator that serves as the origin of missing values.
    fn origin(&self) -> &Generator;

    /// Runs a loop on the thread of a front end of the cache. `task` counts from 0.
    fn place(&self, task: usize, work: Work);

    /// Reads a range of a value, fetching missing parts from the origin, and passes every byte to
    /// `check`.
    ///
    /// # Errors
    /// When the range could not be read; the text gives the reason.
    fn get(
        &self,
        key: u64,
        range: Range<u64>,
        check: &mut Check,
    ) -> impl Future<Output = Result<Source, String>> + Send;

    /// True if a get of the whole value would hit now.
    fn contains(&self, key: u64) -> impl Future<Output = bool> + Send;

    /// Waits until everything admitted is on flash.
    fn settle(&self) -> impl Future<Output = ()> + Send;

    /// Reads the present counters.
    fn counters(&self) -> impl Future<Output = Counters> + Send;

    /// Measures the device's write bandwidth without other load, in bytes per second.
    ///
    /// # Errors
    /// When it cannot be measured, or only with damage to data; the text says what to do instead.
    fn write_bandwidth(&self) -> impl Future<Output = Result<u64, BenchError>> + Send;
}
