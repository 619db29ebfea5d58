//! Documents of a cache, from what its shards tell.

use serde_json::json;
use zonal_base::{Nanos, ZoneId};
use zonal_device::DeviceKind as LogDeviceKind;
use zonal_host::{
    CacheEvent, Change, HealthEvent, ShardEvents, ShardStats, ShardZones, ZoneContents,
    ZoneDetails, ZoneInspection,
};
use zonal_policy::Ranked;
use zonal_zonelog::{Stream as LogStream, ZoneChange, ZoneStatus, ZoneUse};

use crate::events::{Event, Scored, VictimChosen, VictimRewritten, What};
use crate::stats::{DeviceKind, DeviceState, DeviceStats, Flash, Reads, Zones as ZoneCounts};
use crate::zones::{Shard, Stream, Tally, Use, Zone, ZoneContents as Contents, ZoneStory, Zones};
use crate::{NextVictim, ZoneGroup};

pub fn zones(shards: &[ShardZones]) -> Zones {
    let mut shards: Vec<Shard> = shards.iter().map(shard).collect();
    shards.sort_by_key(|shard| (shard.device, shard.shard));
    Zones { shards }
}

fn shard(of: &ShardZones) -> Shard {
    let numbered = (of.first_zone.0..).zip(&of.zones);
    Shard {
        device: of.device,
        shard: of.shard,
        zone_bytes: of.zone_capacity.0,
        zones: numbered.map(|(number, contents)| zone(number, contents)).collect(),
    }
}

const fn stream(of: LogStream) -> Stream {
    match of {
        LogStream::Fill => Stream::Fill,
        LogStream::Rewrite => Stream::Rewrite,
    }
}

/// All that is known of one zone.
pub fn story(
    (device, number): (usize, u32),
    found: &ZoneInspection,
    events: Vec<Event>,
) -> ZoneStory {
    let ZoneDetails { contents, tally: of, rank, candidates, scored_by } = &found.details;
    ZoneStory {
        device,
        shard: found.shard,
        zone_bytes: found.zone_capacity.0,
        zone: zone(number, contents),
        contents: Contents {
            heads: tally(of.heads),
            pieces: tally(of.pieces),
            evicted: tally(of.evicted),
            pinned: tally(of.pinned),
        },
        rank: rank.map(|ranked| ranked.rank),
        score: rank.map(|ranked| ranked.score[..scored_by.len()].to_vec()),
        scored_by,
        candidates: *candidates,
        events,
    }
}

const fn tally(zonal_host::Tally { records, bytes }: zonal_host::Tally) -> Tally {
    Tally { records, bytes }
}

fn zone(number: u32, contents: &ZoneContents) -> Zone {
    let ZoneContents { status, live_count, live, pinned } = *contents;
    let ZoneStatus { usage, stream: of, sequence, written, record_count, record_bytes, reads } =
        status;
    Zone {
        zone: number,
        r#use: match usage {
            ZoneUse::Empty => Use::Empty,
            ZoneUse::Open => Use::Open,
            ZoneUse::Sealed => Use::Sealed,
            ZoneUse::Reclaiming => Use::Reclaiming,
            ZoneUse::Retired => Use::Retired,
        },
        stream: of.filter(|_| usage == ZoneUse::Open).map(stream),
        sequence,
        written_bytes: written.bytes().0,
        records: record_count,
        record_bytes,
        live_records: live_count,
        live_bytes: live.0,
        pinned_bytes: pinned.0,
        reads,
    }
}

/// Zones of all shards for the live view, by the name of the shard.
pub fn zone_groups(shards: &[ShardZones]) -> impl Iterator<Item = (String, ZoneGroup<Zone>)> {
    shards.iter().map(zone_group)
}

