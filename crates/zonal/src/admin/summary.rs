//! Statistics for `/stats`: counters of all shards summed per device, one entry per origin.

use zonal_device::DeviceKind as LogDeviceKind;
use zonal_gateway::{BypassReason, CacheStatus, Gateway};
use zonal_host::ShardStats;
use zonal_origin::Circuit;

use super::savings::savings;
use super::{Observed, ObservedDevice};
use crate::config::Prices;
use crate::scrubbing::ScrubStats;
use crate::stats::{
    Answers, BypassedReads, Connections, DeviceKind, DeviceState, DeviceStats, Flash, OriginState,
    OriginStats, Pins, Reads, Stats, Zones,
};

pub(super) fn summary(
    node: &Observed,
    gateway: &Gateway,
    shards: &[ShardStats],
    (scrub, prices): (ScrubStats, &Prices),
) -> Stats {
    let answers = answers(node, gateway);
    let pins = &gateway.runtime_config().pins;
    Stats {
        cache: gateway.caching().into(),
        savings: savings(&answers, shards, prices),
        answers,
        connections: connections(gateway),
        pins: Pins { objects: pins.object_count() as u64, prefixes: pins.prefix_count() as u64 },
        devices: devices(&node.devices, shards),
        origins: node.origins.iter().map(origin).collect(),
        scrub,
    }
}

pub(super) fn connections(gateway: &Gateway) -> Connections {
    let stats = gateway.stats();
    Connections {
        open: stats.connections_open(),
        accepted: stats.connections_accepted.get(),
        refused: stats.connections_refused.get(),
        timed_out: stats.connections_timed_out.get(),
    }
}

pub(super) fn answers(node: &Observed, gateway: &Gateway) -> Answers {
    let stats = gateway.stats();
    let mut answers = Answers::default();
    for (outcome, n) in stats.outcomes() {
        *match outcome {
            CacheStatus::Hit => &mut answers.hit,
            CacheStatus::Revalidated => &mut answers.revalidated,
            CacheStatus::Miss => &mut answers.miss,
            CacheStatus::Stale => &mut answers.stale,
            CacheStatus::Updating => &mut answers.updating,
            CacheStatus::Bypass => &mut answers.bypass,
        } = n;
    }
    let bypasses = stats.bypasses();
    let of_reads = bypasses.filter(|(reason, n)| *reason != BypassReason::Operation && *n != 0);
    answers.bypassed_reads = of_reads
        .map(|(reason, reads)| BypassedReads {
            reason: reason.name().to_owned(),
            explanation: reason.explanation().to_owned(),
            reads,
        })
        .collect();
    let own = node.origins.iter().map(|named| asked_for_reads(named.origin.stats()));
    let asked_for_clients = stats.owners_asked.get() + stats.confirmations.get();
    let past: u64 = answers.bypassed_reads.iter().map(|bypassed| bypassed.reads).sum();
    answers.origin_requests = own.sum::<u64>() + past + asked_for_clients;
    answers
}

pub(super) fn devices(devices: &[ObservedDevice], shards: &[ShardStats]) -> Vec<DeviceStats> {
    let named = |(device, of): (usize, &ObservedDevice)| DeviceStats {
        device,
        name: of.drive.spec().to_string(),
        policy: of.policy.clone(),
        wear: of.drive.wear(),
        ..DeviceStats::default()
    };
    let mut devices: Vec<DeviceStats> = (0..).zip(devices).map(named).collect();
    for shard in shards {
        let Some(device) = devices.get_mut(shard.device) else { continue };
        device.shards += 1;
        device.shards_lost += u64::from(shard.is_gone && !shard.is_isolated);
        device.shards_isolated += u64::from(shard.is_isolated);
        device.zones += shard.zones.iter().map(|zones| u64::from(*zones)).sum::<u64>();
        device.zone_bytes = shard.zone_capacity.0;
        device.kind = match shard.kind {
            LogDeviceKind::Zoned => DeviceKind::Zoned,
            LogDeviceKind::Conventional => DeviceKind::Conventional,
        };
        if let Some(budget) = shard.write_budget {
            *device.wear.budget_bytes_per_day.get_or_insert(0) += budget.0;
        }
        device.isolations += shard.isolations;
        device.reads_timed_out += shard.reads_timed_out;
        device.reads.add(&reads(shard));
        device.flash.add(&flash(shard));
    }
    for device in &mut devices {
        device.state = match (device.shards_isolated, device.shards_lost) {
            (0, 0) if 0 < device.shards => DeviceState::InUse,
            (0, _) => DeviceState::Lost,
            _ => DeviceState::Isolated,
        };
    }
    devices
}

fn reads(shard: &ShardStats) -> Reads {
    let cache = &shard.cache;
    Reads {
        pieces: cache.pieces,
        dram: cache.pieces_dram_hits,
        flash: cache.pieces_flash_hits,
        joined: cache.pieces_joined,
        missed: cache.pieces_missed,
        served_bytes: cache.served_bytes,
        served_flash_bytes: cache.served_flash_bytes,
        fetched_bytes: cache.fetched_bytes,
    }
}

fn flash(shard: &ShardStats) -> Flash {
    let ShardStats { cache, log, zones, zone_capacity, records, pinned, pinned_max, .. } = shard;
    let [empty, open, sealed, reclaiming, retired] = zones.map(u64::from);
    let used = open + sealed + reclaiming;
    Flash {
        capacity_bytes: (empty + used + retired) * zone_capacity.0,
        used_bytes: used * zone_capacity.0,
        records: *records,
        pinned_bytes: pinned.0,
        pinned_max_bytes: pinned_max.0,
        unpinned_bytes: cache.unpinned_bytes,
        zones: Zones { empty, open, sealed, reclaiming, retired },
        admitted_bytes: cache.admitted_bytes,
        refused_bytes: cache.refused_bytes,
        turned_away_bytes: cache.turned_away_bytes,
        rewritten_bytes: log.rewritten_bytes,
        written_bytes: log.device_written_bytes,
        errors: log.read_errors + log.write_errors + log.check_errors,
    }
}

/// Origin requests that the cache sent for reads, retries and hedges included.
fn asked_for_reads(stats: &zonal_origin::Stats) -> u64 {
    let asked = [&stats.heads, &stats.gets, &stats.retries, &stats.hedges];
    asked.into_iter().map(zonal_origin::Counter::get).sum()
}

pub(super) fn origin(named: &zonal_origin::ConfiguredOrigin) -> OriginStats {
    let stats = named.origin.stats();
    let mut latency = stats.head_latency.snapshot();
    latency.merge(&stats.get_latency.snapshot());
    let quantile = |part| latency.quantile(part, 100).map(|time| time.0);
    let trouble = stats.trouble();
    let others = stats.forwards.get() + stats.probes.get();
    OriginStats {
        name: named.name.clone(),
        state: match (stats.circuit(), &trouble) {
            (Circuit::Open, _) => OriginState::Silent,
            (_, Some(_)) => OriginState::Unhealthy,
            (_, None) => OriginState::Healthy,
        },
        p50_ns: quantile(50),
        p99_ns: quantile(99),
        requests: asked_for_reads(stats) + others,
        errors: stats.errors().map(|(_, n)| n).sum(),
        received_bytes: stats.received_bytes.get(),
        sent_bytes: stats.sent_bytes.get(),
        trouble: trouble.map(|error| error.to_string()),
    }
}
