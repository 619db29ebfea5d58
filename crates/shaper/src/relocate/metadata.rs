//! Relocation of metadata and lost blocks: records rebuilt from memory instead of copied.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, index, low_u32};

use super::{Mover, MovingBlock};
use crate::format::{Entry, EntryKind, Key, PAGE_SPAN, SEED, encode_table};
use crate::layout::{PhysAddr, Zone};
use crate::map::MapEntry;
use crate::shaper::Inner;
use crate::{BlockError, Extent, Tier};

/// Trim bitmaps that share a flush: each takes one of our single-block buffers.
const PAGES_AT_ONCE: usize = 16;

impl Mover {
    /// Writes the current trim bitmaps of these keys, each twice. A bitmap without holes is removed
    /// from the map.
    pub(crate) async fn write_pages(&mut self, keys: &[Key]) -> Result<(), BlockError> {
        for keys in keys.chunks(PAGES_AT_ONCE) {
            let mut pages = Vec::with_capacity(keys.len());
            for key in keys {
                let mut page = self.inner.own.take(Blocks(1)).await;
                let (sequence, has_holes) =
                    self.inner.page_of_trims(*key, page.bytes_mut()).await?;
                if has_holes {
                    pages.push((*key, sequence, page));
                    continue;
                }
                let tenant = self.inner.tenant_of(key.export());
                let mut state = self.inner.state.borrow_mut();
                for key in [*key, key.copy()] {
                    state.publish(&self.inner.layout, tenant, (key, None), MapEntry::HOLE);
                }
            }
            if pages.is_empty() {
                continue;
            }
            // A write into a hole of the older bitmap must be durable before the new bitmap
            // replaces it. Otherwise a power cut could bring back the data from before the hole.
            self.inner.flush_tier(Tier::Buffer).await?;
            // The second copies lie behind all first ones: neighbours are often damaged together.
            for (key, sequence, page) in &pages {
                self.push_metadata(*key, *sequence, page).await?;
            }
            for (key, sequence, page) in &pages {
                self.push_metadata(key.copy(), *sequence, page).await?;
            }
        }
        Ok(())
    }

    async fn push_metadata(
        &mut self,
        key: Key,
        sequence: u64,
        block: &Buffer,
    ) -> Result<(), BlockError> {
        let from = self.inner.state.borrow().map.metadata(key);
        self.push_new(key, sequence, from, block).await
    }

    /// Rewrites the current content of a key with a new sequence, so that no older entry for it
    /// counts.
    pub(crate) async fn assert_current(&mut self, key: Key) -> Result<(), BlockError> {
        let current = match key.kind() {
            // A start writes a new zone table before anything else.
            EntryKind::Zones | EntryKind::ZonesCopy | EntryKind::Released => return Ok(()),
            EntryKind::Table | EntryKind::TableCopy | EntryKind::Page | EntryKind::PageCopy => {
                MapEntry::HOLE
            }
            // No client writes yet, so the address cannot change meanwhile.
            EntryKind::Data | EntryKind::Trim | EntryKind::Lost => self.inner.entry(key).await?,
        };
        let (sequence, is_lost) = {
            let mut state = self.inner.state.borrow_mut();
            state.next_sequence += 1;
            (state.next_sequence - 1, state.map.is_lost(key))
        };
        let mut block = self.inner.own.take(Blocks(1)).await;
        match key.kind() {
            EntryKind::Table | EntryKind::TableCopy => self.write_table().await,
            EntryKind::Data if current.is_hole() => {
                self.write_pages(&[Key::page_of(key.export(), key.number())]).await
            }
            EntryKind::Page | EntryKind::PageCopy => {
                let key = key.first_copy();
                self.inner.page_of_trims(key, block.bytes_mut()).await?;
                self.push_metadata(key, sequence, &block).await?;
                self.push_metadata(key.copy(), sequence, &block).await
            }
            EntryKind::Data
            | EntryKind::Trim
            | EntryKind::Lost
            | EntryKind::Zones
            | EntryKind::ZonesCopy
            | EntryKind::Released => {
                let from = current.spot;
                match self.inner.read_own(from, 1, block).await? {
                    Some(block) if !is_lost && self.inner.is_intact(key, current, (&block, 0)) => {
                        self.push_new(key, sequence, from, &block).await
                    }
                    _ => self.move_lost(key, sequence, from).await,
                }
            }
        }
    }

    /// Handles an unreadable block. Metadata are rebuilt; a data block returns errors from now on.
    pub(super) async fn move_lost(
        &mut self,
        key: Key,
        sequence: u64,
        from: PhysAddr,
    ) -> Result<(), BlockError> {
        match key.kind() {
            EntryKind::Page | EntryKind::PageCopy => self.write_pages(&[key.first_copy()]).await,
            EntryKind::Table | EntryKind::TableCopy => self.write_table().await,
            EntryKind::Zones | EntryKind::ZonesCopy => {
                // The next zone table replaces all parts, and no zone is reset without it.
                let mut state = self.inner.state.borrow_mut();
                state.publish(&self.inner.layout, 0, (key, None), MapEntry::HOLE);
                Ok(())
            }
            EntryKind::Released => Ok(()),
            EntryKind::Data | EntryKind::Trim | EntryKind::Lost => {
                self.inner.state.borrow_mut().stats.blocks_lost += 1;
                let mut blank = self.inner.own.take(Blocks(1)).await;
                blank.bytes_mut()[..BLOCK_BYTES].fill(0);
                self.push_new(key.as_kind(EntryKind::Lost), sequence, from, &blank).await
            }
        }
    }

