//! Map pages on flash: reads them, and merges changes into them.
//!
//! 1. Before the lists are full, pages are taken in round-robin order, read, merged, and appended
//!    together to the open zone of the map.
//! 2. When the device completes the write, the map names the new pages. Blocks that only the old
//!    pages named are dead.
//! 3. When the zones of the map are full, the zone with the fewest valid pages is emptied: its
//!    pages are merged, changed or not, and the zone is reset.
//!
//! A zone of the map begins with an empty header (mark), as a formatted zone does, so recovery
//! takes it for empty. Map pages are never flushed, because they do not outlive the process.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, index, low_u32};
use zonal_device::DeviceError;

use crate::events::ZoneChange;
use crate::format::{Key, SEGMENT_BLOCKS};
use crate::layout::{PhysAddr, Zone};
use crate::map::{EntryForm, MapEntry, Merge, Page, PageId, Paged, page_check};
use crate::mutation::Mutation;
use crate::read_only::ZoneWrite;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::OpenZone;
use crate::zones::Stream;
use crate::{BlockError, ExportId, Extent};

/// Maximum number of pages in one write. With the header block of a new zone, the write is no
/// longer than a segment.
const BATCH: usize = index(SEGMENT_BLOCKS) - 1;

/// Pages read concurrently for a merge: enough to keep a drive busy, few enough of our single-block
/// buffers.
const READS_AT_ONCE: usize = 16;

/// Zones that a map of this many pages needs. Twice the space of the pages, so that the emptiest
/// zone is at most half full; one zone being written; and one for when that is full.
pub(crate) fn zones_for(pages: u64, zone_capacity: Blocks) -> u32 {
    low_u32(index(2 * pages.div_ceil(zone_capacity.0 - 1) + 2))
}

/// The zones that hold map pages.
#[derive(Default)]
pub(crate) struct MapLog {
    zones: Vec<Zone>,
    open: Option<OpenZone>,
}

/// Pages to be written together.
pub(crate) struct Batch {
    buffer: Buffer,
    merges: Vec<Merge>,
}

impl Batch {
    pub(crate) fn is_full(&self) -> bool {
        self.merges.len() == BATCH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    fn at(&self) -> core::ops::Range<usize> {
        let begin = self.merges.len() * BLOCK_BYTES;
        begin..begin + BLOCK_BYTES
    }

    /// Adds a page that is final.
    pub(crate) fn push(&mut self, merge: Merge, fill: impl FnOnce(&mut [u8])) {
        let at = self.at();
        fill(&mut self.buffer.bytes_mut()[at]);
        self.merges.push(merge);
    }
}

impl Inner {
    /// Map entry of a block. Reads a map page if necessary.
    pub(crate) async fn entry(self: &Rc<Self>, key: Key) -> Result<MapEntry, BlockError> {
        let mut held = Vec::new();
        loop {
            let looked = self.state.borrow_mut().map.look(key, &held);
            match looked {
                Ok(entry) => return Ok(entry),
                Err(page) => {
                    let buffer = self.own.take(Blocks(1)).await;
                    held = Vec::from_iter(self.read_page(page, buffer).await?);
                }
            }
        }
    }

    /// Calls `each` with the map entries of all blocks of the extent, in order and as of one
    /// instant. Reads the map pages that this needs first. Returns the result of `each`.
    pub(crate) async fn entries<T>(
        self: &Rc<Self>,
        extent: Extent,
        mut each: impl FnMut(&State, &[MapEntry]) -> T,
    ) -> Result<T, BlockError> {
        let mut held: Vec<Rc<Page>> = Vec::new();
        loop {
            let missing = {
                let mut state = self.state.borrow_mut();
                let mut entries = Vec::with_capacity(index(extent.blocks.0));
                let numbers = extent.first.0..extent.first.0 + extent.blocks.0;
                let mut looked =
                    numbers.map(|n| state.map.look(Key::data(extent.export, n), &held));
                match looked.try_for_each(|entry| entry.map(|entry| entries.push(entry))) {
                    Ok(()) => return Ok(each(&state, &entries)),
                    Err(page) => page,
                }
            };
            let buffer = self.own.take(Blocks(1)).await;
            held.retain(|page| page.id() != missing);
            held.extend(self.read_page(missing, buffer).await?);
        }
    }

