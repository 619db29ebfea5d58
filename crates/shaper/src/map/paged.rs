//! Paged L2P map: changed and frequently used entries are in memory, all others on flash.
//!
//! A *page* is the places of 1024 neighbouring blocks of an export, as one block of the map's zones (`crate::pages`), which are
//! the buffer's if it can spare them. What changes goes to a short sorted list of its page, without reading the page, so no write waits for one. Now and then a page is
//! merged: read, brought up to date, and written elsewhere. Reads look in the lists, then in a cache of pages, then on flash.
//!
//! Nothing of it outlives the process: recovery makes the map from the headers, as it does for one that is flat. So pages are
//! never flushed, and a crash finds nothing in them.
//!
//! What holds, always:
//!
//! - The page of a block is what the last merge wrote; a place in the list hides it.
//! - A block of either tier has its bit set from when a place names it until it is known that none does any more: a place that
//!   hides an unread page knows that only when that is merged, or when a mover comes by and asks ([`Paged::still_names`]). So the
//!   bit of a block that no list hides says whether it is live.
//! - A place is dropped from its list only when the page says the same.

mod place;

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Bytes, Checksum, SEED_BYTES, index, low_u32};

use place::{CHANGED, NUMBER_MASK, PackedEntry, RELEASED, WANTED, WANTED_MASK};

use super::Was;
use crate::Export;
use crate::again::heat_bytes;
use crate::layout::{Layout, Spot};

/// Blocks whose places share a page: as many as fit one block.
pub(crate) const MAP_PAGE_BLOCKS: u64 = (BLOCK_BYTES / SPOT_BYTES) as u64;

const SPOT_BYTES: usize = size_of::<Spot>();

/// Pages in memory at least: whoever needs two at once holds them himself.
const CACHE_PAGES_MIN: usize = 1;

/// What lists take at least: some dozens of changes.
const LISTS_BYTES_MIN: usize = 512;

/// A page of the map, by its number among those of all exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageId(pub(crate) u32);

/// A page as it was read.
pub(crate) struct Page {
    id: PageId,
    /// Where it was read: it counts while that is where the page lies.
    flash: Spot,
    spots: Vec<Spot>,
}

struct PageFacts {
    places: Vec<PackedEntry>,
    /// Where it lies; nowhere while nothing is in it.
    flash: Spot,
    check: u32,
}

pub(crate) struct Paged {
    /// Of each export the first page, and its blocks.
    exports: Vec<(u32, u64)>,
    pages: Vec<PageFacts>,
    /// A bit for each block of both tiers.
    named: Vec<u64>,
    /// Pages that were read, each where its number says.
    cache: Vec<Option<Rc<Page>>>,
    /// Pages that cannot be read any more: what lists do not hide is an error until the next start, which makes them again.
    unreadable: BTreeSet<PageId>,
    lists_bytes: usize,
    lists_max: usize,
    /// Places that their pages do not say yet.
    changed_count: usize,
    /// The page in which room is looked for next, and the one that is merged next.
    hand: u32,
    merged: u32,
}

/// A page that is being merged: what its list said when it began.
pub(crate) struct Merge {
    pub(crate) page: PageId,
    /// Number, what the page said, what it is to say.
    changes: Vec<(u16, Spot, Spot)>,
}

/// What became known when a page was merged.
#[derive(Default)]
pub(crate) struct Switched {
    /// Blocks that nothing names any more.
    pub(crate) released: Vec<Spot>,
    /// Blocks that were taken for overwritten, and had been holes.
    pub(crate) holes: i64,
}

impl Paged {
    /// Bytes that it takes at least, all structures together.
    pub(crate) fn memory_min(layout: &Layout, exports: &[Export]) -> Bytes {
        let least = CACHE_PAGES_MIN * BLOCK_BYTES + LISTS_BYTES_MIN;
        Bytes((fixed_bytes(layout, exports) + least) as u64)
    }

