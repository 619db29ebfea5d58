//! Prometheus metrics of the cache: one table per source, one row per metric.

use std::fmt;

use zonal_gateway::{Caching, Stats as GatewayStats};
use zonal_host::ShardStats;
use zonal_origin::Stats as OriginStats;

use crate::metrics::{Metric, MetricKind, Snapshot, Value, counter, gauge, labelled};

const OPENS_FOUND: &str = "zonal_cache_opens_found_total";
const OPENS_FOUND_HELP: &str = "Heads by where they were found";
const PIECES_FOUND: &str = "zonal_cache_pieces_found_total";
const PIECES_FOUND_HELP: &str = "Pieces of chunks by where they were found";
const ZONES: &str = "zonal_device_zones";
const ZONES_HELP: &str = "Zones by what they are used for";

/// Metrics of each shard; labels `device` and `shard`.
const SHARD: &[Metric<ShardStats>] = &[
    counter("zonal_cache_opens_total", "Heads asked for", |s| s.cache.opens),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "fresh"), |s| {
        s.cache.opens_fresh
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "revalidated"), |s| {
        s.cache.opens_revalidated
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "missed"), |s| {
        s.cache.opens_missed
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "stale"), |s| {
        s.cache.opens_stale
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "absent"), |s| {
        s.cache.opens_absent
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "joined"), |s| {
        s.cache.opens_joined
    }),
    counter("zonal_cache_pieces_total", "Pieces of chunks asked for", |s| s.cache.pieces),
    labelled(MetricKind::Counter, (PIECES_FOUND, PIECES_FOUND_HELP), ("path", "dram"), |s| {
        s.cache.pieces_dram_hits
    }),
    labelled(MetricKind::Counter, (PIECES_FOUND, PIECES_FOUND_HELP), ("path", "flash"), |s| {
        s.cache.pieces_flash_hits
    }),
    labelled(MetricKind::Counter, (PIECES_FOUND, PIECES_FOUND_HELP), ("path", "joined"), |s| {
        s.cache.pieces_joined
    }),
    labelled(MetricKind::Counter, (PIECES_FOUND, PIECES_FOUND_HELP), ("path", "missed"), |s| {
        s.cache.pieces_missed
    }),
    counter("zonal_cache_served_bytes_total", "Bytes handed to readers", |s| s.cache.served_bytes),
    counter("zonal_cache_served_flash_bytes_total", "Of them, read from flash", |s| {
        s.cache.served_flash_bytes
    }),
    counter("zonal_cache_fetched_bytes_total", "Bytes received from the origin", |s| {
        s.cache.fetched_bytes
    }),
    counter("zonal_cache_fetches_total", "Ranges asked of the origin", |s| s.cache.fetches),
    counter("zonal_cache_head_fetches_total", "Heads asked of the origin", |s| {
        s.cache.head_fetches
    }),
    counter("zonal_cache_fetch_errors_total", "Requests to the origin that failed", |s| {
        s.cache.fetch_errors
    }),
    counter(
        "zonal_cache_fetches_abandoned_total",
        "Fetches that nobody waited for any more",
        |s| s.cache.fetches_abandoned,
    ),
    counter(
        "zonal_cache_fetches_stalled_total",
        "Fetches ended early because their readers stopped",
        |s| s.cache.fetches_stalled,
    ),
    counter("zonal_cache_prefetched_bytes_total", "Bytes fetched ahead of readers", |s| {
        s.cache.prefetched_bytes
    }),
    counter("zonal_cache_prefetched_read_bytes_total", "Of them, read", |s| {
        s.cache.prefetched_read_bytes
    }),
    counter("zonal_cache_prefetched_unread_bytes_total", "Of them, given up unread", |s| {
        s.cache.prefetched_unread_bytes
    }),
    counter("zonal_cache_admitted_bytes_total", "Bytes of chunks that went to flash", |s| {
        s.cache.admitted_bytes
    }),
    counter("zonal_cache_refused_bytes_total", "Bytes of chunks that did not go to flash", |s| {
        s.cache.refused_bytes
    }),
    counter("zonal_cache_turned_away_bytes_total", "Bytes not worth a flash write", |s| {
        s.cache.turned_away_bytes
    }),
    counter("zonal_cache_unpinned_bytes_total", "Bytes for which pins had no room", |s| {
        s.cache.unpinned_bytes
    }),
    gauge("zonal_cache_pinned_bytes", "Bytes that are pinned", |s| s.pinned.0),
    gauge("zonal_cache_pinned_max_bytes", "Bytes that may be pinned", |s| s.pinned_max.0),
    counter("zonal_cache_heads_refused_total", "Heads that did not go to flash", |s| {
        s.cache.heads_refused
    }),
    counter("zonal_cache_damaged_total", "Chunks on flash that were unreadable or wrong", |s| {
        s.cache.damaged
    }),
    counter("zonal_cache_evicted_total", "Records forgotten with their zone", |s| s.cache.evicted),
    counter("zonal_cache_removals_total", "Removals acknowledged", |s| s.cache.removals),
    gauge("zonal_cache_backlog_bytes", "Bytes admitted and not yet on flash", |s| s.backlog.0),
    gauge("zonal_cache_records", "Records in the index", |s| s.records),
    gauge("zonal_cache_index_bytes", "Memory of the index", |s| s.index_memory.0),
    gauge("zonal_cache_dram_bytes", "Memory of chunks that wait or are read often", |s| {
        s.held_memory.0
    }),
    gauge("zonal_cache_unread_bytes", "Bytes fetched ahead that wait for readers", |s| s.unread.0),
    gauge("zonal_cache_scans_open", "Readers that are fetched ahead of", |s| s.open_scans),
    gauge("zonal_cache_buffers_in_use", "Buffers that hold data", |s| s.buffers_in_use),
    counter("zonal_log_appended_bytes_total", "Bytes of new records", |s| s.log.appended_bytes),
    counter("zonal_log_rewritten_bytes_total", "Bytes of records that reclaim kept", |s| {
        s.log.rewritten_bytes
    }),
    counter("zonal_log_rewrites_refused_total", "Records that reclaim had no room to keep", |s| {
        s.log.rewrites_refused
    }),
    counter("zonal_log_segments_total", "Segments written", |s| s.log.segments),
    counter("zonal_log_segments_lingered_total", "Segments written before they were full", |s| {
        s.log.segments_lingered
    }),
    counter("zonal_log_tombstones_total", "Tombstones written", |s| s.log.tombstones),
    counter("zonal_log_foreground_waits_total", "Appends that waited for an empty zone", |s| {
        s.log.foreground_waits
    }),
    counter("zonal_device_written_bytes_total", "Bytes sent to the device", |s| {
        s.log.device_written_bytes
    }),
    counter("zonal_device_read_bytes_total", "Bytes asked of the device", |s| {
        s.log.device_read_bytes
    }),
    counter("zonal_device_zones_reset_total", "Zones emptied", |s| s.log.zones_reset),
    counter("zonal_device_write_errors_total", "Writes that failed", |s| s.log.write_errors),
    counter("zonal_device_read_errors_total", "Reads that failed", |s| s.log.read_errors),
    counter("zonal_device_check_errors_total", "Granules whose check did not fit", |s| {
        s.log.check_errors
    }),
    counter(
        "zonal_device_zones_unreadable_total",
        "Zones of which something could not be read at the start",
        |s| s.log.zones_unreadable,
    ),
    gauge("zonal_device_zone_bytes", "What a zone takes", |s| s.zone_capacity.0),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "empty"), |s| s.zones[0].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "open"), |s| s.zones[1].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "sealed"), |s| s.zones[2].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "reclaiming"), |s| s.zones[3].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "retired"), |s| s.zones[4].into()),
    gauge("zonal_device_lost", "1 when the device no longer answers", |s| s.is_gone.into()),
    gauge("zonal_device_isolated", "1 while it is done without until it answers well", |s| {
        s.is_isolated.into()
    }),
    counter("zonal_device_isolations_total", "Times that it was isolated", |s| s.isolations),
    counter("zonal_device_read_timeouts_total", "Reads that were not answered in time", |s| {
        s.reads_timed_out
    }),
    gauge("zonal_device_removals_missed", "Removals to be made up for", |s| s.removals_missed),
];