    /// Moves blocks of a zone that the map names and no readable header describes. In exports that
    /// are not verified their checksums are unknown.
    pub(super) async fn move_orphans(&mut self, zone: Zone) -> Result<(), BlockError> {
        let layout = self.inner.layout;
        let first = layout.spot(zone, Blocks(0));
        let end = first.plus(low_u32(index(layout.zone_capacity(zone).0)));
        let orphans = self.inner.named_within(first, end).await?;
        for (key, entry) in orphans {
            let from = entry.spot;
            // The sequence is at least that of every published entry, and below that of every
            // unpublished one. A block that was overwritten meanwhile must not get it.
            let (sequence, is_lost) = {
                let mut state = self.inner.state.borrow_mut();
                if self.unreadable.contains(&from) || !state.still_names(&layout, key, from) {
                    continue;
                }
                (state.lowest_unpublished() - 1, state.map.is_lost(key))
            };
            let alone = self.inner.own.take(Blocks(1)).await;
            match self.inner.read_own(from, 1, alone).await? {
                Some(buffer)
                    if key.kind() == EntryKind::Data
                        && !is_lost
                        && self.inner.is_intact(key, entry, (&buffer, 0)) =>
                {
                    self.push_new(key, sequence, from, &buffer).await?;
                }
                None if !is_lost && self.keeps(key, from) => (),
                _ => self.move_lost(key, sequence, from).await?,
            }
        }
        Ok(())
    }

    /// Writes the export table if it does not name all retired zones, so that the next start
    /// ignores them.
    pub(crate) async fn record_retired_zones(&mut self) -> Result<(), BlockError> {
        if !self.inner.state.borrow().is_table_stale {
            return Ok(());
        }
        self.write_table().await?;
        self.finish().await?;
        self.inner.flush_tier(Tier::Capacity).await
    }

    /// Writes the export table.
    pub(crate) async fn write_table(&mut self) -> Result<(), BlockError> {
        let mut table = self.inner.own.take(Blocks(1)).await;
        // Take sequence and content at one instant, so that the table with the higher sequence is
        // never the older one.
        let sequence = {
            let mut state = self.inner.state.borrow_mut();
            let out = &mut table.bytes_mut()[..BLOCK_BYTES];
            encode_table(&self.inner.exports, &state.retired, out);
            state.is_table_stale = false;
            state.next_sequence += 1;
            state.next_sequence - 1
        };
        self.write_twice([(Key::TABLE, table)], sequence).await
    }

    /// Writes tables to the capacity tier, and their second copies to the buffer. If the log cannot
    /// write now, the copies go to the capacity tier, too.
    pub(crate) async fn write_twice(
        &mut self,
        tables: impl IntoIterator<Item = (Key, Buffer)>,
        sequence: u64,
    ) -> Result<(), BlockError> {
        let mut copies = Vec::new();
        for (key, block) in tables {
            self.push_metadata(key, sequence, &block).await?;
            let check = block.checksum(self.inner.checksum(), &SEED, 0..BLOCK_BYTES);
            let (entry, block) =
                (Entry { key: key.copy(), sequence, check }, block.freeze(BLOCK_BYTES));
            let status = self.inner.add_to_log(entry, Some(block.clone()));
            copies.push((entry, block, status));
        }
        for (entry, block, status) in copies {
            if !status.is_written().await {
                let from = self.inner.state.borrow().map.metadata(entry.key);
                self.push(MovingBlock { entry, from }, block.as_bytes()).await?;
            }
        }
        Ok(())
    }

    /// Rewrites the export table if a copy of it is in a buffer zone that is being emptied: moved,
    /// both copies would be on the capacity tier.
    pub(crate) async fn renew_table_in(&mut self, zone: Zone) -> Result<(), BlockError> {
        let spot = self.inner.state.borrow().map.metadata(Key::TABLE.copy());
        if spot == PhysAddr::NONE || self.inner.layout.locate(spot).0 != zone {
            return Ok(());
        }
        self.write_table().await?;
        self.finish().await
    }
}

impl Inner {
    /// Fills a block with the trim bitmap of a key: one bit for each hole. Returns its sequence,
    /// and whether there is a hole.
    async fn page_of_trims(
        self: &Rc<Self>,
        key: Key,
        out: &mut [u8],
    ) -> Result<(u64, bool), BlockError> {
        let first = key.number() * PAGE_SPAN;
        let size = self.exports[usize::from(key.export().0)].blocks.0;
        let blocks = Blocks(size.min(first + PAGE_SPAN) - first);
        let extent = Extent { export: key.export(), first: Lba(first), blocks };
        self.entries(extent, |state, entries| {
            let bits = &mut out[..BLOCK_BYTES];
            bits.fill(0);
            let mut has_holes = false;
            for (n, entry) in entries.iter().enumerate() {
                if entry.is_hole() {
                    bits[n / 8] |= 1 << (n % 8);
                    has_holes = true;
                }
            }
            // Published entries have lower sequences. Unpublished ones are not lower, so they stay
            // newer than the bitmap.
            (state.lowest_unpublished(), has_holes)
        })
        .await
    }
}
