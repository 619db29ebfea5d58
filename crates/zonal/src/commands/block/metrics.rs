//! Prometheus metrics of a block device: one row per metric.

use std::sync::Arc;

use zonal_api::block_stats::{BlockStats, Export, Tenant, Zones};
use zonal_base::LatencyHistogram;
use zonal_block::Tier;
use zonal_device::CommandLatencies;
use zonal_export::ExportLatencies;

use crate::metrics::{Metric, MetricKind, Snapshot, counter, gauge, labelled};

/// Metrics of each export; labels `export` and `tenant`.
const EXPORT: &[Metric<Export>] = &[
    gauge("zonal_block_export_bytes", "Size of the export", |e| e.size_bytes),
    gauge("zonal_block_connections_open", "Open connections", |e| e.connections_open),
    counter("zonal_block_reads_total", "Completed reads", |e| e.reads),
    counter("zonal_block_read_bytes_total", "Bytes read", |e| e.read_bytes),
    counter("zonal_block_writes_total", "Completed writes", |e| e.writes),
    counter("zonal_block_written_bytes_total", "Bytes written", |e| e.written_bytes),
    counter("zonal_block_trims_total", "Completed trims and zero writes", |e| e.trims),
    counter("zonal_block_trimmed_bytes_total", "Bytes trimmed or zeroed", |e| e.trimmed_bytes),
    counter("zonal_block_flushes_total", "Completed flushes", |e| e.flushes),
    counter("zonal_block_refusals_total", "Invalid requests", |e| e.refusals),
    counter("zonal_block_failures_total", "Failed requests", |e| e.failures),
];

/// Metrics of each tenant; label `tenant`.
const TENANT: &[Metric<Tenant>] = &[
    gauge("zonal_block_stored_bytes", "Bytes in use", |t| t.stored_bytes),
    counter("zonal_block_user_bytes_total", "User bytes written, in whole blocks", |t| {
        t.user_written_bytes
    }),
    counter("zonal_block_buffered_bytes_total", "User data written to the buffer", |t| {
        t.buffer_written_bytes
    }),
    counter(
        "zonal_block_retained_bytes_total",
        "Data rewritten within the buffer (hot retention)",
        |t| t.retained_bytes,
    ),
    counter(
        "zonal_block_compacted_bytes_total",
        "Data compacted from the buffer to the capacity tier",
        |t| t.compacted_bytes,
    ),
    counter(
        "zonal_block_collected_bytes_total",
        "Data moved by garbage collection within the capacity tier",
        |t| t.collected_bytes,
    ),
    counter("zonal_block_map_bytes_total", "Trim pages written", |t| t.map_bytes),
    counter("zonal_block_metadata_bytes_total", "Headers and tables written", |t| t.metadata_bytes),
    counter("zonal_block_capacity_bytes_total", "All bytes written to the capacity tier", |t| {
        t.capacity_written_bytes
    }),
];

const DEVICE_BYTES: (&str, &str) =
    ("zonal_block_device_written_bytes_total", "Bytes written to the tier's device");
const READ_ONLY: (&str, &str) =
    ("zonal_block_read_only", "1 while the tier's device takes no writes");
const RESETS: (&str, &str) = ("zonal_block_zones_reset_total", "Zones of the tier reset");
const BUFFER: (&str, &str) = ("tier", "buffer");
const CAPACITY: (&str, &str) = ("tier", "capacity");

