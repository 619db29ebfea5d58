//! Scrub: reads all that counts on both devices, and verifies it before a client needs it.
//!
//! 1. Zones are read in order, as many whole segments at a time as fit a buffer.
//! 2. Of each segment the header, its echo and the live blocks are verified. A block that does not
//!    fit is read once more alone.
//! 3. Behind a damaged header the blocks that the map names are read one by one.
//! 4. Pauses bound the rate. Nothing is pinned during a pause, so zones can be reset.
//!
//! A scrub changes nothing on the devices. It only tells which blocks are damaged.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Bytes, index, low_u32};
use zonal_runtime::Pace;

use crate::export::has_block;
use crate::format::{Echo, EntryKind, Header, Key, SEED, SEGMENT_BLOCKS};
use crate::layout::{PhysAddr, Zone};
use crate::map::MapEntry;
use crate::shaper::Inner;
use crate::{BlockError, DamagedBlock, Shaper, Tier};

/// Wait before a block that could not be read is read again, in milliseconds.
const AGAIN_AFTER: u64 = 50;

/// Damaged blocks of exports that a scrub remembers the places of.
const DAMAGED_MAX: usize = 1000;

/// A scrub: how far it is, and what it has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// True until it ends.
    pub is_running: bool,
    /// Zones of both tiers.
    pub zones: u32,
    /// Zones that are verified, or hold nothing.
    pub zones_done: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Live blocks that were verified.
    pub blocks: u64,
    /// Blocks of exports that do not fit their checksums.
    pub corrupt_blocks: u64,
    /// Blocks of exports that could not be read.
    pub unreadable_blocks: u64,
    /// Headers, echoes, tables and trim bitmaps that are damaged.
    pub damaged_metadata: u64,
}

/// Resets the flag of a scrub that is dropped.
struct Running<'a>(&'a Inner);

impl Scrub {
    /// True if everything that was verified is intact.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.corrupt_blocks + self.unreadable_blocks + self.damaged_metadata == 0
    }
}

impl Shaper {
    /// Reads and verifies all that counts on both devices, with at most `rate` bytes a second.
    /// Requires: no other scrub is running.
    ///
    /// # Errors
    /// A device failed, or the block device is being closed.
    pub async fn scrub(&self, rate: Bytes) -> Result<Scrub, BlockError> {
        let inner = &self.inner;
        let zones = inner.layout.zone_count();
        let begin = Scrub { is_running: true, zones, ..Scrub::default() };
        let was = core::mem::replace(&mut inner.state.borrow_mut().scrub, begin);
        assert!(!was.is_running, "one scrub at a time");
        inner.state.borrow_mut().scrub_damaged.clear();
        let running = Running(inner);
        let mut pace = Pace::new(&inner.ports.clock, rate);
        for zone in Tier::ALL.into_iter().flat_map(|tier| inner.layout.zones(tier)) {
            inner.scrub_zone(zone, &mut pace).await?;
            inner.state.borrow_mut().scrub.zones_done += 1;
        }
        drop(running);
        Ok(self.scrub_progress())
    }

    /// The first damaged blocks of exports that this scrub found: a thousand at most.
    #[must_use]
    pub fn scrub_damaged(&self) -> Vec<DamagedBlock> {
        self.inner.state.borrow().scrub_damaged.clone()
    }

    /// The scrub that is running, or the last one.
    #[must_use]
    pub fn scrub_progress(&self) -> Scrub {
        self.inner.state.borrow().scrub
    }
}

impl Inner {
    async fn scrub_zone(self: &Rc<Self>, zone: Zone, pace: &mut Pace) -> Result<(), BlockError> {
        let number = self.state.borrow().zone(zone).number;
        let mut at = 0;
        loop {
            let written = {
                let state = self.state.borrow();
                if let Some(error) = state.stopped() {
                    return Err(error);
                }
                let facts = state.zone(zone);
                // It was reset meanwhile, or a reset is in flight that does not wait for this read.
                if facts.live == 0 || facts.number != number {
                    return Ok(());
                }
                facts.written
            };
            at = self.behind_gap(zone, at);
            if written <= at {
                return Ok(());
            }
            let begun = self.ports.clock.now();
            let pin = self.pin(zone);
            let blocks = (written - at).min(low_u32(index(SEGMENT_BLOCKS)));
            let next = self.scrub_piece(zone, (at, blocks)).await?;
            let end = match next {
                Some(next) => next,
                None => {
                    self.scrub_named(zone, at).await?;
                    written
                }
            };
            drop(pin);
            self.note_scrubbed(|scrub| scrub.read_bytes += Blocks(u64::from(blocks)).bytes().0);
            pace.pause(begun, Blocks(u64::from(blocks)).bytes()).await;
            at = end;
        }
    }

    /// Verifies the whole segments of a piece of a zone. Returns the end of the last one; `None` if
    /// the header at the beginning is damaged.
    async fn scrub_piece(
        self: &Rc<Self>,
        zone: Zone,
        (at, blocks): (u32, u32),
    ) -> Result<Option<u32>, BlockError> {
        let buffer = self.own.take(Blocks(SEGMENT_BLOCKS)).await;
        let spot = self.layout.spot(zone, Blocks(u64::from(at)));
        let answer = self.ask_own(spot, blocks, buffer).await;
        if let Some((buffer, segments)) = self.piece(zone, (at, blocks), answer)? {
            let mut end = at;
            for (begin, header) in segments {
                let offset = index(u64::from(begin - at)) * BLOCK_BYTES;
                self.scrub_segment((zone, begin), &header, Some((&buffer, offset))).await?;
                end = begin + header.segment_blocks();
            }
            return Ok(Some(end));
        }
        // A block of the first segment cannot be read, or its header is damaged.
        let Some(front) = self.read_alone(spot).await? else {
            self.note_scrubbed(|scrub| scrub.damaged_metadata += 1);
            return Ok(None);
        };
        let Some(header) = self.header(zone, at, front.bytes()) else {
            self.note_scrubbed(|scrub| scrub.damaged_metadata += 1);
            return Ok(None);
        };
        drop(front);
        self.scrub_segment((zone, at), &header, None).await?;
        Ok(Some(at + header.segment_blocks()))
    }

