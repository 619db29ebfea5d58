//! Read path: looks up the map, reads both tiers, and verifies the checksum of each block.
//!
//! 1. Look up the blocks, and read map pages that are not in memory. Consecutive blocks in one zone
//!    become one read, holes become zeros.
//! 2. Pin the zones, read, unpin.
//! 3. Verify, unless the export has that turned off. A single read is returned without a copy;
//!    several are gathered into one buffer.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Payload, index};
use zonal_device::{Answer, Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::format::Key;
use crate::map::{MapEntry, Page, PageId};
use crate::mutation::Mutation;
use crate::shaper::Inner;
use crate::tier::{Pin, gone};
use crate::{BlockError, Extent, Piece, Settings, Shaper};

/// Device reads of one request in flight: scattered blocks keep this many dies of a drive busy.
const SCATTERED_MAX: usize = 16;

/// Reads up to this many blocks cache their map entries one by one. For longer reads a cached map
/// page is better.
const REMEMBERED_MAX: u64 = 8;

/// Blocks of an export that are consecutive on a device, with their map entries.
struct Stretch<'a> {
    extent: Extent,
    entries: &'a [MapEntry],
}

struct InFlightRead {
    call: Call<Command, Completion>,
    /// Offset of its data in the request's buffer, in bytes.
    at: usize,
    extent: Extent,
    entries: Vec<MapEntry>,
    _pin: Pin,
}

impl Shaper {
    /// Reads blocks, in order: at most one piece of data, in one buffer, between two pieces of
    /// zeros.
    ///
    /// Requires: at most [`Settings::READ_BLOCKS`]. The caller splits larger requests, so that none
    /// holds buffers while it waits for others.
    ///
    /// The result includes every write acknowledged before the call. Of concurrent writes each
    /// block is old or new.
    ///
    /// # Errors
    /// When the request is invalid, a block cannot be read, or a device failed.
    pub async fn read(&self, extent: Extent) -> Result<Vec<Piece>, BlockError> {
        self.check(extent)?;
        let tenant = self.inner.tenant_of(extent.export);
        self.inner.state.borrow_mut().tenant_mut(tenant).user_read_bytes += extent.blocks.bytes().0;
        if Settings::READ_BLOCKS < extent.blocks {
            return Err(BlockError::OutOfRange);
        }
        self.inner.read(extent).await
    }
}

impl Inner {
    async fn read(self: &Rc<Self>, extent: Extent) -> Result<Vec<Piece>, BlockError> {
        let mut held = Vec::new();
        let entries = self.find(extent, &mut held).await?;
        let is_hole = |entry: &&MapEntry| entry.is_hole();
        let before = entries.iter().take_while(is_hole).count();
        if before == entries.len() {
            return Ok(alloc::vec![Piece::Zeros(extent.blocks)]);
        }
        let after = entries.iter().rev().take_while(is_hole).count();
        let entries = &entries[before..entries.len() - after];
        let (before, after) = (Blocks(before as u64), Blocks(after as u64));
        let first = extent.first + before;
        let extent = Extent { first, blocks: Blocks(entries.len() as u64), ..extent };
        let data = match entries.windows(2).all(|two| self.continues(two[0], two[1])) {
            true => self.read_one(Stretch { extent, entries }).await?,
            false => self.read_scattered(extent, held).await?,
        };
        let mut pieces = Vec::with_capacity(3);
        pieces.extend((before != Blocks(0)).then_some(Piece::Zeros(before)));
        pieces.push(Piece::Data(data));
        pieces.extend((after != Blocks(0)).then_some(Piece::Zeros(after)));
        Ok(pieces)
    }

    /// Map entries of the blocks. Reads the map pages that are not in memory.
    async fn find(
        self: &Rc<Self>,
        extent: Extent,
        held: &mut Vec<Rc<Page>>,
    ) -> Result<Vec<MapEntry>, BlockError> {
        loop {
            match self.look(extent, held)? {
                Ok(entries) => {
                    if !held.is_empty() && extent.blocks.0 <= REMEMBERED_MAX {
                        self.remember(extent, &entries);
                    }
                    return Ok(entries);
                }
                Err(page) => {
                    let buffer = self.ports.buffers.take(Blocks(1)).await;
                    held.retain(|other| other.id() != page);
                    held.extend(self.read_page(page, buffer).await?);
                }
            }
        }
    }

    fn remember(&self, extent: Extent, entries: &[MapEntry]) {
        let mut state = self.state.borrow_mut();
        let Some(paged) = state.map.paged_mut() else { return };
        for (number, entry) in (extent.first.0..).zip(entries) {
            paged.remember(usize::from(extent.export.0), number, *entry);
        }
        self.ask_for_merge(&state);
    }

    /// Map entries of the blocks now, or the map page that must be read first.
    fn look(
        &self,
        extent: Extent,
        held: &[Rc<Page>],
    ) -> Result<Result<Vec<MapEntry>, PageId>, BlockError> {
        let mut state = self.state.borrow_mut();
        let mut entries = Vec::with_capacity(index(extent.blocks.0));
        for n in 0..extent.blocks.0 {
            let key = Key::data(extent.export, extent.first.0 + n);
            if state.map.is_lost(key) {
                return Err(BlockError::Unreadable);
            }
            match state.map.look(key, held) {
                Ok(entry) => entries.push(entry),
                Err(page) => return Ok(Err(page)),
            }
        }
        Ok(Ok(entries))
    }

