//! Report of a run: the same fields for every cache, as JSON and as a table.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::window::Window;
use super::{Counters, Source};

/// Result of one run.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// Name, version and settings of the cache.
    pub subject: BTreeMap<&'static str, String>,
    /// Name of the mode.
    pub mode: String,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Bytes read by each get.
    pub range_bytes: u64,
    /// Number of keys.
    pub keys: u64,
    /// Distribution of the keys.
    pub dist: String,
    /// Number of closed loops.
    pub tasks: usize,
    /// Size of the cache on flash, in bytes.
    pub capacity_bytes: u64,
    /// Time from start until the cache is open, in seconds.
    pub open_seconds: f64,
    /// Time to fill the cache, in seconds.
    pub prefill_seconds: f64,
    /// All segments together.
    #[serde(flatten)]
    pub total: Summary,
    /// Share of inserted values found after all writes had settled. In other modes than insert: of
    /// the most recent misses.
    pub found_after_insert_ratio: Option<f64>,
    /// CPU time of the process per get, in a phase in which every get is a flash hit.
    pub cpu_us_per_flash_hit: Option<f64>,
    /// Bytes sent to the device since the cache was opened, counted by the cache. Compare with the
    /// device's own count over the whole run.
    pub device_written_bytes_since_open: u64,
    /// Resident memory of the process after the last segment, in bytes.
    pub rss_bytes: u64,
    /// Records in the index.
    pub records: u64,
    /// Memory of the index, in bytes.
    pub index_bytes: u64,
    /// Memory of the index per record, in bytes.
    pub index_bytes_per_chunk: Option<f64>,
    /// Summaries of the equal parts of the measured time.
    pub segments: Vec<Summary>,
    /// Phase in which every get is a flash hit, if the mode has a separate one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_hits: Option<Summary>,
    /// Fields of this mode only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<ModeDetail>,
}

/// Fields of one mode only.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeDetail {
    /// Results of mode insert.
    Insert {
        /// Requested rate; 0 without a limit.
        rate_bytes_per_s: u64,
        /// Write bandwidth measured again after the inserts, if the rate was a share of it.
        write_bandwidth_after_bytes_per_s: Option<u64>,
        /// Number of keys inserted.
        inserted: u64,
        /// Inserted keys that were found afterwards.
        found: u64,
        /// Bytes sent to the device until all writes had settled.
        device_written_bytes: u64,
        /// Bytes of values admitted to flash until then.
        admitted_bytes: u64,
        /// Write amplification: `device_written_bytes` over `admitted_bytes`.
        device_written_per_admitted: Option<f64>,
        /// Summary of reading all inserted keys back.
        read_back: Box<Summary>,
    },
    /// Results of mode reclaim; the report's totals are those of the window with reclaim.
    Reclaim {
        /// Window of hits beside writes into empty zones.
        without: Box<Summary>,
        /// 99.9th percentile latency of flash hits with reclaim, over that without.
        p999_ratio: f64,
    },
    /// Results of mode count.
    Count {
        /// Keys of the fill that were found.
        filled_found: u64,
        /// Keys of the stream that were found.
        inserted_found: u64,
        /// Found values that were read and checked to the last byte.
        checked: u64,
    },
    /// Results of mode idle.
    Idle {
        /// CPU time of the process over elapsed time.
        cpu_share: f64,
    },
}

/// Measurements of one window.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Length of the window.
    pub seconds: f64,
    /// Gets completed, of values or of ranges.
    pub gets: u64,
    /// Gets per second.
    pub ops_per_s: f64,
    /// Bytes read per second.
    pub bytes_per_s: f64,
    /// Hits over gets.
    pub hit_ratio: f64,
    /// Gets served from DRAM or flash.
    pub hits: Hits,
    /// Gets that went to the origin.
    pub misses: u64,
    /// Latency from the request to the last byte, by the tier that served it.
    pub latency_us: Latencies,
    /// Bytes of values admitted to flash.
    pub admitted_bytes: u64,
    /// Bytes of values that should have been admitted to flash but were not.
    pub refused_bytes: u64,
    /// Bytes sent to the device, counted by the cache.
    pub device_written_bytes: u64,
    /// Bytes read from the device, counted by the cache.
    pub device_read_bytes: u64,
    /// Bytes written to devices, counted by the kernel for the process.
    pub kernel_written_bytes: u64,
    /// Bytes read from devices, counted by the kernel for the process.
    pub kernel_read_bytes: u64,
    /// Zones emptied by garbage collection.
    pub reclaims: u64,
    /// Writes that waited for garbage collection.
    pub foreground_waits: u64,
    /// Records evicted to make room.
    pub evicted: u64,
    /// Records found damaged.
    pub damaged: u64,
    /// User and system time of the process.
    pub cpu_seconds: f64,
    /// Part of `cpu_seconds` that the simulated origin used.
    pub origin_cpu_seconds: f64,
    /// Average number of idle cores of the machine. Near 0, the CPU was the limit.
    pub machine_idle_cores: f64,
    /// CPU time of the process per get.
    pub cpu_us_per_get: f64,
    /// CPU time of the process per get, without that of the simulated origin.
    pub cpu_us_per_get_net: f64,
    /// The cache's own counts by record. A value larger than a chunk has several records.
    pub by_record: RecordCounts,
}

