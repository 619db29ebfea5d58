//! In-memory state of the log: zones, active slots, writers, tombstones. Plain data; no method
//! waits.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use zonal_base::{Blocks, Nanos, ZoneId, index};
use zonal_device::Geometry;

use crate::damage::Damage;
use crate::events::{ZoneChange, ZoneEvent, ZoneEvents};
use crate::fills::Fills;
use crate::log::Inner;
use crate::manifests::Unlisted;
use crate::settings::ZONES_MIN;
use crate::writer::Writer;
use crate::{Key, Kind, LogStats, Settings, Stream};

/// Use of a zone by the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// Holds no records and can be opened.
    Empty,
    /// Has a writer and takes records.
    Open,
    /// Takes no more records and can be reclaimed.
    Sealed,
    /// Reclaim is emptying the zone.
    Reclaiming,
    /// Read-only, offline or failed: the log does not use the zone again.
    Retired,
}

/// In-memory state of one zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) usage: ZoneUse,
    /// Sequence number of the zone's current fill; 0 for a zone that was never filled.
    pub(crate) sequence: u64,
    /// Reads in flight. The zone is not reset before they end.
    pub(crate) pins: u32,
    /// Appended records that their owner has not published yet.
    pub(crate) unpublished: u32,
    pub(crate) record_count: u32,
    pub(crate) record_bytes: u64,
    /// Lowest generation of the zone's records, tombstones excluded. Tombstones with a higher
    /// generation may still be needed.
    pub(crate) generation_min: u64,
    /// Keys whose tombstone is in this zone, or was before a newer tombstone was written elsewhere.
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
        // Tombstones do not count: otherwise one removal would keep all later tombstones for ever.
        if kind != Kind::TOMBSTONE {
            self.generation_min = self.generation_min.min(generation);
        }
    }
}

/// Facts about a reclaimable zone, for victim selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// The candidate.
    pub zone: ZoneId,
    /// Sequence number of the zone's fill: the lowest was opened first.
    pub sequence: u64,
    /// Records written to the zone, live or not.
    pub record_count: u32,
    /// Bytes of those records.
    pub record_bytes: u64,
}

/// State of one zone, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStatus {
    /// Use of the zone.
    pub usage: ZoneUse,
    /// Stream of an open zone.
    pub stream: Option<Stream>,
    /// Sequence number of the zone's fill; 0 for a zone that was never filled.
    pub sequence: u64,
    /// Blocks that take no more records: up to the end of the last segment of an open zone, all of
    /// a sealed one.
    pub written: Blocks,
    /// Records written to the zone, live or not, tombstones included.
    pub record_count: u32,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// Reads in flight.
    pub reads: u32,
}

/// Tombstone: records of its key with a lower generation are removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(crate) generation: u64,
    pub(crate) zone: ZoneId,
}

/// Permit to keep one zone active. It is not `Clone`, and its owner returns it with
/// [`Slots::release`].
#[must_use = "dropping a slot without `release` leaks an active zone"]
#[derive(Debug)]
pub(crate) struct ActiveSlot(Stream);

/// Free active slots by stream. The sum over both streams obeys the device's limits.
#[derive(Debug)]
pub(crate) struct Slots {
    free: [u32; Stream::ALL.len()],
}

impl Slots {
    /// Gives the rewrite stream one slot, and the fill stream up to `fill_zones` of the rest.
    pub(crate) fn new(settings: &Settings, geometry: &Geometry) -> Self {
        let limit = match (geometry.max_active_zones, geometry.max_open_zones) {
            (Some(active), Some(open)) => active.min(open),
            (Some(limit), None) | (None, Some(limit)) => limit,
            (None, None) => u32::MAX,
        };
        // A device with few zones gets few slots: otherwise open zones leave nothing to reclaim.
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

/// All mutable state of a log.
pub(crate) struct State {
    pub(crate) zones: Vec<Zone>,
    pub(crate) empty: VecDeque<ZoneId>,
    pub(crate) writers: BTreeMap<ZoneId, Writer>,
    /// By stream: the zone that the next record goes to.
    pub(crate) current: [Option<ZoneId>; Stream::ALL.len()],
    pub(crate) slots: Slots,
    pub(crate) next_sequence: u64,
    pub(crate) tombstones: BTreeMap<Key, Tombstone>,
    /// Bytes of records that were admitted to the backlog and are not yet on flash.
    pub(crate) backlog_bytes: u64,
    /// Zones sealed since the owner last called [`crate::Log::take_sealed`].
    pub(crate) newly_sealed: Vec<ZoneId>,
    pub(crate) events: ZoneEvents,
    /// What was damaged when the log was opened.
    pub(crate) damage: Vec<Damage>,
    pub(crate) fills: Fills,
    pub(crate) unlisted: Unlisted,
    /// The device does not answer, was given up, or has too few usable zones: all appends fail.
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
            events: ZoneEvents::default(),
            damage: Vec::new(),
            fills: Fills::new(geometry.zone_count),
            unlisted: Unlisted::default(),
            is_gone: false,
            stats: LogStats::default(),
        }
    }