/// Metrics of the S3 endpoint.
const GATEWAY: &[Metric<GatewayStats>] = &[
    counter("zonal_gateway_sent_bytes_total", "Bytes of answers", |s| s.sent_bytes.get()),
    counter("zonal_gateway_received_bytes_total", "Bytes of request bodies", |s| {
        s.received_bytes.get()
    }),
    counter("zonal_gateway_connections_accepted_total", "Connections accepted", |s| {
        s.connections_accepted.get()
    }),
    counter("zonal_gateway_connections_refused_total", "Connections beyond the limit", |s| {
        s.connections_refused.get()
    }),
    counter(
        "zonal_gateway_tls_handshakes_failed_total",
        "TLS handshakes that came to nothing",
        |s| s.handshakes_failed.get(),
    ),
    counter(
        "zonal_gateway_would_refuse_total",
        "Requests let through that would be refused",
        |s| s.would_refuse.get(),
    ),
    counter(
        "zonal_gateway_owners_asked_total",
        "Questions to an origin about the owner of a bucket",
        |s| s.owners_asked.get(),
    ),
    counter(
        "zonal_gateway_confirmations_total",
        "Requests of clients that an origin confirmed with 304",
        |s| s.confirmations.get(),
    ),
    counter("zonal_config_reloads_total", "Configurations taken while running", |s| {
        s.terms_changed.get()
    }),
    counter("zonal_config_reloads_refused_total", "Configurations not taken while running", |s| {
        s.terms_refused.get()
    }),
    counter("zonal_gateway_connections_timed_out_total", "Connections closed for silence", |s| {
        s.connections_timed_out.get()
    }),
    gauge("zonal_gateway_connections_open", "Connections open", GatewayStats::connections_open),
    counter("zonal_gateway_accept_errors_total", "Connections that could not be accepted", |s| {
        s.accept_errors.get()
    }),
    counter("zonal_gateway_responses_cut_total", "Answers that broke off", |s| {
        s.responses_cut.get()
    }),
    counter("zonal_gateway_versions_changed_total", "Requests that met a new version", |s| {
        s.versions_changed.get()
    }),
    counter("zonal_gateway_removals_total", "Objects invalidated for writes", |s| s.removals.get()),
    counter("zonal_gateway_removals_failed_total", "Of them, not durable", |s| {
        s.removals_failed.get()
    }),
    counter("zonal_gateway_bucket_lists_cut_total", "Lists of buckets without an origin's", |s| {
        s.bucket_lists_cut.get()
    }),
    counter("zonal_gateway_access_lines_lost_total", "Lines of the access log not written", |s| {
        s.access_lines_lost.get()
    }),
];