    /// True if the two are neighbours on a device, or both holes.
    fn continues(&self, one: MapEntry, next: MapEntry) -> bool {
        if one.is_hole() || next.is_hole() {
            return one.is_hole() && next.is_hole();
        }
        one.spot.plus(1) == next.spot
            && self.layout.locate(one.spot).0 == self.layout.locate(next.spot).0
    }

    async fn read_one(self: &Rc<Self>, stretch: Stretch<'_>) -> Result<Payload, BlockError> {
        // Pin before the first wait: the map may change during it.
        let pin = self.pin(self.layout.locate(stretch.entries[0].spot).0);
        let buffer = self.ports.buffers.take(stretch.extent.blocks).await;
        let answer = self.ask(&stretch, buffer).await;
        drop(pin);
        let buffer = self.answered(&stretch, answer)?;
        Ok(buffer.freeze(index(stretch.extent.blocks.bytes().0)))
    }

    /// Reads blocks at several addresses, and holes, into one buffer.
    async fn read_scattered(
        self: &Rc<Self>,
        extent: Extent,
        mut held: Vec<Rc<Page>>,
    ) -> Result<Payload, BlockError> {
        let mut whole = self.ports.buffers.take(extent.blocks).await;
        let mut under_way: VecDeque<InFlightRead> = VecDeque::new();
        let mut next = 0;
        while next < extent.blocks.0 {
            // Deadlock avoidance: a request waits for a buffer only when it holds none that another
            // request could wait for. Its result buffer is of a larger class.
            let buffer = loop {
                if under_way.len() < SCATTERED_MAX
                    && let Some(buffer) = self.ports.buffers.try_take(Blocks(1))
                {
                    break buffer;
                }
                match under_way.pop_front() {
                    Some(first) => self.copy(first, &mut whole).await?,
                    None => break self.ports.buffers.take(Blocks(1)).await,
                }
            };
            let rest = Blocks((extent.blocks.0 - next).min(buffer.blocks().0));
            let first = extent.first + Blocks(next);
            let rest = Extent { first, blocks: rest, ..extent };
            let Ok(mut entries) = self.look(rest, &held)? else {
                // The map page moved meanwhile. Release all small buffers before waiting for its
                // content.
                drop(buffer);
                while let Some(first) = under_way.pop_front() {
                    self.copy(first, &mut whole).await?;
                }
                self.find(rest, &mut held).await?;
                continue;
            };
            let others = entries.windows(2).position(|two| !self.continues(two[0], two[1]));
            entries.truncate(others.map_or(entries.len(), |others| others + 1));
            let blocks = Blocks(entries.len() as u64);
            let at = index(Blocks(next).bytes().0);
            next += blocks.0;
            if entries[0].is_hole() {
                whole.bytes_mut()[at..at + index(blocks.bytes().0)].fill(0);
                continue;
            }
            let extent = Extent { blocks, ..rest };
            let pin = self.pin(self.layout.locate(entries[0].spot).0);
            let call = self.ask(&Stretch { extent, entries: &entries }, buffer);
            under_way.push_back(InFlightRead { call, at, extent, entries, _pin: pin });
        }
        while let Some(first) = under_way.pop_front() {
            self.copy(first, &mut whole).await?;
        }
        Ok(whole.freeze(index(extent.blocks.bytes().0)))
    }

    async fn copy(&self, read: InFlightRead, whole: &mut Buffer) -> Result<(), BlockError> {
        let InFlightRead { call, at, extent, entries, _pin } = read;
        let answer = call.await;
        let buffer = self.answered(&Stretch { extent, entries: &entries }, answer)?;
        whole.copy_from(at, &buffer.bytes()[..index(extent.blocks.bytes().0)]);
        Ok(())
    }

    fn ask(&self, stretch: &Stretch<'_>, buffer: Buffer) -> Call<Command, Completion> {
        let (zone, at) = self.layout.locate(stretch.entries[0].spot);
        let lba = self.layout.lba(zone, at);
        let blocks = stretch.extent.blocks;
        self.port(self.layout.tier_of(zone)).call(Command::Read { lba, blocks, buffer })
    }

    fn answered(&self, stretch: &Stretch<'_>, answer: Completion) -> Result<Buffer, BlockError> {
        match answer {
            Ok(Answer::Read(buffer)) => self.verified(stretch, buffer),
            Err(DeviceError::DeviceGone) => {
                let tier = self.layout.tier_of(self.layout.locate(stretch.entries[0].spot).0);
                self.state.borrow_mut().stats.read_errors += 1;
                self.lose(tier);
                Err(gone(tier))
            }
            _ => {
                self.state.borrow_mut().stats.read_errors += 1;
                Err(BlockError::Unreadable)
            }
        }
    }

    /// The blocks that were read, if all are intact.
    fn verified(&self, stretch: &Stretch<'_>, buffer: Buffer) -> Result<Buffer, BlockError> {
        if self.has(Mutation::ReadUnchecked) {
            return Ok(buffer);
        }
        let Extent { export, first, .. } = stretch.extent;
        let mut numbered = (0..).zip(stretch.entries);
        let are_intact = numbered
            .all(|(n, entry)| self.is_intact(Key::data(export, first.0 + n), *entry, (&buffer, n)));
        if are_intact { Ok(buffer) } else { Err(BlockError::Corrupt) }
    }
}
