//! Index: maps keys to extents on flash in at most 24 bytes of memory for a 64 KiB chunk.
//!
//! Each zone has an *arena* with one packed entry per record, in the order in which they were
//! published. A *table* of 40-bit slots (a cuckoo hash table) maps keys to entries. Emptying a zone
//! walks its arena, so the index never reads the device. `docs/formats/index.md` has the layout,
//! bit by bit.
//!
//! The index knows keys by 42 bits of a hash only. Two keys with the same hash replace each other,
//! which a cache may do at any time. The checksums cover the whole key, so a read of the wrong
//! record is a miss.

mod arena;
mod entry;
mod table;

use alloc::vec::Vec;

use zonal_base::{Blocks, Bytes, ZoneId, index};
use zonal_policy::PolicyTag;
use zonal_zonelog::{Checks, Extent, Key, Kind};

use arena::Arena;
pub(crate) use arena::LiveRecords;
use table::Table;

/// Index of all records of a shard.
pub(crate) struct Index {
    arenas: Vec<Arena>,
    table: Table,
    shape: Shape,
}

/// Division of the 32 bits of a table reference: zone number, and position in the zone's arena.
#[derive(Clone, Copy)]
struct Shape {
    arena_bits: u32,
}

/// Decoded index entry.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) extent: Extent,
    pub(crate) kind: Kind,
    pub(crate) checks: Checks,
    /// Mark of the policy. For records that no policy knows: [`WANTED`](crate::pins::WANTED) or
    /// none.
    pub(crate) mark: PolicyTag,
    stand: EntryPosition,
}

/// Position of an entry, with the means to detect that it is stale.
#[derive(Clone, Copy, Debug, Default)]
struct EntryPosition {
    /// Byte position in the zone's arena.
    at: u32,
    /// Number of times that the zone was emptied before.
    round: u32,
}

/// Reference to an entry: the record's extent and the entry's position. It may become stale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRef {
    pub(crate) extent: Extent,
    stand: EntryPosition,
}

/// Result of an insertion.
pub(crate) struct Inserted {
    pub(crate) spot: EntryRef,
    /// Previous entry of the key.
    pub(crate) replaced: Option<IndexEntry>,
}

impl IndexEntry {
    /// Entry for a record that is not in the index yet.
    pub(crate) fn new(extent: Extent, kind: Kind, checks: Checks) -> Self {
        Self { extent, kind, checks, mark: PolicyTag::default(), stand: EntryPosition::default() }
    }

    pub(crate) fn with_mark(self, mark: PolicyTag) -> Self {
        Self { mark, ..self }
    }

    pub(crate) const fn spot(&self) -> EntryRef {
        EntryRef { extent: self.extent, stand: self.stand }
    }
}

impl EntryRef {
    /// Byte position in the zone's arena.
    pub(crate) const fn at(&self) -> u32 {
        self.stand.at
    }

    /// Number of the record in its zone: unique, and higher for later records. Numbers have gaps.
    pub(crate) const fn number(&self) -> u32 {
        self.stand.at / entry::ENTRY_BYTES_MIN
    }
}

impl Index {
    pub(crate) fn new(zone_count: u32, zone_capacity: Blocks) -> Self {
        let zone_bits = 32 - zone_count.leading_zeros();
        let arenas = (0..zone_count).map(|_| Arena::default()).collect();
        let writable = zone_capacity.bytes().0 * u64::from(zone_count);
        let table = Table::new(index(writable / EXPECTED_RECORD.0));
        Self { arenas, table, shape: Shape { arena_bits: 32 - zone_bits } }
    }

    /// Publishes a record, and removes the key's previous entry. `None` when the zone's arena is
    /// full: then the record is not in the index.
    pub(crate) fn insert(&mut self, key: Key, found: &IndexEntry) -> Option<Inserted> {
        let hash = entry::hash(key);
        let zone = index(u64::from(found.extent.zone.0));
        if self.shape.arena_limit() < self.arenas[zone].len() + entry::ENTRY_BYTES_MAX {
            return None;
        }
        let replaced = self.remove(key);
        let at = self.arenas[zone].push(hash, found);
        let place = self.shape.place(found.extent.zone, at);
        let (table, arenas, shape) = (&mut self.table, &self.arenas, self.shape);
        table.insert(hash, place, &|place| rest_at(arenas, shape, place));
        let spot = EntryRef { extent: found.extent, stand: self.arenas[zone].stand(at) };
        Some(Inserted { spot, replaced })
    }

