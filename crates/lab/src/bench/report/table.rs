//! Report as a table for the terminal.

use std::fmt;

use zonal_base::Bytes;

use super::{BenchReport, ModeDetail, Quantiles, Summary};

const MIB: f64 = 1024.0 * 1024.0;

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> =
            self.subject.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let (capacity, value) = (Bytes(self.capacity_bytes), Bytes(self.value_bytes));
        writeln!(f, "{}", settings.join(", "))?;
        writeln!(
            f,
            "{}: {} keys of {value} ({}), {capacity} of flash, {} tasks",
            self.mode, self.keys, self.dist, self.tasks
        )?;
        let (open, prefill) = (self.open_seconds, self.prefill_seconds);
        writeln!(f, "{:<22} {open:.3} s, filled in {prefill:.1} s", "opened in")?;
        writeln!(f)?;
        self.total.fmt(f)?;
        if 1 < self.segments.len() {
            let mut rates: Vec<f64> = self.segments.iter().map(|part| part.ops_per_s).collect();
            rates.sort_by(f64::total_cmp);
            let (low, high) = (rates[0], rates[rates.len() - 1]);
            let middle = rates[rates.len() / 2];
            row(f, "gets/s by segment", format_args!("{middle:.0} ({low:.0} to {high:.0})"))?;
        }
        optional(f, "found after insert", self.found_after_insert_ratio.map(percent))?;
        let cpu = self.cpu_us_per_flash_hit.map(|us| format!("{us:.2} us"));
        optional(f, "CPU per flash hit", cpu)?;
        row(f, "memory (RSS)", format_args!("{:.0} MiB", self.rss_bytes as f64 / MIB))?;
        let index = self
            .index_bytes_per_chunk
            .map(|bytes| format!("{bytes:.1} B for each of {} records", self.records));
        optional(f, "index", index)?;
        self.detail.as_ref().map_or(Ok(()), |detail| detail.fmt(f))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gets, seconds) = (self.gets, self.seconds);
        let rate = self.bytes_per_s / MIB;
        row(f, "gets", format_args!("{gets} in {seconds:.2} s"))?;
        row(f, "throughput", format_args!("{:.0} gets/s, {rate:.0} MiB/s", self.ops_per_s))?;
        let (dram, flash, misses) = (self.hits.dram, self.hits.flash, self.misses);
        let hits = percent(self.hit_ratio);
        row(f, "hits", format_args!("{hits}: {flash} flash, {dram} DRAM; {misses} misses"))?;
        let latencies = &self.latency_us;
        latency(f, "flash hit p50/p99/p99.9", flash, &latencies.flash_hit)?;
        latency(f, "DRAM hit p50/p99/p99.9", dram, &latencies.dram_hit)?;
        latency(f, "miss p50/p99/p99.9", misses, &latencies.miss)?;
        let mib = |bytes: u64| bytes as f64 / MIB;
        let (admitted, refused) = (mib(self.admitted_bytes), mib(self.refused_bytes));
        row(f, "admitted", format_args!("{admitted:.1} MiB, {refused:.1} MiB refused"))?;
        let (ours, kernel) = (mib(self.device_written_bytes), mib(self.kernel_written_bytes));
        row(f, "written to the device", format_args!("{ours:.1} MiB (kernel: {kernel:.1})"))?;
        let (ours, kernel) = (mib(self.device_read_bytes), mib(self.kernel_read_bytes));
        row(f, "read from the device", format_args!("{ours:.1} MiB (kernel: {kernel:.1})"))?;
        let (reclaims, waits) = (self.reclaims, self.foreground_waits);
        row(f, "zones reclaimed", format_args!("{reclaims}, {waits} writes waited for one"))?;
        let cpu = self.cpu_seconds;
        let (each, net) = (self.cpu_us_per_get, self.cpu_us_per_get_net);
        row(f, "CPU", format_args!("{cpu:.2} s, {each:.1} us a get, {net:.1} net of the origin"))?;
        row(
            f,
            "idle meanwhile",
            format_args!("{:.2} cores of the machine", self.machine_idle_cores),
        )
    }
}

impl fmt::Display for ModeDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert {
                rate_bytes_per_s, inserted, found, device_written_per_admitted, ..
            } => {
                let rate = *rate_bytes_per_s as f64 / MIB;
                row(f, "inserted", format_args!("{inserted} at {rate:.0} MiB/s, {found} found"))?;
                let written = device_written_per_admitted.map(|ratio| format!("{ratio:.4}"));
                optional(f, "written per admitted", written)
            }
            Self::Reclaim { without, p999_ratio } => {
                writeln!(f, "\nthe same while zones were empty:\n{without}")?;
                row(f, "p99.9 with / without", format_args!("{p999_ratio:.2}"))
            }
            Self::Count { filled_found, inserted_found, checked } => row(
                f,
                "found",
                format_args!("{filled_found} filled, {inserted_found} inserted; {checked} checked"),
            ),
            Self::Idle { cpu_share } => {
                row(f, "idle CPU", format_args!("{:.4} % of a core", cpu_share * 100.0))
            }
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "{name:<22} {value}")
}

fn optional(f: &mut fmt::Formatter<'_>, name: &str, value: Option<String>) -> fmt::Result {
    value.map_or(Ok(()), |value| row(f, name, format_args!("{value}")))
}

fn latency(f: &mut fmt::Formatter<'_>, name: &str, count: u64, of: &Quantiles) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    let Quantiles { p50, p99, p999, .. } = of;
    writeln!(f, "{name:<22} {p50:.0} / {p99:.0} / {p999:.0} us")
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}