    pub(crate) fn new(layout: &Layout, exports: &[Export], memory: Bytes) -> Self {
        let free = index(memory.0).saturating_sub(fixed_bytes(layout, exports));
        // Of what is free an eighth caches pages: places one by one are the better cache where blocks are wanted one by one.
        let cached = (free / 8 / BLOCK_BYTES).max(CACHE_PAGES_MIN);
        let lists_max = free.saturating_sub(cached * BLOCK_BYTES).max(LISTS_BYTES_MIN);
        let mut next = 0;
        let firsts = exports.iter().map(|export| {
            let first = next;
            next += low_u32(index(export.blocks.0.div_ceil(MAP_PAGE_BLOCKS)));
            (first, export.blocks.0)
        });
        let exports = firsts.collect();
        let blank = || PageFacts { places: Vec::new(), flash: Spot::NONE, check: 0 };
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

    /// The page of a block, if there is such a block.
    pub(crate) fn find_page(&self, export: usize, number: u64) -> Option<(PageId, u16)> {
        let (_, blocks) = self.exports.get(export)?;
        (number < *blocks).then(|| self.page_of(export, number))
    }

    /// The export of a page, and the number of its first block.
    pub(crate) fn first_of(&self, page: PageId) -> (usize, u64) {
        let export = self.exports.partition_point(|(first, _)| *first <= page.0) - 1;
        (export, u64::from(page.0 - self.exports[export].0) * MAP_PAGE_BLOCKS)
    }

    pub(crate) fn page_count(&self) -> u32 {
        low_u32(self.pages.len())
    }

    /// Where the page lies, and its checksum.
    pub(crate) fn flash(&self, page: PageId) -> (Spot, u32) {
        let facts = &self.pages[page.index()];
        (facts.flash, facts.check)
    }

    pub(crate) fn look(
        &mut self,
        export: usize,
        number: u64,
        held: &[Rc<Page>],
    ) -> Result<Spot, PageId> {
        let (page, n) = self.page_of(export, number);
        let facts = &mut self.pages[page.index()];
        if let Ok(at) = facts.find(n) {
            facts.places[at].want();
            return Ok(facts.places[at].spot());
        }
        let flash = facts.flash;
        let is_it = |known: &&Rc<Page>| known.id == page && known.flash == flash;
        match held.iter().find(is_it) {
            _ if flash == Spot::NONE => Ok(Spot::NONE),
            Some(held) => Ok(held.spots[usize::from(n)]),
            None => self.base(page, n).ok_or(page),
        }
    }

    /// What the page says, if that is in memory.
    fn base(&self, page: PageId, n: u16) -> Option<Spot> {
        let flash = self.pages[page.index()].flash;
        if flash == Spot::NONE {
            return Some(Spot::NONE);
        }
        let cached = self.cache[page.index() % self.cache.len()].as_ref();
        let page = cached.filter(|cached| cached.id == page && cached.flash == flash)?;
        Some(page.spots[usize::from(n)])
    }

    /// The page was read. `None` when it moved meanwhile.
    pub(crate) fn note_read(
        &mut self,
        page: PageId,
        flash: Spot,
        bytes: &[u8],
    ) -> Option<Rc<Page>> {
        (self.pages[page.index()].flash == flash).then(|| {
            let read = Rc::new(Page { id: page, flash, spots: decode(bytes) });
            let slot = page.index() % self.cache.len();
            self.cache[slot] = Some(read.clone());
            read
        })
    }

    /// Somebody read this block alone: it may be asked for again.
    pub(crate) fn remember(&mut self, export: usize, number: u64, spot: Spot) {
        let (page, n) = self.page_of(export, number);
        if self.is_full() || spot == Spot::NONE {
            return;
        }
        if let Err(at) = self.pages[page.index()].find(n) {
            self.insert(page, at, PackedEntry::new(n, WANTED, spot));
        }
    }

    pub(crate) fn still_names(&mut self, export: usize, number: u64, from: Spot) -> (bool, Spot) {
        let (page, n) = self.page_of(export, number);
        let is_named = self.is_named(from);
        let facts = &mut self.pages[page.index()];
        let Ok(at) = facts.find(n) else { return (is_named, Spot::NONE) };
        let place = &mut facts.places[at];
        if place.spot() == from {
            return (true, Spot::NONE);
        }
        if !is_named || place.has(RELEASED) || !place.has(CHANGED) {
            return (false, Spot::NONE);
        }
        // Only this block can be named there, and the list names another: so it is the page that does.
        place.0[0] |= RELEASED;
        self.unname(from);
        (false, from)
    }

    pub(crate) fn set(
        &mut self,
        (export, number): (usize, u64),
        spot: Spot,
        known: Option<Spot>,
    ) -> Was {
        let (page, n) = self.page_of(export, number);
        let was = match self.pages[page.index()].find(n) {
            Ok(at) => {
                let place = &mut self.pages[page.index()].places[at];
                let was = place.spot();
                // What a page says as well is released with it.
                let flags = if place.has(CHANGED) { place.0[0] & RELEASED } else { RELEASED };
                let wanted = place.0[0] & WANTED_MASK;
                self.changed_count += usize::from(!place.has(CHANGED));
                *place = PackedEntry::new(n, flags | CHANGED | wanted, spot);
                // A mover wants nothing.
                if known.is_none() {
                    place.want();
                }
                Was::known(was)
            }
            Err(at) => {
                let base = known.or_else(|| self.base(page, n));
                let flags = if base.is_some() { RELEASED } else { 0 };
                let wanted = if known.is_none() { WANTED } else { 0 };
                self.changed_count += 1;
                self.insert(page, at, PackedEntry::new(n, flags | CHANGED | wanted, spot));
                base.map_or(Was { spot: Spot::NONE, is_mapped: true }, Was::known)
            }
        };
        if was.spot != Spot::NONE {
            self.unname(was.spot);
        }
        if spot != Spot::NONE {
            self.name(spot);
        }
        was
    }

    fn insert(&mut self, page: PageId, at: usize, place: PackedEntry) {
        let places = &mut self.pages[page.index()].places;
        let before = places.capacity();
        if places.len() == before {
            // An eighth more, not twice as much: there are very many lists, and what is empty in them is lost.
            places.reserve_exact(before / 8 + 4);
        }
        places.insert(at, place);
        self.lists_bytes += (places.capacity() - before) * size_of::<PackedEntry>();
    }

    /// Recovery found this in a page that it makes.
    pub(crate) fn name(&mut self, spot: Spot) {
        self.named[index(u64::from(spot.0 / 64))] |= 1 << (spot.0 % 64);
    }

    fn unname(&mut self, spot: Spot) {
        self.named[index(u64::from(spot.0 / 64))] &= !(1 << (spot.0 % 64));
    }

    pub(crate) fn is_named(&self, spot: Spot) -> bool {
        self.named[index(u64::from(spot.0 / 64))] >> (spot.0 % 64) & 1 == 1
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.lists_max <= self.lists_bytes
    }

    /// True when there is something to do before lists are full, so that nobody has to wait.
    pub(crate) const fn wants_merge(&self) -> bool {
        self.is_crowded() || self.has_changed()
    }

    const fn is_crowded(&self) -> bool {
        self.lists_max - self.lists_max / 16 <= self.lists_bytes
    }

    /// A quarter of the lists is for changes, and the rest for what is wanted often. The more changes of a page wait for each
    /// other, the less is written.
    const fn has_changed(&self) -> bool {
        self.lists_max / 4 <= self.changed_count * size_of::<PackedEntry>()
    }

    /// Makes room, and names the pages to be merged next, in turn. Empty when nothing can be merged, or need be.
    pub(crate) fn next_to_merge(&mut self, most: usize) -> Vec<PageId> {
        // Of places that pages say as well those go that nobody wanted for some rounds.
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

    /// Drops what the page says as well, and nobody wants.
    fn forget(&mut self, page: PageId) {
        let places = &mut self.pages[page.index()].places;
        let before = places.capacity();
        places.retain(|place| place.has(CHANGED) || place.0[0] & WANTED_MASK != 0);
        places.shrink_to(places.len() + places.len() / 8);
        self.lists_bytes -= (before - places.capacity()) * size_of::<PackedEntry>();
    }

    /// Pages that lie between two spots.
    pub(crate) fn pages_within(&self, from: Spot, to: Spot) -> Vec<PageId> {
        let pages = (0..).map(PageId).zip(&self.pages);
        let within = pages.filter(|(_, facts)| from <= facts.flash && facts.flash < to);
        within.map(|(page, _)| page).filter(|page| !self.is_unreadable(*page)).collect()
    }

    /// Brings a page up to date, in place. Requires: `page` holds what [`Paged::flash`] says it does, or zeros.
    pub(crate) fn merge(&self, id: PageId, page: &mut [u8]) -> Merge {
        let changed = self.pages[id.index()].places.iter().filter(|place| place.has(CHANGED));
        let changes = changed.map(|place| {
            let at = usize::from(place.number()) * SPOT_BYTES;
            let out = &mut page[at..at + SPOT_BYTES];
            let was = Spot(u32::from_le_bytes(*out.first_chunk().expect("four bytes")));
            out.copy_from_slice(&place.spot().0.to_le_bytes());
            (place.number(), was, place.spot())
        });
        Merge { page: id, changes: changes.collect() }
    }

    /// A merged page is on flash: it counts from now on.
    pub(crate) fn switch(&mut self, merge: &Merge, (flash, check): (Spot, u32)) -> Switched {
        let mut switched = Switched::default();
        let facts = &mut self.pages[merge.page.index()];
        (facts.flash, facts.check) = (flash, check);
        for (n, was, is) in &merge.changes {
            let at = facts.find(*n).expect("a change stays until its page is merged");
            let place = &mut facts.places[at];
            if !place.has(RELEASED) {
                match *was {
                    Spot::NONE => switched.holes += 1,
                    was => switched.released.push(was),
                }
            }
            // What was written on flash meanwhile went out of date on its way, and lost its bit then.
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

    /// Forgets what was written since the page was gathered: a bug to be planted.
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

    /// The page cannot be read any more. What its list says stays.
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

    /// Bytes of lists, of which recovery makes use before there are any.
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
    /// A page that is new as it is.
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

fn decode(bytes: &[u8]) -> Vec<Spot> {
    let spots = bytes[..BLOCK_BYTES].chunks_exact(SPOT_BYTES);
    spots.map(|spot| Spot(u32::from_le_bytes(*spot.first_chunk().expect("four bytes")))).collect()
}

/// The checksum of a page: another page in its place does not pass.
pub(crate) fn page_check(checksum: Checksum, page: PageId, bytes: &[u8]) -> u32 {
    let mut seed = [0; SEED_BYTES];
    seed[..4].copy_from_slice(&page.0.to_le_bytes());
    checksum.of(checksum.of(0, &seed), &bytes[..BLOCK_BYTES])
}

/// What does not depend on how much is in memory: bits, and what is known of each page.
fn fixed_bytes(layout: &Layout, exports: &[Export]) -> usize {
    let pages: u64 = exports.iter().map(|export| export.blocks.0.div_ceil(MAP_PAGE_BLOCKS)).sum();
    index(pages) * size_of::<PageFacts>() + index(layout.blocks()) / 8 + heat_bytes(layout)
}

#[cfg(test)]
mod tests;