    /// Prefetches the CPU cache lines for a later lookup of `key`.
    pub(crate) fn prefetch(&self, key: Key) {
        self.table.prefetch(entry::hash(key));
    }

    /// Prefetches the CPU cache line of an entry.
    pub(crate) fn prefetch_spot(&self, spot: &EntryRef) {
        self.arenas[index(u64::from(spot.extent.zone.0))].prefetch(spot.stand);
    }

    /// Looks up the entry of `key`.
    pub(crate) fn lookup(&self, key: Key) -> Option<IndexEntry> {
        let (zone, at) = self.find(key)?;
        Some(self.arenas[index(u64::from(zone.0))].get(zone, at))
    }

    /// Like [`Index::lookup`], without checksums: enough to decide whether the record may be read.
    pub(crate) fn glance(&self, key: Key) -> Option<(EntryRef, Kind, PolicyTag)> {
        let (zone, at) = self.find(key)?;
        Some(self.arenas[index(u64::from(zone.0))].glance(zone, at))
    }

    /// Removes the entry of `key` and returns it.
    pub(crate) fn remove(&mut self, key: Key) -> Option<IndexEntry> {
        let (zone, at) = self.find(key)?;
        self.table.remove(entry::rest(entry::hash(key)), self.shape.place(zone, at));
        let arena = &mut self.arenas[index(u64::from(zone.0))];
        let found = arena.get(zone, at);
        arena.kill(at);
        Some(found)
    }

    /// Removes the entry of `key` if it is still at `extent`: it may have been published anew
    /// meanwhile.
    pub(crate) fn remove_at(&mut self, key: Key, extent: Extent) -> Option<IndexEntry> {
        self.lookup(key).filter(|found| found.extent == extent)?;
        self.remove(key)
    }

    /// Present kind and mark of an entry; `None` when it was removed. The zone may have been
    /// emptied and refilled since the lookup: read-ahead pins a zone only while the device reads.
    pub(crate) fn kind_and_mark(&self, spot: &EntryRef) -> Option<(Kind, PolicyTag)> {
        self.arenas[index(u64::from(spot.extent.zone.0))].kind_and_mark(spot.stand)
    }

    /// Changes the kind of an entry. Requires: the entry was not removed.
    pub(crate) fn set_kind(&mut self, spot: &EntryRef, kind: Kind) {
        self.arenas[index(u64::from(spot.extent.zone.0))].set_kind(spot.stand, kind);
    }

    /// Changes the mark of an entry. Requires: the entry was not removed.
    pub(crate) fn set_mark(&mut self, spot: &EntryRef, mark: PolicyTag) {
        self.arenas[index(u64::from(spot.extent.zone.0))].set_mark(spot.stand, mark);
    }

    /// Removes up to `limit` entries of a zone. Returns whether the walk goes on. Calls `forgotten`
    /// with each entry and its hash.
    pub(crate) fn drain_zone(
        &mut self,
        zone: ZoneId,
        limit: usize,
        mut forgotten: impl FnMut(IndexEntry, u64),
    ) -> bool {
        let arena = &mut self.arenas[index(u64::from(zone.0))];
        // The slots of these entries are all over the table: prefetches all before waiting for the
        // first.
        arena.rests_to_drain().take(limit).for_each(|rest| self.table.prefetch_rest(rest));
        for _ in 0..limit {
            let Some((at, rest, found)) = arena.next_to_drain(zone) else {
                arena.empty();
                return false;
            };
            let tag = self.table.remove(rest, self.shape.place(zone, at));
            forgotten(found, entry::whole_hash(tag, rest));
        }
        true
    }

