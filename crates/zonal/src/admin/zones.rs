//! Zones of a running Zonal, for `/api/v1/zones`.

use zonal_host::{ShardZones, ZoneContents};
use zonal_zonelog::{Stream as LogStream, ZoneStatus, ZoneUse};

use crate::api::zones::{Shard, Stream, Use, Zone, Zones};

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

fn zone(number: u32, contents: &ZoneContents) -> Zone {
    let ZoneContents { status, live_count, live, pinned } = *contents;
    let ZoneStatus { usage, stream, sequence, written, record_count, record_bytes, reads } = status;
    Zone {
        zone: number,
        r#use: match usage {
            ZoneUse::Empty => Use::Empty,
            ZoneUse::Open => Use::Open,
            ZoneUse::Sealed => Use::Sealed,
            ZoneUse::Reclaiming => Use::Reclaiming,
            ZoneUse::Retired => Use::Retired,
        },
        stream: stream.filter(|_| usage == ZoneUse::Open).map(|stream| match stream {
            LogStream::Fill => Stream::Fill,
            LogStream::Rewrite => Stream::Rewrite,
        }),
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
