//! Prometheus metrics of the cache: one table per source, one row per metric.

use zonal_api::latency::{
    CommandLatency, Latencies, OriginLatency, Queue, QueueLatency, RequestLatency,
};
use zonal_api::stats::Savings;
use zonal_gateway::{Caching, Gateway, Stats as GatewayStats};
use zonal_host::ShardStats;
use zonal_origin::{Circuit, KeyCounts, Stats as OriginStats};

use crate::metrics::{Metric, MetricKind, Snapshot, Value, counter, gauge, labelled};

const OPENS_FOUND: &str = "zonal_cache_opens_found_total";
const OPENS_FOUND_HELP: &str = "Object head lookups by result";
const PIECES_FOUND: &str = "zonal_cache_pieces_found_total";
const PIECES_FOUND_HELP: &str = "Chunk pieces by source";
const ZONES: &str = "zonal_device_zones";
const ZONES_HELP: &str = "Zones by state";

/// Metrics of each shard; labels `device` and `shard`.
const SHARD: &[Metric<ShardStats>] = &[
    counter("zonal_cache_opens_total", "Object head lookups", |s| s.cache.opens),
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
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "updating"), |s| {
        s.cache.opens_updating
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "absent"), |s| {
        s.cache.opens_absent
    }),
    labelled(MetricKind::Counter, (OPENS_FOUND, OPENS_FOUND_HELP), ("path", "joined"), |s| {
        s.cache.opens_joined
    }),
    counter("zonal_cache_pieces_total", "Chunk pieces requested", |s| s.cache.pieces),
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
    counter("zonal_cache_served_bytes_total", "Bytes served to readers", |s| s.cache.served_bytes),
    counter(
        "zonal_cache_served_flash_bytes_total",
        "Served bytes that were read from flash",
        |s| s.cache.served_flash_bytes,
    ),
    counter("zonal_cache_fetched_bytes_total", "Bytes received from the origin", |s| {
        s.cache.fetched_bytes
    }),
    counter("zonal_cache_fetches_total", "Range requests to the origin", |s| s.cache.fetches),
    counter("zonal_cache_head_fetches_total", "HEAD requests to the origin", |s| {
        s.cache.head_fetches
    }),
    counter("zonal_cache_fetch_errors_total", "Failed requests to the origin", |s| {
        s.cache.fetch_errors
    }),
    counter(
        "zonal_cache_fetches_abandoned_total",
        "Fetches dropped because all their readers had left",
        |s| s.cache.fetches_abandoned,
    ),
    counter(
        "zonal_cache_fetches_stalled_total",
        "Fetches cut short because their readers stopped",
        |s| s.cache.fetches_stalled,
    ),
    counter(
        "zonal_cache_fetches_resumed_total",
        "Fetches that broke off and whose rest was requested again",
        |s| s.cache.fetches_resumed,
    ),
    counter("zonal_cache_prefetched_bytes_total", "Prefetched bytes", |s| s.cache.prefetched_bytes),
    counter("zonal_cache_prefetched_read_bytes_total", "Prefetched bytes that were read", |s| {
        s.cache.prefetched_read_bytes
    }),
    counter(
        "zonal_cache_prefetched_unread_bytes_total",
        "Prefetched bytes that were dropped unread",
        |s| s.cache.prefetched_unread_bytes,
    ),
    counter("zonal_cache_admitted_bytes_total", "Chunk bytes admitted to flash", |s| {
        s.cache.admitted_bytes
    }),
    counter(
        "zonal_cache_refused_bytes_total",
        "Chunk bytes not admitted because flash was too slow or lost",
        |s| s.cache.refused_bytes,
    ),
    counter("zonal_cache_turned_away_bytes_total", "Bytes rejected by the admission policy", |s| {
        s.cache.turned_away_bytes
    }),
    counter(
        "zonal_cache_unpinned_bytes_total",
        "Bytes not pinned because the pin limit was reached",
        |s| s.cache.unpinned_bytes,
    ),
    gauge("zonal_cache_pinned_bytes", "Pinned bytes", |s| s.pinned.0),
    gauge("zonal_cache_pinned_max_bytes", "Limit of pinned bytes", |s| s.pinned_max.0),
    counter("zonal_cache_heads_refused_total", "Object heads not admitted to flash", |s| {
        s.cache.heads_refused
    }),
    counter("zonal_cache_damaged_total", "Chunks on flash that were unreadable or corrupt", |s| {
        s.cache.damaged
    }),
    counter("zonal_cache_suspect_heads_confirmed_total", "Heads confirmed after a loss", |s| {
        s.cache.suspects_confirmed
    }),
    counter("zonal_cache_evicted_total", "Records evicted with their zone", |s| s.cache.evicted),
    counter("zonal_cache_removals_total", "Acknowledged removals", |s| s.cache.removals),
    gauge("zonal_cache_backlog_bytes", "Admitted bytes not yet written to flash", |s| s.backlog.0),
    gauge("zonal_cache_records", "Records in the index", |s| s.records),
    gauge("zonal_cache_index_bytes", "Memory used by the index", |s| s.index_memory.0),
    gauge(
        "zonal_cache_dram_bytes",
        "Memory used by chunks on probation and by frequently read chunks",
        |s| s.held_memory.0,
    ),
    gauge("zonal_cache_unread_bytes", "Prefetched bytes waiting to be read", |s| s.unread.0),
    gauge("zonal_cache_scans_open", "Readers with prefetch", |s| s.open_scans),
    gauge("zonal_cache_buffers_in_use", "Buffers in use", |s| s.buffers_in_use),
    counter("zonal_log_appended_bytes_total", "Bytes of new records", |s| s.log.appended_bytes),
    counter("zonal_log_rewritten_bytes_total", "Bytes of records rewritten by reclaim", |s| {
        s.log.rewritten_bytes
    }),
    counter(
        "zonal_log_rewrites_refused_total",
        "Records that reclaim could not rewrite for lack of space",
        |s| s.log.rewrites_refused,
    ),
    counter("zonal_log_segments_total", "Segments written", |s| s.log.segments),
    counter("zonal_log_segments_lingered_total", "Segments written before they were full", |s| {
        s.log.segments_lingered
    }),
    counter("zonal_log_tombstones_total", "Tombstones written", |s| s.log.tombstones),
    counter("zonal_log_foreground_waits_total", "Appends delayed for an empty zone", |s| {
        s.log.foreground_waits
    }),
    counter("zonal_device_written_bytes_total", "Bytes written to the device", |s| {
        s.log.device_written_bytes
    }),
    counter("zonal_device_read_bytes_total", "Bytes read from the device", |s| {
        s.log.device_read_bytes
    }),
    counter("zonal_device_zones_reset_total", "Zones reset", |s| s.log.zones_reset),
    counter("zonal_device_write_errors_total", "Failed writes", |s| s.log.write_errors),
    counter("zonal_device_read_errors_total", "Failed reads", |s| s.log.read_errors),
    counter("zonal_device_check_errors_total", "Granules with a checksum mismatch", |s| {
        s.log.check_errors
    }),
    counter("zonal_device_zones_unreadable_total", "Zones with read errors during recovery", |s| {
        s.log.zones_unreadable
    }),
    counter("zonal_device_losses_total", "Starts that found zones lost", |s| s.log.losses),
    gauge("zonal_scrub_running", "1 while the shard is scrubbed", |s| s.scrub.is_running.into()),
    gauge("zonal_scrub_zones", "Zones to verify, once a scrub began", |s| s.scrub.zones.into()),
    gauge("zonal_scrub_zones_done", "Zones that the scrub has verified", |s| {
        s.scrub.zones_done.into()
    }),
    gauge("zonal_scrub_read_bytes", "Bytes that the scrub has read", |s| s.scrub.read_bytes),
    gauge("zonal_scrub_damaged", "Damaged records and zones found by the scrub", |s| {
        s.scrub.damaged_records + s.scrub.damaged_metadata
    }),
    gauge("zonal_scrub_broken_off", "1 when the last scrub did not verify everything", |s| {
        s.scrub.is_broken_off.into()
    }),
    gauge("zonal_device_zone_bytes", "Zone capacity in bytes", |s| s.zone_capacity.0),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "empty"), |s| s.zones[0].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "open"), |s| s.zones[1].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "sealed"), |s| s.zones[2].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "reclaiming"), |s| s.zones[3].into()),
    labelled(MetricKind::Gauge, (ZONES, ZONES_HELP), ("use", "retired"), |s| s.zones[4].into()),
    gauge("zonal_device_lost", "1 when the device is lost", |s| s.is_gone.into()),
    gauge("zonal_device_isolated", "1 while the device is isolated", |s| s.is_isolated.into()),
    counter("zonal_device_isolations_total", "Isolations of the device", |s| s.isolations),
    counter("zonal_device_read_timeouts_total", "Reads that timed out", |s| s.reads_timed_out),
    gauge("zonal_device_removals_missed", "Pending removals of an isolated device", |s| {
        s.removals_missed
    }),
];

