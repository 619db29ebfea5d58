//! Statistics for `/stats`: counters of all shards summed per device, one entry per origin.

use zonal_api::scrubbing::ScrubStats;
use zonal_api::shards::add_shards;
use zonal_api::stats::{
    Answers, BypassedReads, Connections, DeviceStats, OriginState, OriginStats, Pins, Stats,
};
use zonal_api::switching::CachingState;
use zonal_gateway::{BypassReason, CacheStatus, Caching, Gateway};
use zonal_host::ShardStats;
use zonal_origin::Circuit;

use super::savings::savings;
use super::{Observed, ObservedDevice};
use crate::config::Prices;

pub(super) fn summary(
    node: &Observed,
    gateway: &Gateway,
    shards: &[ShardStats],
    (scrub, prices): (ScrubStats, &Prices),
) -> Stats {
    let answers = answers(node, gateway);
    let pins = &gateway.runtime_config().pins;
    Stats {
        cache: caching_state(gateway.caching()),
        savings: savings(&answers, shards, prices),
        answers,
        connections: connections(gateway),
        pins: Pins { objects: pins.object_count() as u64, prefixes: pins.prefix_count() as u64 },
        devices: devices(&node.devices, shards),
        origins: node.origins.iter().map(origin).collect(),
        scrub,
    }
}

pub(super) const fn caching_state(of: Caching) -> CachingState {
    match of {
        Caching::On => CachingState::On,
        Caching::Off => CachingState::Off,
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
    add_shards(&mut devices, shards);
    devices
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
