//! Objects: which are in memory, in which order they were used, and in which regions they are.

use crate::simulated::order::Order;
use crate::trace::NumberMap;

/// Of an item that is in no region.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Of an item that waits for a region to be put in.
pub(super) const QUEUED: u32 = u32::MAX - 1;

/// Items by their keys. An item is known as long as it is in memory or in a region.
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
    /// In memory, with what goes with it there.
    bytes: u32,
}

/// Where an item was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemLocation {
    Memory,
    /// In a region, or on its way to one.
    Region(u32),
}

impl Items {
    /// Nothing, and room for so many bytes in memory.
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

    /// It is in that region now, and in no other.
    pub(super) fn set_region(&mut self, item: u32, region: u32) {
        self.items[item as usize].region = region;
    }

    /// A key that is not known yet; it is neither in memory nor in a region so far.
    pub(super) fn add(&mut self, key: u64, bytes: u32) -> u32 {
        let new = Item { key, region: NOWHERE, bytes };
        let item = if let Some(item) = self.free.pop() {
            self.items[item as usize] = new;
            item
        } else {
            self.items.push(new);
            let count = zonal_base::low_u32(self.items.len());
            // More at a time, as the vector does.
            self.memory.take_numbers_below(zonal_base::low_u32(self.items.capacity()).max(count));
            count - 1
        };
        self.by_key.insert(key, item);
        item
    }

    /// It was used, and is in memory.
    pub(super) fn use_in_memory(&mut self, item: u32) {
        if !self.memory.contains(item) {
            self.bytes += u64::from(self.items[item as usize].bytes);
        }
        self.memory.insert(item);
    }

    /// Pushes an item out of memory if there is too much. It is still known: its region is its own, or has to be found
    /// now.
    pub(super) fn push_out(&mut self) -> Option<u32> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        let oldest = self.memory.oldest()?;
        self.memory.remove(oldest);
        self.bytes -= u64::from(self.items[oldest as usize].bytes);
        Some(oldest)
    }

    /// Its region is gone. It stays known if it is in memory.
    pub(super) fn lose_region(&mut self, item: u32) {
        self.items[item as usize].region = NOWHERE;
        if !self.memory.contains(item) {
            self.by_key.remove(&self.items[item as usize].key);
            self.free.push(item);
        }
    }
}
