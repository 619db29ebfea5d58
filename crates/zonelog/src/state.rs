//! In-memory state of the log: zones, active slots, writers, tombstones. Plain data without waiting.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use zonal_base::{Blocks, ZoneId, index};
use zonal_device::Geometry;

use crate::log::Inner;
use crate::settings::ZONES_MIN;
use crate::writer::Writer;
use crate::{Key, Kind, LogStats, Settings, Stream};

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// Nothing in it; can be opened.
    Empty,
    /// Being filled.
    Open,
    /// Filled; can be reclaimed.
    Sealed,
    /// Chosen by reclaim, not empty yet.
    Reclaiming,
    /// Worn out or broken: never used again.
    Retired,
}

/// One zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) usage: ZoneUse,
    /// Which filling this is; 0 for a zone that was never filled.
    pub(crate) sequence: u64,
    /// Reads under way.
    pub(crate) pins: u32,
    /// Records appended that their owner has not published yet.
    pub(crate) unpublished: u32,
    pub(crate) record_count: u32,
    pub(crate) record_bytes: u64,
    /// Lowest generation among its records. Tombstones above it may still be needed.
    pub(crate) generation_min: u64,
    /// Keys whose tombstone stands here, or stood here before a newer one was written elsewhere.
    pub(crate) tombstones: Vec<Key>,
}

impl Zone {
    pub(crate) const fn empty() -> Self {
        Self {
            usage: ZoneUse::Empty,
            sequence: 0,
            pins: 0,
            unpublished: 0,
            record_count: 0,
            record_bytes: 0,
            generation_min: u64::MAX,
            tombstones: Vec::new(),
        }
    }

    pub(crate) fn note_record(&mut self, kind: Kind, generation: u64, len: u32) {
        self.record_count += 1;
        self.record_bytes += u64::from(len);
        // Tombstones keep no tombstone alive: else one removal would keep all later ones for ever.
        if kind != Kind::TOMBSTONE {
            self.generation_min = self.generation_min.min(generation);
        }
    }
}

/// What policies may know about a zone that could be reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// The zone.
    pub zone: ZoneId,
    /// Order in which zones were opened: the lowest is the oldest.
    pub sequence: u64,
    /// Records that were written to it.
    pub record_count: u32,
    /// Their bytes.
    pub record_bytes: u64,
}

/// "Everything of this key below this generation is gone."
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(crate) generation: u64,
    pub(crate) zone: ZoneId,
}

/// Right to keep one zone active. Not `Clone`: whoever holds it gives it back.
#[must_use = "dropping a slot without `release` leaks an active zone"]
#[derive(Debug)]
pub(crate) struct ActiveSlot(Stream);

/// Active zones that each stream may still take. Their sum obeys the device's limit.
#[derive(Debug)]
pub(crate) struct Slots {
    free: [u32; Stream::ALL.len()],
}

impl Slots {
    /// The rewrite stream has one slot of its own; the fill stream has what is left, up to its wish.
    pub(crate) fn new(settings: &Settings, geometry: &Geometry) -> Self {
        let limit = match (geometry.max_active_zones, geometry.max_open_zones) {
            (Some(active), Some(open)) => active.min(open),
            (Some(limit), None) | (None, Some(limit)) => limit,
            (None, None) => u32::MAX,
        };
        // Few zones: streams that hold many of them open would leave nothing to reclaim.
        let affordable = (geometry.zone_count / 4).max(1);
        let fill = settings.fill_zones.min(limit - 1).min(affordable).max(1);
        Self { free: [fill, 1] }
    }

    pub(crate) fn acquire(&mut self, stream: Stream) -> Option<ActiveSlot> {
        let free = &mut self.free[usize::from(stream.id())];
        *free = free.checked_sub(1)?;
        Some(ActiveSlot(stream))
    }

    pub(crate) fn release(&mut self, slot: ActiveSlot) {
        let ActiveSlot(stream) = slot;
        self.free[usize::from(stream.id())] += 1;
    }

    pub(crate) fn free(&self) -> u32 {
        self.free.iter().sum()
    }
}

/// All of it.
pub(crate) struct State {
    pub(crate) zones: Vec<Zone>,
    pub(crate) empty: VecDeque<ZoneId>,
    pub(crate) writers: BTreeMap<ZoneId, Writer>,
    /// The zone that each stream appends to.
    pub(crate) current: [Option<ZoneId>; Stream::ALL.len()],
    pub(crate) slots: Slots,
    pub(crate) next_sequence: u64,
    pub(crate) tombstones: BTreeMap<Key, Tombstone>,
    /// Bytes of appends that may go on or went on, and are not yet on flash.
    pub(crate) backlog_bytes: u64,
    /// Zones that were filled since the owner last asked.
    pub(crate) newly_sealed: Vec<ZoneId>,
    /// Zones of which something could not be read when the log was opened.
    pub(crate) unreadable: Vec<ZoneId>,
    /// The device no longer answers, or is worn out: nothing is appended any more.
    pub(crate) is_gone: bool,
    pub(crate) stats: LogStats,
}

