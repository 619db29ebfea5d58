//! History of a block device: what its points have.

use zonal_admin::{HistoryKind, Sample, Span};
use zonal_api::block_stats::{Export, Tenant};
use zonal_base::LatencySnapshot;

use super::Admin;
use crate::commands::block::metrics::by_operation;

pub(super) const HISTORY: HistoryKind = HistoryKind {
    counters: &[
        "reads",
        "read_bytes",
        "writes",
        "written_bytes",
        "trims",
        "flushes",
        "throttled",
        "buffer_bytes",
        "capacity_bytes",
        "retained_bytes",
        "compacted_bytes",
        "collected_bytes",
    ],
    gauges: &["buffer_empty_zones", "capacity_empty_zones", "stored_bytes"],
    rows: || OPERATIONS.into(),
    quantiles_of: Some(WRITES),
};

const OPERATIONS: [&str; 4] = ["read", "write", "trim", "flush"];
const WRITES: usize = 1;

impl Admin {
    /// Samples one span until the future is dropped.
    pub(super) async fn keep_history(self, span: usize) {
        let mut ticks = Span::ALL[span].ticks();
        loop {
            ticks.tick().await;
            self.history.note(span, Some(self.sample()));
        }
    }

    fn sample(&self) -> Sample {
        let stats = self.stats();
        let exports = |of: fn(&Export) -> u64| stats.exports.iter().map(of).sum::<u64>();
        let tenants = |of: fn(&Tenant) -> u64| stats.tenants.iter().map(of).sum::<u64>();
        let counters = [
            exports(|export| export.reads),
            exports(|export| export.read_bytes),
            exports(|export| export.writes),
            exports(|export| export.written_bytes),
            exports(|export| export.trims),
            exports(|export| export.flushes),
            stats.devices.throttled,
            stats.devices.buffer_written_bytes,
            stats.devices.capacity_written_bytes,
            tenants(|tenant| tenant.retained_bytes),
            tenants(|tenant| tenant.compacted_bytes),
            tenants(|tenant| tenant.collected_bytes),
        ];
        let gauges = [
            stats.now.buffer_zones.empty.into(),
            stats.now.capacity_zones.empty.into(),
            tenants(|tenant| tenant.stored_bytes),
        ];
        let mut rows = vec![LatencySnapshot::default(); OPERATIONS.len()];
        for export in self.server.exports() {
            for (row, (_, latencies)) in rows.iter_mut().zip(by_operation(export.latencies())) {
                row.merge(&latencies.snapshot());
            }
        }
        let figures = |values: &[u64]| values.iter().map(|value| *value as f64).collect();
        Sample { counters: figures(&counters), gauges: figures(&gauges), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_fits_into_4_mb() {
        assert!(HISTORY.bytes_max() <= 4_000_000, "{}", HISTORY.bytes_max());
    }
}
