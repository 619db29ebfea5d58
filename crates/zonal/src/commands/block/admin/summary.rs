//! State of the block device for `/stats`, the metrics and the live view.

use zonal_api::block_stats::{BlockStats, Connections, Export};
use zonal_api::live::SampleTimes;
use zonal_api::tiers::{self, Drive, Served};

use super::Admin;
use crate::wear::WatchedDrive;

impl Admin {
    pub(super) fn stats(&self) -> BlockStats {
        tiers::stats(self.block.shaper(), &self.served())
    }

    /// What the engine does not know.
    pub(super) fn served(&self) -> Served {
        let drive =
            |drive: &WatchedDrive| Drive { spec: drive.spec().to_string(), wear: drive.wear() };
        let (capacity, buffer) = &*self.drives;
        Served {
            times: SampleTimes::now(self.started_at),
            connections: self.connections(),
            exports: self.exports(),
            scrub: self.scrubber.stats(),
            capacity: drive(capacity),
            buffer: buffer.as_ref().map(drive),
        }
    }

    fn connections(&self) -> Connections {
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
}
