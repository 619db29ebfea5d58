//! Paged L2P map: changed and frequently used entries are in memory, all others on flash.
//!
//! A map *page* holds the addresses of 1024 consecutive blocks of an export in one flash block.
//! Pages lie in zones of the map (`crate::pages`), in the buffer tier if it can spare them. A
//! change goes to a short sorted list of its page without reading the page, so no write waits for a
//! page read. A merge later reads the page, applies the changes, and writes it elsewhere. Lookups
//! search the lists, then a cache of pages, then flash.
//!
//! Map pages do not outlive the process: recovery rebuilds the map from the segment headers, as for
//! a flat map. So pages are never flushed, and a crash cannot corrupt them.
//!
//! Invariants:
//!
//! - A page on flash is what the last merge wrote. A list entry overrides it.
//! - A block of either tier has its bit in `named` from when an entry names it until no entry is
//!   known to. An entry that overrides an unread page learns the old address only at the merge, or
//!   when a mover asks ([`Paged::still_names`]). So the bit of a block that no list entry overrides
//!   tells if it is live.
//! - A list entry is dropped only when the page on flash holds the same address.

mod packed_entry;

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Bytes, Checksum, SEED_BYTES, index, low_u32};

use packed_entry::{CHANGED, NUMBER_MASK, PackedEntry, RELEASED, WANTED, WANTED_MASK};

use super::PreviousEntry;
use crate::Export;
use crate::hot_retention::heat_bytes;
use crate::layout::{Layout, PhysAddr};

/// Blocks of one map page: as many addresses as fit one flash block.
pub(crate) const MAP_PAGE_BLOCKS: u64 = (BLOCK_BYTES / SPOT_BYTES) as u64;

const SPOT_BYTES: usize = size_of::<PhysAddr>();

/// Minimum number of cached pages. A lookup that needs two pages at once holds them itself.
const CACHE_PAGES_MIN: usize = 1;

/// Minimum memory for lists, in bytes: some dozens of changes.
const LISTS_BYTES_MIN: usize = 512;

/// Number of a map page, counted over all exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageId(pub(crate) u32);

/// A map page as it was read.
pub(crate) struct Page {
    id: PageId,
    /// Address that the page was read from. The page is valid while it lies there.
    flash: PhysAddr,
    spots: Vec<PhysAddr>,
}

struct PageFacts {
    places: Vec<PackedEntry>,
    /// Address of the page; [`PhysAddr::NONE`] while it is empty.
    flash: PhysAddr,
    check: u32,
}

pub(crate) struct Paged {
    /// By export: its first page, and its size in blocks.
    exports: Vec<(u32, u64)>,
    pages: Vec<PageFacts>,
    /// One bit for each block of both tiers: an entry names the block.
    named: Vec<u64>,
    /// Page cache, direct-mapped by page number.
    cache: Vec<Option<Rc<Page>>>,
    /// Pages that can no longer be read. Blocks without a list entry return errors until the next
    /// start, which rebuilds the pages.
    unreadable: BTreeSet<PageId>,
    lists_bytes: usize,
    lists_max: usize,
    /// List entries that are not on their pages yet.
    changed_count: usize,
    /// Clock hands: the next page to evict list entries from, and the next page to merge.
    hand: u32,
    merged: u32,
}

/// A page merge in progress: the changes in its list when it began.
pub(crate) struct Merge {
    pub(crate) page: PageId,
    /// Block number in the page, address before the merge, address after it.
    changes: Vec<(u16, PhysAddr, PhysAddr)>,
}

/// What a completed merge revealed about the old entries.
#[derive(Default)]
pub(crate) struct Switched {
    /// Addresses that no entry names any more.
    pub(crate) released: Vec<PhysAddr>,
    /// Entries counted as overwritten data that had been holes.
    pub(crate) holes: i64,
}

