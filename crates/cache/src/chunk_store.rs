//! Chunk store: keeps the index and the eviction policy consistent.
//!
//! Every change of the records on flash goes through this type, so that the policy hears of each
//! piece in the index exactly once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Ref, RefCell};

use zonal_base::{Bytes, Nanos, ZoneId};
use zonal_policy::{ChunkLocation, PersistLevel, Policy, PolicyTag, Reinsertion, ZoneFacts};
use zonal_zonelog::{Extent, Key, Kind};

use crate::checkpoint_format::{Age, PieceState};
use crate::index::{EntryRef, Index, IndexEntry, LiveRecords};
use crate::pins::{Pins, RetentionClass, WANTED, is_pinned};
use crate::recover::{HEAD, PIECE, PINNED};
use crate::zones::ZoneTally;

/// The index, the eviction policy and the pins of one shard.
pub(crate) struct ChunkStore {
    index: RefCell<Index>,
    policy: RefCell<Box<dyn Policy>>,
    pins: Pins,
}

/// Reinsertions: offsets of the victim's records that reclaim rewrites, in ascending order.
pub(crate) struct Reinsertions {
    /// Pinned records, which are rewritten regardless of the policy.
    pub(crate) pinned: Vec<u32>,
    pub(crate) by_policy: Vec<u32>,
}

impl ChunkStore {
    pub(crate) fn new(index: Index, policy: Box<dyn Policy>, pins: Pins) -> Self {
        Self { index: RefCell::new(index), policy: RefCell::new(policy), pins }
    }

    /// Restores a piece from the checkpoint: sets its mark, or removes it from the index if it was
    /// evicted.
    pub(crate) fn recall(&self, spot: &EntryRef, fact: &PieceState) {
        let mut index = self.index.borrow_mut();
        match fact.is_evicted {
            true => index.remove_spot(spot),
            false => index.set_mark(spot, fact.mark),
        }
    }

    /// Registers a recovered piece with the policy.
    pub(crate) fn tell_policy(&self, zone: ZoneId, at: u32, age: u64, now: Nanos) {
        let found = self.index.borrow().at(zone, at);
        self.policy.borrow_mut().on_found(&place(&found.spot()), (found.mark, age), now);
    }

    /// Returns the unpinned pieces of a zone.
    pub(crate) fn pieces(&self, zone: ZoneId) -> Vec<EntryRef> {
        let index = self.index.borrow();
        let pieces = index.zone_records(zone).filter(|found| found.kind == PIECE);
        pieces.map(|found| found.spot()).collect()
    }

    /// How much policy state is worth a checkpoint.
    pub(crate) fn knowledge(&self) -> PersistLevel {
        self.policy.borrow().knowledge()
    }

    pub(crate) fn zone_age(&self, zone: ZoneId) -> Option<Age> {
        self.policy.borrow().zone_age(zone).map(Age::new)
    }

    /// Collects the checkpoint facts of up to `limit` records of a zone. Paging works as in
    /// [`Index::look_through`].
    pub(crate) fn facts(
        &self,
        from: (ZoneId, u32),
        limit: usize,
        facts: &mut Vec<PieceState>,
        now: Nanos,
    ) -> Option<u32> {
        let policy = self.policy.borrow();
        self.index.borrow().look_through(from, limit, |found| {
            let place = place(&found.spot());
            let fact = PieceState {
                offset: found.extent.offset,
                mark: found.mark,
                is_evicted: !policy.holds(&place, found.mark),
                age: policy.age(&place, now).map(Age::new),
            };
            if found.kind == PIECE && fact.is_news() {
                facts.push(fact);
            }
        })
    }

    /// Counts the recovered pins of a zone, and releases those without room. All are released if no
    /// rule pins anything.
    pub(crate) fn count_pins(&self, zone: ZoneId) {
        let mut index = self.index.borrow_mut();
        let records = index.zone_records(zone);
        let pinned: Vec<IndexEntry> =
            records.filter(|found| is_pinned(found.kind, found.mark)).collect();
        for found in pinned {
            match self.pins.has_room_for_found(found.extent.len) {
                true => self.pins.add(&found.extent),
                false => set(&mut index, &found.spot(), usual(found.kind)),
            }
        }
    }

