//! Documents of a block device, from what its engine tells.

use serde_json::json;
use zonal_base::Blocks;
use zonal_device::DeviceKind as LogDeviceKind;
use zonal_shaper::{
    BlockChange, BlockEvent, Shaper, Stream as LogStream, Tier, ZoneChange, ZoneStats, ZoneUse,
};

use crate::block::{
    Cause, Errors, Event, Map, Requests, State, Stream, Tier as TierState, TierZones, Use,
    VictimChosen, VictimMoved, What, Zone, ZoneStory, Zones,
};
use crate::block_stats::{
    BlockDeviceStats, BlockStats, Connections, CurrentValues, Devices, Export, Recovery,
    ScrubStats, Tenant, Zones as ZoneCounts,
};
use crate::events::Scored;
use crate::live::{Header, SampleTimes, Trouble};
use crate::stats::{DeviceKind, Wear};
use crate::{Document, NextVictim, ZoneGroup, without_nulls};

/// The device of a tier, as its host knows it.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The device spec as configured.
    pub spec: String,
    pub wear: Wear,
}

/// What the engine does not know: who serves it, and on what.
#[derive(Debug)]
pub struct Served {
    pub times: SampleTimes,
    pub connections: Connections,
    /// In the order of the engine's exports.
    pub exports: Vec<Export>,
    pub scrub: ScrubStats,
    pub capacity: Drive,
    /// `None` if the buffer is on the capacity device.
    pub buffer: Option<Drive>,
}

/// Statistics of the block device.
pub fn stats(shaper: &Shaper, served: &Served) -> BlockStats {
    let (stats, waiting, recovery) = (shaper.stats(), shaper.waiting(), shaper.recovery());
    let spec = |drive: &Drive| BlockDeviceStats { spec: drive.spec.clone() };
    BlockStats {
        capacity: spec(&served.capacity),
        buffer: served.buffer.as_ref().map(spec),
        connections: served.connections.clone(),
        exports: served.exports.clone(),
        tenants: tenants(shaper),
        devices: Devices {
            buffer_written_bytes: stats.buffer_device_bytes,
            capacity_written_bytes: stats.capacity_device_bytes,
            map_written_bytes: stats.map_written_bytes,
            map_read_bytes: stats.map_read_bytes,
            buffer_segments: stats.buffer_segments,
            flushes: stats.flushes,
            throttled: stats.throttled,
            buffer_zones_reset: stats.buffer_zones_reset,
            capacity_zones_reset: stats.capacity_zones_reset,
            blocks_lost: stats.blocks_lost,
            checksum_errors: stats.checksum_errors,
            write_errors: stats.write_errors,
            read_errors: stats.read_errors,
            zones_retired: stats.zones_retired,
        },
        now: CurrentValues {
            queued_bytes: Blocks(waiting.queued_blocks).bytes().0,
            buffer_zones: zone_counts(waiting.buffer_zones),
            capacity_zones: zone_counts(waiting.capacity_zones),
            map_memory_bytes: shaper.map_memory_bytes(),
            map_pages_on: shaper.map_pages_on().map(|tier| tier.name().to_owned()),
        },
        scrub: served.scrub.clone(),
        recovery: Recovery {
            segments: recovery.segments,
            read_bytes: recovery.read_bytes,
            torn_blocks: recovery.torn_blocks,
        },
        failure: shaper.failure().map(|error| error.to_string()),
        halted: shaper.halted().map(|error| error.to_string()),
        read_only: Tier::ALL
            .into_iter()
            .filter(|tier| shaper.is_read_only(*tier))
            .map(|tier| tier.name().to_owned())
            .collect(),
    }
}

/// Why the device is not ready; `None` if it is healthy.
pub fn unready(shaper: &Shaper) -> Option<String> {
    let failed = shaper.failure().map(|error| format!("writes fail: {error}"));
    let halted = shaper.halted().map(|error| {
        format!("compaction stopped, writes continue until the buffer is full: {error}")
    });
    failed.or(halted).or_else(|| shaper.read_only().map(takes_no_writes))
}

/// All that is wrong, with the alerts that say what to do.
pub fn trouble(shaper: &Shaper, stats: &BlockStats) -> Vec<Trouble> {
    let read_only = shaper.failure().or_else(|| shaper.halted()).is_none();
    let unready = unready(shaper).map(|text| Trouble {
        text,
        alert: if read_only { "ZonalBlockReadOnly" } else { "ZonalBlockFailed" },
    });
    let BlockStats { devices, now, scrub, .. } = stats;
    let zones = |of: fn(&ZoneCounts) -> u32| {
        u64::from(of(&now.buffer_zones)) + u64::from(of(&now.capacity_zones))
    };
    let counted = [
        (scrub.damaged(), "damaged blocks and metadata found by the scrub", "ZonalBlockCorrupt"),
        (
            devices.checksum_errors,
            "blocks read with a wrong checksum since the start",
            "ZonalBlockCorrupt",
        ),
        (
            devices.blocks_lost,
            "blocks lost: reads of them fail until they are written",
            "ZonalBlockRequestsFail",
        ),
        (
            zones(|zones| zones.unreadable),
            "zones kept because blocks in them cannot be read",
            "ZonalBlockDeviceErrors",
        ),
        (zones(|zones| zones.retired), "zones retired", "ZonalBlockDeviceErrors"),
    ];
    let counted = counted.into_iter().filter(|(count, ..)| *count != 0);
    let counted =
        counted.map(|(count, what, alert)| Trouble { text: format!("{count} {what}"), alert });
    unready.into_iter().chain(counted).collect()
}

