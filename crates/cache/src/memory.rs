//! DRAM tier: chunks that wait for admission (S3-FIFO small queue), and hot chunks that stay in memory as well (main
//! queue).
//!
//! Each lies in memory of its own, not in a buffer of the pool: it may stay for long, and the bound on what stays is
//! exact. A chunk is known by the very head under which it came, not by its key alone: once an object was removed, a
//! later head, also one of the same version, finds nothing of what came before.

use alloc::rc::Rc;
use alloc::sync::Arc;

use hashbrown::hash_map::Entry;
use zonal_base::{Bytes, Payload};
use zonal_policy::{Hot, Means, Probation, Verdict};
use zonal_zonelog::Key;

use crate::Head;
use crate::fetch::FillPiece;
use crate::hashed::Hashed;
use crate::index::{Spot, chunk_id};

/// See the module.
pub(crate) struct Memory {
    probation: Option<Probation>,
    hot: Option<Hot>,
    held: Hashed<u64, MemoryEntry>,
    held_bytes: Bytes,
    /// What left last: the next one goes where it was.
    spare: Option<Payload>,
}

struct MemoryEntry {
    key: Key,
    head: Arc<Head>,
    /// The chunk, and behind it zeros to the end of its last block if it may still go to flash.
    data: Payload,
    /// It waits, and was not offered to flash yet.
    waiting: Option<Rc<FillPiece>>,
    /// Where it is on flash, as far as somebody has looked.
    spot: Option<Spot>,
}

/// What a chunk takes besides its bytes, about: its piece, its head's share, and its places in tables and queues.
const ENTRY: Bytes = Bytes(512);

impl MemoryEntry {
    fn is(&self, key: Key, head: &Head) -> bool {
        self.key == key && core::ptr::eq(Arc::as_ptr(&self.head), head)
    }

    fn takes(&self) -> Bytes {
        Bytes(self.data.len() as u64) + ENTRY
    }
}

impl Memory {
    pub(crate) fn new(probation: Option<Probation>, hot: Option<Hot>) -> Self {
        let (held, held_bytes) = (Hashed::default(), Bytes(0));
        Self { probation, hot, held, held_bytes, spare: None }
    }

    /// From now on not everything is wanted on flash.
    pub(crate) fn note_full_flash(&mut self) {
        self.probation.iter_mut().for_each(Probation::note_full_flash);
    }

    /// What a missed chunk is worth, while so much may be written.
    pub(crate) fn miss(&mut self, key: Key, len: Bytes, means: Means) -> Verdict {
        let miss = |probation: &mut Probation| probation.miss(chunk_id(key), len, means);
        self.probation.as_mut().map_or(Verdict::Admit, miss)
    }

    pub(crate) fn has(&self, key: Key, head: &Head) -> bool {
        self.find(key, head).is_some()
    }

    /// What [`Memory::read`] will hand out.
    pub(crate) fn look_at(&self, key: Key, head: &Head) -> Option<(&Payload, Option<Spot>)> {
        self.find(key, head).map(|held| (&held.data, held.spot))
    }

    fn find(&self, key: Key, head: &Head) -> Option<&MemoryEntry> {
        // Every read asks, also where there is no memory for chunks: then not even a hash is made.
        if self.held.is_empty() {
            return None;
        }
        self.held.get(&chunk_id(key)).filter(|held| held.is(key, head))
    }

    /// The bytes of a chunk, which is remembered as read, and where it is on flash, as far as that is remembered.
    pub(crate) fn read(&mut self, key: Key, head: &Head) -> Option<(Payload, &mut Option<Spot>)> {
        if self.held.is_empty() {
            return None;
        }
        let id = chunk_id(key);
        let held = self.held.get_mut(&id).filter(|held| held.is(key, head))?;
        // It stands in one of the two queues.
        let is_hot = self.hot.as_mut().is_some_and(|hot| hot.read(id));
        if !is_hot && let Some(probation) = &mut self.probation {
            probation.read(id);
        }
        Some((held.data.clone(), &mut held.spot))
    }

    /// The chunk, if it waits and was not offered to flash yet.
    pub(crate) fn waiting(&self, key: Key, head: &Head) -> Option<Rc<FillPiece>> {
        self.find(key, head)?.waiting.clone()
    }