    /// Prefetches the CPU cache lines for a later [`ChunkStore::find`].
    pub(crate) fn prefetch(&self, key: Key) {
        self.index.borrow().prefetch(key);
    }

    /// Prefetches the CPU cache lines for a later [`ChunkStore::note_read`].
    pub(crate) fn prefetch_read(&self, spot: &EntryRef) {
        self.index.borrow().prefetch_spot(spot);
    }

    /// Looks up a record that may be read. Pieces that the policy has evicted are excluded.
    pub(crate) fn find(&self, key: Key) -> Option<IndexEntry> {
        let found = self.index.borrow().lookup(key)?;
        let is_held =
            found.kind != PIECE || self.policy.borrow().holds(&place(&found.spot()), found.mark);
        is_held.then_some(found)
    }

    /// True when [`ChunkStore::find`] finds the record.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.spot(key).is_some()
    }

    /// True when the record is a pinned piece.
    pub(crate) fn has_pinned(&self, key: Key) -> bool {
        self.index.borrow().glance(key).is_some_and(|(_, kind, _)| kind == PINNED)
    }

    fn spot(&self, key: Key) -> Option<EntryRef> {
        self.glance(key).map(|(spot, ..)| spot)
    }

    /// Like [`ChunkStore::find`], without checksums.
    fn glance(&self, key: Key) -> Option<(EntryRef, Kind, PolicyTag)> {
        let (spot, kind, mark) = self.index.borrow().glance(key)?;
        let is_held = kind != PIECE || self.policy.borrow().holds(&place(&spot), mark);
        is_held.then_some((spot, kind, mark))
    }

    /// Publishes a record that is on flash, and replaces the key's previous record. False when the
    /// zone's part of the index is full: then the record is not cached.
    pub(crate) fn publish(&self, key: Key, mut found: IndexEntry, now: Nanos) -> bool {
        let is_pinned = is_pinned(found.kind, found.mark);
        if is_pinned && !self.pins.has_room(found.extent.len) {
            (found.kind, found.mark) = usual(found.kind);
        }
        let inserted = self.index.borrow_mut().insert(key, &found);
        let Some(inserted) = inserted else { return false };
        self.note_gone(inserted.replaced.as_ref());
        self.note_pinned(&found);
        if found.kind == PIECE {
            let mut policy = self.policy.borrow_mut();
            policy.on_insert(&place(&inserted.spot), now);
            policy.evict();
        }
        true
    }

    /// Publishes a rewritten record at `to`, if the key still leads to `from`. Without room in the
    /// index the record is dropped.
    pub(crate) fn publish_moved(&self, key: Key, from: Extent, to: Extent, now: Nanos) {
        let mut index = self.index.borrow_mut();
        let Some(old) = index.remove_at(key, from) else { return };
        let mut moved = IndexEntry::new(to, old.kind, old.checks.clone());
        if old.kind == HEAD {
            moved.mark = old.mark;
        }
        let Some(inserted) = index.insert(key, &moved) else {
            drop(index);
            return self.note_gone(Some(&old));
        };
        let new = inserted.spot;
        if old.kind != PIECE {
            drop(index);
            self.note_pinned(&moved);
            return self.note_gone(Some(&old));
        }
        let mark =
            self.policy.borrow_mut().on_move(&place(&old.spot()), &place(&new), old.mark, now);
        index.set_mark(&new, mark);
    }

    /// Removes a record from the index. False when there was none.
    pub(crate) fn forget(&self, key: Key) -> bool {
        let gone = self.index.borrow_mut().remove(key);
        self.note_gone(gone.as_ref());
        gone.is_some()
    }

    /// Removes a record if it is still at `extent`: it may have been published anew meanwhile.
    pub(crate) fn forget_at(&self, key: Key, extent: Extent) {
        let gone = self.index.borrow_mut().remove_at(key, extent);
        self.note_gone(gone.as_ref());
    }

    /// Releases the pin of a piece, if it has one.
    pub(crate) fn release_pin(&self, key: Key, now: Nanos) {
        let known = self.index.borrow().glance(key).filter(|(_, kind, _)| *kind == PINNED);
        if let Some((spot, kind, mark)) = known {
            self.retention(&spot, (kind, mark), RetentionClass::Usual, now);
        }
    }

    /// Registers a read of a piece with the policy or its pin.
    pub(crate) fn note_read(&self, spot: &EntryRef, retention: RetentionClass, now: Nanos) {
        let mut index = self.index.borrow_mut();
        // Another read may have changed the mark. The piece may also be replaced, or its zone
        // reclaimed.
        let Some((kind, mark)) = index.kind_and_mark(spot) else { return };
        if kind == PINNED || retention == RetentionClass::Pinned {
            drop(index);
            return self.note_cared_for(spot, (kind, mark), retention, now);
        }
        let new = self.policy.borrow_mut().on_access(&place(spot), mark, now);
        if new != mark {
            index.set_mark(spot, new);
        }
    }

    /// Registers a DRAM hit of a piece that may be on flash, too. `spot` caches the piece's index
    /// entry, because an index lookup costs a cache miss. A stale `spot` is looked up again.
    pub(crate) fn note_read_elsewhere(
        &self,
        (key, spot): (Key, &mut Option<EntryRef>),
        retention: RetentionClass,
        now: Nanos,
    ) {
        if !spot.as_ref().is_some_and(|spot| self.is_held_at(spot)) {
            *spot = self.spot(key);
        }
        if let Some(spot) = spot {
            self.note_read(spot, retention, now);
        }
    }

    fn is_held_at(&self, spot: &EntryRef) -> bool {
        let known = self.index.borrow().kind_and_mark(spot);
        known.is_some_and(|(kind, mark)| {
            kind != PIECE || self.policy.borrow().holds(&place(spot), mark)
        })
    }

    /// Applies the reader's retention class: pins, or releases the pin. Without room for a pin, the
    /// read counts for the policy.
    fn note_cared_for(
        &self,
        spot: &EntryRef,
        (kind, mark): (Kind, PolicyTag),
        retention: RetentionClass,
        now: Nanos,
    ) {
        if !self.retention(spot, (kind, mark), retention, now) {
            let mark = self.policy.borrow_mut().on_access(&place(spot), mark, now);
            self.index.borrow_mut().set_mark(spot, mark);
        }
    }

    /// Pins a piece on flash, as far as there is room, or releases its pin. Does not count as a
    /// read.
    pub(crate) fn set_retention(&self, key: Key, retention: RetentionClass, now: Nanos) {
        let Some((spot, kind, mark)) = self.glance(key) else { return };
        if kind == PINNED || retention == RetentionClass::Pinned {
            self.retention(&spot, (kind, mark), retention, now);
        }
    }

    /// Pins a piece or releases its pin. False when there is no room for the pin.
    fn retention(
        &self,
        spot: &EntryRef,
        (kind, mark): (Kind, PolicyTag),
        retention: RetentionClass,
        now: Nanos,
    ) -> bool {
        let (mut index, mut policy) = (self.index.borrow_mut(), self.policy.borrow_mut());
        match (kind, retention) {
            (PINNED, RetentionClass::Pinned) => index.set_mark(spot, WANTED),
            (PINNED, _) => {
                self.pins.remove(&spot.extent);
                set(&mut index, spot, usual(kind));
                policy.on_insert(&place(spot), now);
            }
            _ if self.pins.has_room(spot.extent.len) => {
                policy.on_forget(&place(spot), mark);
                self.pins.add(&spot.extent);
                set(&mut index, spot, (PINNED, WANTED));
            }
            _ => return false,
        }
        true
    }

    /// Pins or releases the head of an object on flash, as its last request demands.
    pub(crate) fn note_asked(&self, key: Key, retention: RetentionClass) {
        let mut index = self.index.borrow_mut();
        let known = index.glance(key).filter(|(_, kind, _)| *kind == HEAD);
        let Some((spot, kind, mark)) = known else { return };
        match (is_pinned(kind, mark), retention == RetentionClass::Pinned) {
            (false, true) if self.pins.has_room(spot.extent.len) => {
                self.pins.add(&spot.extent);
                index.set_mark(&spot, WANTED);
            }
            (true, false) => {
                self.pins.remove(&spot.extent);
                index.set_mark(&spot, PolicyTag::default());
            }
            _ => {}
        }
    }

    /// Registers a sealed zone.
    pub(crate) fn seal(&self, zone: ZoneId, now: Nanos) {
        self.policy.borrow_mut().on_sealed(zone, now);
        self.index.borrow_mut().seal_zone(zone);
    }

    /// Asks the policy for the next victim.
    pub(crate) fn victim(&self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let mut policy = self.policy.borrow_mut();
        policy.evict();
        policy.victim(candidates)
    }

    /// The policy, for questions that change nothing.
    pub(crate) fn policy(&self) -> Ref<'_, Box<dyn Policy>> {
        self.policy.borrow()
    }

    /// Selects the records of a victim to rewrite. `pinned_max` limits the bytes rewritten for
    /// pins.
    pub(crate) fn wanted(&self, zone: ZoneId, pinned_max: Bytes) -> Reinsertions {
        let (index, mut policy) = (self.index.borrow(), self.policy.borrow_mut());
        let (mut pinned, mut by_policy, mut room) = (Vec::new(), Vec::new(), pinned_max.0);
        let are_short = self.pins.take_shortage();
        for found in index.zone_records(zone) {
            let len = u64::from(found.extent.len);
            match found.kind {
                PIECE if policy.keep(&place(&found.spot()), found.mark) == Reinsertion::Rewrite => {
                    by_policy.push(found.extent.offset);
                }
                HEAD | PINNED
                    if is_pinned(found.kind, found.mark)
                        && (!are_short || found.mark == WANTED)
                        && len <= room =>
                {
                    room -= len;
                    pinned.push(found.extent.offset);
                }
                _ => {}
            }
        }
        pinned.sort_unstable();
        by_policy.sort_unstable();
        Reinsertions { pinned, by_policy }
    }

    /// Number and bytes of a zone's records that are in the index.
    pub(crate) fn live_records(&self, zone: ZoneId) -> LiveRecords {
        self.index.borrow().live_records(zone)
    }

    /// A zone's records that are in the index, by what they are.
    pub(crate) fn tally(&self, zone: ZoneId) -> ZoneTally {
        let (index, policy) = (self.index.borrow(), self.policy.borrow());
        let mut tally = ZoneTally::default();
        for found in index.zone_records(zone) {
            let of = match found.kind {
                HEAD => &mut tally.heads,
                PIECE if !policy.holds(&place(&found.spot()), found.mark) => &mut tally.evicted,
                _ => &mut tally.pieces,
            };
            of.add(found.extent.len);
            if is_pinned(found.kind, found.mark) {
                tally.pinned.add(found.extent.len);
            }
        }
        tally
    }

    /// Pinned bytes of a zone.
    pub(crate) fn pinned_of(&self, zone: ZoneId) -> Bytes {
        self.pins.of_zone(zone)
    }

    /// Pinned bytes of all zones.
    pub(crate) const fn pinned(&self) -> Bytes {
        self.pins.total()
    }

    /// Upper limit of pinned bytes.
    pub(crate) const fn pinned_max(&self) -> Bytes {
        self.pins.most()
    }

    /// Bytes that should have been pinned but found no room.
    pub(crate) const fn unpinned(&self) -> Bytes {
        self.pins.refused()
    }

    /// True when `len` more bytes may be pinned.
    pub(crate) fn has_room_for_pin(&self, len: u32) -> bool {
        self.pins.has_room(len)
    }

    /// Removes up to `limit` records of a zone from the index. Returns whether more are left. Calls
    /// `forgotten` with each record and the hash of its key.
    pub(crate) fn drain(
        &self,
        zone: ZoneId,
        limit: usize,
        mut forgotten: impl FnMut(&IndexEntry, u64),
    ) -> bool {
        let mut policy = self.policy.borrow_mut();
        let forget = |found: IndexEntry, hash: u64| {
            if found.kind == PIECE {
                policy.on_forget(&place(&found.spot()), found.mark);
            } else if is_pinned(found.kind, found.mark) {
                self.pins.remove(&found.extent);
            }
            forgotten(&found, hash);
        };
        self.index.borrow_mut().drain_zone(zone, limit, forget)
    }

    /// Registers an emptied zone with the policy. Requires: [`ChunkStore::drain`] left nothing.
    pub(crate) fn note_emptied(&self, zone: ZoneId) {
        self.policy.borrow_mut().on_emptied(zone);
    }

    /// Key hashes of a zone's records of one kind.
    pub(crate) fn hashes(&self, zone: ZoneId, kind: Kind) -> Vec<u64> {
        self.index.borrow().zone_hashes(zone, kind).collect()
    }

    pub(crate) fn record_count(&self) -> u64 {
        self.index.borrow().record_count()
    }

    /// Number of records that [`ChunkStore::find`] finds.
    pub(crate) fn held_count(&self) -> u64 {
        let (index, policy) = (self.index.borrow(), self.policy.borrow());
        let is_held = |found: &IndexEntry| {
            found.kind != PIECE || policy.holds(&place(&found.spot()), found.mark)
        };
        let of_zone = |zone| index.zone_records(zone).filter(is_held).count();
        (0..index.zone_count()).map(|zone| of_zone(ZoneId(zone)) as u64).sum()
    }

    /// Memory of the index, in bytes.
    pub(crate) fn memory(&self) -> Bytes {
        self.index.borrow().memory()
    }

    fn note_gone(&self, gone: Option<&IndexEntry>) {
        let Some(found) = gone else { return };
        if found.kind == PIECE {
            self.policy.borrow_mut().on_forget(&place(&found.spot()), found.mark);
        } else if is_pinned(found.kind, found.mark) {
            self.pins.remove(&found.extent);
        }
    }

    fn note_pinned(&self, found: &IndexEntry) {
        if is_pinned(found.kind, found.mark) {
            self.pins.add(&found.extent);
        }
    }
}