    /// Reads a map page. `None` if the page is empty or has moved meanwhile: look up again.
    pub(crate) async fn read_page(
        self: &Rc<Self>,
        page: PageId,
        buffer: Buffer,
    ) -> Result<Option<Rc<Page>>, BlockError> {
        let Some((flash, check)) = self.flash_of(page) else { return Ok(None) };
        if self.state.borrow().map.paged().is_some_and(|paged| paged.is_unreadable(page)) {
            return Err(BlockError::Unreadable);
        }
        let zone = self.layout.locate(flash).0;
        let pin = self.pin(zone);
        let read = self.read_own(flash, 1, buffer).await?;
        drop(pin);
        let mut state = self.state.borrow_mut();
        state.stats.map_read_bytes += BLOCK_BYTES as u64;
        let paged = state.map.paged_mut().expect("it has pages");
        let fits = |buffer: &Buffer| page_check(self.checksum(), page, buffer.bytes()) == check;
        match read.filter(fits) {
            Some(buffer) => Ok(paged.note_read(page, flash, buffer.bytes())),
            None if paged.flash(page).0 != flash => Ok(None),
            None => {
                paged.note_unreadable(page);
                Err(BlockError::Unreadable)
            }
        }
    }

    /// Address and checksum of a page. `None` while the page is empty.
    fn flash_of(&self, page: PageId) -> Option<(PhysAddr, u32)> {
        let state = self.state.borrow();
        let flash = state.map.paged()?.flash(page);
        (flash.0 != PhysAddr::NONE).then_some(flash)
    }

    /// Map task: merges pages when the lists fill up. It ends on a device failure.
    pub(crate) async fn run_map(self: Rc<Self>, mut log: MapLog) {
        loop {
            let is_over = {
                let state = self.state.borrow();
                state.failure.or(state.halted).is_some()
            };
            if is_over {
                return;
            }
            let pages = {
                let mut state = self.state.borrow_mut();
                state.map.paged_mut().map(|paged| (paged.next_to_merge(BATCH), paged.is_full()))
            };
            let merged = match pages {
                None => return,
                Some((pages, _)) if !pages.is_empty() => {
                    self.is_merging.set(true);
                    self.merge(&mut log, &pages).await
                }
                // The lists are full, and their pages cannot be read, so the entries can never be
                // merged.
                Some((_, true)) => Err(BlockError::CapacityGone),
                Some((_, false)) => {
                    self.map_room.notify_all();
                    self.queued.notify_all();
                    self.is_merging.set(false);
                    self.work.notify_all();
                    self.map_changed.wait().await;
                    continue;
                }
            };
            self.map_room.notify_all();
            self.queued.notify_all();
            if let Err(error) = merged {
                return self.stop_moving(error);
            }
        }
    }

    /// Wakes the map task if the lists need a merge.
    pub(crate) fn ask_for_merge(&self, state: &State) {
        if state.map.paged().is_some_and(Paged::wants_merge) {
            self.is_merging.set(true);
            self.map_changed.notify_all();
        }
    }

    /// Backpressure for movers: waits while the lists are full.
    pub(crate) async fn wait_for_map_room(&self) -> Result<(), BlockError> {
        loop {
            {
                let state = self.state.borrow();
                if !state.map.is_full() {
                    return Ok(());
                }
                if let Some(error) = state.failure.or(state.halted) {
                    return Err(error);
                }
            }
            self.map_changed.notify_all();
            self.map_room.wait().await;
        }
    }

    /// Merges pages in batches. Requires: the pages are distinct.
    async fn merge(&self, log: &mut MapLog, mut pages: &[PageId]) -> Result<(), BlockError> {
        while !pages.is_empty() {
            // Make room first: this may merge other pages, so nothing may be gathered yet.
            let room = self.make_room(log).await?.min(BATCH).min(pages.len());
            let (these, rest) = pages.split_at(room);
            self.merge_batch(log, these).await?;
            pages = rest;
        }
        Ok(())
    }

    async fn merge_batch(&self, log: &mut MapLog, pages: &[PageId]) -> Result<(), BlockError> {
        let mut batch = self.batch().await;
        for pages in pages.chunks(READS_AT_ONCE) {
            self.gather_pages(&mut batch, pages).await?;
        }
        self.append(log, batch).await
    }

    /// Makes room in the open zone, and keeps one more zone for when it is full. Returns the number
    /// of pages that fit.
    pub(crate) async fn make_room(&self, log: &mut MapLog) -> Result<usize, BlockError> {
        let place = self.map_place.expect("the map has pages");
        loop {
            if let Some(room) = self.room(log) {
                return Ok(room);
            }
            self.take_zone(log)?;
            while index(u64::from(place.zones)) <= log.zones.len() {
                self.reclaim(log).await?;
            }
        }
    }

    /// Number of pages that fit the open zone. `None` if it is full, or none is open.
    fn room(&self, log: &MapLog) -> Option<usize> {
        let open = log.open.as_ref()?;
        let front = u32::from(open.at == 0);
        let room = open.room(&self.layout) - front;
        (0 < room).then_some(index(u64::from(room)))
    }

