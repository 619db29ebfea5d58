//! Contents of each zone, for operators.

use alloc::vec::Vec;

use zonal_base::{Bytes, ZoneId};
use zonal_zonelog::ZoneStatus;

use crate::Cache;

/// Contents of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneContents {
    /// What the log knows of the zone.
    pub status: ZoneStatus,
    /// Records that are in the index. Some cannot be reached any more, and stay until the zone is
    /// emptied: pieces of removed and replaced objects, and pieces that the policy has evicted.
    pub live_count: u32,
    /// Bytes of those records.
    pub live: Bytes,
    /// Pinned bytes among them.
    pub pinned: Bytes,
}

impl Cache {
    /// Contents of each zone of the shard, in the order of their numbers. Visits no record: log, index
    /// and pins keep these counts.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneContents> {
        let holdings = &self.inner.holdings;
        let contents = |(zone, status)| {
            let live = holdings.live_records(zone);
            let pinned = holdings.pinned_of(zone);
            ZoneContents { status, live_count: live.count, live: Bytes(live.bytes), pinned }
        };
        (0..).map(ZoneId).zip(self.inner.log.zone_status()).map(contents).collect()
    }
}
