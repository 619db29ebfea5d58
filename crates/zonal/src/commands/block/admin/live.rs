//! Live view of a block device: its document, once a second.

use std::collections::BTreeMap;

use serde_json::json;
use zonal_block::Tier;
use zonal_device::DeviceKind as TierKind;
use zonal_host::RealClock;

use super::{Admin, events, zones};
use crate::admin_endpoint::{Document, ZoneGroup, without_nulls};
use crate::api::block::{Errors, Event, Map, Requests, State, Tier as TierState, TierZones, Zone};
use crate::block_stats::{BlockStats, ScrubStats};
use crate::commands::block::metrics::by_operation;
use crate::stats::DeviceKind;

impl Admin {
    /// Samples while there are viewers, until the future is dropped.
    pub(super) async fn sample_for_viewers(self) {
        let mut audience = self.viewers.audience();
        let mut next = 0;
        loop {
            audience.sample_due().await;
            let new = self.block.shaper().events(next);
            next = new.last().map_or(next, |last| last.number + 1);
            let new: Vec<Event> = new.iter().map(events::event).collect();
            audience.tell(self.live_document(), &new);
        }
    }

    fn live_document(&self) -> Document<Zone> {
        let stats = self.stats();
        let tiers = Tier::ALL.map(|tier| (tier.name(), self.tier(tier, &stats)));
        let trouble = self.trouble(&stats);
        let BlockStats { devices, now, connections, exports, tenants, scrub, .. } = stats;
        let state = State {
            kind: "block",
            version: env!("CARGO_PKG_VERSION"),
            at_ns: RealClock::start().now().0,
            started_at_ns: self.started_at.0,
            ready: self.unready().is_none(),
            trouble,
            connections,
            single_device: self.block.shaper().layout().is_one_device,
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
                pages_on: self.block.shaper().map_pages_on().map(Tier::name),
                written_bytes: devices.map_written_bytes,
                read_bytes: devices.map_read_bytes,
            },
            // The list would be long: /stats has it.
            scrub: ScrubStats { damaged_blocks: Vec::new(), ..scrub },
            tiers: tiers.into(),
            exports: exports.into_iter().map(|export| (export.name.clone(), export)).collect(),
            tenants: tenants.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect(),
            requests: self.requests(),
        };
        let shaper = self.block.shaper();
        let zones = Tier::ALL.map(|tier| by_number(zones::of_tier(shaper, tier)));
        Document::new(without_nulls(json!(state)), zones)
    }

    fn tier(&self, tier: Tier, stats: &BlockStats) -> TierState {
        let shaper = self.block.shaper();
        let place = shaper.layout().place(tier);
        let drive = self.drive(tier).or_else(|| self.drive(Tier::Capacity));
        let drive = drive.expect("there is always a capacity device");
        let (zones, written_bytes, zones_reset) = match tier {
            Tier::Buffer => (
                &stats.now.buffer_zones,
                stats.devices.buffer_written_bytes,
                stats.devices.buffer_zones_reset,
            ),
            Tier::Capacity => (
                &stats.now.capacity_zones,
                stats.devices.capacity_written_bytes,
                stats.devices.capacity_zones_reset,
            ),
        };
        TierState {
            tier: tier.name(),
            device: drive.spec().to_string(),
            kind: match place.geometry.kind {
                TierKind::Zoned => DeviceKind::Zoned,
                TierKind::Conventional => DeviceKind::Conventional,
            },
            zone_bytes: zones::zone_bytes(shaper, tier),
            zones: zones.clone(),
            low_water_zones: shaper.low_water_zones(tier),
            written_bytes,
            zones_reset,
            read_only: shaper.is_read_only(tier),
            wear: drive.wear(),
        }
    }

    /// Times of all requests since the start, by operation and export.
    fn requests(&self) -> BTreeMap<String, Requests> {
        let exports = self.block.shaper().exports().iter().zip(self.server.exports());
        let requests = exports.flat_map(|(made, served)| {
            by_operation(served.latencies()).map(|(operation, times)| Requests {
                operation,
                export: made.name.clone(),
                times: (&times.snapshot()).into(),
            })
        });
        requests.map(|of| (format!("{} {}", of.operation, of.export), of)).collect()
    }
}

fn by_number(TierZones { tier, zone_bytes, zones }: TierZones) -> (String, ZoneGroup<Zone>) {
    let zones = zones.into_iter().map(|zone| (zone.zone, zone)).collect();
    (tier.to_owned(), ZoneGroup { owner: json!({ "tier": tier }), zone_bytes, zones })
}
