//! Map pages on flash: reads them, and merges changes into them.
//!
//! 1. Before lists are full, pages are taken in turn: read, merged, and written together behind what was written before.
//! 2. When the device has answered, the map names the new pages, and what only the old ones named is dead.
//! 3. When the zones that the map may have are full, the pages of the one with the fewest are merged whether they changed or
//!    not, and it is reset.
//!
//! A zone of the map begins with a header that tells of nothing, as one does that was formatted: a start takes such a zone for
//! empty. Nothing here is flushed, since nothing here outlives the process.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Payload, index, low_u32};
use zonal_device::{Command, DeviceError};

use crate::format::{Key, SEGMENT_BLOCKS};
use crate::layout::{Spot, Zone};
use crate::map::{MAP_PAGE_BLOCKS, Merge, Page, PageId, Paged, page_check};
use crate::planted::Planted;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::{OpenZone, gone};
use crate::write::WRITE_TRIES;
use crate::{BlockError, ExportId, Extent};

/// Pages of one write: those that fit a buffer behind the block with which a zone begins.
const BATCH: usize = index(SEGMENT_BLOCKS) - 1;

/// Pages that are read at once to be merged: enough to keep a drive busy, few enough of our single blocks.
const READS_AT_ONCE: usize = 16;

/// Zones of the map: twice what its pages take, so that the one with the fewest is at most half full of them, one that is being
/// written, and one for when that is full.
pub(crate) fn zones_for(pages: u64, zone_capacity: Blocks) -> u32 {
    low_u32(index(2 * pages.div_ceil(zone_capacity.0 - 1) + 2))
}

/// The zones in which pages lie.
#[derive(Default)]
pub(crate) struct MapLog {
    zones: Vec<Zone>,
    open: Option<OpenZone>,
}

/// Pages that are to be written together.
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

    /// Adds a page of which nothing changes from now on.
    pub(crate) fn push(&mut self, merge: Merge, fill: impl FnOnce(&mut [u8])) {
        let at = self.at();
        fill(&mut self.buffer.bytes_mut()[at]);
        self.merges.push(merge);
    }
}

impl Inner {
    /// Where a block lies. Reads a page of the map if it must.
    pub(crate) async fn place(self: &Rc<Self>, key: Key) -> Result<Spot, BlockError> {
        let mut held = Vec::new();
        loop {
            let looked = self.state.borrow_mut().map.look(key, &held);
            match looked {
                Ok(spot) => return Ok(spot),
                Err(page) => {
                    let buffer = self.own.take(Blocks(1)).await;
                    held = Vec::from_iter(self.read_page(page, buffer).await?);
                }
            }
        }
    }

    /// Calls `each` for these blocks, in order and all at one instant, with where they lie; reads the pages that this takes first.
    /// What it says last comes back.
    pub(crate) async fn places<T>(
        self: &Rc<Self>,
        extent: Extent,
        mut each: impl FnMut(&State, &[Spot]) -> T,
    ) -> Result<T, BlockError> {
        let mut held: Vec<Rc<Page>> = Vec::new();
        loop {
            let missing = {
                let mut state = self.state.borrow_mut();
                let mut spots = Vec::with_capacity(index(extent.blocks.0));
                let numbers = extent.first.0..extent.first.0 + extent.blocks.0;
                let mut looked =
                    numbers.map(|n| state.map.look(Key::data(extent.export, n), &held));
                match looked.try_for_each(|spot| spot.map(|spot| spots.push(spot))) {
                    Ok(()) => return Ok(each(&state, &spots)),
                    Err(page) => page,
                }
            };
            let buffer = self.own.take(Blocks(1)).await;
            held.retain(|page| page.id() != missing);
            held.extend(self.read_page(missing, buffer).await?);
        }
    }

    /// Reads a page of the map. `None` when it moved meanwhile: look again.
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

    /// Where the page lies. `None` while nothing is in it.
    fn flash_of(&self, page: PageId) -> Option<(Spot, u32)> {
        let state = self.state.borrow();
        let flash = state.map.paged()?.flash(page);
        (flash.0 != Spot::NONE).then_some(flash)
    }

    /// The map's task. It ends when a device fails.
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
                // What is in the lists can never leave them: their pages cannot be read.
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

    /// The map has changed: its task looks whether it has to do something.
    pub(crate) fn ask_for_merge(&self, state: &State) {
        if state.map.paged().is_some_and(Paged::wants_merge) {
            self.is_merging.set(true);
            self.map_changed.notify_all();
        }
    }

    /// Movers wait here while lists are full.
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

