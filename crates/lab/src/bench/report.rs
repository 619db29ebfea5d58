//! What a run found: the same fields for every cache, as JSON and as a table.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::window::Window;
use super::{Counters, Source};

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name, version and settings of the cache.
    pub subject: BTreeMap<&'static str, String>,
    /// What was measured.
    pub mode: String,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Bytes of each get.
    pub range_bytes: u64,
    /// Keys that there are.
    pub keys: u64,
    /// How often each was asked for.
    pub dist: String,
    /// Closed loops.
    pub tasks: usize,
    /// Size of the cache on flash.
    pub capacity_bytes: u64,
    /// From nothing to a cache that answers.
    pub open_seconds: f64,
    /// What filling the cache took.
    pub prefill_seconds: f64,
    /// All segments together.
    #[serde(flatten)]
    pub total: Summary,
    /// Of the values that were inserted (in other modes than insert: the last that missed), how many were
    /// found when everything had settled.
    pub found_after_insert_ratio: Option<f64>,
    /// CPU time of the process over gets, in a phase in which every get is a flash hit.
    pub cpu_us_per_flash_hit: Option<f64>,
    /// Bytes sent to the device since the cache was opened, by its own count: what the device's own count of the whole run is to
    /// be held against.
    pub device_written_bytes_since_open: u64,
    /// Memory of the process at the end of the last segment.
    pub rss_bytes: u64,
    /// Records in the index.
    pub records: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    /// Memory of the index over its records.
    pub index_bytes_per_chunk: Option<f64>,
    /// The measured time in equal parts.
    pub segments: Vec<Summary>,
    /// The phase in which every get is a flash hit, where it is one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_hits: Option<Summary>,
    /// What only this mode has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// What only one mode has.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Of mode insert.
    Insert {
        /// What was asked for; 0 when there was no limit.
        rate_bytes_per_s: u64,
        /// Of a rate that was a share of the write bandwidth: that bandwidth, measured again afterwards.
        write_bandwidth_after_bytes_per_s: Option<u64>,
        /// Keys that were inserted.
        inserted: u64,
        /// Of them, how many were there afterwards.
        found: u64,
        /// Bytes to the device until everything had settled.
        device_written_bytes: u64,
        /// Bytes of values that went to flash until then.
        admitted_bytes: u64,
        /// The quotient of these two.
        device_written_per_admitted: Option<f64>,
        /// Reading all of them.
        read_back: Box<Summary>,
    },
    /// Of mode reclaim: the totals are of the window with reclaim.
    Reclaim {
        /// Hits beside writes into empty zones.
        without: Box<Summary>,
        /// 99.9th percentile of flash hits with reclaim over that without.
        p999_ratio: f64,
    },
    /// Of mode count.
    Count {
        /// Keys of the fill that are there.
        filled_found: u64,
        /// Keys of the stream that are there.
        inserted_found: u64,
        /// Found values that were read and checked to the last byte.
        checked: u64,
    },
    /// Of mode idle.
    Idle {
        /// CPU time over time.
        cpu_share: f64,
    },
}

/// One window.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Its length.
    pub seconds: f64,
    /// Values, or ranges of them, that were read.
    pub gets: u64,
    /// Gets per second.
    pub ops_per_s: f64,
    /// Bytes read per second.
    pub bytes_per_s: f64,
    /// Hits over gets.
    pub hit_ratio: f64,
    /// Gets that the cache answered by itself.
    pub hits: Hits,
    /// Gets that needed the origin.
    pub misses: u64,
    /// From the question to the last byte, checked.
    pub latency_us: Latencies,
    /// Bytes of values that went to flash.
    pub admitted_bytes: u64,
    /// Bytes of values that did not, though they should have.
    pub refused_bytes: u64,
    /// Bytes sent to the device, by the cache's own count.
    pub device_written_bytes: u64,
    /// Bytes asked of the device, by the cache's own count.
    pub device_read_bytes: u64,
    /// The same by the kernel's count for the process.
    pub kernel_written_bytes: u64,
    /// The same by the kernel's count for the process.
    pub kernel_read_bytes: u64,
    /// Zones that were emptied.
    pub reclaims: u64,
    /// Writes that waited for that.
    pub foreground_waits: u64,
    /// Records that were forgotten to make room.
    pub evicted: u64,
    /// Records that turned out to be damaged.
    pub damaged: u64,
    /// User and system time of the process.
    pub cpu_seconds: f64,
    /// Of it, what the made-up origin took.
    pub origin_cpu_seconds: f64,
    /// Cores of the machine that had nothing to do: near 0, the CPU was the limit.
    pub machine_idle_cores: f64,
    /// CPU time over gets.
    pub cpu_us_per_get: f64,
    /// The same without the made-up origin.
    pub cpu_us_per_get_net: f64,
    /// What the cache itself counted, by record: a value larger than a chunk is several.
    pub by_record: RecordCounts,
}

/// Hits by where they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// The cache's memory.
    pub dram: u64,
    /// Its flash.
    pub flash: u64,
}

/// What the cache counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordCounts {
    /// Served from memory.
    pub dram_hits: u64,
    /// Read from flash.
    pub flash_hits: u64,
    /// Asked of the origin.
    pub misses: u64,
}

/// Latencies by where the value came from.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// From flash.
    pub flash_hit: Quantiles,
    /// From the cache's memory.
    pub dram_hit: Quantiles,
    /// From the origin.
    pub miss: Quantiles,
}

/// In microseconds; 1 % exact. All zero when there was nothing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Half were faster.
    pub p50: f64,
    /// 99 % were faster.
    pub p99: f64,
    /// 99.9 % were faster.
    pub p999: f64,
    /// None was slower.
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

/// `part / whole`; nothing when there is no whole.
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
