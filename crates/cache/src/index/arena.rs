//! Entry arena: the packed index entries of one zone, in the order in which they were published.

use alloc::vec::Vec;

use zonal_base::{ZoneId, low_u32, prefetch_cacheline};
use zonal_policy::PolicyTag;
use zonal_zonelog::Kind;

use super::entry;
use super::{EntryPosition, EntryRef, IndexEntry};

/// Growth step of an open zone's arena: 4096 bytes, or an eighth of the arena when that is more.
/// Doubling would leave half of the arena unused, and each growth copies all of it. A sealed zone
/// returns unused memory.
const GROWTH_BYTES: usize = 4096;

#[derive(Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    /// Byte position of the walk of [`Arena::next_to_drain`].
    drained: usize,
    /// Entries that were not removed.
    live: LiveRecords,
    /// Number of times that the arena was emptied, so that stale references are detected.
    round: u32,
}

/// Records of a zone that are in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveRecords {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

impl Arena {
    pub(crate) const fn live(&self) -> LiveRecords {
        self.live
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn stand(&self, at: usize) -> EntryPosition {
        EntryPosition { at: low_u32(at), round: self.round }
    }

    /// Requires: [`Arena::next_to_drain`] has no more.
    pub(crate) fn empty(&mut self) {
        *self = Self { round: self.round.wrapping_add(1), ..Self::default() };
    }

    pub(crate) fn push(&mut self, hash: u64, found: &IndexEntry) -> usize {
        let mut bytes = [0; entry::ENTRY_BYTES_MAX];
        let len = entry::encode(hash, found, &mut bytes);
        if self.bytes.capacity() < self.bytes.len() + len {
            self.bytes.reserve_exact(GROWTH_BYTES.max(self.bytes.len() / 8));
        }
        self.bytes.extend_from_slice(&bytes[..len]);
        self.live.count += 1;
        self.live.bytes += u64::from(found.extent.len);
        self.bytes.len() - len
    }

    /// Returns the hash bits that the entry stores.
    pub(crate) fn rest(&self, at: usize) -> u64 {
        entry::decode_rest(&self.bytes[at..])
    }

    pub(crate) fn get(&self, zone: ZoneId, at: usize) -> IndexEntry {
        entry::decode((zone, self.stand(at)), &self.bytes[at..])
    }

    pub(crate) fn glance(&self, zone: ZoneId, at: usize) -> (EntryRef, Kind, PolicyTag) {
        entry::glance((zone, self.stand(at)), &self.bytes[at..])
    }

    /// Prefetches the CPU cache line of an entry.
    pub(super) fn prefetch(&self, EntryPosition { at, .. }: EntryPosition) {
        prefetch_cacheline(
            self.bytes.get(at as usize..).and_then(|bytes| bytes.get(..1)).unwrap_or_default(),
        );
    }

    /// Hash bits of the entries that [`Arena::next_to_drain`] comes to, removed entries included.
    pub(crate) fn rests_to_drain(&self) -> impl Iterator<Item = u64> + '_ {
        let mut next = self.drained;
        core::iter::from_fn(move || {
            let bytes = self.bytes.get(next..).filter(|bytes| !bytes.is_empty())?;
            next += entry::size(bytes);
            Some(entry::decode_rest(bytes))
        })
    }

    /// Removes an entry. Requires: it was not removed before.
    pub(crate) fn kill(&mut self, at: usize) {
        self.live.count -= 1;
        self.live.bytes -= u64::from(entry::record_len(&self.bytes[at..]));
        entry::forget(&mut self.bytes[at..]);
    }

    /// Removes and returns the next live entry, with its position and its stored hash bits.
    pub(crate) fn next_to_drain(&mut self, zone: ZoneId) -> Option<(usize, u64, IndexEntry)> {
        while self.drained < self.bytes.len() {
            let at = self.drained;
            self.drained += entry::size(&self.bytes[at..]);
            if !entry::is_forgotten(&self.bytes[at..]) {
                self.kill(at);
                return Some((at, self.rest(at), self.get(zone, at)));
            }
        }
        None
    }

    /// Live entries, with their positions and stored hash bits.
    pub(crate) fn iter(&self, zone: ZoneId) -> impl Iterator<Item = (usize, u64, IndexEntry)> + '_ {
        self.iter_from(zone, 0)
    }

    /// Live entries from position `from` on, which must be the start of an entry or the end of the
    /// arena.
    pub(crate) fn iter_from(
        &self,
        zone: ZoneId,
        from: usize,
    ) -> impl Iterator<Item = (usize, u64, IndexEntry)> + '_ {
        let mut next = from;
        let entries = core::iter::from_fn(move || {
            let (at, bytes) = (next, self.bytes.get(next..).filter(|bytes| !bytes.is_empty())?);
            next += entry::size(bytes);
            Some((at, bytes))
        });
        let live = entries.filter(|(_, bytes)| !entry::is_forgotten(bytes));
        live.map(move |(at, bytes)| (at, entry::decode_rest(bytes), self.get(zone, at)))
    }

    /// Position of the next entry.
    pub(crate) fn behind(&self, at: usize) -> usize {
        at + entry::size(&self.bytes[at..])
    }

    /// Kind and mark of an entry. `None` when the entry was removed, or its zone emptied.
    pub(super) fn kind_and_mark(
        &self,
        EntryPosition { at, round }: EntryPosition,
    ) -> Option<(Kind, PolicyTag)> {
        let bytes = self.bytes.get(at as usize..).filter(|bytes| !bytes.is_empty())?;
        let is_there = round == self.round && !entry::is_forgotten(bytes);
        is_there.then(|| (entry::kind(bytes), entry::mark(bytes)))
    }

    pub(super) fn set_kind(&mut self, stand: EntryPosition, kind: Kind) {
        assert_eq!(stand.round, self.round, "the entry is there");
        entry::set_kind(&mut self.bytes[stand.at as usize..], kind);
    }

    pub(super) fn set_mark(&mut self, stand: EntryPosition, mark: PolicyTag) {
        assert_eq!(stand.round, self.round, "the entry is there");
        entry::set_mark(&mut self.bytes[stand.at as usize..], mark);
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}
