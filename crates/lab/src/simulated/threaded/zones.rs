//! Zone allocator of the ZNCache simulation: free, active and full zones, and the eviction order.
//!
//! A zone has one writer at a time, and at most [`Zones::limit`] zones are active. One lock guards
//! all of this. A thread holds the lock while the drive opens, finishes or resets a zone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use zonal_base::{ZoneId, low_u32};
use zonal_device::{Command, ZoneAction};
use zonal_runtime::Event;

use super::map::ChunkAddress;
use super::spinning::Spinning;
use crate::simulated::io::{DevicePort, Failure};
use crate::simulated::order::Order;

pub(super) struct Zones {
    device: DevicePort,
    has_zones: bool,
    chunks: u32,
    limit: u32,
    lock: Lock,
    state: RefCell<State>,
    pub(super) spinning: Spinning,
}

/// Number of zones, and how they are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) zones: u32,
    /// Chunks per zone.
    pub(super) chunks: u32,
    /// Limit of active zones.
    pub(super) limit: u32,
    /// True when the collector needs one active zone and one free zone for itself.
    pub(super) has_collector: bool,
}

struct State {
    free: VecDeque<ZoneId>,
    /// Free zones that a miss may not take.
    kept_free: usize,
    active: VecDeque<ZoneId>,
    writers: u32,
    /// Chunks written to each zone.
    filled: Vec<u32>,
    /// Full zones that may be evicted, in the order of their last promotion.
    full: Order,
    /// Zone that chunks are moved to.
    collector: Option<ZoneId>,
    finishes: u64,
}

/// Result of a search for a zone.
enum Claimed {
    Zone(ZoneId),
    /// A free zone that must be opened.
    Closed(ZoneId),
    Nothing,
}

impl Zones {
    pub(super) fn new(device: DevicePort, has_zones: bool, cut: Cut, seed: u64) -> Self {
        let kept = u32::from(cut.has_collector);
        let state = State {
            free: (0..cut.zones).map(ZoneId).collect(),
            kept_free: kept as usize,
            active: VecDeque::new(),
            writers: 0,
            filled: vec![0; cut.zones as usize],
            full: Order::new(cut.zones),
            collector: None,
            finishes: 0,
        };
        Self {
            device,
            has_zones,
            chunks: cut.chunks,
            limit: cut.limit - kept,
            lock: Lock::default(),
            state: RefCell::new(state),
            spinning: Spinning::new(seed),
        }
    }

    /// Claims a zone without a writer, for one chunk.
    pub(super) async fn claim(&self) -> Result<ChunkAddress, Failure> {
        // Threads that spin already look before a thread that has just arrived.
        if self.spinning.is_anyone() {
            self.spinning.wait().await;
        }
        loop {
            let locked = self.lock.take().await;
            let found = self.state.borrow_mut().find(self.limit);
            if let Claimed::Closed(zone) = found
                && self.has_zones
            {
                self.manage(zone, ZoneAction::Open).await?;
            }
            drop(locked);
            if let Claimed::Zone(zone) | Claimed::Closed(zone) = found {
                let state = self.state.borrow();
                if state.has_more(self.limit) {
                    self.spinning.let_one_look();
                }
                return Ok(zone.0 * self.chunks + state.filled[zone.0 as usize]);
            }
            self.spinning.wait().await;
        }
    }

    /// Claims room for a moved chunk, in the collector's zone. `None`: no zone is free.
    pub(super) async fn claim_to_move(&self) -> Result<Option<ChunkAddress>, Failure> {
        let locked = self.lock.take().await;
        let under_way = self.state.borrow().collector;
        let zone = match under_way {
            Some(zone) => zone,
            None => {
                let Some(zone) = self.state.borrow_mut().free.pop_front() else { return Ok(None) };
                self.manage(zone, ZoneAction::Open).await?;
                self.state.borrow_mut().collector = Some(zone);
                zone
            }
        };
        drop(locked);
        Ok(Some(zone.0 * self.chunks + self.state.borrow().filled[zone.0 as usize]))
    }

    /// Counts a moved chunk, and finishes the collector's zone when it is full.
    pub(super) async fn was_moved(&self, place: ChunkAddress) -> Result<(), Failure> {
        let zone = ZoneId(place / self.chunks);
        let locked = self.lock.take().await;
        if self.state.borrow_mut().fill(zone, self.chunks) {
            self.state.borrow_mut().collector = None;
            self.finish(zone).await?;
        }
        drop(locked);
        Ok(())
    }

