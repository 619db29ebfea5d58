//! Regions: their items, their stage from clean to evicting, and the eviction order.

use std::collections::VecDeque;

use super::{CacheLibSettings, Eviction, Placing};
use crate::simulated::order::Order;

/// Stage of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Empty.
    Clean,
    /// In memory: being gathered, waiting for its write, or being written.
    InMemory,
    /// On the drive.
    Written,
    /// Read once more, to learn which items to forget.
    Evicting,
}

pub(super) struct Regions {
    regions: Vec<Region>,
    eviction: Eviction,
    clean: VecDeque<u32>,
    /// First of the regions that were never used.
    unused: u32,
    /// Written regions, oldest first. Policies with an old part keep the oldest ones in `old`
    /// instead.
    order: Order,
    /// The oldest part: regions that may be evicted, but are still read.
    old: Order,
    /// Largest number of regions in `old`.
    old_max: usize,
    /// Per zone, regions that are in `old` or evicted.
    old_in_zone: Vec<u32>,
    /// Above this count, all old regions of a zone go first.
    old_in_zone_max: u32,
}

struct Region {
    items: Vec<u32>,
    stage: Stage,
}

impl Regions {
    pub(super) fn new(settings: &CacheLibSettings) -> Self {
        let region = || Region { items: Vec::new(), stage: Stage::Clean };
        let old_max = floor(f64::from(settings.regions) * settings.old_part);
        let has_old = settings.eviction == Eviction::ZoneLru
            || matches!(settings.placing, Placing::OldDropped | Placing::DroppedByLoad);
        Self {
            regions: (0..settings.regions).map(|_| region()).collect(),
            eviction: settings.eviction,
            clean: VecDeque::new(),
            unused: 0,
            order: Order::new(settings.regions),
            old: Order::new(settings.regions),
            old_max: if has_old { old_max } else { 0 },
            old_in_zone: vec![0; settings.zones as usize],
            old_in_zone_max: settings.old_in_zone,
        }
    }

    pub(super) fn stage(&self, region: u32) -> Stage {
        self.regions[region as usize].stage
    }

    /// Takes an empty region, which is in memory from now on.
    pub(super) fn take_clean(&mut self) -> Option<u32> {
        let region = if (self.unused as usize) < self.regions.len() {
            self.unused += 1;
            self.unused - 1
        } else {
            self.clean.pop_front()?
        };
        self.regions[region as usize].stage = Stage::InMemory;
        Some(region)
    }

    /// Regions that [`Regions::take_clean`] can return.
    pub(super) fn clean_count(&self) -> usize {
        self.clean.len() + self.regions.len() - self.unused as usize
    }

    pub(super) fn put(&mut self, region: u32, item: u32) {
        self.regions[region as usize].items.push(item);
    }

    /// The region is on the drive and can be evicted.
    pub(super) fn was_written(&mut self, region: u32) {
        self.regions[region as usize].stage = Stage::Written;
        self.order.insert(region);
    }

    /// Updates the recency of a region after a read from `zone`.
    pub(super) fn was_read(&mut self, region: u32, zone: Option<u32>) {
        if self.eviction == Eviction::Fifo || self.stage(region) != Stage::Written {
            return;
        }
        if self.old.remove(region)
            && let Some(zone) = zone
        {
            self.old_in_zone[zone as usize] -= 1;
        }
        self.order.insert(region);
    }

    /// Moves the oldest regions to `old` until it has its size. `zone_of` returns the zone of a
    /// region, `regions_in` the regions of a zone.
    pub(super) fn age(
        &mut self,
        zone_of: impl Fn(u32) -> Option<u32>,
        regions_in: impl Fn(u32) -> Vec<u32>,
    ) {
        // While the cache fills, at most half of the regions are old, unless the old part is larger
        // than that.
        let is_most = self.regions.len() < 2 * self.old_max;
        while self.old.len() < self.old_max && (is_most || self.old.len() < self.order.len()) {
            let Some(region) = self.order.oldest() else { return };
            self.order.remove(region);
            self.old.insert(region);
            let Some(zone) = zone_of(region) else { continue };
            self.old_in_zone[zone as usize] += 1;
            let is_mostly_old = self.old_in_zone_max < self.old_in_zone[zone as usize];
            if self.eviction == Eviction::ZoneLru && is_mostly_old {
                for region in regions_in(zone) {
                    if self.old.contains(region) {
                        self.old.insert_oldest(region);
                    }
                }
            }
        }
    }

    /// Takes the next region to evict. Its zone counts it as old until the zone is reset.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        let victim = self.old.oldest().or_else(|| self.order.oldest())?;
        self.take(victim);
        Some(victim)
    }

    /// Takes this region for eviction. Requires: the region is written.
    pub(super) fn take(&mut self, region: u32) {
        assert_eq!(self.stage(region), Stage::Written);
        self.regions[region as usize].stage = Stage::Evicting;
        let _ = self.old.remove(region) || self.order.remove(region);
    }

    /// The region is clean again. Returns its items.
    pub(super) fn was_evicted(&mut self, region: u32) -> Vec<u32> {
        let Region { items, stage } = &mut self.regions[region as usize];
        *stage = Stage::Clean;
        self.clean.push_back(region);
        std::mem::take(items)
    }

    /// Every region in the zone is gone.
    pub(super) fn zone_was_reset(&mut self, zone: u32) {
        self.old_in_zone[zone as usize] = 0;
    }

    /// True for a region of the oldest part.
    pub(super) fn is_old(&self, region: u32) -> bool {
        self.old.contains(region)
    }

    /// A region was moved to another zone. An old region counts there as well.
    pub(super) fn was_moved(&mut self, region: u32, to: u32) {
        if self.old.contains(region) {
            self.old_in_zone[to as usize] += 1;
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
const fn floor(count: f64) -> usize {
    count as usize
}