    fn take_zone(&self, log: &mut MapLog) -> Result<(), BlockError> {
        let zone = self.state.borrow_mut().open_map_zone(&self.layout);
        let zone = zone.ok_or(BlockError::NoSpace)?;
        self.note_zone(zone, ZoneChange::Opened(Stream::Map));
        log.zones.push(zone);
        log.open = Some(OpenZone::new(zone));
        Ok(())
    }

    /// Empties the zone with the fewest valid pages into the zone that was opened just before.
    async fn reclaim(&self, log: &mut MapLog) -> Result<(), BlockError> {
        let open = log.open.as_ref().map(|open| open.zone);
        let pages_of = |zone: Zone| {
            let first = self.layout.spot(zone, Blocks(0));
            let end = first.plus(low_u32(index(self.layout.zone_capacity(zone).0)));
            self.state.borrow().map.paged().expect("it has pages").pages_within(first, end)
        };
        let others = log.zones.iter().filter(|zone| Some(**zone) != open);
        let counted = others.map(|zone| (pages_of(*zone).len(), *zone));
        let is_dropped = self.has(Mutation::PagesDropped);
        // The planted bug drops the fullest zone: the emptiest may have no page to lose.
        let victim = if is_dropped { counted.max() } else { counted.min() };
        let (_, victim) = victim.ok_or(BlockError::NoSpace)?;
        if !is_dropped {
            let pages = pages_of(victim);
            for pages in pages.chunks(BATCH) {
                self.merge_batch(log, pages).await?;
            }
        }
        log.zones.retain(|zone| *zone != victim);
        self.reset_flushed(victim).await?;
        self.state.borrow_mut().map_zones_held -= 1;
        Ok(())
    }

    /// Appends pages to the open zone, behind a mark if the zone is new. `refused`: how often in a
    /// row this was refused before. Requires: they fit.
    async fn write_pages_of_map(
        &self,
        open: &mut OpenZone,
        (data, refused): (Payload, u32),
    ) -> Result<(), DeviceError> {
        let mut pieces = Vec::with_capacity(2);
        if open.at == 0 {
            let mut front = self.own.take(Blocks(1)).await;
            self.mark(open.zone).encode(
                None,
                self.checksum(),
                &mut front.bytes_mut()[..BLOCK_BYTES],
            );
            pieces.push(front.freeze(BLOCK_BYTES));
        }
        let blocks = (pieces.len() + data.len() / BLOCK_BYTES) as u64;
        pieces.push(data);
        let tier = self.layout.tier_of(open.zone);
        let at = Blocks(u64::from(open.at));
        let mut write = ZoneWrite::submit(self, (open.zone, at), pieces);
        self.written(&mut write, refused).await?;
        open.at += low_u32(index(blocks));
        let mut state = self.state.borrow_mut();
        state.zone_mut(open.zone).written = open.at;
        state.note_written(tier, blocks);
        state.stats.map_written_bytes += Blocks(blocks).bytes().0;
        Ok(())
    }

    /// Publishes written pages. `first`: address of the first one.
    fn switch(&self, merges: &[Merge], checks: &[u32], first: PhysAddr) {
        let mut state = self.state.borrow_mut();
        for (n, (merge, check)) in (0..).zip(merges.iter().zip(checks)) {
            state.switch_page(self, merge, (first.plus(n), *check));
        }
    }

    /// Adds a page built by recovery to the batch, and counts its blocks as live.
    pub(crate) fn adopt_page(&self, batch: &mut Batch, page: PageId, entries: &[MapEntry]) {
        let mut state = self.state.borrow_mut();
        let (export, _) = state.map.paged().expect("it has pages").first_of(page);
        for entry in entries.iter().filter(|entry| !entry.is_hole()) {
            state.adopt_spot(&self.layout, self.tenants[export], entry.spot);
        }
        let form = EntryForm::of(&self.exports[export]);
        batch.push(Merge::of_nothing(page), |out| {
            out.fill(0);
            for (out, entry) in out.chunks_exact_mut(form.bytes()).zip(entries) {
                form.encode(*entry, out);
            }
        });
    }

    /// All keys with an address between two addresses, sorted by address. Reads the whole map for
    /// it. Dead addresses that unmerged changes overrode are released on the way.
    pub(crate) async fn named_within(
        self: &Rc<Self>,
        from: PhysAddr,
        to: PhysAddr,
    ) -> Result<Vec<(Key, MapEntry)>, BlockError> {
        let mut found = self.state.borrow().map.within(from, to);
        let pages = self.state.borrow().map.paged().map_or(0, Paged::page_count);
        for page in (0..pages).map(PageId) {
            let extent = self.extent_of(page);
            let (export, first) = (extent.export, extent.first.0);
            let within = self.entries(extent, |_, entries| {
                let numbered = (first..).zip(entries.iter().copied());
                let within = numbered.filter(|(_, entry)| from <= entry.spot && entry.spot < to);
                within.map(|(n, entry)| (Key::data(export, n), entry)).collect::<Vec<_>>()
            });
            match within.await {
                // The entries of this page stay unknown until the next start rebuilds it.
                Err(BlockError::Unreadable) => (),
                within => found.extend(within?),
            }
        }
        found.sort_by_key(|(_, entry)| entry.spot);
        Ok(found)
    }