impl Paged {
    /// Minimum memory of a paged map with all its structures.
    pub(crate) fn memory_min(layout: &Layout, exports: &[Export]) -> Bytes {
        let least = CACHE_PAGES_MIN * BLOCK_BYTES + LISTS_BYTES_MIN;
        Bytes((fixed_bytes(layout, exports) + least) as u64)
    }

    pub(crate) fn new(layout: &Layout, exports: &[Export], memory: Bytes) -> Self {
        let free = index(memory.0).saturating_sub(fixed_bytes(layout, exports));
        // The page cache gets an eighth of the free memory. For random accesses to single blocks,
        // single list entries are the better cache.
        let cached = (free / 8 / BLOCK_BYTES).max(CACHE_PAGES_MIN);
        let lists_max = free.saturating_sub(cached * BLOCK_BYTES).max(LISTS_BYTES_MIN);
        let mut next = 0;
        let firsts = exports.iter().map(|export| {
            let first = next;
            next += low_u32(index(export.blocks.0.div_ceil(MAP_PAGE_BLOCKS)));
            (first, export.blocks.0)
        });
        let exports = firsts.collect();
        let blank = || PageFacts { places: Vec::new(), flash: PhysAddr::NONE, check: 0 };
        Self {
            exports,
            pages: (0..next).map(|_| blank()).collect(),
            named: vec![0; index(layout.blocks()) / 64 + 1],
            cache: vec![None; cached],
            unreadable: BTreeSet::new(),
            lists_bytes: 0,
            lists_max,
            changed_count: 0,
            hand: 0,
            merged: 0,
        }
    }

    pub(crate) fn page_of(&self, export: usize, number: u64) -> (PageId, u16) {
        let page = self.exports[export].0 + low_u32(index(number / MAP_PAGE_BLOCKS));
        (PageId(page), (number % MAP_PAGE_BLOCKS) as u16)
    }

    /// The page of a block, if the block exists.
    pub(crate) fn find_page(&self, export: usize, number: u64) -> Option<(PageId, u16)> {
        let (_, blocks) = self.exports.get(export)?;
        (number < *blocks).then(|| self.page_of(export, number))
    }

    /// Export of a page, and the number of its first block.
    pub(crate) fn first_of(&self, page: PageId) -> (usize, u64) {
        let export = self.exports.partition_point(|(first, _)| *first <= page.0) - 1;
        (export, u64::from(page.0 - self.exports[export].0) * MAP_PAGE_BLOCKS)
    }

    pub(crate) fn page_count(&self) -> u32 {
        low_u32(self.pages.len())
    }

    /// Address and checksum of a page.
    pub(crate) fn flash(&self, page: PageId) -> (PhysAddr, u32) {
        let facts = &self.pages[page.index()];
        (facts.flash, facts.check)
    }

    pub(crate) fn look(
        &mut self,
        export: usize,
        number: u64,
        held: &[Rc<Page>],
    ) -> Result<PhysAddr, PageId> {
        let (page, n) = self.page_of(export, number);
        let facts = &mut self.pages[page.index()];
        if let Ok(at) = facts.find(n) {
            facts.places[at].want();
            return Ok(facts.places[at].spot());
        }
        let flash = facts.flash;
        let is_it = |known: &&Rc<Page>| known.id == page && known.flash == flash;
        match held.iter().find(is_it) {
            _ if flash == PhysAddr::NONE => Ok(PhysAddr::NONE),
            Some(held) => Ok(held.spots[usize::from(n)]),
            None => self.base(page, n).ok_or(page),
        }
    }

    /// The page's entry, if the page is cached or empty.
    fn base(&self, page: PageId, n: u16) -> Option<PhysAddr> {
        let flash = self.pages[page.index()].flash;
        if flash == PhysAddr::NONE {
            return Some(PhysAddr::NONE);
        }
        let cached = self.cache[page.index() % self.cache.len()].as_ref();
        let page = cached.filter(|cached| cached.id == page && cached.flash == flash)?;
        Some(page.spots[usize::from(n)])
    }

