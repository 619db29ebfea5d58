//! Hand-over: passes recovered entries to the running engine, at once or in small batches.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{Buffer, index};
use zonal_device::DeviceError;

use super::{MetadataBlock, ScanState};
use crate::candidates::{Candidates, turns};
use crate::export::has_block;
use crate::format::{EntryKind, Key, PAGE_SPAN};
use crate::map::MapEntry;
use crate::open::Identity;
use crate::pages::MapLog;
use crate::scan::Segment;
use crate::shaper::Inner;
use crate::state::State;
use crate::{Export, ExportId, Extent, OpenError, Tier};

impl ScanState<'_> {
    /// Hands over metadata blocks and counters: everything except the addresses of data blocks.
    pub(super) fn hand_over_metadata(&mut self, exports: &[Export], state: &mut State) {
        self.metadata.retain(|key, _| has_block(exports, *key));
        for (key, block) in self.metadata.iter().chain(self.newest_tables().iter()) {
            let entry = MapEntry { spot: block.spot, check: block.check };
            state.publish(self.scanner.layout, 0, (*key, None), entry);
            state.map.renew(*key, block.sequence);
        }
        state.next_sequence = self.next_sequence;
        state.next_number = self.next_number;
        state.last_number = self.last_number;
        state.durable = self.durable;
        (state.epoch, state.epoch_durable) = (self.epoch, self.epoch_named);
    }

    /// The newest version of each table, by the key of each copy.
    fn newest_tables(&self) -> BTreeMap<Key, MetadataBlock> {
        // The newest one comes first.
        let all = self.tables.values().flatten().rev();
        all.map(|(key, block)| (*key, *block)).collect()
    }

    /// Hands over the addresses of data blocks. Requires: nothing has been written to the zones in
    /// which segments were found.
    pub(crate) async fn hand_over(
        &mut self,
        inner: &Rc<Inner>,
        identity: Identity,
    ) -> Result<MapLog, OpenError> {
        let mut log = MapLog::default();
        let is_paged = inner.state.borrow().map.paged().is_some();
        let counted = match &mut self.sightings {
            Candidates::Counted(counted) => core::mem::take(counted),
            _ => {
                self.hand_over_flat(inner).await?;
                return Ok(log);
            }
        };
        if !is_paged {
            self.sightings = Candidates::Flat(Vec::new());
            self.walk_again(inner, identity).await?;
            self.hand_over_flat(inner).await?;
            return Ok(log);
        }
        let turns = {
            let state = inner.state.borrow();
            turns(state.map.paged().expect("just looked at"), &counted)
        };
        for (first, count) in turns {
            let pages = (0..count).map(|_| Vec::new()).collect();
            self.sightings = Candidates::Window(first, pages);
            self.walk_again(inner, identity).await?;
            self.make_holes(inner).await?;
            self.hand_over_pages(inner, &mut log).await?;
        }
        Ok(log)
    }

    /// Scans all accepted entries again.
    async fn walk_again(&mut self, inner: &Inner, identity: Identity) -> Result<(), OpenError> {
        let scanner = self.scanner;
        let walked = self.walked.clone();
        self.hear_verified(inner);
        let hear = &mut |segment: Segment| {
            if self.is_believed(&segment) {
                let state = inner.state.borrow();
                for placed in self.placed(&segment) {
                    self.note_place(state.map.paged(), placed);
                }
            }
        };
        scanner.walk(walked, identity, hear).await.map(drop)
    }

    fn hear_verified(&mut self, inner: &Inner) {
        let state = inner.state.borrow();
        let verified = core::mem::take(&mut self.verified);
        for placed in &verified {
            self.note_place(state.map.paged(), *placed);
        }
        self.verified = verified;
    }

    async fn hand_over_flat(&mut self, inner: &Inner) -> Result<(), OpenError> {
        self.make_holes(inner).await?;
        let Candidates::Flat(exports) = &mut self.sightings else { return Ok(()) };
        let exports = core::mem::take(exports);
        let mut state = inner.state.borrow_mut();
        for (export, (_, entries)) in (0..).map(ExportId).zip(exports) {
            for (number, entry) in (0..).zip(entries) {
                let key = Key::data(export, number);
                if entry.is_hole() || !has_block(&inner.exports, key) {
                    continue;
                }
                let tenant = inner.tenant_of(export);
                let is_lost = self.lost.contains(&(key, entry.spot));
                let kind = if is_lost { EntryKind::Lost } else { EntryKind::Data };
                state.publish(&inner.layout, tenant, (key.as_kind(kind), None), entry);
            }
        }
        Ok(())
    }

    async fn hand_over_pages(
        &mut self,
        inner: &Rc<Inner>,
        log: &mut MapLog,
    ) -> Result<(), OpenError> {
        let tier = inner.map_place.map_or(Tier::Capacity, |place| place.tier);
        let failed = |_| OpenError::Device(tier, DeviceError::DeviceGone);
        let Candidates::Window(first, pages) = &mut self.sightings else { return Ok(()) };
        let (mut batch, mut page) = (inner.batch().await, *first);
        for seen in core::mem::take(pages) {
            let Extent { export, first, blocks } = inner.extent_of(page);
            let mut entries = alloc::vec![MapEntry::HOLE; index(blocks.0)];
            for one in seen.iter().filter(|one| !one.entry.is_hole()) {
                entries[usize::from(one.number())] = one.entry;
                let key = Key::data(export, first.0 + u64::from(one.number()));
                if self.lost.contains(&(key, one.entry.spot)) {
                    inner.state.borrow_mut().map.note_lost(key);
                }
            }
            if entries.iter().any(|entry| !entry.is_hole()) {
                inner.adopt_page(&mut batch, page, &entries);
            }
            if batch.is_full() {
                inner.append(log, batch).await.map_err(failed)?;
                batch = inner.batch().await;
            }
            page.0 += 1;
        }
        if !batch.is_empty() {
            inner.append(log, batch).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Applies long trims and trim bitmaps: their holes drop all older entries.
    async fn make_holes(&mut self, inner: &Inner) -> Result<(), OpenError> {
        self.apply_trims(inner);
        for (key, copies) in self.pages() {
            let (export, first) = (usize::from(key.export().0), key.number() * PAGE_SPAN);
            if !has_block(&inner.exports, key) || !self.is_in_turn(inner, export, first) {
                continue;
            }
            let (sequence, page) = self.read_page(copies).await?;
            // The errors are not on flash, so a later start could bring back what was trimmed.
            if page.is_none() && !self.is_salvage {
                return Err(OpenError::Unreadable(Tier::Capacity));
            }
            self.scanner.recovery.borrow_mut().trims_lost += u64::from(page.is_none());
            let state = inner.state.borrow();
            let lost = &mut self.lost;
            let in_page = (export, first..first + PAGE_SPAN);
            self.sightings.each(state.map.paged(), in_page, |n, (known, entry)| {
                let at = index(n - first);
                match &page {
                    _ if sequence <= *known || entry.is_hole() => (),
                    Some(page) if page.bytes()[at / 8] >> (at % 8) & 1 == 1 => {
                        *entry = MapEntry::HOLE;
                    }
                    Some(_) => (),
                    // Nothing in a released zone is needed: it was a hole.
                    None if state.zone(inner.layout.locate(entry.spot).0).is_released => {
                        *entry = MapEntry::HOLE;
                    }
                    // It may have been a hole: neither zeros nor the data are right for certain.
                    None => {
                        lost.insert((Key::data(key.export(), n), entry.spot));
                    }
                }
            });
        }
        Ok(())
    }

    /// The copies of each trim bitmap, by the key of the first.
    fn pages(&self) -> BTreeMap<Key, Vec<MetadataBlock>> {
        let mut pages: BTreeMap<Key, Vec<MetadataBlock>> = BTreeMap::new();
        for (key, block) in self.metadata.iter().filter(|(key, _)| key.kind().is_page()) {
            pages.entry(key.first_copy()).or_default().push(*block);
        }
        pages
    }

    /// Reads the newest version of a bitmap. `None` if no copy of it is whole: an older version
    /// does not know all holes.
    async fn read_page(
        &self,
        copies: Vec<MetadataBlock>,
    ) -> Result<(u64, Option<Buffer>), OpenError> {
        let sequence = copies.iter().map(|copy| copy.sequence).max().unwrap_or_default();
        for copy in copies.into_iter().filter(|copy| copy.sequence == sequence) {
            if let Some(page) = self.read_metadata_block(copy).await? {
                return Ok((sequence, Some(page)));
            }
        }
        Ok((sequence, None))
    }

    /// True when the bitmap covers blocks of the current turn.
    fn is_in_turn(&self, inner: &Inner, export: usize, first: u64) -> bool {
        let state = inner.state.borrow();
        self.sightings.has_some(state.map.paged(), (export, first..first + PAGE_SPAN))
    }
}