    /// It is offered to flash before its turn comes. Until then it stays.
    pub(crate) fn note_offered(&mut self, key: Key) {
        if let Some(held) = self.held.get_mut(&chunk_id(key)) {
            held.waiting = None;
        }
    }

    /// Takes in a chunk that [`Memory::miss`] told to wait, if it is complete. From now on it is in memory of its own.
    pub(crate) fn wait(&mut self, piece: &Rc<FillPiece>) {
        let Some(data) = piece.move_to_own_memory(self.spare.take()) else { return };
        let (head, waiting) = (piece.head().clone(), Some(piece.clone()));
        let held = MemoryEntry { key: piece.key, head, data, waiting, spot: None };
        if let (Some(takes), Some(probation)) = (self.hold(held), &mut self.probation) {
            probation.wait(chunk_id(piece.key), takes, piece.was_joined());
        }
    }

    /// Whether a whole chunk that was read from flash is worth a copy: [`Memory::keep`].
    pub(crate) fn wants(&mut self, key: Key, len: Bytes) -> bool {
        self.hot.as_mut().is_some_and(|hot| hot.wants(chunk_id(key), len))
    }

    /// Takes in a copy of a chunk that is on flash as well, at `spot`.
    pub(crate) fn keep(&mut self, (key, spot): (Key, Spot), head: &Arc<Head>, data: &Payload) {
        let data = data.to_own_memory(self.spare.take());
        let held = MemoryEntry { key, head: head.clone(), data, waiting: None, spot: Some(spot) };
        if let Some(takes) = self.hold(held)
            && !self.hot.as_mut().is_some_and(|hot| hot.insert(chunk_id(key), takes))
        {
            self.drop_held(chunk_id(key));
        }
        self.drop_cold();
    }

    /// What it takes, if it came in anew: otherwise it has its place in a queue, and is only replaced, because it came
    /// under another head.
    fn hold(&mut self, new: MemoryEntry) -> Option<Bytes> {
        let takes = new.takes();
        match self.held.entry(chunk_id(new.key)) {
            Entry::Vacant(entry) => {
                self.held_bytes += takes;
                entry.insert(new);
                return Some(takes);
            }
            Entry::Occupied(mut entry) if entry.get().takes() == takes => *entry.get_mut() = new,
            Entry::Occupied(_) => {}
        }
        None
    }

    /// Who has to leave, while more waits than fits: what is worth a flash write, and what is not.
    pub(crate) fn leave(&mut self) -> Option<(Rc<FillPiece>, Verdict)> {
        self.end_waiting(Probation::leave)
    }

    /// As [`Memory::leave`], at the end, when nobody waits any longer.
    pub(crate) fn leave_at_end(&mut self) -> Option<(Rc<FillPiece>, Verdict)> {
        self.end_waiting(Probation::leave_at_end)
    }

    fn end_waiting(
        &mut self,
        next: impl Fn(&mut Probation) -> Option<(u64, Bytes, Verdict)>,
    ) -> Option<(Rc<FillPiece>, Verdict)> {
        while let Some((id, takes, verdict)) = self.probation.as_mut().and_then(&next) {
            let waiting = self.held.get_mut(&id).and_then(|held| held.waiting.take());
            let is_hot = verdict == Verdict::Admit;
            if !(is_hot && self.hot.as_mut().is_some_and(|hot| hot.insert(id, takes))) {
                self.drop_held(id);
            }
            self.drop_cold();
            if let Some(piece) = waiting {
                return Some((piece, verdict));
            }
        }
        None
    }

    /// What is only here because it was read often goes without a word: it is on flash.
    fn drop_cold(&mut self) {
        while let Some(id) = self.hot.as_mut().and_then(Hot::leave) {
            self.drop_held(id);
        }
    }

    fn drop_held(&mut self, id: u64) {
        if let Some(held) = self.held.remove(&id) {
            self.held_bytes = Bytes(self.held_bytes.0 - held.takes().0);
            self.spare = Some(held.data);
        }
    }

    /// What all chunks here take.
    pub(crate) const fn held_bytes(&self) -> Bytes {
        self.held_bytes
    }
}