impl State {
    pub(crate) fn new(settings: &Settings, geometry: &Geometry) -> Self {
        Self {
            zones: geometry.zones().map(|_| Zone::empty()).collect(),
            empty: VecDeque::new(),
            writers: BTreeMap::new(),
            current: [None; Stream::ALL.len()],
            slots: Slots::new(settings, geometry),
            next_sequence: 1,
            tombstones: BTreeMap::new(),
            backlog_bytes: 0,
            newly_sealed: Vec::new(),
            unreadable: Vec::new(),
            is_gone: false,
            stats: LogStats::default(),
        }
    }

    pub(crate) fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[index(u64::from(zone.0))]
    }

    pub(crate) fn zone_mut(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[index(u64::from(zone.0))]
    }

    /// A tombstone stands in a zone. Of equal ones (reclaim writes them again) the last to be noted counts.
    pub(crate) fn note_tombstone(&mut self, key: Key, tombstone: Tombstone) {
        let known = self.tombstones.get(&key);
        if known.is_some_and(|known| tombstone.generation < known.generation) {
            return;
        }
        let is_listed = known.is_some_and(|known| known.zone == tombstone.zone);
        if !is_listed {
            self.zone_mut(tombstone.zone).tombstones.push(key);
        }
        self.tombstones.insert(key, tombstone);
    }

    /// Something in a zone could not be read. Until it is reset, it is held to have records that are older than
    /// any tombstone: they may be found the next time.
    pub(crate) fn note_unreadable(&mut self, zone: ZoneId) {
        self.zone_mut(zone).generation_min = 0;
        self.unreadable.push(zone);
        self.stats.zones_unreadable += 1;
    }

    /// Never uses a zone again. When too few are left to fill one while another is reclaimed, the device is
    /// as good as gone.
    pub(crate) fn retire(&mut self, zone: ZoneId) {
        self.zone_mut(zone).usage = ZoneUse::Retired;
        let left = self.zones.iter().filter(|zone| zone.usage != ZoneUse::Retired).count();
        self.is_gone |= left < ZONES_MIN as usize;
    }

    /// Tombstones that must not be lost with a zone: a record older than they are may lie elsewhere.
    pub(crate) fn needed_tombstones(
        &self,
        inner: &Inner,
        zone: ZoneId,
    ) -> impl Iterator<Item = (Key, u64)> {
        let zones = (0..).map(ZoneId).zip(&self.zones);
        let others = zones.filter(|(id, other)| *id != zone && other.usage != ZoneUse::Empty);
        let oldest = others.map(|(_, other)| other.generation_min).min().unwrap_or(u64::MAX);
        let oldest = inner.ports.generations.oldest(oldest);
        self.zone(zone).tombstones.iter().filter_map(move |key| {
            let tombstone = self.tombstones.get(key)?;
            let is_needed = tombstone.zone == zone && oldest < tombstone.generation;
            is_needed.then_some((*key, tombstone.generation))
        })
    }

    /// The zone was reset, and what stood there is gone.
    pub(crate) fn note_empty(&mut self, zone: ZoneId) {
        let Zone { sequence, pins, .. } = *self.zone(zone);
        let emptied = Zone { sequence, pins, ..Zone::empty() };
        let was = core::mem::replace(self.zone_mut(zone), emptied);
        for key in was.tombstones {
            if self.tombstones.get(&key).is_some_and(|tombstone| tombstone.zone == zone) {
                self.tombstones.remove(&key);
            }
        }
        self.empty.push_back(zone);
    }

    /// The lowest generation of all records; `u64::MAX` when there are none.
    pub(crate) fn generation_min(&self) -> u64 {
        let used = self.zones.iter().filter(|zone| zone.usage != ZoneUse::Empty);
        used.map(|zone| zone.generation_min).min().unwrap_or(u64::MAX)
    }

    /// Takes an empty zone for a stream, with a slot, and opens a writer on it.
    pub(crate) fn open_zone(&mut self, stream: Stream, capacity: Blocks) -> Option<ZoneId> {
        let kept_for_rewrites = match stream {
            Stream::Fill => 1,
            Stream::Rewrite => 0,
        };
        if self.empty.len() <= kept_for_rewrites {
            return None;
        }
        let slot = self.slots.acquire(stream)?;
        let zone = self.empty.pop_front()?;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let entry = self.zone_mut(zone);
        (entry.usage, entry.sequence) = (ZoneUse::Open, sequence);
        self.writers.insert(zone, Writer::new(stream, slot, sequence, capacity));
        Some(zone)
    }
}
