//! State of the block device for `/stats`, the metrics and the live view.

use zonal_base::Blocks;
use zonal_block::Tier;

use super::Admin;
use crate::api::live::Trouble;
use crate::block_stats::{
    BlockDeviceStats, BlockStats, Connections, CurrentValues, Devices, Export, Recovery, Tenant,
    Zones,
};
use crate::commands::block::serve::takes_no_writes;

impl Admin {
    pub(super) fn stats(&self) -> BlockStats {
        let shaper = self.block.shaper();
        let (stats, waiting, recovery) = (shaper.stats(), shaper.waiting(), shaper.recovery());
        let spec = |tier: Tier| self.drive(tier).map(|drive| drive.spec().to_string());
        let capacity = spec(Tier::Capacity).expect("there is always a capacity device");
        BlockStats {
            capacity: BlockDeviceStats { spec: capacity },
            buffer: spec(Tier::Buffer).map(|spec| BlockDeviceStats { spec }),
            connections: self.connections(),
            exports: self.exports(),
            tenants: self.tenants(),
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
                buffer_zones: zones(waiting.buffer_zones),
                capacity_zones: zones(waiting.capacity_zones),
                map_memory_bytes: shaper.map_memory_bytes(),
                map_pages_on: shaper.map_pages_on().map(|tier| tier.name().to_owned()),
            },
            scrub: self.scrubber.stats(),
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
    pub(super) fn unready(&self) -> Option<String> {
        let shaper = self.block.shaper();
        let failed = shaper.failure().map(|error| format!("writes fail: {error}"));
        let halted = shaper.halted().map(|error| {
            format!("compaction stopped, writes continue until the buffer is full: {error}")
        });
        failed.or(halted).or_else(|| shaper.read_only().map(takes_no_writes))
    }

    /// All that is wrong, with the alerts that say what to do.
    pub(super) fn trouble(&self, stats: &BlockStats) -> Vec<Trouble> {
        let shaper = self.block.shaper();
        let read_only = shaper.failure().or_else(|| shaper.halted()).is_none();
        let unready = self.unready().map(|text| Trouble {
            text,
            alert: if read_only { "ZonalBlockReadOnly" } else { "ZonalBlockFailed" },
        });
        let BlockStats { devices, now, scrub, .. } = stats;
        let zones = |of: fn(&Zones) -> u32| {
            u64::from(of(&now.buffer_zones)) + u64::from(of(&now.capacity_zones))
        };
        let counted = [
            (
                scrub.damaged(),
                "damaged blocks and metadata found by the scrub",
                "ZonalBlockCorrupt",
            ),
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

    pub(super) fn connections(&self) -> Connections {
        let connections = self.server.connections();
        Connections {
            open: connections.open as u64,
            refused: connections.refused,
            failed: connections.failed,
        }
    }

    fn exports(&self) -> Vec<Export> {
        let made = self.block.shaper().exports().iter();
        let exports = made.zip(self.server.exports()).map(|(made, served)| {
            let stats = served.stats();
            Export {
                name: made.name.clone(),
                tenant: made.tenant.clone(),
                size_bytes: made.blocks.bytes().0,
                verify: made.is_verified,
                connections_open: stats.connections - stats.disconnections,
                reads: stats.reads,
                read_bytes: stats.read_bytes,
                writes: stats.writes,
                written_bytes: stats.written_bytes,
                trims: stats.clears,
                trimmed_bytes: stats.cleared_bytes,
                flushes: stats.flushes,
                refusals: stats.refusals,
                failures: stats.failures,
            }
        });
        exports.collect()
    }

    fn tenants(&self) -> Vec<Tenant> {
        let tenants = self.block.shaper().tenant_stats().into_iter().map(|(name, stats)| Tenant {
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
}

const fn zones([empty, open, full, emptying, retired, unreadable]: [u32; 6]) -> Zones {
    Zones { empty, open, full, emptying, retired, unreadable }
}