    /// Caches a page that was read. `None` if the page has moved meanwhile.
    pub(crate) fn note_read(
        &mut self,
        page: PageId,
        flash: PhysAddr,
        bytes: &[u8],
    ) -> Option<Rc<Page>> {
        (self.pages[page.index()].flash == flash).then(|| {
            let read = Rc::new(Page { id: page, flash, spots: decode(bytes) });
            let slot = page.index() % self.cache.len();
            self.cache[slot] = Some(read.clone());
            read
        })
    }

    /// Keeps the entry of a single-block read in memory, because it may be read again.
    pub(crate) fn remember(&mut self, export: usize, number: u64, spot: PhysAddr) {
        let (page, n) = self.page_of(export, number);
        if self.is_full() || spot == PhysAddr::NONE {
            return;
        }
        if let Err(at) = self.pages[page.index()].find(n) {
            self.insert(page, at, PackedEntry::new(n, WANTED, spot));
        }
    }

    pub(crate) fn still_names(
        &mut self,
        export: usize,
        number: u64,
        from: PhysAddr,
    ) -> (bool, PhysAddr) {
        let (page, n) = self.page_of(export, number);
        let is_named = self.is_named(from);
        let facts = &mut self.pages[page.index()];
        let Ok(at) = facts.find(n) else { return (is_named, PhysAddr::NONE) };
        let place = &mut facts.places[at];
        if place.spot() == from {
            return (true, PhysAddr::NONE);
        }
        if !is_named || place.has(RELEASED) || !place.has(CHANGED) {
            return (false, PhysAddr::NONE);
        }
        // The bit of `from` is set and the list names another address, so the page names `from`.
        place.0[0] |= RELEASED;
        self.unname(from);
        (false, from)
    }

    pub(crate) fn set(
        &mut self,
        (export, number): (usize, u64),
        spot: PhysAddr,
        known: Option<PhysAddr>,
    ) -> PreviousEntry {
        let (page, n) = self.page_of(export, number);
        let was = match self.pages[page.index()].find(n) {
            Ok(at) => {
                let place = &mut self.pages[page.index()].places[at];
                let was = place.spot();
                // If the page holds the old entry too, its address becomes dead together with the
                // list's.
                let flags = if place.has(CHANGED) { place.0[0] & RELEASED } else { RELEASED };
                let wanted = place.0[0] & WANTED_MASK;
                self.changed_count += usize::from(!place.has(CHANGED));
                *place = PackedEntry::new(n, flags | CHANGED | wanted, spot);
                // A move is no use of the block, so it does not raise the entry's use count.
                if known.is_none() {
                    place.want();
                }
                PreviousEntry::known(was)
            }
            Err(at) => {
                let base = known.or_else(|| self.base(page, n));
                let flags = if base.is_some() { RELEASED } else { 0 };
                let wanted = if known.is_none() { WANTED } else { 0 };
                self.changed_count += 1;
                self.insert(page, at, PackedEntry::new(n, flags | CHANGED | wanted, spot));
                base.map_or(
                    PreviousEntry { spot: PhysAddr::NONE, is_mapped: true },
                    PreviousEntry::known,
                )
            }
        };
        if was.spot != PhysAddr::NONE {
            self.unname(was.spot);
        }
        if spot != PhysAddr::NONE {
            self.name(spot);
        }
        was
    }

    fn insert(&mut self, page: PageId, at: usize, place: PackedEntry) {
        let places = &mut self.pages[page.index()].places;
        let before = places.capacity();
        if places.len() == before {
            // Grow by an eighth instead of doubling: there are very many lists, and unused capacity
            // is lost.
            places.reserve_exact(before / 8 + 4);
        }
        places.insert(at, place);
        self.lists_bytes += (places.capacity() - before) * size_of::<PackedEntry>();
    }

    /// Sets the bit of an address that an entry names, in a list or in a page that recovery builds.
    pub(crate) fn name(&mut self, spot: PhysAddr) {
        self.named[index(u64::from(spot.0 / 64))] |= 1 << (spot.0 % 64);
    }