/// What a device that takes no writes means for clients.
pub fn takes_no_writes(tier: Tier) -> String {
    let effect = match tier {
        Tier::Buffer => "writes fail with ENOSPC until it does",
        Tier::Capacity => "writes fail with ENOSPC as soon as the buffer has no room",
    };
    let name = tier.name();
    format!("the {name} device takes no writes; is it full? {effect}; reads go on")
}

fn tenants(shaper: &Shaper) -> Vec<Tenant> {
    let tenants = shaper.tenant_stats().into_iter().map(|(name, stats)| Tenant {
        name: name.to_owned(),
        user_written_bytes: stats.user_written_bytes,
        user_read_bytes: stats.user_read_bytes,
        user_trimmed_bytes: stats.user_trimmed_bytes,
        buffer_written_bytes: stats.buffer_written_bytes,
        retained_bytes: stats.retained_bytes,
        compacted_bytes: stats.compacted_bytes,
        collected_bytes: stats.collected_bytes,
        map_bytes: stats.map_bytes,
        metadata_bytes: stats.metadata_bytes,
        capacity_written_bytes: stats.capacity_written_bytes,
        stored_bytes: Blocks(stats.mapped_blocks).bytes().0,
    });
    tenants.collect()
}

const fn zone_counts([empty, open, full, emptying, retired, unreadable]: [u32; 6]) -> ZoneCounts {
    ZoneCounts { empty, open, full, emptying, retired, unreadable }
}

/// The live view. `requests` are the times of the requests to the exports.
pub fn document(
    shaper: &Shaper,
    served: &Served,
    requests: impl IntoIterator<Item = Requests>,
) -> Document<Zone> {
    let stats = stats(shaper, served);
    let tiers = Tier::ALL.map(|tier| (tier.name(), tier_state(shaper, tier, (&stats, served))));
    let trouble = trouble(shaper, &stats);
    let BlockStats { devices, now, connections, exports, tenants, scrub, .. } = stats;
    let state = State {
        header: Header {
            kind: "block",
            version: env!("CARGO_PKG_VERSION"),
            times: served.times,
            ready: unready(shaper).is_none(),
            trouble,
        },
        connections,
        single_device: shaper.layout().is_one_device,
        queued_bytes: now.queued_bytes,
        throttled: devices.throttled,
        flushes: devices.flushes,
        buffer_segments: devices.buffer_segments,
        errors: Errors {
            blocks_lost: devices.blocks_lost,
            checksum_errors: devices.checksum_errors,
            write_errors: devices.write_errors,
            read_errors: devices.read_errors,
        },
        map: Map {
            memory_bytes: now.map_memory_bytes,
            pages_on: shaper.map_pages_on().map(Tier::name),
            written_bytes: devices.map_written_bytes,
            read_bytes: devices.map_read_bytes,
        },
        // The list would be long: /stats has it.
        scrub: ScrubStats { damaged_blocks: Vec::new(), ..scrub },
        tiers: tiers.into(),
        exports: exports.into_iter().map(|export| (export.name.clone(), export)).collect(),
        tenants: tenants.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect(),
        requests: requests.into_iter().map(by_name).collect(),
    };
    let zones = Tier::ALL.map(|tier| zone_group(shaper, tier));
    Document::new(without_nulls(json!(state)), zones)
}

fn tier_state(shaper: &Shaper, tier: Tier, (stats, served): (&BlockStats, &Served)) -> TierState {
    let place = shaper.layout().place(tier);
    let (drive, zones, written_bytes, zones_reset) = match tier {
        Tier::Buffer => (
            served.buffer.as_ref().unwrap_or(&served.capacity),
            &stats.now.buffer_zones,
            stats.devices.buffer_written_bytes,
            stats.devices.buffer_zones_reset,
        ),
        Tier::Capacity => (
            &served.capacity,
            &stats.now.capacity_zones,
            stats.devices.capacity_written_bytes,
            stats.devices.capacity_zones_reset,
        ),
    };
    TierState {
        tier: tier.name(),
        device: drive.spec.clone(),
        kind: match place.geometry.kind {
            LogDeviceKind::Zoned => DeviceKind::Zoned,
            LogDeviceKind::Conventional => DeviceKind::Conventional,
        },
        zone_bytes: zone_bytes(shaper, tier),
        zones: zones.clone(),
        low_water_zones: shaper.low_water_zones(tier),
        written_bytes,
        zones_reset,
        read_only: shaper.is_read_only(tier),
        wear: drive.wear,
    }
}