fn zone_group(of: &ShardZones) -> (String, ZoneGroup<Zone>) {
    let Shard { device, shard, zone_bytes, zones } = shard(of);
    let next = of.next_victim.map(|next| NextVictim {
        zone: of.first_zone.0 + next.zone.0,
        score: next.score[..next.scored_by.len()].to_vec(),
        scored_by: next.scored_by,
    });
    let zones = zones.into_iter().map(|zone| (zone.zone, zone)).collect();
    let owner = json!({ "device": device, "shard": shard });
    (format!("{device}/{shard}"), ZoneGroup { owner, zone_bytes, next, zones })
}

/// Events of a shard, and of its device.
pub fn events(events: &ShardEvents) -> impl Iterator<Item = Event> {
    let zones = events.zones.iter().map(|event| of_zone(events, event));
    let device = events.device;
    let health = events.health.iter().map(move |event| of_device(device, event));
    zones.chain(health)
}

fn of_device(device: usize, HealthEvent { number, at, isolated }: &HealthEvent) -> Event {
    let what = match isolated {
        Some(why) => What::DeviceIsolated { device, why: why.clone() },
        None => What::DeviceReadmitted { device },
    };
    Event { id: format!("{device}/{}/{number}", at.0), at_ns: at.0, what }
}

fn of_zone(shard: &ShardEvents, CacheEvent { number, at, zone, change }: &CacheEvent) -> Event {
    let ShardEvents { device, shard, first_zone, .. } = *shard;
    let on_device = |zone: ZoneId| first_zone.0 + zone.0;
    let zone = on_device(*zone);
    let what = match change {
        Change::Use(ZoneChange::Opened { stream: of, sequence }) => {
            What::ZoneOpened { device, shard, zone, stream: stream(*of), sequence: *sequence }
        }
        Change::Use(ZoneChange::Sealed { records, record_bytes }) => {
            What::ZoneSealed { device, shard, zone, records: *records, record_bytes: *record_bytes }
        }
        Change::Use(ZoneChange::Reset) => What::ZoneReset { device, shard, zone },
        Change::Use(ZoneChange::Retired) => What::ZoneRetired { device, shard, zone },
        Change::Chosen(choice) => {
            let figures = choice.scored_by.len();
            let scored = |ranked: &Ranked| Scored {
                zone: on_device(ranked.zone),
                score: ranked.score[..figures].to_vec(),
            };
            What::VictimChosen(VictimChosen {
                device,
                shard,
                zone,
                score: choice.score[..figures].to_vec(),
                scored_by: choice.scored_by,
                candidates: choice.candidates,
                beaten: choice.beaten.iter().map(scored).collect(),
                live_records: choice.live_count,
                live_bytes: choice.live.0,
                pinned_bytes: choice.pinned.0,
            })
        }
        Change::Rewritten(rewritten) => What::VictimRewritten(VictimRewritten {
            device,
            shard,
            zone,
            records: rewritten.records,
            bytes: rewritten.bytes,
            into: rewritten.into.iter().map(|zone| on_device(*zone)).collect(),
        }),
    };
    let Nanos(at_ns) = *at;
    Event { id: format!("{device}/{shard}/{number}"), at_ns, what }
}

/// Adds the statistics of the shards to those of their devices.
pub fn add_shards(devices: &mut [DeviceStats], shards: &[ShardStats]) {
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
    for device in devices {
        device.state = match (device.shards_isolated, device.shards_lost) {
            (0, 0) if 0 < device.shards => DeviceState::InUse,
            (0, _) => DeviceState::Lost,
            _ => DeviceState::Isolated,
        };
    }
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
        zones: ZoneCounts { empty, open, sealed, reclaiming, retired },
        admitted_bytes: cache.admitted_bytes,
        refused_bytes: cache.refused_bytes,
        turned_away_bytes: cache.turned_away_bytes,
        rewritten_bytes: log.rewritten_bytes,
        written_bytes: log.device_written_bytes,
        errors: log.read_errors + log.write_errors + log.check_errors,
    }
}