/// Metrics of the whole block device.
const WHOLE: &[Metric<BlockStats>] = &[
    gauge("zonal_block_failed", "1 when writes fail", |s| s.failure.is_some().into()),
    gauge("zonal_block_halted", "1 when compaction has stopped", |s| s.halted.is_some().into()),
    labelled(MetricKind::Gauge, READ_ONLY, BUFFER, |s| is_read_only(s, BUFFER)),
    labelled(MetricKind::Gauge, READ_ONLY, CAPACITY, |s| is_read_only(s, CAPACITY)),
    labelled(MetricKind::Counter, DEVICE_BYTES, BUFFER, |s| s.devices.buffer_written_bytes),
    labelled(MetricKind::Counter, DEVICE_BYTES, CAPACITY, |s| s.devices.capacity_written_bytes),
    counter("zonal_block_map_pages_written_bytes_total", "L2P map pages written", |s| {
        s.devices.map_written_bytes
    }),
    counter("zonal_block_map_pages_read_bytes_total", "L2P map pages read", |s| {
        s.devices.map_read_bytes
    }),
    labelled(MetricKind::Counter, RESETS, BUFFER, |s| s.devices.buffer_zones_reset),
    labelled(MetricKind::Counter, RESETS, CAPACITY, |s| s.devices.capacity_zones_reset),
    counter("zonal_block_buffer_segments_total", "Device writes to the buffer", |s| {
        s.devices.buffer_segments
    }),
    counter("zonal_block_device_flushes_total", "Flushes of both devices", |s| s.devices.flushes),
    counter("zonal_block_throttled_total", "Writes that waited for compaction", |s| {
        s.devices.throttled
    }),
    counter("zonal_block_lost_total", "Blocks lost to read errors during relocation", |s| {
        s.devices.blocks_lost
    }),
    counter("zonal_block_checksum_errors_total", "Blocks read with a wrong checksum", |s| {
        s.devices.checksum_errors
    }),
    counter("zonal_block_scrub_read_bytes_total", "Bytes read by scrubs", |s| {
        s.scrub.total_read_bytes
    }),
    gauge("zonal_block_scrub_running", "1 while a scrub is running", |s| s.scrub.running.into()),
    gauge("zonal_block_scrub_zones", "Zones of both devices, once a scrub began", |s| {
        s.scrub.zones.into()
    }),
    gauge("zonal_block_scrub_zones_done", "Zones that the scrub has verified", |s| {
        s.scrub.zones_done.into()
    }),
    gauge("zonal_block_scrub_damaged", "Damaged blocks and metadata found by the scrub", |s| {
        s.scrub.damaged()
    }),
    gauge("zonal_block_scrub_ended_seconds", "End of the last scrub, since 1970; 0: none", |s| {
        s.scrub.ended_seconds.unwrap_or(0)
    }),
    counter("zonal_block_write_errors_total", "Failed device writes", |s| s.devices.write_errors),
    counter("zonal_block_read_errors_total", "Failed device reads", |s| s.devices.read_errors),
    gauge("zonal_block_queued_bytes", "Writes waiting for the buffer", |s| s.now.queued_bytes),
    gauge("zonal_block_map_memory_bytes", "Memory used by the L2P map", |s| s.now.map_memory_bytes),
    gauge("zonal_block_start_read_bytes", "Bytes read during recovery", |s| s.recovery.read_bytes),
    gauge("zonal_block_start_torn", "Torn blocks found during recovery", |s| {
        s.recovery.torn_blocks
    }),
    counter(
        "zonal_block_connections_refused_total",
        "Connections refused at the connection limit",
        |s| s.connections.refused,
    ),
    counter(
        "zonal_block_connections_failed_total",
        "Connections closed without NBD_CMD_DISC",
        |s| s.connections.failed,
    ),
];

const ZONES: (&str, &str) = ("zonal_block_zones", "Zones of the tier by state");

/// Metrics of each tier; label `tier`.
const TIER: &[Metric<Zones>] = &[
    labelled(MetricKind::Gauge, ZONES, ("use", "empty"), |z| z.empty.into()),
    labelled(MetricKind::Gauge, ZONES, ("use", "open"), |z| z.open.into()),
    labelled(MetricKind::Gauge, ZONES, ("use", "full"), |z| z.full.into()),
    labelled(MetricKind::Gauge, ZONES, ("use", "emptying"), |z| z.emptying.into()),
    labelled(MetricKind::Gauge, ZONES, ("use", "retired"), |z| z.retired.into()),
    labelled(MetricKind::Gauge, ZONES, ("use", "unreadable"), |z| z.unreadable.into()),
];

fn is_read_only(stats: &BlockStats, (_, tier): (&str, &str)) -> u64 {
    stats.read_only.iter().any(|named| named == tier).into()
}

const REQUESTS: (&str, &str) =
    ("zonal_block_request_seconds", "Time from the arrival of a request to its reply");
const COMMANDS: (&str, &str) =
    ("zonal_block_device_command_seconds", "Time from a device command to its completion");

/// Latencies of an export, with the names of its operations.
pub(super) fn by_operation(
    ExportLatencies { reads, writes, clears, flushes }: &ExportLatencies,
) -> [(&'static str, &LatencyHistogram); 4] {
    [("read", reads), ("write", writes), ("trim", clears), ("flush", flushes)]
}

/// Latencies of a device, with the names of its commands.
pub(super) fn by_command(
    CommandLatencies { reads, writes, flushes }: &CommandLatencies,
) -> [(&'static str, &LatencyHistogram); 3] {
    [("read", reads), ("write", writes), ("flush", flushes)]
}

/// Snapshot of all metrics. `latencies` are those of the exports, in their order.
pub(super) fn snapshot(
    stats: &BlockStats,
    latencies: &[&ExportLatencies],
    commands: &[(Tier, Arc<CommandLatencies>)],
) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (export, latencies) in stats.exports.iter().zip(latencies) {
        let place = [("export", export.name.clone()), ("tenant", export.tenant.clone())];
        snapshot.add_table(EXPORT, export, &place);
        for (operation, latency) in by_operation(latencies) {
            let operation = ("operation", operation.to_owned());
            let labels = place.iter().cloned().chain([operation]).collect();
            snapshot.add_latencies(REQUESTS, labels, latency.snapshot());
        }
    }
    for (tier, latencies) in commands {
        for (command, latency) in by_command(latencies) {
            let labels = vec![("tier", tier.name().to_owned()), ("command", command.to_owned())];
            snapshot.add_latencies(COMMANDS, labels, latency.snapshot());
        }
    }
    for tenant in &stats.tenants {
        snapshot.add_table(TENANT, tenant, &[("tenant", tenant.name.clone())]);
    }
    snapshot.add_table(WHOLE, stats, &[]);
    for ((label, tier), zones) in
        [(BUFFER, &stats.now.buffer_zones), (CAPACITY, &stats.now.capacity_zones)]
    {
        snapshot.add_table(TIER, zones, &[(label, tier.to_owned())]);
    }
    snapshot
}
