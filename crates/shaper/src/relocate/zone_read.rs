//! Zone read for relocation: finds the live blocks of a victim.
//!
//! A dense zone is read completely, with the next piece read ahead while this one is moved. Of a
//! sparse zone only the headers and the live blocks are read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, index, low_u32};
use zonal_device::{Command, Completion};
use zonal_runtime::Call;

use super::{Cause, Mover, MovingBlock};
use crate::BlockError;
use crate::events::{Moved, ZoneChange};
use crate::export::has_block;
use crate::format::{EntryKind, Header, Key, SEGMENT_BLOCKS};
use crate::layout::{PhysAddr, Zone};
use crate::retry::WAITED_FOR;
use crate::state::ZoneUse;

/// A zone is dense if at least one block in this many is live. Below that, reading dead blocks
/// takes longer than separate reads.
const SPARSE: u32 = 4;

/// Maximum distance of two live blocks that are read together, in blocks.
const GAP_MAX: u32 = 4;

/// A read-ahead of the zone, in flight.
struct Ahead {
    blocks: u32,
    call: Call<Command, Completion>,
}

impl Mover {
    /// Moves all live blocks out of the zone. False if some could not be read: then the zone is
    /// kept with them. Otherwise the map names none there afterwards.
    pub(crate) async fn move_all(&mut self, zone: Zone) -> Result<bool, BlockError> {
        self.unreadable.clear();
        self.inner.waits_left.set(WAITED_FOR);
        self.into.clear();
        let before = self.inner.moved_so_far(self.cause);
        self.move_live(zone).await?;
        let after = self.inner.moved_so_far(self.cause);
        self.inner.note_zone(
            zone,
            ZoneChange::Moved(Box::new(Moved {
                bytes: Bytes(after.0 - before.0),
                into: core::mem::take(&mut self.into),
                retained: Bytes(after.1 - before.1),
            })),
        );
        if self.inner.state.borrow().zone(zone).live == 0 {
            return Ok(true);
        }
        self.inner.state.borrow_mut().set_usage(&self.inner.layout, zone, ZoneUse::Unreadable);
        self.inner.note_zone(zone, ZoneChange::Unreadable);
        self.inner.work.notify_all();
        Ok(false)
    }

    /// Leaves a block that cannot be read where it is, if the tier can do without its zone: the
    /// error may pass, and it is the only copy.
    pub(super) fn keeps(&mut self, key: Key, from: PhysAddr) -> bool {
        let zone = self.inner.layout.locate(from).0;
        let keeps = key.kind() == EntryKind::Data
            && self.inner.state.borrow().may_keep(&self.inner.layout, zone);
        if keeps {
            self.unreadable.insert(from);
        }
        keeps
    }

    async fn move_live(&mut self, zone: Zone) -> Result<(), BlockError> {
        if self.cause == Cause::Compaction {
            self.again.begin(&self.inner, zone);
            self.move_segments(zone).await?;
            self.again.finish(&self.inner).await?;
            if self.inner.state.borrow().zone(zone).live == 0 {
                return Ok(());
            }
            // Cancelled copies are still live here and are moved to the capacity tier.
        }
        self.move_segments(zone).await?;
        // Blocks whose header could not be read.
        if 0 < self.inner.state.borrow().zone(zone).live {
            self.move_orphans(zone).await?;
            self.finish().await?;
        }
        Ok(())
    }

    async fn move_segments(&mut self, zone: Zone) -> Result<(), BlockError> {
        let (mut at, mut ahead) = (0, None);
        loop {
            let (written, live) = {
                let state = self.inner.state.borrow();
                if let Some(error) = state.stopped() {
                    return Err(error);
                }
                (state.zone(zone).written, state.zone(zone).live)
            };
            at = self.inner.behind_gap(zone, at);
            if written <= at {
                break;
            }
            let is_dense = written <= live.saturating_mul(SPARSE);
            if ahead.is_none() && is_dense {
                ahead = Some(self.read_ahead(zone, at, written).await);
            }
            let piece = match ahead.take() {
                Some(Ahead { blocks, call }) => self.inner.piece(zone, (at, blocks), call.await)?,
                None => None,
            };
            let Some((piece, segments)) = piece else {
                let Some(header) = self.read_header(zone, at).await? else { break };
                self.move_segment(zone, at, &header).await?;
                at = self.end_segment(at, &header);
                continue;
            };
            let next =
                segments.iter().fold(at, |_, (begin, header)| begin + header.segment_blocks());
            let next = self.inner.behind_gap(zone, next);
            if is_dense && next < written {
                ahead = Some(self.read_ahead(zone, next, written).await);
            }
            for (begin, header) in segments {
                for moved in self.live(zone, begin, &header) {
                    let spot = self.inner.layout.spot(zone, Blocks(u64::from(at)));
                    let offset = index(u64::from(moved.from.0 - spot.0)) * BLOCK_BYTES;
                    self.move_block(moved, Some((&piece, offset))).await?;
                }
                self.end_segment(begin, &header);
            }
            at = next;
        }
        self.finish().await
    }

