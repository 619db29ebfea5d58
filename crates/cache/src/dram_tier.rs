//! DRAM tier: chunks that wait for admission (S3-FIFO small queue), and hot chunks that stay in
//! memory as well (main queue).
//!
//! Each chunk has memory of its own, not a pool buffer: it may stay for long, and the memory bound
//! is exact. An entry matches only the very head (by address) under which it was fetched. So after
//! a removal a later head does not find older chunks, even with the same ETag.

use alloc::rc::Rc;
use alloc::sync::Arc;

use hashbrown::hash_map::Entry;
use zonal_base::{Bytes, Payload};
use zonal_policy::{MainQueue, Means, SmallQueue, Verdict};
use zonal_zonelog::Key;

use crate::Head;
use crate::fetch::FillPiece;
use crate::index::{EntryRef, chunk_id};
use crate::prehashed_map::PrehashedMap;

/// DRAM tier of one shard.
pub(crate) struct DramTier {
    probation: Option<SmallQueue>,
    hot: Option<MainQueue>,
    held: PrehashedMap<u64, MemoryEntry>,
    held_bytes: Bytes,
    /// Memory of the last evicted chunk, reused for the next one.
    spare: Option<Payload>,
}

struct MemoryEntry {
    key: Key,
    head: Arc<Head>,
    /// Bytes of the chunk. A chunk that may still go to flash is padded with zeros to a whole
    /// block.
    data: Payload,
    /// The piece, while it waits for admission and was not offered to flash.
    waiting: Option<Rc<FillPiece>>,
    /// Last known index entry of the flash copy.
    spot: Option<EntryRef>,
}

/// Overhead per chunk in bytes, estimated: its piece, its share of the head, and table and queue
/// entries.
const ENTRY: Bytes = Bytes(512);

impl MemoryEntry {
    fn is(&self, key: Key, head: &Head) -> bool {
        self.key == key && core::ptr::eq(Arc::as_ptr(&self.head), head)
    }

    fn takes(&self) -> Bytes {
        Bytes(self.data.len() as u64) + ENTRY
    }
}

impl DramTier {
    pub(crate) fn new(probation: Option<SmallQueue>, hot: Option<MainQueue>) -> Self {
        let (held, held_bytes) = (PrehashedMap::default(), Bytes(0));
        Self { probation, hot, held, held_bytes, spare: None }
    }

    /// Starts admission control: flash is full, so not every chunk is written any more.
    pub(crate) fn note_full_flash(&mut self) {
        self.probation.iter_mut().for_each(SmallQueue::note_full_flash);
    }

    /// Asks the small queue for a verdict on a missed chunk, given the write budget.
    pub(crate) fn miss(&mut self, key: Key, len: Bytes, means: Means) -> Verdict {
        let miss = |probation: &mut SmallQueue| probation.miss(chunk_id(key), len, means);
        self.probation.as_mut().map_or(Verdict::Admit, miss)
    }

    pub(crate) fn has(&self, key: Key, head: &Head) -> bool {
        self.find(key, head).is_some()
    }

    /// Returns the entry that [`DramTier::read`] would return, without counting a read.
    pub(crate) fn look_at(&self, key: Key, head: &Head) -> Option<(&Payload, Option<EntryRef>)> {
        self.find(key, head).map(|held| (&held.data, held.spot))
    }

    fn find(&self, key: Key, head: &Head) -> Option<&MemoryEntry> {
        // Fast path: every read comes here, even when no memory is configured for chunks. Skips the
        // hash.
        if self.held.is_empty() {
            return None;
        }
        self.held.get(&chunk_id(key)).filter(|held| held.is(key, head))
    }