/// Metrics of the S3 endpoint.
const GATEWAY: &[Metric<GatewayStats>] = &[
    counter("zonal_gateway_sent_bytes_total", "Bytes of response bodies", |s| s.sent_bytes.get()),
    counter("zonal_gateway_received_bytes_total", "Bytes of request bodies", |s| {
        s.received_bytes.get()
    }),
    counter("zonal_gateway_connections_accepted_total", "Connections accepted", |s| {
        s.connections_accepted.get()
    }),
    counter(
        "zonal_gateway_connections_refused_total",
        "Connections refused at the connection limit",
        |s| s.connections_refused.get(),
    ),
    counter("zonal_gateway_tls_handshakes_failed_total", "Failed TLS handshakes", |s| {
        s.handshakes_failed.get()
    }),
    counter("zonal_gateway_would_refuse_total", "Requests passed that would be refused", |s| {
        s.would_refuse.get()
    }),
    counter(
        "zonal_gateway_owners_asked_total",
        "Requests to an origin about the owner of a bucket",
        |s| s.owners_asked.get(),
    ),
    counter(
        "zonal_gateway_confirmations_total",
        "Client requests that an origin confirmed with 304",
        |s| s.confirmations.get(),
    ),
    counter("zonal_config_reloads_total", "Configuration reloads that were applied", |s| {
        s.terms_changed.get()
    }),
    counter("zonal_config_reloads_refused_total", "Configuration reloads that were refused", |s| {
        s.terms_refused.get()
    }),
    counter(
        "zonal_gateway_connections_refused_by_address_total",
        "Connections refused because their address has too many",
        |s| s.connections_refused_by_address.get(),
    ),
    counter(
        "zonal_gateway_connections_evicted_total",
        "Idle connections closed to make room for others",
        |s| s.connections_evicted.get(),
    ),
    counter("zonal_gateway_writes_refused_total", "Writes that got no permit in time", |s| {
        s.writes_refused.get()
    }),
    counter(
        "zonal_gateway_writes_refused_by_client_total",
        "Writes whose address or access key had its share of permits",
        |s| s.writes_refused_by_client.get(),
    ),
    counter("zonal_gateway_connections_timed_out_total", "Connections closed by a timeout", |s| {
        s.connections_timed_out.get()
    }),
    gauge("zonal_gateway_connections_open", "Open connections", GatewayStats::connections_open),
    counter("zonal_gateway_accept_errors_total", "Failed accepts of connections", |s| {
        s.accept_errors.get()
    }),
    counter("zonal_gateway_responses_cut_total", "Responses cut off", |s| s.responses_cut.get()),
    counter(
        "zonal_gateway_versions_changed_total",
        "Requests restarted on a new object version",
        |s| s.versions_changed.get(),
    ),
    counter("zonal_gateway_removals_total", "Invalidations before and after writes", |s| {
        s.removals.get()
    }),
    counter("zonal_gateway_removals_failed_total", "Invalidations that are not durable", |s| {
        s.removals_failed.get()
    }),
    counter(
        "zonal_gateway_bucket_lists_cut_total",
        "Bucket lists without the buckets of one origin",
        |s| s.bucket_lists_cut.get(),
    ),
    counter("zonal_gateway_access_lines_lost_total", "Lost lines of the access log", |s| {
        s.access_lines_lost.get()
    }),
];