fn by_name(of: Requests) -> (String, Requests) {
    (format!("{} {}", of.operation, of.export), of)
}

/// Zones of a tier for the live view, with its name there.
fn zone_group(shaper: &Shaper, tier: Tier) -> (String, ZoneGroup<Zone>) {
    let TierZones { tier: name, zone_bytes, zones } = of_tier(shaper, tier);
    let ranking = shaper.ranking(tier);
    let next = ranking.zones.first().map(|next| NextVictim {
        zone: next.zone.0,
        score: next.score[..ranking.scored_by.len()].to_vec(),
        scored_by: ranking.scored_by,
    });
    let zones = zones.into_iter().map(|zone| (zone.zone, zone)).collect();
    (name.to_owned(), ZoneGroup { owner: json!({ "tier": name }), zone_bytes, next, zones })
}

pub fn zones(shaper: &Shaper) -> Zones {
    Zones { tiers: Tier::ALL.map(|tier| of_tier(shaper, tier)).into() }
}

pub fn of_tier(shaper: &Shaper, tier: Tier) -> TierZones {
    TierZones {
        tier: tier.name(),
        zone_bytes: zone_bytes(shaper, tier),
        zones: shaper.zones(tier).iter().map(zone).collect(),
    }
}

/// Writable bytes of a zone.
pub fn zone_bytes(shaper: &Shaper, tier: Tier) -> u64 {
    shaper.layout().place(tier).geometry.zone_capacity.bytes().0
}

/// All that is known of one zone; `None` if the tier has no zone of this number.
pub fn story(shaper: &Shaper, (tier, number): (Tier, u32)) -> Option<ZoneStory> {
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

pub fn event(BlockEvent { number, at, what }: &BlockEvent) -> Event {
    let what = match what {
        BlockChange::Zone(tier, zone, change) => of_zone((*tier, zone.0), change),
        BlockChange::ReadOnly(tier) => What::DeviceReadOnly { tier: tier.name() },
        BlockChange::Writable(tier) => What::DeviceWritable { tier: tier.name() },
        BlockChange::Halted(error) => What::CompactionStopped { why: error.to_string() },
        BlockChange::Failed(error) => What::WritesFailed { why: error.to_string() },
    };
    Event { id: number.to_string(), at_ns: at.0, what }
}

fn of_zone((of, zone): (Tier, u32), change: &ZoneChange) -> What {
    let (tier, cause) = (of.name(), cause(of));
    match change {
        ZoneChange::Opened(by) => What::ZoneOpened { tier, zone, stream: stream(*by) },
        ZoneChange::Sealed { written } => What::ZoneSealed { tier, zone, written_bytes: written.0 },
        ZoneChange::Reset => What::ZoneReset { tier, zone },
        ZoneChange::Retired => What::ZoneRetired { tier, zone },
        ZoneChange::Unreadable => What::ZoneUnreadable { tier, zone },
        ZoneChange::Chosen(choice) => {
            let figures = choice.scored_by.len();
            let beaten = choice.beaten.iter().map(|ranked| Scored {
                zone: ranked.zone.0,
                score: ranked.score[..figures].to_vec(),
            });
            What::VictimChosen(VictimChosen {
                tier,
                zone,
                cause,
                score: choice.score[..figures].to_vec(),
                scored_by: choice.scored_by,
                candidates: choice.candidates,
                beaten: beaten.collect(),
                live_bytes: choice.live.0,
            })
        }
        ZoneChange::Moved(moved) => What::VictimMoved(VictimMoved {
            tier,
            zone,
            cause,
            bytes: moved.bytes.0,
            into: moved.into.iter().map(|zone| zone.0).collect(),
            retained_bytes: moved.retained.0,
        }),
    }
}

const fn stream(of: LogStream) -> Stream {
    match of {
        LogStream::User => Stream::User,
        LogStream::Compaction => Stream::Compaction,
        LogStream::Collection => Stream::Collection,
        LogStream::Map => Stream::Map,
    }
}

/// What empties the zones of a tier.
const fn cause(tier: Tier) -> Cause {
    match tier {
        Tier::Buffer => Cause::Compaction,
        Tier::Capacity => Cause::Collection,
    }
}

impl What {
    /// Tier and number of the zone that it happened to.
    const fn zone(&self) -> Option<(&'static str, u32)> {
        match self {
            Self::ZoneOpened { tier, zone, .. }
            | Self::ZoneSealed { tier, zone, .. }
            | Self::VictimChosen(VictimChosen { tier, zone, .. })
            | Self::VictimMoved(VictimMoved { tier, zone, .. })
            | Self::ZoneReset { tier, zone }
            | Self::ZoneRetired { tier, zone }
            | Self::ZoneUnreadable { tier, zone } => Some((*tier, *zone)),
            Self::DeviceReadOnly { .. }
            | Self::DeviceWritable { .. }
            | Self::CompactionStopped { .. }
            | Self::WritesFailed { .. }
            | Self::Note { .. } => None,
        }
    }
}