    /// Returns the bytes of a chunk and its last known index entry, and counts the read.
    pub(crate) fn read(
        &mut self,
        key: Key,
        head: &Head,
    ) -> Option<(Payload, &mut Option<EntryRef>)> {
        if self.held.is_empty() {
            return None;
        }
        let id = chunk_id(key);
        let held = self.held.get_mut(&id).filter(|held| held.is(key, head))?;
        // The chunk is in one of the two queues.
        let is_hot = self.hot.as_mut().is_some_and(|hot| hot.read(id));
        if !is_hot && let Some(probation) = &mut self.probation {
            probation.read(id);
        }
        Some((held.data.clone(), &mut held.spot))
    }

    /// Returns the piece if it waits for admission and was not offered to flash.
    pub(crate) fn waiting(&self, key: Key, head: &Head) -> Option<Rc<FillPiece>> {
        self.find(key, head)?.waiting.clone()
    }

    /// Marks a waiting chunk as offered to flash early. It stays in memory until its turn.
    pub(crate) fn note_offered(&mut self, key: Key) {
        if let Some(held) = self.held.get_mut(&chunk_id(key)) {
            held.waiting = None;
        }
    }

    /// Adds a complete chunk for which [`DramTier::miss`] returned `Wait`. The chunk moves out of the
    /// buffer pool.
    pub(crate) fn wait(&mut self, piece: &Rc<FillPiece>) {
        let Some(data) = piece.move_to_own_memory(self.spare.take()) else { return };
        let (head, waiting) = (piece.head().clone(), Some(piece.clone()));
        let held = MemoryEntry { key: piece.key, head, data, waiting, spot: None };
        if let (Some(takes), Some(probation)) = (self.hold(held), &mut self.probation) {
            probation.wait(chunk_id(piece.key), takes, piece.was_joined());
        }
    }

    /// True when a whole chunk that was read from flash is worth a copy for [`DramTier::keep`].
    pub(crate) fn wants(&mut self, key: Key, len: Bytes) -> bool {
        self.hot.as_mut().is_some_and(|hot| hot.wants(chunk_id(key), len))
    }

    /// Adds a copy of a chunk that is on flash at `spot`.
    pub(crate) fn keep(&mut self, (key, spot): (Key, EntryRef), head: &Arc<Head>, data: &Payload) {
        let data = data.to_own_memory(self.spare.take());
        let held = MemoryEntry { key, head: head.clone(), data, waiting: None, spot: Some(spot) };
        if let Some(takes) = self.hold(held)
            && !self.hot.as_mut().is_some_and(|hot| hot.insert(chunk_id(key), takes))
        {
            self.drop_held(chunk_id(key));
        }
        self.drop_cold();
    }

    /// Inserts an entry. Returns its size if the chunk is new. A chunk that came under another head
    /// is only replaced: it already has its place in a queue.
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

    /// Takes the next chunk to evict from the small queue while it is over its limit, with the
    /// verdict whether it is worth a flash write.
    pub(crate) fn leave(&mut self) -> Option<(Rc<FillPiece>, Verdict)> {
        self.end_waiting(SmallQueue::leave)
    }

    /// Like [`DramTier::leave`], at a graceful stop: empties the queue.
    pub(crate) fn leave_at_end(&mut self) -> Option<(Rc<FillPiece>, Verdict)> {
        self.end_waiting(SmallQueue::leave_at_end)
    }

    fn end_waiting(
        &mut self,
        next: impl Fn(&mut SmallQueue) -> Option<(u64, Bytes, Verdict)>,
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

    /// Evicts cold chunks of the hot set. They need no write: they are on flash.
    fn drop_cold(&mut self) {
        while let Some(id) = self.hot.as_mut().and_then(MainQueue::leave) {
            self.drop_held(id);
        }
    }

    fn drop_held(&mut self, id: u64) {
        if let Some(held) = self.held.remove(&id) {
            self.held_bytes = Bytes(self.held_bytes.0 - held.takes().0);
            self.spare = Some(held.data);
        }
    }

    /// Memory of all chunks, overhead included.
    pub(crate) const fn held_bytes(&self) -> Bytes {
        self.held_bytes
    }
}
