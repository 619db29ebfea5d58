//! Events of zones and devices, and the cursor with which a reader continues.

use std::collections::{BTreeMap, VecDeque};

use zonal_base::{Nanos, ZoneId};
use zonal_cache::CacheEvent;

/// Events of one device that are kept: an isolation and a return are two.
const HEALTH_EVENTS_MAX: usize = 64;

/// Events of one shard.
#[derive(Clone, Debug)]
pub struct ShardEvents {
    /// Number of its device, from 0.
    pub device: usize,
    /// Number of the shard on its device, from 0.
    pub shard: usize,
    /// Number of its first zone on the device: zones in `zones` count from it.
    pub first_zone: ZoneId,
    /// Events of its zones, oldest first.
    pub zones: Vec<CacheEvent>,
    /// Events of the device, oldest first; only in its first shard.
    pub health: Vec<HealthEvent>,
}

/// The device was isolated, or readmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthEvent {
    /// Number of the event, from 0 at the start of the node.
    pub number: u64,
    /// When it happened.
    pub at: Nanos,
    /// Why the device was isolated. `None`: it was readmitted.
    pub isolated: Option<String>,
}

/// Position in the events of all shards. A new one stands before the oldest that are known.
#[derive(Clone, Debug, Default)]
pub struct EventCursor {
    /// Number of the next event of each shard, by device and shard.
    zones: BTreeMap<(usize, usize), u64>,
    /// Number of the next event of each device.
    health: BTreeMap<usize, u64>,
}

impl EventCursor {
    pub(crate) fn next_of(&self, device: usize, shard: usize) -> u64 {
        self.zones.get(&(device, shard)).copied().unwrap_or(0)
    }

    pub(crate) fn health_after(
        &self,
        device: usize,
        mut events: Vec<HealthEvent>,
    ) -> Vec<HealthEvent> {
        let next = self.health.get(&device).copied().unwrap_or(0);
        events.retain(|event| next <= event.number);
        events
    }

    pub(crate) fn pass(&mut self, events: &ShardEvents) {
        if let Some(last) = events.zones.last() {
            self.zones.insert((events.device, events.shard), last.number + 1);
        }
        if let Some(last) = events.health.last() {
            self.health.insert(events.device, last.number + 1);
        }
    }
}

/// The last events of one device.
#[derive(Debug, Default)]
pub(crate) struct HealthEvents {
    events: VecDeque<HealthEvent>,
    next: u64,
}

impl HealthEvents {
    pub(crate) fn push(&mut self, at: Nanos, isolated: Option<String>) {
        if self.events.len() == HEALTH_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(HealthEvent { number: self.next, at, isolated });
        self.next += 1;
    }

    pub(crate) fn all(&self) -> Vec<HealthEvent> {
        self.events.iter().cloned().collect()
    }
}