/// Metrics of each origin; label `origin`.
const ORIGIN: &[Metric<OriginStats>] = &[
    counter("zonal_origin_heads_total", "HEAD requests", |s| s.heads.get()),
    counter("zonal_origin_gets_total", "Range requests", |s| s.gets.get()),
    counter("zonal_origin_forwards_total", "Forwarded requests", |s| s.forwards.get()),
    counter("zonal_origin_retries_total", "Retries", |s| s.retries.get()),
    counter("zonal_origin_retries_refused_total", "Retries refused by the retry budget", |s| {
        s.retries_refused.get()
    }),
    counter("zonal_origin_hedges_total", "Hedged requests", |s| s.hedges.get()),
    counter(
        "zonal_origin_hedges_won_total",
        "Hedged requests answered before the first request",
        |s| s.hedges_won.get(),
    ),
    counter("zonal_origin_hedges_refused_total", "Hedged requests refused by their budget", |s| {
        s.hedges_refused.get()
    }),
    counter("zonal_origin_slow_downs_total", "Responses that asked to slow down", |s| {
        s.slow_downs.get()
    }),
    counter("zonal_origin_reads_held_total", "Reads delayed by the concurrency limit", |s| {
        s.reads_held.get()
    }),
    counter(
        "zonal_origin_reads_refused_total",
        "Reads refused because the delay would be too long",
        |s| s.reads_refused.get(),
    ),
    gauge("zonal_origin_reads_allowed", "Concurrency limit while slowed down, else 0", |s| {
        s.reads_allowed.get()
    }),
    gauge("zonal_origin_circuit_open", "1 while requests fail at once, for lack of answers", |s| {
        u64::from(s.circuit() == Circuit::Open)
    }),
    counter("zonal_origin_circuit_opens_total", "Times that the origin stopped answering", |s| {
        s.circuit_opens()
    }),
    counter("zonal_origin_circuit_refusals_total", "Requests that failed at once", |s| {
        s.circuit_refusals.get()
    }),
    counter("zonal_origin_probes_total", "Credential checks", |s| s.probes.get()),
    counter("zonal_origin_received_bytes_total", "Body bytes received", |s| s.received_bytes.get()),
    counter("zonal_origin_sent_bytes_total", "Body bytes sent", |s| s.sent_bytes.get()),
    gauge(
        "zonal_origin_trouble",
        "1 while the origin is unreachable, fails, or rejects the credentials",
        |s| s.trouble().is_some().into(),
    ),
];

