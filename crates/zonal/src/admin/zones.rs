//! Zones of a running Zonal, for `/api/v1/zones` and `/api/v1/zones/N`.

use zonal_host::{ShardZones, ZoneContents, ZoneDetails, ZoneInspection};
use zonal_zonelog::{Stream as LogStream, ZoneStatus, ZoneUse};

use crate::api::events::Event;
use crate::api::zones::{
    Shard, Stream, Tally, Use, Zone, ZoneContents as Contents, ZoneStory, Zones,
};

pub(super) fn zones(shards: &[ShardZones]) -> Zones {
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

pub(super) const fn stream(of: LogStream) -> Stream {
    match of {
        LogStream::Fill => Stream::Fill,
        LogStream::Rewrite => Stream::Rewrite,
    }
}

/// All that is known of one zone.
pub(super) fn story(
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
