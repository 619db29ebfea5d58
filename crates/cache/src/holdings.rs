//! What lies on flash: where the index finds it, and what the policy thinks of it.
//!
//! Every change goes through here, so that the two never disagree: what the index knows of pieces, the policy
//! was told, and told once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;

use zonal_base::{Bytes, Nanos, ZoneId};
use zonal_policy::{Keep, Place, Policy, ZoneFacts};
use zonal_zonelog::{Extent, Key};

use crate::index::{Found, Index, Spot};
use crate::recover::PIECE;

/// See the module.
pub(crate) struct Holdings {
    index: RefCell<Index>,
    policy: RefCell<Box<dyn Policy>>,
}

impl Holdings {
    pub(crate) fn new(index: Index, policy: Box<dyn Policy>) -> Self {
        Self { index: RefCell::new(index), policy: RefCell::new(policy) }
    }

    /// After a start: tells the policy of everything that is there. `full` are the zones that take no more, in
    /// the order in which they were opened; the others come after them.
    pub(crate) fn tell_policy(&self, zone_count: u32, full: &[ZoneId], now: Nanos) {
        let open = (0..zone_count).map(ZoneId).filter(|zone| !full.contains(zone));
        for zone in full.iter().copied().chain(open) {
            let mut policy = self.policy.borrow_mut();
            let index = self.index.borrow();
            let pieces = index.zone_records(zone).filter(|found| found.kind == PIECE);
            pieces.for_each(|found| policy.on_insert(&place(&found.spot()), now));
        }
        full.iter().for_each(|zone| self.seal(*zone, now));
    }

    /// Where a record lies, if it may be read.
    pub(crate) fn find(&self, key: Key) -> Option<Found> {
        let found = self.index.borrow().lookup(key)?;
        let is_held =
            found.kind != PIECE || self.policy.borrow().holds(&place(&found.spot()), found.mark);
        is_held.then_some(found)
    }

    /// True when [`Holdings::find`] finds it.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.spot(key).is_some()
    }

    fn spot(&self, key: Key) -> Option<Spot> {
        let (spot, kind, mark) = self.index.borrow().glance(key)?;
        let is_held = kind != PIECE || self.policy.borrow().holds(&place(&spot), mark);
        is_held.then_some(spot)
    }

    /// A record is on flash, and takes the place of what its key led to before. False when its zone has no more
    /// room in the index: then the record stays unknown.
    pub(crate) fn publish(&self, key: Key, found: &Found, now: Nanos) -> bool {
        let inserted = self.index.borrow_mut().insert(key, found);
        let Some(inserted) = inserted else { return false };
        self.note_gone(inserted.replaced.as_ref());
        if found.kind == PIECE {
            let mut policy = self.policy.borrow_mut();
            policy.on_insert(&place(&inserted.spot), now);
            policy.evict();
        }
        true
    }

    /// A piece was written again: it lies at `to` if it still was at `from`, and is unknown if there is no room
    /// for it.
    pub(crate) fn publish_moved(&self, key: Key, from: Extent, to: Extent, now: Nanos) {
        let mut index = self.index.borrow_mut();
        let Some(old) = index.remove_at(key, from) else { return };
        let moved = Found::new(to, old.kind, old.checks.clone());
        let Some(inserted) = index.insert(key, &moved) else {
            drop(index);
            return self.note_gone(Some(&old));
        };
        let new = inserted.spot;
        let mark =
            self.policy.borrow_mut().on_move(&place(&old.spot()), &place(&new), old.mark, now);
        index.set_mark(&new, mark);
    }

    /// Forgets a record, wherever it is. False when there was none.
    pub(crate) fn forget(&self, key: Key) -> bool {
        let gone = self.index.borrow_mut().remove(key);
        self.note_gone(gone.as_ref());
        gone.is_some()
    }

    /// Forgets a record if it still lies there: it may have been published anew meanwhile.
    pub(crate) fn forget_at(&self, key: Key, extent: Extent) {
        let gone = self.index.borrow_mut().remove_at(key, extent);
        self.note_gone(gone.as_ref());
    }

    /// A piece was read from flash.
    pub(crate) fn note_read(&self, spot: &Spot, now: Nanos) {
        let mut index = self.index.borrow_mut();
        // Others may have read it meanwhile, or it was replaced, or its zone is about to be emptied.
        let Some(mark) = index.mark(spot) else { return };
        let new = self.policy.borrow_mut().on_access(&place(spot), mark, now);
        if new != mark {
            index.set_mark(spot, new);
        }
    }

    /// A piece was read from memory, which may be on flash, too.
    pub(crate) fn note_read_elsewhere(&self, key: Key, now: Nanos) {
        if let Some(spot) = self.spot(key) {
            self.note_read(&spot, now);
        }
    }

    /// A zone takes no more records.
    pub(crate) fn seal(&self, zone: ZoneId, now: Nanos) {
        self.policy.borrow_mut().on_sealed(zone, now);
        self.index.borrow_mut().seal_zone(zone);
    }

    /// The zone to empty next.
    pub(crate) fn victim(&self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let mut policy = self.policy.borrow_mut();
        policy.evict();
        policy.victim(candidates)
    }

    /// Offsets of the pieces of a victim that are worth another write, in order.
    pub(crate) fn wanted(&self, zone: ZoneId) -> Vec<u32> {
        let (index, mut policy) = (self.index.borrow(), self.policy.borrow_mut());
        let pieces = index.zone_records(zone).filter(|found| found.kind == PIECE);
        let wanted =
            pieces.filter(|found| policy.keep(&place(&found.spot()), found.mark) == Keep::Rewrite);
        let mut wanted: Vec<u32> = wanted.map(|found| found.extent.offset).collect();
        wanted.sort_unstable();
        wanted
    }

    /// Forgets up to `limit` records of a zone and says whether more are left. They are told to `forgotten`, with
    /// the hashes of their keys.
    pub(crate) fn drain(
        &self,
        zone: ZoneId,
        limit: usize,
        mut forgotten: impl FnMut(&Found, u64),
    ) -> bool {
        let mut policy = self.policy.borrow_mut();
        let forget = |found: Found, hash: u64| {
            if found.kind == PIECE {
                policy.on_forget(&place(&found.spot()), found.mark);
            }
            forgotten(&found, hash);
        };
        self.index.borrow_mut().drain_zone(zone, limit, forget)
    }

    /// Requires: [`Holdings::drain`] left nothing.
    pub(crate) fn note_emptied(&self, zone: ZoneId) {
        self.policy.borrow_mut().on_emptied(zone);
    }

    /// Hashes of the keys of a zone's records of this kind.
    pub(crate) fn hashes(&self, zone: ZoneId, kind: zonal_zonelog::Kind) -> Vec<u64> {
        self.index.borrow().zone_hashes(zone, kind).collect()
    }

    pub(crate) fn record_count(&self) -> u64 {
        self.index.borrow().record_count()
    }

    /// Memory that the index takes.
    pub(crate) fn memory(&self) -> Bytes {
        self.index.borrow().memory()
    }

    fn note_gone(&self, gone: Option<&Found>) {
        if let Some(found) = gone.filter(|found| found.kind == PIECE) {
            self.policy.borrow_mut().on_forget(&place(&found.spot()), found.mark);
        }
    }
}

const fn place(spot: &Spot) -> Place {
    Place {
        zone: spot.extent.zone,
        number: spot.number(),
        offset: Bytes(spot.extent.byte_offset()),
        len: Bytes(spot.extent.len as u64),
    }
}