    /// Verifies a segment. `read`: its blocks and where they begin, if they could be read together.
    async fn scrub_segment(
        self: &Rc<Self>,
        (zone, at): (Zone, u32),
        header: &Header,
        read: Option<(&Buffer, usize)>,
    ) -> Result<(), BlockError> {
        let front = header.front_blocks();
        if let Some((buffer, offset)) = read
            && header.has_echo_block
            && self.rebuilt(zone, at).is_none()
        {
            let bytes = &buffer.bytes()[offset..offset + index(u64::from(front)) * BLOCK_BYTES];
            let is_damaged = Echo::decode(bytes, self.checksum()).is_none();
            self.note_scrubbed(|scrub| scrub.damaged_metadata += u64::from(is_damaged));
        }
        let first = self.layout.spot(zone, Blocks(u64::from(at)));
        let with_block = header.entries.iter().filter(|entry| entry.key.kind().takes_block());
        for (n, entry) in (front..).zip(with_block) {
            let from = first.plus(n);
            if !has_block(&self.exports, entry.key) || !self.is_current(entry.key, from) {
                continue;
            }
            self.note_scrubbed(|scrub| scrub.blocks += 1);
            let fits = read.is_some_and(|(buffer, offset)| {
                let part = offset + index(u64::from(n)) * BLOCK_BYTES;
                buffer.checksum(self.checksum(), &SEED, part..part + BLOCK_BYTES) == entry.check
            });
            if !fits {
                self.scrub_alone(entry.key, from, Some(entry.check)).await?;
            }
        }
        Ok(())
    }

    /// Verifies the blocks that the map names from a position of a zone on.
    async fn scrub_named(self: &Rc<Self>, zone: Zone, at: u32) -> Result<(), BlockError> {
        let from = self.layout.spot(zone, Blocks(u64::from(at)));
        let last = self.layout.spot(zone, self.layout.zone_capacity(zone) - Blocks(1));
        for (key, MapEntry { spot, check }) in self.named_within(from, last.plus(1)).await? {
            if key.kind() == EntryKind::Data && self.is_current(key, spot) {
                self.note_scrubbed(|scrub| scrub.blocks += 1);
                let is_verified = self.exports[usize::from(key.export().0)].is_verified;
                self.scrub_alone(key, spot, is_verified.then_some(check)).await?;
            }
        }
        Ok(())
    }

    /// Reads a block alone: it did not fit, or could not be read with others. `check`: its
    /// checksum, if it is known.
    async fn scrub_alone(
        &self,
        key: Key,
        spot: PhysAddr,
        check: Option<u32>,
    ) -> Result<(), BlockError> {
        let read = self.read_alone(spot).await?;
        let is_intact = |buffer: &Buffer| {
            let found = buffer.checksum(self.checksum(), &SEED, 0..BLOCK_BYTES);
            check.is_none_or(|check| found == check)
        };
        if read.as_ref().is_some_and(is_intact) || !self.is_current(key, spot) {
            return Ok(());
        }
        if key.kind() != EntryKind::Data {
            self.note_scrubbed(|scrub| scrub.damaged_metadata += 1);
            return Ok(());
        }
        if read.is_some() {
            self.note_corrupt(key, spot);
            self.note_scrubbed(|scrub| scrub.corrupt_blocks += 1);
        } else {
            self.note_scrubbed(|scrub| scrub.unreadable_blocks += 1);
        }
        let damaged = &mut self.state.borrow_mut().scrub_damaged;
        if damaged.len() < DAMAGED_MAX {
            damaged.push(self.place_of(key, spot));
        }
        Ok(())
    }

    /// True if the map names this place for the key, and the block is not lost.
    fn is_current(&self, key: Key, spot: PhysAddr) -> bool {
        let mut state = self.state.borrow_mut();
        key.kind() != EntryKind::Lost
            && !state.map.is_lost(key)
            && state.still_names(&self.layout, key, spot)
    }

    /// Reads a block, a second time if that fails. `None`: the device cannot read it.
    async fn read_alone(&self, spot: PhysAddr) -> Result<Option<Buffer>, BlockError> {
        let zone = self.layout.locate(spot).0;
        let buffer = self.own.take(Blocks(1)).await;
        let answer = self.ask_own(spot, 1, buffer).await;
        if let Some(buffer) = self.answered_own(zone, answer)? {
            return Ok(Some(buffer));
        }
        self.sleep(AGAIN_AFTER).await;
        let buffer = self.own.take(Blocks(1)).await;
        let answer = self.ask_own(spot, 1, buffer).await;
        self.answered_own(zone, answer)
    }

    fn note_scrubbed(&self, note: impl FnOnce(&mut Scrub)) {
        note(&mut self.state.borrow_mut().scrub);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().scrub.is_running = false;
    }
}