    /// The blocks of a map page.
    pub(crate) fn extent_of(&self, page: PageId) -> Extent {
        let state = self.state.borrow();
        let paged = state.map.paged().expect("it has pages");
        let (export, first) = paged.first_of(page);
        let blocks = paged.page_blocks(export).min(self.exports[export].blocks.0 - first);
        let export = ExportId(u16::try_from(export).expect("few exports"));
        Extent { export, first: Lba(first), blocks: Blocks(blocks) }
    }

    pub(crate) async fn batch(&self) -> Batch {
        let buffer = self.own.take(Blocks(SEGMENT_BLOCKS)).await;
        Batch { buffer, merges: Vec::new() }
    }

    async fn gather_pages(&self, batch: &mut Batch, pages: &[PageId]) -> Result<(), BlockError> {
        let mut reads = Vec::with_capacity(pages.len());
        for page in pages {
            let call = match self.flash_of(*page) {
                None => None,
                Some((flash, check)) => {
                    let buffer = self.own.take(Blocks(1)).await;
                    Some((flash, check, self.ask_own(flash, 1, buffer)))
                }
            };
            reads.push((*page, call));
        }
        for (page, call) in reads {
            let read = match call {
                None => None,
                Some((flash, check, call)) => {
                    let zone = self.layout.locate(flash).0;
                    let read = match self.answered_own(zone, call.await)? {
                        // The read timed out or failed: retry it alone.
                        None => {
                            let buffer = self.own.take(Blocks(1)).await;
                            self.read_own(flash, 1, buffer).await?
                        }
                        read => read,
                    };
                    let mut state = self.state.borrow_mut();
                    state.stats.map_read_bytes += BLOCK_BYTES as u64;
                    let fits = |buffer: &Buffer| {
                        page_check(self.checksum(), page, buffer.bytes()) == check
                    };
                    let Some(buffer) = read.filter(fits) else {
                        state.map.paged_mut().expect("it has pages").note_unreadable(page);
                        continue;
                    };
                    Some(buffer)
                }
            };
            let at = batch.at();
            let out = &mut batch.buffer.bytes_mut()[at];
            match read {
                Some(buffer) => out.copy_from_slice(&buffer.bytes()[..BLOCK_BYTES]),
                None => out.fill(0),
            }
            let state = self.state.borrow();
            let merge = state.map.paged().expect("it has pages").merge(page, out);
            batch.merges.push(merge);
        }
        Ok(())
    }

    /// Appends pages to the map's zones and publishes them.
    pub(crate) async fn append(&self, log: &mut MapLog, batch: Batch) -> Result<(), BlockError> {
        let Batch { buffer, merges } = batch;
        let checks = (0..merges.len()).zip(&merges).map(|(n, merge)| {
            let bytes = &buffer.bytes()[n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES];
            page_check(self.checksum(), merge.page, bytes)
        });
        let checks: Vec<u32> = checks.collect();
        let data = buffer.freeze(merges.len() * BLOCK_BYTES);
        let (mut done, mut refused) = (0, 0);
        while done < merges.len() {
            // No reclaim here: it may merge pages that are in this batch.
            let room = match self.room(log) {
                Some(room) => room,
                None => {
                    self.take_zone(log)?;
                    continue;
                }
            };
            let these = done..merges.len().min(done + room);
            let part = data.slice(these.start * BLOCK_BYTES..these.end * BLOCK_BYTES);
            let open = log.open.as_mut().expect("it has room");
            let first = self.layout.spot(open.zone, Blocks(u64::from(open.at.max(1))));
            let is_early = self.has(Mutation::PageEarly);
            if is_early {
                self.switch(&merges[these.clone()], &checks[these.clone()], first);
            }
            match self.write_pages_of_map(open, (part, refused)).await {
                Ok(()) => {
                    refused = 0;
                    if !is_early {
                        self.switch(&merges[these.clone()], &checks[these.clone()], first);
                    }
                    done = these.end;
                }
                Err(error) => {
                    refused += 1;
                    let tier = self.layout.tier_of(open.zone);
                    if let Some(verdict) = self.verdict(tier, error, refused) {
                        return Err(verdict);
                    }
                    self.state.borrow_mut().stats.write_errors += 1;
                    let zone = open.zone;
                    log.open = None;
                    self.finish_zone(zone).await;
                    self.wait_after_refusal(refused).await;
                }
            }
        }
        Ok(())
    }
}