    /// Status of each zone, in the order of their numbers.
    pub(crate) fn status(&self, zone_capacity: Blocks) -> Vec<ZoneStatus> {
        let status = |(id, zone): (ZoneId, &Zone)| {
            let writer = self.writers.get(&id);
            let written = match (zone.usage, writer) {
                (ZoneUse::Empty | ZoneUse::Retired, _) | (ZoneUse::Open, None) => Blocks(0),
                (ZoneUse::Open, Some(writer)) => writer.position,
                (ZoneUse::Sealed | ZoneUse::Reclaiming, _) => zone_capacity,
            };
            ZoneStatus {
                usage: zone.usage,
                stream: writer.map(|writer| writer.stream),
                sequence: zone.sequence,
                written,
                record_count: zone.record_count,
                record_bytes: zone.record_bytes,
                reads: zone.pins,
            }
        };
        (0..).map(ZoneId).zip(&self.zones).map(status).collect()
    }

    pub(crate) fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[index(u64::from(zone.0))]
    }

    pub(crate) fn zone_mut(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[index(u64::from(zone.0))]
    }

    /// Registers a tombstone that is on flash in a zone. The highest generation wins. Of equal
    /// generations (reclaim rewrites tombstones) the last registered wins.
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

    pub(crate) fn note(&mut self, at: Nanos, zone: ZoneId, change: ZoneChange) {
        self.events.push(ZoneEvent { at, zone, change });
    }

    /// Registers a zone with unreadable blocks. They may become readable later and hold old
    /// records. So until its reset the zone counts as holding records older than any tombstone.
    pub(crate) fn note_unreadable(&mut self, zone: ZoneId) {
        self.zone_mut(zone).generation_min = 0;
        self.damage.push(Damage::Unreadable(zone));
        self.stats.zones_unreadable += 1;
    }

    /// Retires a zone. The log is gone when fewer than [`ZONES_MIN`] zones are left: it could not
    /// fill one while it reclaims another.
    pub(crate) fn retire(&mut self, zone: ZoneId) {
        self.zone_mut(zone).usage = ZoneUse::Retired;
        let left = self.zones.iter().filter(|zone| zone.usage != ZoneUse::Retired).count();
        self.is_gone |= left < ZONES_MIN as usize;
    }

    /// Tombstones of a zone that must be rewritten before its reset: an older record may be in
    /// another zone or in another log of the node.
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

    /// Registers a reset zone as empty, and forgets its tombstones.
    pub(crate) fn note_empty(&mut self, zone: ZoneId) {
        let Zone { sequence, pins, .. } = *self.zone(zone);
        let emptied = Zone { sequence, pins, ..Zone::empty() };
        let was = core::mem::replace(self.zone_mut(zone), emptied);
        for key in was.tombstones {
            if self.tombstones.get(&key).is_some_and(|tombstone| tombstone.zone == zone) {
                self.tombstones.remove(&key);
            }
        }
        self.fills.note_reset(zone);
        self.empty.push_back(zone);
    }

    /// Lowest generation of all records of the log, tombstones excluded; `u64::MAX` when there are
    /// none.
    pub(crate) fn generation_min(&self) -> u64 {
        let used = self.zones.iter().filter(|zone| zone.usage != ZoneUse::Empty);
        used.map(|zone| zone.generation_min).min().unwrap_or(u64::MAX)
    }

    /// Opens an empty zone for a stream: takes an active slot and creates the writer. `None` when
    /// there is no slot, or no empty zone besides the one that is reserved for rewrites.
    pub(crate) fn open_zone(
        &mut self,
        now: Nanos,
        stream: Stream,
        capacity: Blocks,
    ) -> Option<ZoneId> {
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
        self.fills.open(zone, sequence);
        let entry = self.zone_mut(zone);
        (entry.usage, entry.sequence) = (ZoneUse::Open, sequence);
        self.writers.insert(zone, Writer::new(stream, slot, sequence, capacity));
        self.note(now, zone, ZoneChange::Opened { stream, sequence });
        Some(zone)
    }
}