    /// Accounts for a processed segment. Returns the position of the next one.
    fn end_segment(&mut self, at: u32, header: &Header) -> u32 {
        let blocks = header.segment_blocks();
        let mut state = self.inner.state.borrow_mut();
        match self.cause {
            Cause::Compaction => {
                let left = u64::from(blocks.saturating_sub(self.again.take_sent()));
                let resumes = state.grant(&self.inner, left);
                drop(state);
                if resumes {
                    // Wake all writers at once and in order, so that they share a segment.
                    self.inner.queue_room.notify_all();
                }
            }
            Cause::Collection => {
                state.passed = at + blocks;
                drop(state);
                self.inner.work.notify_all();
            }
        }
        at + blocks
    }

    /// Starts to read the maximum length of a segment.
    async fn read_ahead(&self, zone: Zone, at: u32, written: u32) -> Ahead {
        let buffer = self.inner.own.take(Blocks(SEGMENT_BLOCKS)).await;
        let blocks = (written - at).min(low_u32(index(SEGMENT_BLOCKS)));
        let spot = self.inner.layout.spot(zone, Blocks(u64::from(at)));
        Ahead { blocks, call: self.inner.ask_own(spot, blocks, buffer) }
    }

    async fn read_header(&self, zone: Zone, at: u32) -> Result<Option<Header>, BlockError> {
        if let Some(rebuilt) = self.inner.rebuilt(zone, at) {
            return Ok(Some(rebuilt));
        }
        let front = self.inner.own.take(Blocks(1)).await;
        let spot = self.inner.layout.spot(zone, Blocks(u64::from(at)));
        let front = self.inner.read_own(spot, 1, front).await?;
        Ok(front.and_then(|front| self.inner.header(zone, at, front.bytes())))
    }

    /// Entries of a segment that the map still names.
    fn live(&self, zone: Zone, at: u32, header: &Header) -> Vec<MovingBlock> {
        let first = self.inner.layout.spot(zone, Blocks(u64::from(at)));
        let first = first.plus(header.front_blocks());
        let mut state = self.inner.state.borrow_mut();
        let with_block = header.entries.iter().filter(|entry| entry.key.kind().takes_block());
        let places = (0..).map(|n| first.plus(n)).zip(with_block);
        let mut is_live = |(from, entry): &(PhysAddr, &crate::format::Entry)| {
            has_block(&self.inner.exports, entry.key)
                && !self.unreadable.contains(from)
                && state.still_names(&self.inner.layout, entry.key, *from)
        };
        let live: Vec<MovingBlock> = places
            .filter(|place| is_live(place))
            .map(|(from, entry)| MovingBlock { entry: *entry, from })
            .collect();
        if self.cause == Cause::Compaction {
            state.note_copies(header, &live);
        }
        live
    }

    /// Moves the live blocks of a segment.
    async fn move_segment(
        &mut self,
        zone: Zone,
        at: u32,
        header: &Header,
    ) -> Result<(), BlockError> {
        let live = self.live(zone, at, header);
        for stretch in live.chunk_by(|a, b| b.from.0 - a.from.0 <= GAP_MAX) {
            self.move_stretch(stretch).await?;
        }
        Ok(())
    }

    async fn move_stretch(&mut self, stretch: &[MovingBlock]) -> Result<(), BlockError> {
        let (first, last) = (stretch[0].from, stretch[stretch.len() - 1].from);
        let blocks = last.0 - first.0 + 1;
        let buffer = self.inner.own.take(Blocks(u64::from(blocks))).await;
        let read = self.inner.read_own(first, blocks, buffer).await?;
        for moved in stretch {
            match &read {
                Some(buffer) => {
                    let at = index(u64::from(moved.from.0 - first.0)) * BLOCK_BYTES;
                    self.move_block(*moved, Some((buffer, at))).await?;
                }
                // One block of the stretch is unreadable: read each alone.
                None if 1 < blocks => {
                    let alone = self.inner.own.take(Blocks(1)).await;
                    let alone = self.inner.read_own(moved.from, 1, alone).await?;
                    self.move_block(*moved, alone.as_ref().map(|buffer| (buffer, 0))).await?;
                }
                None => self.move_block(*moved, None).await?,
            }
        }
        Ok(())
    }
}