/// Metrics of the credentials of each origin; label `origin`.
const CREDENTIALS: &[Metric<KeyCounts>] = &[
    counter("zonal_origin_credentials_renewed_total", "Credentials found or renewed", |k| {
        k.renewed
    }),
    counter("zonal_origin_credentials_failed_total", "Searches that found no credentials", |k| {
        k.failed
    }),
    gauge(
        "zonal_origin_credentials_expire_timestamp_seconds",
        "When the credentials expire, since 1970; 0: never, or there are none",
        |k| k.expire_at,
    ),
];

const SAVED_REQUESTS: (&str, &str) =
    ("zonal_saved_requests", "Origin requests that the cache has saved since the start");
const SAVED_BYTES: (&str, &str) =
    ("zonal_saved_bytes", "Bytes that the cache has saved to receive from origins since the start");
const SAVED_COST: (&str, &str) =
    ("zonal_saved_cost", "Price of the saved requests and bytes at the configured prices");
const FIRST_BYTE: (&str, &str) = (
    "zonal_gateway_first_byte_seconds",
    "Time from a request's head to the response's first bytes",
);
const LAST_BYTE: (&str, &str) =
    ("zonal_gateway_last_byte_seconds", "Time from a request's head to the response's last byte");
const PERMITS: (&str, &str) =
    ("zonal_gateway_permit_wait_seconds", "Time that requests with a body waited for a permit");
const SHARD_QUEUE: (&str, &str) =
    ("zonal_shard_queue_seconds", "Time that reads waited in the request queue of their shard");
const COMMANDS: (&str, &str) =
    ("zonal_device_command_seconds", "Time from a device command to its completion");
const ORIGIN_REQUESTS: (&str, &str) =
    ("zonal_origin_request_seconds", "Time from a call of the origin to the start of its answer");
const ORIGIN_PERMITS: (&str, &str) =
    ("zonal_origin_permit_wait_seconds", "Time that reads waited for a connection slot");

/// An origin: its name, its counters, and those of its keys.
pub(super) type OriginCounts<'a> = (&'a str, &'a OriginStats, KeyCounts);

/// Snapshot of all metrics.
pub(super) fn snapshot(
    shards: &[ShardStats],
    gateway: Option<&Gateway>,
    origins: &[OriginCounts<'_>],
) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for shard in shards {
        let place = [("device", shard.device.to_string()), ("shard", shard.shard.to_string())];
        snapshot.add_table(SHARD, shard, &place);
    }
    if let Some(gateway) = gateway {
        add_gateway(&mut snapshot, gateway.stats(), gateway.caching());
    }
    for (name, stats, keys) in origins {
        add_origin(&mut snapshot, (name, stats), keys);
    }
    snapshot
}

/// Adds what the cache has saved.
pub(super) fn add_savings(snapshot: &mut Snapshot, saved: Savings) {
    let Savings { requests, bytes, cost, currency } = saved;
    let gauges = [
        (SAVED_REQUESTS, vec![], Value::Signed(requests)),
        (SAVED_BYTES, vec![], Value::Signed(bytes)),
        (SAVED_COST, vec![("currency", currency)], Value::Fraction(cost)),
    ];
    for (named, labels, value) in gauges {
        snapshot.family(MetricKind::Gauge, named).samples.push((labels, value));
    }
}