    fn unname(&mut self, spot: PhysAddr) {
        self.named[index(u64::from(spot.0 / 64))] &= !(1 << (spot.0 % 64));
    }

    pub(crate) fn is_named(&self, spot: PhysAddr) -> bool {
        self.named[index(u64::from(spot.0 / 64))] >> (spot.0 % 64) & 1 == 1
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.lists_max <= self.lists_bytes
    }

    /// True when a merge or an eviction should start before the lists are full, so that writes do
    /// not wait.
    pub(crate) const fn wants_merge(&self) -> bool {
        self.is_crowded() || self.has_changed()
    }

    const fn is_crowded(&self) -> bool {
        self.lists_max - self.lists_max / 16 <= self.lists_bytes
    }

    /// A quarter of the lists is for changes, and the rest for frequently used entries. Collecting
    /// more changes per page before a merge writes fewer pages.
    const fn has_changed(&self) -> bool {
        self.lists_max / 4 <= self.changed_count * size_of::<PackedEntry>()
    }

    /// Evicts entries if the lists are crowded, and returns the pages to merge next, in round-robin
    /// order. Empty when nothing can or need be merged.
    pub(crate) fn next_to_merge(&mut self, most: usize) -> Vec<PageId> {
        // Clock eviction: unchanged entries go when their use count reaches zero.
        let rounds = usize::from(WANTED_MASK / WANTED) + 1;
        for _ in 0..rounds * self.pages.len() {
            if !self.is_crowded() {
                break;
            }
            let page = PageId(self.hand);
            self.hand = (self.hand + 1) % self.page_count();
            for place in &mut self.pages[page.index()].places {
                place.0[0] -= if place.0[0] & WANTED_MASK == 0 { 0 } else { WANTED };
            }
            self.forget(page);
        }
        let mut chosen = Vec::new();
        for _ in 0..self.pages.len() {
            if chosen.len() == most || !self.wants_merge() {
                break;
            }
            let page = PageId(self.merged);
            self.merged = (self.merged + 1) % self.page_count();
            let mut places = self.pages[page.index()].places.iter();
            if places.any(|place| place.has(CHANGED)) && !self.unreadable.contains(&page) {
                chosen.push(page);
            }
        }
        chosen
    }

    /// Evicts entries that are unchanged and have use count zero.
    fn forget(&mut self, page: PageId) {
        let places = &mut self.pages[page.index()].places;
        let before = places.capacity();
        places.retain(|place| place.has(CHANGED) || place.0[0] & WANTED_MASK != 0);
        places.shrink_to(places.len() + places.len() / 8);
        self.lists_bytes -= (before - places.capacity()) * size_of::<PackedEntry>();
    }

    /// Readable pages with an address between two addresses.
    pub(crate) fn pages_within(&self, from: PhysAddr, to: PhysAddr) -> Vec<PageId> {
        let pages = (0..).map(PageId).zip(&self.pages);
        let within = pages.filter(|(_, facts)| from <= facts.flash && facts.flash < to);
        within.map(|(page, _)| page).filter(|page| !self.is_unreadable(*page)).collect()
    }

    /// Applies the listed changes to a page, in place. Requires: `page` holds the content at
    /// [`Paged::flash`], or zeros.
    pub(crate) fn merge(&self, id: PageId, page: &mut [u8]) -> Merge {
        let changed = self.pages[id.index()].places.iter().filter(|place| place.has(CHANGED));
        let changes = changed.map(|place| {
            let at = usize::from(place.number()) * SPOT_BYTES;
            let out = &mut page[at..at + SPOT_BYTES];
            let was = PhysAddr(u32::from_le_bytes(*out.first_chunk().expect("four bytes")));
            out.copy_from_slice(&place.spot().0.to_le_bytes());
            (place.number(), was, place.spot())
        });
        Merge { page: id, changes: changes.collect() }
    }

