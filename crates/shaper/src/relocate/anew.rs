//! Relocation of metadata and lost blocks: records rebuilt from memory instead of copied.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, index, low_u32};

use super::Mover;
use crate::format::{Key, Kind, PAGE_SPAN, encode_table};
use crate::layout::{Spot, Zone};
use crate::shaper::Inner;
use crate::{BlockError, Extent, Tier};

/// Pages that share a flush: as many blocks of our own memory.
const PAGES_AT_ONCE: usize = 16;

impl Mover {
    /// Writes pages of trims as the map has them now. Pages without a hole are not needed any more.
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
                state.publish(&self.inner.layout, tenant, (*key, None), Spot::NONE);
            }
            if pages.is_empty() {
                continue;
            }
            // What fills a hole of an older page must not be lost when this one has taken its place: that would bring back
            // what lay there before the hole.
            self.inner.flush_tier(Tier::Buffer).await?;
            for (key, sequence, page) in pages {
                let from = self.inner.state.borrow().map.few(key);
                self.push_new(key, sequence, from, &page).await?;
            }
        }
        Ok(())
    }

    /// Writes what the map says of a block, a page or the table, as something new: whatever older is found of it counts no more.
    pub(crate) async fn assert_current(&mut self, key: Key) -> Result<(), BlockError> {
        let from = match key.kind() {
            // Another one is written before anything else happens.
            Kind::Zones | Kind::Released => return Ok(()),
            Kind::Table | Kind::Page => self.inner.state.borrow().map.few(key),
            // Nobody writes yet: it does not change meanwhile.
            Kind::Data | Kind::Trim | Kind::Lost => self.inner.place(key).await?,
        };
        let (sequence, is_lost) = {
            let mut state = self.inner.state.borrow_mut();
            state.next_sequence += 1;
            (state.next_sequence - 1, state.map.is_lost(key))
        };
        let mut block = self.inner.own.take(Blocks(1)).await;
        match key.kind() {
            Kind::Table => self.write_table().await,
            Kind::Data if from == Spot::NONE => {
                self.write_pages(&[Key::page_of(key.export(), key.number())]).await
            }
            Kind::Page => {
                self.inner.page_of_trims(key, block.bytes_mut()).await?;
                self.push_new(key, sequence, from, &block).await
            }
            Kind::Data | Kind::Trim | Kind::Lost | Kind::Zones | Kind::Released => {
                match self.inner.read_own(from, 1, block).await? {
                    Some(block) if !is_lost => self.push_new(key, sequence, from, &block).await,
                    _ => self.move_lost(key, sequence, from).await,
                }
            }
        }
    }

    /// The block is gone. A page or the table is made again; a block of a user is an error from now on.
    pub(super) async fn move_lost(
        &mut self,
        key: Key,
        sequence: u64,
        from: Spot,
    ) -> Result<(), BlockError> {
        match key.kind() {
            Kind::Page => self.write_pages(&[key]).await,
            Kind::Table => self.write_table().await,
            Kind::Zones => {
                // The next zone table, without which no zone is reset, has all of it.
                let mut state = self.inner.state.borrow_mut();
                state.publish(&self.inner.layout, 0, (key, None), Spot::NONE);
                Ok(())
            }
            Kind::Released => Ok(()),
            Kind::Data | Kind::Trim | Kind::Lost => {
                self.inner.state.borrow_mut().stats.blocks_lost += 1;
                let mut blank = self.inner.own.take(Blocks(1)).await;
                blank.bytes_mut()[..BLOCK_BYTES].fill(0);
                self.push_new(key.as_kind(Kind::Lost), sequence, from, &blank).await
            }
        }
    }

    /// Moves what the map names in a zone and no header tells of. What it holds cannot be checked.
    pub(super) async fn move_orphans(&mut self, zone: Zone) -> Result<(), BlockError> {
        let layout = self.inner.layout;
        let first = layout.spot(zone, Blocks(0));
        let end = first.plus(low_u32(index(layout.zone_capacity(zone).0)));
        let orphans = self.inner.named_within(first, end).await?;
        for (key, from) in orphans {
            // Above everything that is in the map, and below everything that is not.
            let sequence = self.inner.state.borrow().lowest_unpublished() - 1;
            let is_lost = self.inner.state.borrow().map.is_lost(key);
            let alone = self.inner.own.take(Blocks(1)).await;
            match self.inner.read_own(from, 1, alone).await? {
                Some(buffer) if key.kind() == Kind::Data && !is_lost => {
                    self.push_new(key, sequence, from, &buffer).await?;
                }
                _ => self.move_lost(key, sequence, from).await?,
            }
        }
        Ok(())
    }

    /// Zones that could not be emptied are named in the table, so that the next start does without them.
    pub(crate) async fn tell_of_zones_given_up(&mut self) -> Result<(), BlockError> {
        if !self.inner.state.borrow().is_table_stale {
            return Ok(());
        }
        self.write_table().await?;
        self.finish().await?;
        self.inner.flush_tier(Tier::Capacity).await
    }

    /// Writes the table of exports.
    pub(crate) async fn write_table(&mut self) -> Result<(), BlockError> {
        let mut table = self.inner.own.take(Blocks(1)).await;
        // Sequence and contents at one instant: of two tables the one that counts tells the more.
        let (from, sequence) = {
            let mut state = self.inner.state.borrow_mut();
            let out = &mut table.bytes_mut()[..BLOCK_BYTES];
            encode_table(&self.inner.exports, &state.given_up, out);
            state.is_table_stale = false;
            state.next_sequence += 1;
            (state.map.few(Key::TABLE), state.next_sequence - 1)
        };
        self.push_new(Key::TABLE, sequence, from, &table).await
    }
}

impl Inner {
    /// Fills a block with a bit for each hole of a page. The sequence that the page has, and whether there is a hole.
    async fn page_of_trims(
        self: &Rc<Self>,
        key: Key,
        out: &mut [u8],
    ) -> Result<(u64, bool), BlockError> {
        let first = key.number() * PAGE_SPAN;
        let size = self.exports[usize::from(key.export().0)].blocks.0;
        let blocks = Blocks(size.min(first + PAGE_SPAN) - first);
        let extent = Extent { export: key.export(), first: Lba(first), blocks };
        self.places(extent, |state, spots| {
            let bits = &mut out[..BLOCK_BYTES];
            bits.fill(0);
            let mut has_holes = false;
            for (n, spot) in spots.iter().enumerate() {
                if *spot == Spot::NONE {
                    bits[n / 8] |= 1 << (n % 8);
                    has_holes = true;
                }
            }
            // What has been published has a lower one, what has not keeps its place.
            (state.lowest_unpublished(), has_holes)
        })
        .await
    }
}