    /// Requires: pages are all different.
    async fn merge(&self, log: &mut MapLog, mut pages: &[PageId]) -> Result<(), BlockError> {
        while !pages.is_empty() {
            // Before anything is gathered: to make room, others are merged.
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

    /// Sees to it that the open zone has room, and that one more zone is there for when it is full. The room comes back.
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

    /// Pages that fit the open zone.
    fn room(&self, log: &MapLog) -> Option<usize> {
        let open = log.open.as_ref()?;
        let front = u32::from(open.at == 0);
        let room = open.room(&self.layout) - front;
        (0 < room).then_some(index(u64::from(room)))
    }

    fn take_zone(&self, log: &mut MapLog) -> Result<(), BlockError> {
        let mut state = self.state.borrow_mut();
        let zone = state.open_map_zone(&self.layout).ok_or(BlockError::NoSpace)?;
        log.zones.push(zone);
        log.open = Some(OpenZone::new(zone));
        Ok(())
    }

    /// Empties the zone with the fewest pages into the one that was opened just now.
    async fn reclaim(&self, log: &mut MapLog) -> Result<(), BlockError> {
        let open = log.open.as_ref().map(|open| open.zone);
        let pages_of = |zone: Zone| {
            let first = self.layout.spot(zone, Blocks(0));
            let end = first.plus(low_u32(index(self.layout.zone_capacity(zone).0)));
            self.state.borrow().map.paged().expect("it has pages").pages_within(first, end)
        };
        let others = log.zones.iter().filter(|zone| Some(**zone) != open);
        let counted = others.map(|zone| (pages_of(*zone).len(), *zone));
        let is_dropped = self.has(Planted::PagesDropped);
        // Where there are few pages, the zone with the fewest has none to lose.
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

    /// Writes pages to the open zone, or as many of them as fit. Where the first lies, and how many were written come back.
    async fn write_pages_of_map(
        &self,
        open: &mut OpenZone,
        data: Payload,
    ) -> Result<(), DeviceError> {
        let mut pieces = Vec::with_capacity(2);
        if open.at == 0 {
            let mut front = self.own.take(Blocks(1)).await;
            self.mark(open.zone).encode(self.checksum(), &mut front.bytes_mut()[..BLOCK_BYTES]);
            pieces.push(front.freeze(BLOCK_BYTES));
        }
        let blocks = (pieces.len() + data.len() / BLOCK_BYTES) as u64;
        pieces.push(data);
        let lba = self.layout.lba(open.zone, Blocks(u64::from(open.at)));
        let tier = self.layout.tier_of(open.zone);
        self.port(tier).call(Command::Write { lba, data: pieces }).await?;
        open.at += low_u32(index(blocks));
        let mut state = self.state.borrow_mut();
        state.note_written(tier, blocks);
        state.stats.map_written_bytes += Blocks(blocks).bytes().0;
        Ok(())
    }

    /// The pages are on flash from this spot on.
    fn switch(&self, merges: &[Merge], checks: &[u32], first: Spot) {
        let mut state = self.state.borrow_mut();
        for (n, (merge, check)) in (0..).zip(merges.iter().zip(checks)) {
            state.switch_page(self, merge, (first.plus(n), *check));
        }
    }

    /// Recovery found these places in a page.
    pub(crate) fn adopt_page(&self, batch: &mut Batch, page: PageId, spots: &[Spot]) {
        let mut state = self.state.borrow_mut();
        let (export, _) = state.map.paged().expect("it has pages").first_of(page);
        for spot in spots.iter().filter(|spot| **spot != Spot::NONE) {
            state.adopt_spot(&self.layout, self.tenants[export], *spot);
        }
        batch.push(Merge::of_nothing(page), |out| {
            out.fill(0);
            for (out, spot) in out.chunks_exact_mut(size_of::<Spot>()).zip(spots) {
                out.copy_from_slice(&spot.0.to_le_bytes());
            }
        });
    }

    /// What the map names between two spots, by its key, with all that has to be read for it. What is hidden there, and dead, is
    /// forgotten on the way.
    pub(crate) async fn named_within(
        self: &Rc<Self>,
        from: Spot,
        to: Spot,
    ) -> Result<Vec<(Key, Spot)>, BlockError> {
        let mut found = self.state.borrow().map.within(from, to);
        let pages = self.state.borrow().map.paged().map_or(0, Paged::page_count);
        for page in (0..pages).map(PageId) {
            let (export, first) = {
                let state = self.state.borrow();
                state.map.paged().expect("it has pages").first_of(page)
            };
            let export = ExportId(u16::try_from(export).expect("few exports"));
            let size = self.exports[usize::from(export.0)].blocks.0;
            let last = size.min(first + MAP_PAGE_BLOCKS);
            let extent =
                Extent { export, first: zonal_base::Lba(first), blocks: Blocks(last - first) };
            let within = self.places(extent, |_, spots| {
                let numbered = (first..).zip(spots.iter().copied());
                let within = numbered.filter(|(_, spot)| from <= *spot && *spot < to);
                within.map(|(n, spot)| (Key::data(export, n), spot)).collect::<Vec<_>>()
            });
            match within.await {
                // What it says is not known before the next start.
                Err(BlockError::Unreadable) => (),
                within => found.extend(within?),
            }
        }
        found.sort_by_key(|(_, spot)| *spot);
        Ok(found)
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
                        // Late, or damaged: once more, alone.
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

    /// Writes pages behind what was written before, and names them.
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
            // Without reclaim: what that would merge may be among these.
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
            let is_early = self.has(Planted::PageEarly);
            if is_early {
                self.switch(&merges[these.clone()], &checks[these.clone()], first);
            }
            match self.write_pages_of_map(open, part).await {
                Ok(()) => {
                    refused = 0;
                    if !is_early {
                        self.switch(&merges[these.clone()], &checks[these.clone()], first);
                    }
                    done = these.end;
                }
                Err(DeviceError::DeviceGone) => {
                    return Err(gone(self.layout.tier_of(open.zone)));
                }
                Err(_) => {
                    refused += 1;
                    if WRITE_TRIES < refused {
                        return Err(gone(self.layout.tier_of(open.zone)));
                    }
                    self.state.borrow_mut().stats.write_errors += 1;
                    let zone = open.zone;
                    log.open = None;
                    self.finish_zone(zone).await;
                }
            }
        }
        Ok(())
    }
}
