//! Paged L2P map: changed and frequently used entries are in memory, all others on flash.
//!
//! A map *page* holds the entries of 512 consecutive blocks of an export in one flash block, or of
//! 1024 if the export is not verified.
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

mod list;
mod merge;

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Bytes, Checksum, SEED_BYTES, index, low_u32};

use list::{CHANGED, List, Listed, RELEASED, WANTED, listed_bytes};

pub(crate) use merge::{Merge, Switched};

use super::{EntryForm, MapEntry, PreviousEntry};
use crate::Export;
use crate::hot_retention::heat_bytes;
use crate::layout::{Layout, PhysAddr};

/// Blocks of a map page, or half of those: a map page begins and ends at a multiple of them.
pub(crate) const PAGE_BLOCKS_MIN: u64 = EntryForm::Checked.page_blocks();

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
    bytes: Vec<u8>,
}

/// Where the pages of an export are.
struct PagedExport {
    first: PageId,
    blocks: u64,
    form: EntryForm,
}

struct PageFacts {
    list: List,
    /// Address of the page; [`PhysAddr::NONE`] while it is empty.
    flash: PhysAddr,
    check: u32,
}

pub(crate) struct Paged {
    exports: Vec<PagedExport>,
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
    /// Bytes of list entries that are not on their pages yet.
    changed_bytes: usize,
    /// Clock hands: the next page to evict list entries from, and the next page to merge.
    hand: u32,
    merged: u32,
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
        let placed = exports.iter().map(|export| {
            let (first, form) = (PageId(next), EntryForm::of(export));
            next += low_u32(index(form.pages(export.blocks.0)));
            PagedExport { first, blocks: export.blocks.0, form }
        });
        let exports = placed.collect();
        let blank = || PageFacts { list: List::default(), flash: PhysAddr::NONE, check: 0 };
        Self {
            exports,
            pages: (0..next).map(|_| blank()).collect(),
            named: vec![0; index(layout.blocks()) / 64 + 1],
            cache: vec![None; cached],
            unreadable: BTreeSet::new(),
            lists_bytes: 0,
            lists_max,
            changed_bytes: 0,
            hand: 0,
            merged: 0,
        }
    }

    fn page_of(&self, export: usize, number: u64) -> (PageId, u16) {
        let PagedExport { first, form, .. } = &self.exports[export];
        let page = first.0 + low_u32(index(number / form.page_blocks()));
        let n = u16::try_from(number % form.page_blocks()).expect("a page has 1024 blocks at most");
        (PageId(page), n)
    }

    fn form(&self, page: PageId) -> EntryForm {
        self.exports[self.export_of(page)].form
    }

    fn export_of(&self, page: PageId) -> usize {
        self.exports.partition_point(|export| export.first <= page) - 1
    }

    /// Blocks of one page of an export.
    pub(crate) fn page_blocks(&self, export: usize) -> u64 {
        self.exports[export].form.page_blocks()
    }

    /// The page of a block, if the block exists.
    pub(crate) fn find_page(&self, export: usize, number: u64) -> Option<(PageId, u16)> {
        let blocks = self.exports.get(export)?.blocks;
        (number < blocks).then(|| self.page_of(export, number))
    }

    /// Export of a page, and the number of its first block.
    pub(crate) fn first_of(&self, page: PageId) -> (usize, u64) {
        let export = self.export_of(page);
        let PagedExport { first, form, .. } = &self.exports[export];
        (export, u64::from(page.0 - first.0) * form.page_blocks())
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
    ) -> Result<MapEntry, PageId> {
        let (page, n) = self.page_of(export, number);
        let form = self.exports[export].form;
        let facts = &mut self.pages[page.index()];
        if let Ok(at) = facts.list.find(form, n) {
            let mut listed = facts.list.get(form, at);
            listed.want();
            facts.list.put(form, at, listed);
            return Ok(listed.entry);
        }
        let flash = facts.flash;
        let is_it = |known: &&Rc<Page>| known.id == page && known.flash == flash;
        match held.iter().find(is_it) {
            _ if flash == PhysAddr::NONE => Ok(MapEntry::HOLE),
            Some(held) => Ok(form.at(&held.bytes, n)),
            None => self.base(form, page, n).ok_or(page),
        }
    }

    /// The page's entry, if the page is cached or empty.
    fn base(&self, form: EntryForm, page: PageId, n: u16) -> Option<MapEntry> {
        let flash = self.pages[page.index()].flash;
        if flash == PhysAddr::NONE {
            return Some(MapEntry::HOLE);
        }
        let cached = self.cache[page.index() % self.cache.len()].as_ref();
        let page = cached.filter(|cached| cached.id == page && cached.flash == flash)?;
        Some(form.at(&page.bytes, n))
    }

    /// Caches a page that was read. `None` if the page has moved meanwhile.
    pub(crate) fn note_read(
        &mut self,
        page: PageId,
        flash: PhysAddr,
        bytes: &[u8],
    ) -> Option<Rc<Page>> {
        (self.pages[page.index()].flash == flash).then(|| {
            let bytes = bytes[..BLOCK_BYTES].to_vec();
            let read = Rc::new(Page { id: page, flash, bytes });
            let slot = page.index() % self.cache.len();
            self.cache[slot] = Some(read.clone());
            read
        })
    }

    /// Keeps the entry of a single-block read in memory, because it may be read again.
    pub(crate) fn remember(&mut self, export: usize, number: u64, entry: MapEntry) {
        let (page, n) = self.page_of(export, number);
        if self.is_full() || entry.is_hole() {
            return;
        }
        let form = self.exports[export].form;
        if let Err(at) = self.pages[page.index()].list.find(form, n) {
            self.insert((page, form), at, Listed::new(n, WANTED, entry));
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
        let form = self.exports[export].form;
        let list = &mut self.pages[page.index()].list;
        let Ok(at) = list.find(form, n) else { return (is_named, PhysAddr::NONE) };
        let mut listed = list.get(form, at);
        if listed.entry.spot == from {
            return (true, PhysAddr::NONE);
        }
        if !is_named || listed.has(RELEASED) || !listed.has(CHANGED) {
            return (false, PhysAddr::NONE);
        }
        // The bit of `from` is set and the list names another address, so the page names `from`.
        listed.add(RELEASED);
        list.put(form, at, listed);
        self.unname(from);
        (false, from)
    }

    pub(crate) fn set(
        &mut self,
        (export, number): (usize, u64),
        entry: MapEntry,
        known: Option<PhysAddr>,
    ) -> PreviousEntry {
        let (page, n) = self.page_of(export, number);
        let form = self.exports[export].form;
        let list = &mut self.pages[page.index()].list;
        let was = match list.find(form, n) {
            Ok(at) => {
                let mut listed = list.get(form, at);
                let was = core::mem::replace(&mut listed.entry, entry).spot;
                if !listed.has(CHANGED) {
                    self.changed_bytes += listed_bytes(form);
                    // The page holds the old entry too: its address becomes dead together with the
                    // list's.
                    listed.add(CHANGED | RELEASED);
                }
                // A move is no use of the block, so it does not raise the entry's use count.
                if known.is_none() {
                    listed.want();
                }
                list.put(form, at, listed);
                PreviousEntry::known(was)
            }
            Err(at) => {
                let base = known.or_else(|| self.base(form, page, n).map(|base| base.spot));
                let flags = if base.is_some() { RELEASED } else { 0 };
                let wanted = if known.is_none() { WANTED } else { 0 };
                self.changed_bytes += listed_bytes(form);
                self.insert((page, form), at, Listed::new(n, flags | CHANGED | wanted, entry));
                base.map_or(
                    PreviousEntry { spot: PhysAddr::NONE, is_mapped: true },
                    PreviousEntry::known,
                )
            }
        };
        if was.spot != PhysAddr::NONE {
            self.unname(was.spot);
        }
        if !entry.is_hole() {
            self.name(entry.spot);
        }
        was
    }

    fn insert(&mut self, (page, form): (PageId, EntryForm), at: usize, listed: Listed) {
        let list = &mut self.pages[page.index()].list;
        let before = list.bytes();
        list.insert(form, at, listed);
        self.lists_bytes += list.bytes() - before;
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
        self.lists_max / 4 <= self.changed_bytes
    }

    /// Readable pages with an address between two addresses.
    pub(crate) fn pages_within(&self, from: PhysAddr, to: PhysAddr) -> Vec<PageId> {
        let pages = (0..).map(PageId).zip(&self.pages);
        let within = pages.filter(|(_, facts)| from <= facts.flash && facts.flash < to);
        within.map(|(page, _)| page).filter(|page| !self.is_unreadable(*page)).collect()
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

impl PageId {
    fn index(self) -> usize {
        index(u64::from(self.0))
    }
}

/// Checksum of a page, seeded with its number, so that another page in its place does not match.
pub(crate) fn page_check(checksum: Checksum, page: PageId, bytes: &[u8]) -> u32 {
    let mut seed = [0; SEED_BYTES];
    seed[..4].copy_from_slice(&page.0.to_le_bytes());
    checksum.of(checksum.of(0, &seed), &bytes[..BLOCK_BYTES])
}

/// Memory that does not depend on the memory limit: bits, page facts and heat.
fn fixed_bytes(layout: &Layout, exports: &[Export]) -> usize {
    index(page_count(exports)) * size_of::<PageFacts>()
        + index(layout.blocks()) / 8
        + heat_bytes(layout)
}

/// Map pages of all exports.
pub(crate) fn page_count(exports: &[Export]) -> u64 {
    exports.iter().map(|export| EntryForm::of(export).pages(export.blocks.0)).sum()
}

#[cfg(test)]
mod tests;