    /// Releases the zone after its write, and finishes it when it is full.
    pub(super) async fn give_back(&self, place: ChunkAddress) -> Result<(), Failure> {
        let zone = ZoneId(place / self.chunks);
        let locked = self.lock.take().await;
        let is_full = self.state.borrow_mut().write_ended(zone, self.chunks);
        if is_full {
            self.finish(zone).await?;
        }
        drop(locked);
        self.spinning.let_one_look();
        Ok(())
    }

    /// Finishes a full zone, which may be evicted from then on. Requires: the caller holds the
    /// lock.
    async fn finish(&self, zone: ZoneId) -> Result<(), Failure> {
        if self.has_zones {
            self.manage(zone, ZoneAction::Finish).await?;
            self.state.borrow_mut().finishes += 1;
        }
        self.state.borrow_mut().full.insert(zone.0);
        Ok(())
    }

    /// Promotes a full zone after a read of one of its chunks.
    pub(super) fn was_read(&self, zone: ZoneId) {
        let full = &mut self.state.borrow_mut().full;
        if full.contains(zone.0) {
            full.insert(zone.0);
        }
    }

    pub(super) fn free_count(&self) -> u32 {
        low_u32(self.state.borrow().free.len())
    }

    /// Takes the zone that was promoted longest ago. It can no longer be promoted.
    pub(super) fn take_victim(&self) -> Option<ZoneId> {
        self.take_victim_by(|_| 0)
    }

    /// Takes the zone with the fewest live chunks. Ties: the one that was promoted longest ago.
    pub(super) fn take_victim_by(&self, left: impl Fn(ZoneId) -> u32) -> Option<ZoneId> {
        let full = &mut self.state.borrow_mut().full;
        let mut victim: Option<(u32, u32)> = None;
        for zone in full.iter() {
            let left = left(ZoneId(zone));
            if victim.is_none_or(|(least, _)| left < least) {
                victim = Some((left, zone));
            }
            if left == 0 {
                break;
            }
        }
        let (_, zone) = victim?;
        full.remove(zone);
        Some(ZoneId(zone))
    }

    /// Addresses of the zone's chunks.
    pub(super) const fn places(&self, zone: ZoneId) -> std::ops::Range<ChunkAddress> {
        zone.0 * self.chunks..(zone.0 + 1) * self.chunks
    }

    /// Resets a zone without live chunks.
    pub(super) async fn empty(&self, zone: ZoneId) -> Result<(), Failure> {
        let locked = self.lock.take().await;
        self.manage(zone, ZoneAction::Reset).await?;
        let mut state = self.state.borrow_mut();
        state.filled[zone.0 as usize] = 0;
        state.free.push_back(zone);
        drop(state);
        drop(locked);
        self.spinning.let_one_look();
        Ok(())
    }

    /// Zones that were finished.
    pub(super) fn finished(&self) -> u64 {
        self.state.borrow().finishes
    }

    async fn manage(&self, zone: ZoneId, action: ZoneAction) -> Result<(), Failure> {
        let answer = self.device.call(Command::Manage { zone, action }).await;
        answer.map(drop).map_err(|error| Failure::new(&format!("{action:?} of {zone}"), error))
    }
}

impl State {
    fn find(&mut self, limit: u32) -> Claimed {
        let found = if let Some(zone) = self.active.pop_front() {
            Claimed::Zone(zone)
        } else if self.writers < limit
            && self.kept_free < self.free.len()
            && let Some(zone) = self.free.pop_front()
        {
            Claimed::Closed(zone)
        } else {
            return Claimed::Nothing;
        };
        self.writers += 1;
        found
    }

    /// True when another zone can be claimed.
    fn has_more(&self, limit: u32) -> bool {
        !self.active.is_empty() || (self.writers < limit && self.kept_free < self.free.len())
    }

    /// Ends a write and counts its chunk. True when the zone is full.
    fn write_ended(&mut self, zone: ZoneId, chunks: u32) -> bool {
        self.writers -= 1;
        let is_full = self.fill(zone, chunks);
        if !is_full {
            self.active.push_back(zone);
        }
        is_full
    }

    /// Counts a chunk of the zone. True when the zone is full.
    fn fill(&mut self, zone: ZoneId, chunks: u32) -> bool {
        let filled = &mut self.filled[zone.0 as usize];
        *filled += 1;
        *filled == chunks
    }
}

/// FIFO lock.
#[derive(Default)]
struct Lock {
    is_taken: Cell<bool>,
    free: Event,
}

struct Locked<'a>(&'a Lock);

impl Lock {
    async fn take(&self) -> Locked<'_> {
        let look = || (!self.is_taken.replace(true)).then_some(());
        self.free.wait_fifo(look).await;
        Locked(self)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.free.notify_one();
    }
}