/// Kind and mark of a record without its pin.
fn usual(kind: Kind) -> (Kind, PolicyTag) {
    (if kind == PINNED { PIECE } else { kind }, PolicyTag::default())
}

fn set(index: &mut Index, spot: &EntryRef, (kind, mark): (Kind, PolicyTag)) {
    index.set_kind(spot, kind);
    index.set_mark(spot, mark);
}

const fn place(spot: &EntryRef) -> ChunkLocation {
    ChunkLocation {
        zone: spot.extent.zone,
        number: spot.number(),
        offset: Bytes(spot.extent.byte_offset()),
        len: Bytes(spot.extent.len as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::{BLOCK_BYTES, Blocks, low_u32};
    use zonal_policy::{Layout, Spec};

    const NOW: Nanos = Nanos(0);

    fn two_zones() -> ChunkStore {
        let capacity = Blocks(256);
        let layout = Layout { zone_count: 2, zone_capacity: capacity.bytes(), busy_zones: 0 };
        let spec: Spec = "zone-lru".parse().expect("a policy of ours");
        let policy = spec.rules(&layout, Bytes(0)).policy;
        ChunkStore::new(Index::new(2, capacity), policy, Pins::new(&layout, 0))
    }

    fn block_of(zone: u32) -> Extent {
        Extent { zone: ZoneId(zone), offset: 0, len: low_u32(BLOCK_BYTES) }
    }

    #[test]
    fn a_read_from_memory_counts_where_the_piece_is_on_flash_by_now() {
        let (holdings, key, mut spot) = (two_zones(), Key(7), None);
        let mut read_from_memory = || {
            holdings.note_read_elsewhere((key, &mut spot), RetentionClass::Usual, NOW);
            let last =
                (0..2).find(|zone| holdings.policy.borrow().zone_age(ZoneId(*zone)) == Some(0));
            (spot.map(|spot: EntryRef| spot.extent), last)
        };
        holdings.seal(ZoneId(0), NOW);
        holdings.seal(ZoneId(1), NOW);
        assert_eq!(read_from_memory(), (None, Some(1)), "it is not on flash");
        let found = IndexEntry::new(block_of(0), PIECE, [1].into_iter().collect());
        assert!(holdings.publish(key, found, NOW));
        for _ in 0..2 {
            assert_eq!(read_from_memory(), (Some(block_of(0)), Some(0)));
        }
        holdings.publish_moved(key, block_of(0), block_of(1), NOW);
        assert_eq!(read_from_memory(), (Some(block_of(1)), Some(1)));
        holdings.seal(ZoneId(0), NOW);
        assert!(holdings.forget(key));
        assert_eq!(read_from_memory(), (None, Some(0)));
    }
}
