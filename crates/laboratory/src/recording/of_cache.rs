//! What a recording has of a cache.

use std::collections::BTreeMap;

use serde_json::json;
use zonal_api::events::{Event, What};
use zonal_api::live::{Header, Requests, State};
use zonal_api::stats::{Answers, Connections, DeviceStats, OriginStats, Savings};
use zonal_api::switching::CachingState;
use zonal_api::zones::Zone;
use zonal_api::{Document, shards, without_nulls};
use zonal_base::{LatencySnapshot, ZoneId};
use zonal_cache::{Cache, PieceSource};
use zonal_host::{ShardEvents, ShardStats, ShardZones};
use zonal_watch::{Engine, Request};

use super::{Answered, Recorded, Scene};

/// Number of the only device, and of its only shard.
const ONLY: usize = 0;

/// Name of the simulated origin.
const ORIGIN: &str = "origin";

impl Recorded for Cache {
    type Zone = Zone;
    type What = What;

    fn of(engine: Engine<'_>) -> Option<&Self> {
        match engine {
            Engine::Cache(cache) => Some(cache),
            Engine::Block(_) => None,
        }
    }

    fn document(&self, scene: &Scene<'_>) -> Document<Zone> {
        let stats = self.stats();
        let answers = answers(scene, stats.fetches + stats.head_fetches);
        let origin = OriginStats {
            name: ORIGIN.to_owned(),
            requests: answers.origin_requests,
            errors: stats.fetch_errors,
            received_bytes: stats.fetched_bytes,
            ..OriginStats::default()
        };
        let state = State {
            header: Header {
                kind: "cache",
                version: env!("CARGO_PKG_VERSION"),
                times: scene.times,
                ready: true,
                trouble: Vec::new(),
            },
            caching: CachingState::On,
            savings: Savings {
                requests: difference(answers.reads(), answers.origin_requests),
                bytes: difference(stats.served_bytes, stats.fetched_bytes),
                ..Savings::default()
            },
            answers,
            connections: Connections::default(),
            devices: [(ONLY, device(self, scene))].into(),
            origins: [(ORIGIN.to_owned(), origin)].into(),
            requests: requests(scene),
        };
        let zones = ShardZones::of_cache((ONLY, ONLY), ZoneId(0), self);
        Document::new(without_nulls(json!(state)), shards::zone_groups(&[zones]))
    }

    fn events(&self, first: u64) -> (Vec<Event>, u64) {
        let zones = Self::events(self, first);
        let next = zones.last().map_or(first, |last| last.number + 1);
        let first_zone = ZoneId(0);
        let of_shard =
            ShardEvents { device: ONLY, shard: ONLY, first_zone, zones, health: Vec::new() };
        (shards::events(&of_shard).collect(), next)
    }

    fn note(text: String) -> What {
        What::Note { text }
    }
}

fn answers(scene: &Scene<'_>, origin_requests: u64) -> Answers {
    let mut answers = Answers { origin_requests, ..Answers::default() };
    for (request, Answered { times, .. }) in scene.requests {
        if let Request::Get { is_hit, .. } = request {
            *if *is_hit { &mut answers.hit } else { &mut answers.miss } += times.count();
        }
    }
    answers
}

fn device(cache: &Cache, scene: &Scene<'_>) -> DeviceStats {
    let (name, policy) = (scene.subject.device.clone(), scene.subject.policy.clone());
    let mut devices = [DeviceStats { name, policy, ..DeviceStats::default() }];
    shards::add_shards(&mut devices, &[ShardStats::of_cache((ONLY, ONLY), cache)]);
    let [device] = devices;
    device
}

/// Times by path, with the names of the gateway.
fn requests(scene: &Scene<'_>) -> BTreeMap<String, Requests> {
    let mut paths: BTreeMap<&'static str, LatencySnapshot> = BTreeMap::new();
    for (request, Answered { times, .. }) in scene.requests {
        let Request::Get { from, is_hit } = request else { continue };
        let path = match (from, is_hit) {
            (PieceSource::Memory, true) => "dram",
            (PieceSource::Flash, true) => "flash",
            (PieceSource::Joined, _) => "joined",
            _ => "origin",
        };
        paths.entry(path).or_default().merge(times);
    }
    let named = |(path, times): (&str, LatencySnapshot)| {
        let (operation, path) = ("GetObject".to_owned(), path.to_owned());
        (format!("{operation} {path}"), Requests { operation, path, times: (&times).into() })
    };
    paths.into_iter().map(named).collect()
}

fn difference(of: u64, less: u64) -> i64 {
    of.cast_signed().wrapping_sub(less.cast_signed())
}