/// Hits by the tier that served them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// Hits in the cache's memory.
    pub dram: u64,
    /// Hits on the cache's flash.
    pub flash: u64,
}

/// Records counted by the cache itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordCounts {
    /// Records served from memory.
    pub dram_hits: u64,
    /// Records read from flash.
    pub flash_hits: u64,
    /// Records requested from the origin.
    pub misses: u64,
}

/// Latency percentiles by the tier that served the value.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// Gets served from flash.
    pub flash_hit: Quantiles,
    /// Gets served from the cache's memory.
    pub dram_hit: Quantiles,
    /// Gets served by the origin.
    pub miss: Quantiles,
}

/// Latency percentiles in microseconds, accurate to 1 %. All zero without samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// 50th percentile.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Highest latency.
    pub max: f64,
}

impl Quantiles {
    fn of(latencies: &Histogram<u32>) -> Self {
        let us = |nanos: u64| nanos as f64 / 1e3;
        let at = |quantile| us(latencies.value_at_quantile(quantile));
        if latencies.is_empty() {
            return Self { p50: 0.0, p99: 0.0, p999: 0.0, max: 0.0 };
        }
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: us(latencies.max()) }
    }
}

/// `part / whole`; `None` if `whole` is zero.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (0.0 < whole).then(|| part / whole)
}

pub(crate) fn cpu_us(cpu: Duration, gets: u64) -> Option<f64> {
    ratio(cpu.as_secs_f64() * 1e6, gets as f64)
}

impl Summary {
    pub(crate) fn of(window: &Window) -> Self {
        let Window { took, cpu, origin_cpu, idle, counters, kernel, tally, .. } = window;
        let gets = tally.gets();
        let per_s = |count: u64| ratio(count as f64, took.as_secs_f64()).unwrap_or(0.0);
        let quantiles = |source| Quantiles::of(tally.latencies(source));
        Self {
            seconds: took.as_secs_f64(),
            gets,
            ops_per_s: per_s(gets),
            bytes_per_s: per_s(tally.bytes),
            hit_ratio: ratio(tally.hits() as f64, gets as f64).unwrap_or(0.0),
            hits: Hits { dram: tally.count(Source::Dram), flash: tally.count(Source::Flash) },
            misses: tally.count(Source::Miss),
            latency_us: Latencies {
                flash_hit: quantiles(Source::Flash),
                dram_hit: quantiles(Source::Dram),
                miss: quantiles(Source::Miss),
            },
            admitted_bytes: counters.admitted_bytes,
            refused_bytes: counters.refused_bytes,
            device_written_bytes: counters.device_written_bytes,
            device_read_bytes: counters.device_read_bytes,
            kernel_written_bytes: kernel.written,
            kernel_read_bytes: kernel.read,
            reclaims: counters.reclaims,
            foreground_waits: counters.foreground_waits,
            evicted: counters.evicted,
            damaged: counters.damaged,
            cpu_seconds: cpu.as_secs_f64(),
            origin_cpu_seconds: origin_cpu.as_secs_f64(),
            machine_idle_cores: ratio(idle.as_secs_f64(), took.as_secs_f64()).unwrap_or(0.0),
            cpu_us_per_get: cpu_us(*cpu, gets).unwrap_or(0.0),
            cpu_us_per_get_net: cpu_us(cpu.saturating_sub(*origin_cpu), gets).unwrap_or(0.0),
            by_record: RecordCounts::of(counters),
        }
    }
}

impl RecordCounts {
    const fn of(counters: &Counters) -> Self {
        Self {
            dram_hits: counters.dram_hits,
            flash_hits: counters.flash_hits,
            misses: counters.misses,
        }
    }
}
