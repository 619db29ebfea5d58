//! L2P map: the physical address and the checksum of each block of each export.
//!
//! The flat map takes 8 bytes for each block of an export, or 4 if the export is not verified, in
//! memory that is touched when the block is first written. 1 TiB of written blocks takes 2 GiB.
//! Where that is too much, the map is paged (`paged`) and most of it lies on flash.

mod entry;
mod paged;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::index;

pub(crate) use entry::{EntryForm, MapEntry};
pub(crate) use paged::{
    Merge, PAGE_BLOCKS_MIN, Page, PageId, Paged, Switched, page_check, page_count,
};

use crate::format::{EntryKind, Key};
use crate::layout::{Layout, PhysAddr};
use crate::{Export, ExportId, Settings};

/// The L2P map of all exports.
pub(crate) struct Map {
    places: Places,
    /// Addresses of metadata blocks: trim bitmaps, the export table and parts of the zone table.
    metadata: BTreeMap<Key, PhysAddr>,
    /// Sequences of the metadata blocks in `metadata`. A newly written version must win over a moved
    /// copy.
    sequences: BTreeMap<Key, u64>,
    /// Data blocks that return errors. Expected to be few: a device with many bad blocks is
    /// replaced.
    lost: BTreeSet<Key>,
}

/// Entries of data blocks.
enum Places {
    Flat(Vec<FlatExport>),
    Paged(Paged),
}

/// Entries of one export, by block number.
struct FlatExport {
    spots: Vec<PhysAddr>,
    /// Empty if the export is not verified.
    checks: Vec<u32>,
}

/// Map entry of a block before a change.
#[derive(Clone, Copy)]
pub(crate) struct PreviousEntry {
    /// Address that is dead now. [`PhysAddr::NONE`] if there is none, or if it is on an unread map
    /// page.
    pub(crate) spot: PhysAddr,
    /// True if the block held data. An entry on an unread map page counts as data until a merge
    /// corrects it.
    pub(crate) is_mapped: bool,
}

impl PreviousEntry {
    const fn known(spot: PhysAddr) -> Self {
        Self { spot, is_mapped: spot.0 != PhysAddr::NONE.0 }
    }
}