/// Metrics of each origin; label `origin`.
const ORIGIN: &[Metric<OriginStats>] = &[
    counter("zonal_origin_heads_total", "Heads asked for", |s| s.heads.get()),
    counter("zonal_origin_gets_total", "Ranges asked for", |s| s.gets.get()),
    counter("zonal_origin_forwards_total", "Requests handed on", |s| s.forwards.get()),
    counter("zonal_origin_retries_total", "Attempts after the first", |s| s.retries.get()),
    counter("zonal_origin_retries_refused_total", "Retries beyond their budget", |s| {
        s.retries_refused.get()
    }),
    counter("zonal_origin_hedges_total", "Second questions for late answers", |s| s.hedges.get()),
    counter("zonal_origin_hedges_won_total", "Those that were answered first", |s| {
        s.hedges_won.get()
    }),
    counter("zonal_origin_hedges_refused_total", "Second questions beyond their budget", |s| {
        s.hedges_refused.get()
    }),
    counter("zonal_origin_slow_downs_total", "Answers that wanted us to ask less", |s| {
        s.slow_downs.get()
    }),
    counter("zonal_origin_reads_held_total", "Reads that waited while it wants less", |s| {
        s.reads_held.get()
    }),
    counter("zonal_origin_reads_refused_total", "Reads that would have waited too long", |s| {
        s.reads_refused.get()
    }),
    gauge("zonal_origin_reads_allowed", "Reads at once while it wants less, or 0", |s| {
        s.reads_allowed.get()
    }),
    counter("zonal_origin_probes_total", "Questions whether it lets us in", |s| s.probes.get()),
    counter("zonal_origin_received_bytes_total", "Bytes of bodies received", |s| {
        s.received_bytes.get()
    }),
    counter("zonal_origin_sent_bytes_total", "Bytes of bodies sent", |s| s.sent_bytes.get()),
    gauge("zonal_origin_trouble", "1 while it is away, fails, or does not let us in", |s| {
        s.trouble().is_some().into()
    }),
];