    /// Live entries of a zone.
    pub(crate) fn zone_records(&self, zone: ZoneId) -> impl Iterator<Item = IndexEntry> + '_ {
        self.arenas[index(u64::from(zone.0))].iter(zone).map(|(_, _, found)| found)
    }

    /// Number and bytes of a zone's live entries.
    pub(crate) fn live_records(&self, zone: ZoneId) -> LiveRecords {
        self.arenas[index(u64::from(zone.0))].live()
    }

    /// Key hashes of a zone's live entries of one kind.
    pub(crate) fn zone_hashes(&self, zone: ZoneId, kind: Kind) -> impl Iterator<Item = u64> + '_ {
        let records = self.arenas[index(u64::from(zone.0))].iter(zone);
        records.filter(move |(_, _, found)| found.kind == kind).map(move |(at, rest, _)| {
            entry::whole_hash(self.table.tag(rest, self.shape.place(zone, at)), rest)
        })
    }

    /// Calls `look` with up to `limit` live entries of a zone, from a position that an earlier call
    /// returned, or 0. Returns the next position; `None` at the end. Requires: the zone was not
    /// refilled since the earlier call.
    pub(crate) fn look_through(
        &self,
        (zone, from): (ZoneId, u32),
        limit: usize,
        mut look: impl FnMut(&IndexEntry),
    ) -> Option<u32> {
        let arena = &self.arenas[index(u64::from(zone.0))];
        let mut last = None;
        for (_, _, found) in arena.iter_from(zone, from as usize).take(limit) {
            look(&found);
            last = Some(found.stand.at as usize);
        }
        let next = arena.behind(last?);
        (next < arena.len()).then_some(zonal_base::low_u32(next))
    }

    /// Entry at a position from [`EntryRef::at`]. Requires: the entry was not removed.
    pub(crate) fn at(&self, zone: ZoneId, at: u32) -> IndexEntry {
        self.arenas[index(u64::from(zone.0))].get(zone, at as usize)
    }

    /// Removes an entry. Requires: the entry was not removed before.
    pub(crate) fn remove_spot(&mut self, spot: &EntryRef) {
        let (zone, at) = (spot.extent.zone, spot.stand.at as usize);
        let arena = &mut self.arenas[index(u64::from(zone.0))];
        self.table.remove(arena.rest(at), self.shape.place(zone, at));
        arena.kill(at);
    }

    /// Releases the unused memory of a sealed zone's arena.
    pub(crate) fn seal_zone(&mut self, zone: ZoneId) {
        self.arenas[index(u64::from(zone.0))].shrink();
    }

    pub(crate) fn zone_count(&self) -> u32 {
        zonal_base::low_u32(self.arenas.len())
    }

    /// Number of live entries.
    pub(crate) fn record_count(&self) -> u64 {
        self.table.len() as u64
    }

    /// Memory of the index in bytes, unused capacity included.
    pub(crate) fn memory(&self) -> Bytes {
        let arenas: usize = self.arenas.iter().map(Arena::memory).sum();
        Bytes((arenas + self.table.memory()) as u64)
    }

    fn find(&self, key: Key) -> Option<(ZoneId, usize)> {
        let hash = entry::hash(key);
        let place = self.table.find(hash, |place| rest_at(&self.arenas, self.shape, place))?;
        Some(self.shape.divide(place))
    }
}

fn rest_at(arenas: &[Arena], shape: Shape, place: u32) -> u64 {
    let (zone, at) = shape.divide(place);
    arenas[index(u64::from(zone.0))].rest(at)
}

impl Shape {
    fn place(self, zone: ZoneId, at: usize) -> u32 {
        // Zone numbers are below `zone_count`, so no reference equals the all-ones value of an
        // empty slot.
        (zone.0 << self.arena_bits) | zonal_base::low_u32(at)
    }

    fn divide(self, place: u32) -> (ZoneId, usize) {
        let at = place & (self.arena_limit_u32() - 1);
        (ZoneId(place >> self.arena_bits), at as usize)
    }

    fn arena_limit(self) -> usize {
        self.arena_limit_u32() as usize
    }

    fn arena_limit_u32(self) -> u32 {
        1 << self.arena_bits
    }
}

/// ID by which policies know a record.
pub(crate) fn chunk_id(key: Key) -> u64 {
    entry::hash(key)
}

/// Assumed size of a record. It only sets the number of table parts, because growth works on one
/// part at a time.
const EXPECTED_RECORD: Bytes = Bytes::kib(64);

#[cfg(test)]
mod tests;
