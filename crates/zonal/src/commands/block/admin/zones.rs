//! Zones of the block device, for `/api/v1/zones`, `/api/v1/zones/N` and the live view.

use zonal_block::{Shaper, Tier, ZoneStats, ZoneUse};

use super::events::{cause, event, stream};
use crate::api::block::{TierZones, Use, Zone, ZoneStory, Zones};

pub(super) fn zones(shaper: &Shaper) -> Zones {
    Zones { tiers: Tier::ALL.map(|tier| of_tier(shaper, tier)).into() }
}

pub(super) fn of_tier(shaper: &Shaper, tier: Tier) -> TierZones {
    TierZones {
        tier: tier.name(),
        zone_bytes: zone_bytes(shaper, tier),
        zones: shaper.zones(tier).iter().map(zone).collect(),
    }
}

/// Writable bytes of a zone.
pub(super) fn zone_bytes(shaper: &Shaper, tier: Tier) -> u64 {
    shaper.layout().place(tier).geometry.zone_capacity.bytes().0
}

/// All that is known of one zone; `None` if the tier has no zone of this number.
pub(super) fn story(shaper: &Shaper, (tier, number): (Tier, u32)) -> Option<ZoneStory> {
    let zones = shaper.zones(tier);
    let found = zones.iter().find(|zone| zone.zone.0 == number)?;
    let ranking = shaper.ranking(tier);
    let figures = ranking.scored_by.len();
    let mut ranks = (1..).zip(&ranking.zones);
    let ranked = ranks.find(|(_, ranked)| ranked.zone == found.zone);
    let mut events: Vec<_> = shaper.events(0).iter().map(event).collect();
    events.retain(|event| event.what.zone() == Some((tier.name(), number)));
    Some(ZoneStory {
        tier: tier.name(),
        zone_bytes: zone_bytes(shaper, tier),
        zone: zone(found),
        cause: cause(tier),
        rank: ranked.map(|(rank, _)| rank),
        candidates: zonal_base::low_u32(ranking.zones.len()),
        score: ranked.map(|(_, ranked)| ranked.score[..figures].to_vec()),
        scored_by: ranking.scored_by,
        events,
    })
}

fn zone(of: &ZoneStats) -> Zone {
    Zone {
        zone: of.zone.0,
        r#use: match of.usage {
            ZoneUse::Empty => Use::Empty,
            ZoneUse::Open => Use::Open,
            ZoneUse::Sealed => Use::Full,
            ZoneUse::Emptying => Use::Emptying,
            ZoneUse::Retired => Use::Retired,
            ZoneUse::Unreadable => Use::Unreadable,
        },
        stream: of.stream.map(stream),
        sequence: of.sequence,
        written_bytes: of.written.0,
        live_bytes: of.live.0,
        reads: of.reads,
    }
}