    /// Switches to a merged page that is on flash.
    pub(crate) fn switch(&mut self, merge: &Merge, (flash, check): (PhysAddr, u32)) -> Switched {
        let mut switched = Switched::default();
        let facts = &mut self.pages[merge.page.index()];
        (facts.flash, facts.check) = (flash, check);
        for (n, was, is) in &merge.changes {
            let at = facts.find(*n).expect("a change stays until its page is merged");
            let place = &mut facts.places[at];
            if !place.has(RELEASED) {
                match *was {
                    PhysAddr::NONE => switched.holes += 1,
                    was => switched.released.push(was),
                }
            }
            // The block changed again during the merge. The merged address is dead, and its bit was
            // cleared then.
            let is_current = place.spot() == *is;
            place.0[0] &= !(CHANGED | RELEASED);
            place.0[0] |= if is_current { 0 } else { CHANGED | RELEASED };
            self.changed_count -= usize::from(is_current);
        }
        for spot in &switched.released {
            self.unname(*spot);
        }
        self.forget(merge.page);
        switched
    }

    /// Planted bug: forgets changes that were made after the merge began.
    pub(crate) fn revert(&mut self, merge: &Merge) {
        let facts = &mut self.pages[merge.page.index()];
        for (n, _, is) in &merge.changes {
            let at = facts.find(*n).expect("a change stays until its page is merged");
            facts.places[at] = PackedEntry::new(*n, facts.places[at].0[0] & !NUMBER_MASK, *is);
        }
    }

    pub(crate) fn is_unreadable(&self, page: PageId) -> bool {
        self.unreadable.contains(&page)
    }

    /// Marks a page as unreadable. Its list entries stay valid.
    pub(crate) fn note_unreadable(&mut self, page: PageId) {
        self.unreadable.insert(page);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let cached = self.cache.iter().flatten().count() * (BLOCK_BYTES + size_of::<Page>());
        self.pages.len() * size_of::<PageFacts>()
            + self.named.len() * size_of::<u64>()
            + self.cache.len() * size_of::<Option<Rc<Page>>>()
            + cached
            + self.lists_bytes
    }

    /// Maximum size of the lists in bytes. Recovery uses that memory before there are any lists.
    pub(crate) const fn lists_max(&self) -> usize {
        self.lists_max
    }
}

impl Page {
    pub(crate) fn id(&self) -> PageId {
        self.id
    }
}

impl Merge {
    /// A merge for a page that recovery built: no changes to apply.
    pub(crate) const fn of_nothing(page: PageId) -> Self {
        Self { page, changes: Vec::new() }
    }
}

impl PageId {
    fn index(self) -> usize {
        index(u64::from(self.0))
    }
}

impl PageFacts {
    fn find(&self, n: u16) -> Result<usize, usize> {
        self.places.binary_search_by_key(&n, |place| place.number())
    }
}

fn decode(bytes: &[u8]) -> Vec<PhysAddr> {
    let spots = bytes[..BLOCK_BYTES].chunks_exact(SPOT_BYTES);
    let spot = |bytes: &[u8; 4]| PhysAddr(u32::from_le_bytes(*bytes));
    spots.map(|bytes| spot(bytes.first_chunk().expect("four bytes"))).collect()
}

/// Checksum of a page, seeded with its number, so that another page in its place does not match.
pub(crate) fn page_check(checksum: Checksum, page: PageId, bytes: &[u8]) -> u32 {
    let mut seed = [0; SEED_BYTES];
    seed[..4].copy_from_slice(&page.0.to_le_bytes());
    checksum.of(checksum.of(0, &seed), &bytes[..BLOCK_BYTES])
}

/// Memory that does not depend on the memory limit: bits, page facts and heat.
fn fixed_bytes(layout: &Layout, exports: &[Export]) -> usize {
    let pages: u64 = exports.iter().map(|export| export.blocks.0.div_ceil(MAP_PAGE_BLOCKS)).sum();
    index(pages) * size_of::<PageFacts>() + index(layout.blocks()) / 8 + heat_bytes(layout)
}

#[cfg(test)]
mod tests;
