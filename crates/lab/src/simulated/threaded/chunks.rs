//! LRU of chunks, with the number of live chunks per zone, for a cache that evicts chunk by chunk.

use zonal_base::ZoneId;

use super::map::ChunkAddress;
use crate::simulated::order::Order;

pub(super) struct Chunks {
    order: Order,
    /// Live chunks per zone.
    left: Vec<u32>,
    per_zone: u32,
    count: u64,
    /// Largest number of live chunks.
    most: u64,
}

impl Chunks {
    /// An empty LRU for `zones` zones with `per_zone` chunks each. `spare_percent` of the room
    /// holds no live chunk, so that some zones are partly empty.
    pub(super) fn new(zones: u32, per_zone: u32, spare_percent: u64) -> Self {
        let places = u64::from(zones) * u64::from(per_zone);
        Self {
            order: Order::new(zones * per_zone),
            left: vec![0; zones as usize],
            per_zone,
            count: 0,
            most: places * (100 - spare_percent) / 100,
        }
    }

    /// Adds a chunk as the most recent.
    pub(super) fn insert(&mut self, place: ChunkAddress) {
        self.order.insert(place);
        let zone = self.zone(place);
        self.left[zone] += 1;
        self.count += 1;
    }

    pub(super) fn was_read(&mut self, place: ChunkAddress) {
        if self.order.contains(place) {
            self.order.insert(place);
        }
    }

    /// Updates the address of a moved chunk. Its recency stays the same.
    pub(super) fn moved(&mut self, from: ChunkAddress, to: ChunkAddress) {
        self.order.replace(from, to);
        let (from, to) = (self.zone(from), self.zone(to));
        self.left[from] -= 1;
        self.left[to] += 1;
    }

    /// Evicts the oldest chunk if there are too many.
    pub(super) fn take_surplus(&mut self) -> Option<ChunkAddress> {
        if self.count <= self.most { None } else { self.take_oldest() }
    }

    /// Evicts the oldest chunk.
    pub(super) fn take_oldest(&mut self) -> Option<ChunkAddress> {
        let oldest = self.order.oldest()?;
        self.order.remove(oldest);
        let zone = self.zone(oldest);
        self.left[zone] -= 1;
        self.count -= 1;
        Some(oldest)
    }

    /// Live chunks in the zone.
    pub(super) fn left_in(&self, zone: ZoneId) -> u32 {
        self.left[zone.0 as usize]
    }

    const fn zone(&self, place: ChunkAddress) -> usize {
        (place / self.per_zone) as usize
    }
}