/// Adds all latencies.
pub(super) fn add_latencies(snapshot: &mut Snapshot, latencies: Latencies) {
    for RequestLatency { operation, path, first_byte, last_byte } in latencies.requests {
        let labels = vec![("operation", operation), ("path", path)];
        snapshot.add_latencies(FIRST_BYTE, labels.clone(), first_byte.0);
        snapshot.add_latencies(LAST_BYTE, labels, last_byte.0);
    }
    for CommandLatency { device, command, latency } in latencies.commands {
        let labels = vec![("device", device.to_string()), ("command", command)];
        snapshot.add_latencies(COMMANDS, labels, latency.0);
    }
    for OriginLatency { origin, request, latency } in latencies.origins {
        let labels = vec![("origin", origin), ("request", request)];
        snapshot.add_latencies(ORIGIN_REQUESTS, labels, latency.0);
    }
    for QueueLatency { queue, latency } in latencies.queues {
        let (name, labels) = match queue {
            Queue::Shard { device, shard } => {
                let labels = [("device", device.to_string()), ("shard", shard.to_string())];
                (SHARD_QUEUE, labels.to_vec())
            }
            Queue::Origin(origin) => (ORIGIN_PERMITS, vec![("origin", origin)]),
            Queue::Permit => (PERMITS, Vec::new()),
        };
        snapshot.add_latencies(name, labels, latency.0);
    }
}

fn add_gateway(snapshot: &mut Snapshot, stats: &GatewayStats, caching: Caching) {
    snapshot.add_table(GATEWAY, stats, &[]);
    let off = ("zonal_gateway_cache_off", "1 while the cache is switched off");
    let is_off = u64::from(caching == Caching::Off);
    snapshot.family(MetricKind::Gauge, off).samples.push((Vec::new(), Value::Whole(is_off)));
    add_labelled_counters(snapshot, stats);
}

fn add_origin(snapshot: &mut Snapshot, (name, stats): (&str, &OriginStats), keys: &KeyCounts) {
    let place = [("origin", name.to_owned())];
    snapshot.add_table(ORIGIN, stats, &place);
    snapshot.add_table(CREDENTIALS, keys, &place);
    let errors = ("zonal_origin_errors_total", "Failed requests to the origin, by kind");
    snapshot.add_counters(errors, ("kind", &place), stats.errors());
}

fn add_labelled_counters(snapshot: &mut Snapshot, stats: &GatewayStats) {
    let requests = ("zonal_gateway_requests_total", "Requests by operation and status");
    let family = snapshot.family(MetricKind::Counter, requests);
    family.samples.extend(stats.requests().map(|(operation, class, n)| {
        let status = format!("{class}xx");
        let labels = vec![("operation", operation.name().to_owned()), ("status", status)];
        (labels, Value::Whole(n))
    }));
    let outcomes = ("zonal_gateway_outcomes_total", "Responses by X-Cache");
    let by_name = stats.outcomes().map(|(outcome, n)| (outcome.name(), n));
    snapshot.add_counters(outcomes, ("x_cache", &[]), by_name);
    let bypasses = ("zonal_gateway_bypasses_total", "Bypass responses by X-Cache-Reason");
    let by_name = stats.bypasses().map(|(reason, n)| (reason.name(), n));
    snapshot.add_counters(bypasses, ("reason", &[]), by_name);
    let refusals = ("zonal_gateway_refusals_total", "Refused requests by error code");
    snapshot.add_counters(refusals, ("code", &[]), stats.refusals());
}

#[cfg(test)]
mod tests {
    use zonal_gateway::CacheStatus;

    use super::*;
    use crate::metrics::Format;

    #[test]
    fn a_family_has_one_description_and_all_its_labels() {
        let mut snapshot = Snapshot::default();
        add_gateway(&mut snapshot, &GatewayStats::default(), Caching::On);
        add_origin(&mut snapshot, ("here", &OriginStats::default()), &KeyCounts::default());
        let text = String::from_utf8(snapshot.encode(Format::Text).unwrap()).unwrap();
        let of = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(of("# HELP zonal_gateway_outcomes_total "), 1, "{text}");
        assert_eq!(of("zonal_gateway_outcomes_total{x_cache=\"HIT\"} 0"), 1, "{text}");
        assert_eq!(of("zonal_gateway_outcomes_total{"), CacheStatus::ALL.len(), "{text}");
        assert_eq!(of("zonal_origin_heads_total{origin=\"here\"} 0"), 1, "{text}");
    }
}
