//! Object index: which objects are in memory, in LRU order, and which region holds each.

use crate::simulated::order::Order;
use crate::trace::NumberMap;

/// Region of an item that is in no region.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Region of an item that waits in the queue for a region.
pub(super) const QUEUED: u32 = u32::MAX - 1;

/// Items by key. An item is known as long as it is in memory or in a region.
pub(super) struct Items {
    by_key: NumberMap<u64, u32>,
    items: Vec<Item>,
    free: Vec<u32>,
    memory: Order,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Clone, Copy)]
struct Item {
    key: u64,
    region: u32,
    /// Bytes in memory, including the overhead per object.
    bytes: u32,
}

/// Location of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemLocation {
    Memory,
    /// In a region, or in the queue for one.
    Region(u32),
}

impl Items {
    /// An empty index, with memory for so many bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            by_key: NumberMap::default(),
            items: Vec::new(),
            free: Vec::new(),
            memory: Order::new(0),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<(u32, ItemLocation)> {
        let item = *self.by_key.get(&key)?;
        let is_in_memory = self.memory.contains(item);
        let region = self.items[item as usize].region;
        Some((item, if is_in_memory { ItemLocation::Memory } else { ItemLocation::Region(region) }))
    }

    pub(super) fn key(&self, item: u32) -> u64 {
        self.items[item as usize].key
    }

    pub(super) fn region(&self, item: u32) -> u32 {
        self.items[item as usize].region
    }

    /// Sets the only region that holds the item.
    pub(super) fn set_region(&mut self, item: u32, region: u32) {
        self.items[item as usize].region = region;
    }

    /// Adds an unknown key. The item is in no region and not in memory yet.
    pub(super) fn add(&mut self, key: u64, bytes: u32) -> u32 {
        let new = Item { key, region: NOWHERE, bytes };
        let item = if let Some(item) = self.free.pop() {
            self.items[item as usize] = new;
            item
        } else {
            self.items.push(new);
            let count = zonal_base::low_u32(self.items.len());
            // The vector grows by more than one at a time, and the order with it.
            self.memory.take_numbers_below(zonal_base::low_u32(self.items.capacity()).max(count));
            count - 1
        };
        self.by_key.insert(key, item);
        item
    }

    /// Moves the item to the recent end of the LRU, and into memory if needed.
    pub(super) fn use_in_memory(&mut self, item: u32) {
        if !self.memory.contains(item) {
            self.bytes += u64::from(self.items[item as usize].bytes);
        }
        self.memory.insert(item);
    }

    /// Evicts the oldest item from memory, if memory is over its limit. The item stays known: it
    /// has a region, or the caller must find one for it.
    pub(super) fn push_out(&mut self) -> Option<u32> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        let oldest = self.memory.oldest()?;
        self.memory.remove(oldest);
        self.bytes -= u64::from(self.items[oldest as usize].bytes);
        Some(oldest)
    }

    /// Its region was evicted. The item stays known if it is in memory.
    pub(super) fn lose_region(&mut self, item: u32) {
        self.items[item as usize].region = NOWHERE;
        if !self.memory.contains(item) {
            self.by_key.remove(&self.items[item as usize].key);
            self.free.push(item);
        }
    }
}