/// All metrics in the OpenMetrics text format.
pub(super) fn text(
    shards: &[ShardStats],
    gateway: Option<(&GatewayStats, Caching)>,
    origins: &[(&str, &OriginStats)],
) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    for shard in shards {
        let place = [("device", shard.device.to_string()), ("shard", shard.shard.to_string())];
        snapshot.add_table(SHARD, shard, &place);
    }
    if let Some((stats, caching)) = gateway {
        snapshot.add_table(GATEWAY, stats, &[]);
        let off = ("zonal_gateway_cache_off", "1 while every read goes past the cache");
        let is_off = u64::from(caching == Caching::Off);
        snapshot.family(MetricKind::Gauge, off).samples.push((Vec::new(), Value::Whole(is_off)));
        add_labelled_counters(&mut snapshot, stats);
    }
    for (name, stats) in origins {
        let place = [("origin", (*name).to_owned())];
        snapshot.add_table(ORIGIN, *stats, &place);
        let errors = ("zonal_origin_errors_total", "Requests that the origin failed, by kind");
        snapshot.add_counters(errors, ("kind", &place), stats.errors());
    }
    snapshot.into_text()
}

fn add_labelled_counters(snapshot: &mut Snapshot, stats: &GatewayStats) {
    let requests = ("zonal_gateway_requests_total", "Requests by operation and status");
    let family = snapshot.family(MetricKind::Counter, requests);
    family.samples.extend(stats.requests().map(|(operation, class, n)| {
        let status = format!("{class}xx");
        let labels = vec![("operation", operation.name().to_owned()), ("status", status)];
        (labels, Value::Whole(n))
    }));
    let outcomes = ("zonal_gateway_outcomes_total", "Answers by their X-Cache");
    let by_name = stats.outcomes().map(|(outcome, n)| (outcome.name(), n));
    snapshot.add_counters(outcomes, ("x_cache", &[]), by_name);
    let bypasses = ("zonal_gateway_bypasses_total", "Answers past the cache, by X-Cache-Reason");
    let by_name = stats.bypasses().map(|(reason, n)| (reason.name(), n));
    snapshot.add_counters(bypasses, ("reason", &[]), by_name);
    let refusals = ("zonal_gateway_refusals_total", "Requests not let in, by error code");
    snapshot.add_counters(refusals, ("code", &[]), stats.refusals());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_description_and_all_its_labels() {
        let gateway = GatewayStats::default();
        let gateway = Some((&gateway, Caching::On));
        let text = text(&[], gateway, &[("here", &OriginStats::default())]).unwrap();
        let of = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(of("# HELP zonal_gateway_outcomes "), 1, "{text}");
        assert_eq!(of("zonal_gateway_outcomes_total{x_cache=\"HIT\"} 0"), 1, "{text}");
        assert_eq!(of("zonal_gateway_outcomes_total{"), 5, "{text}");
        assert_eq!(of("zonal_origin_heads_total{origin=\"here\"} 0"), 1, "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