impl Map {
    /// Flat if that fits the configured memory, otherwise paged.
    pub(crate) fn new(layout: &Layout, settings: &Settings, exports: &[Export]) -> Self {
        let places = match settings.paged_memory(layout, exports) {
            None => Places::Flat(exports.iter().map(FlatExport::new).collect()),
            Some(memory) => Places::Paged(Paged::new(layout, exports, memory)),
        };
        Self {
            places,
            metadata: BTreeMap::new(),
            sequences: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    pub(crate) fn paged(&self) -> Option<&Paged> {
        match &self.places {
            Places::Flat(_) => None,
            Places::Paged(paged) => Some(paged),
        }
    }

    pub(crate) fn paged_mut(&mut self) -> Option<&mut Paged> {
        match &mut self.places {
            Places::Flat(_) => None,
            Places::Paged(paged) => Some(paged),
        }
    }

    /// Address of a trim bitmap, the export table or a part of the zone table.
    pub(crate) fn metadata(&self, key: Key) -> PhysAddr {
        self.metadata.get(&key).copied().unwrap_or_default()
    }

    /// Entry of a data block, or the map page that must be read to know it. `held`: pages already
    /// read. Requires: the key belongs to one of these exports.
    pub(crate) fn look(&mut self, key: Key, held: &[Rc<Page>]) -> Result<MapEntry, PageId> {
        let (export, number) = (usize::from(key.export().0), key.number());
        match &mut self.places {
            Places::Flat(exports) => Ok(exports[export].entry(index(number))),
            Places::Paged(paged) => paged.look(export, number, held),
        }
    }

    /// True if the map names `from` for this key, so that the block is live. For movers, which know
    /// the address. The second value is an address found dead by this query: the paged map had not
    /// yet known that a newer entry overrides it. The caller must count it as dead.
    pub(crate) fn still_names(&mut self, key: Key, from: PhysAddr) -> (bool, PhysAddr) {
        if !is_users(key) {
            return (self.metadata(key) == from, PhysAddr::NONE);
        }
        let (export, number) = (usize::from(key.export().0), key.number());
        match &mut self.places {
            Places::Flat(exports) => (exports[export].spots[index(number)] == from, PhysAddr::NONE),
            Places::Paged(paged) => paged.still_names(export, number, from),
        }
    }

    /// Sets the entry of a key. `known`: its previous address, if the caller knows it.
    pub(crate) fn set(
        &mut self,
        key: Key,
        entry: MapEntry,
        known: Option<PhysAddr>,
    ) -> PreviousEntry {
        match key.kind() {
            kind @ (EntryKind::Data | EntryKind::Lost) => {
                let is_lost = kind == EntryKind::Lost;
                if is_lost {
                    self.lost.insert(key.as_kind(EntryKind::Data));
                } else if !self.lost.is_empty() {
                    self.lost.remove(&key);
                }
                let (export, number) = (usize::from(key.export().0), key.number());
                match &mut self.places {
                    Places::Flat(exports) => {
                        PreviousEntry::known(exports[export].replace(index(number), entry))
                    }
                    Places::Paged(paged) => paged.set((export, number), entry, known),
                }
            }
            _ if entry.is_hole() => {
                PreviousEntry::known(self.metadata.remove(&key).unwrap_or_default())
            }
            _ => PreviousEntry::known(self.metadata.insert(key, entry.spot).unwrap_or_default()),
        }
    }

    /// Records the sequence of a metadata block that is on flash. True if it is newer than the
    /// mapped one.
    pub(crate) fn renew(&mut self, key: Key, sequence: u64) -> bool {
        let known = self.sequences.entry(key).or_default();
        let is_newer = *known < sequence;
        *known = sequence.max(*known);
        is_newer
    }

    /// Marks a block that recovery found unreadable.
    pub(crate) fn note_lost(&mut self, key: Key) {
        self.lost.insert(key);
    }

    pub(crate) fn is_lost(&self, key: Key) -> bool {
        !self.lost.is_empty() && self.lost.contains(&key)
    }

    /// Entries with an address between two addresses, as far as memory knows. Scans the whole map,
    /// so it is only for damaged zones.
    pub(crate) fn within(&self, from: PhysAddr, to: PhysAddr) -> Vec<(Key, MapEntry)> {
        let is_within = |spot: &PhysAddr| from <= *spot && *spot < to;
        let mut found: Vec<_> = self
            .metadata
            .iter()
            .filter(|(_, spot)| is_within(spot))
            .map(|(key, spot)| (*key, MapEntry { spot: *spot, check: 0 }))
            .collect();
        if let Places::Flat(exports) = &self.places {
            for (export, entries) in (0..).map(ExportId).zip(exports) {
                let within = entries.spots.iter().enumerate().filter(|(_, spot)| is_within(spot));
                found.extend(within.map(|(n, _)| (Key::data(export, n as u64), entries.entry(n))));
            }
        }
        found.sort_by_key(|(_, entry)| entry.spot);
        found
    }

    /// True when no more changes fit until some are merged to flash.
    pub(crate) fn is_full(&self) -> bool {
        self.paged().is_some_and(Paged::is_full)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let data = match &self.places {
            Places::Flat(exports) => exports.iter().map(FlatExport::memory_bytes).sum(),
            Places::Paged(paged) => paged.memory_bytes(),
        };
        let metadata = self.metadata.len() * 2 * size_of::<(Key, PhysAddr, Key, u64)>();
        (data + metadata + self.lost.len() * 2 * size_of::<Key>()) as u64
    }
}

impl FlatExport {
    fn new(export: &Export) -> Self {
        let blocks = index(export.blocks.0);
        let checked = if export.is_verified { blocks } else { 0 };
        Self { spots: vec![PhysAddr::NONE; blocks], checks: vec![0; checked] }
    }

    fn entry(&self, at: usize) -> MapEntry {
        MapEntry { spot: self.spots[at], check: self.checks.get(at).copied().unwrap_or(0) }
    }

    /// Returns the previous address.
    fn replace(&mut self, at: usize, entry: MapEntry) -> PhysAddr {
        if let Some(check) = self.checks.get_mut(at) {
            *check = entry.check;
        }
        core::mem::replace(&mut self.spots[at], entry.spot)
    }

    const fn memory_bytes(&self) -> usize {
        self.spots.len() * size_of::<PhysAddr>() + self.checks.len() * size_of::<u32>()
    }
}

fn is_users(key: Key) -> bool {
    matches!(key.kind(), EntryKind::Data | EntryKind::Lost)
}
