//! Read path: looks up the map and reads both tiers. Client reads do not verify block checksums;
//! moves and recovery do.
//!
//! 1. Look up the blocks, and read map pages that are not in memory. Consecutive blocks in one zone
//!    become one read, holes become zeros.
//! 2. Pin the zones, read, unpin. A single read is returned without a copy; several are gathered
//!    into one buffer.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Payload, index, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::format::Key;
use crate::layout::PhysAddr;
use crate::map::{Page, PageId};
use crate::shaper::Inner;
use crate::tier::{Pin, gone};
use crate::{BlockError, Extent, Piece, Settings, Shaper};

/// Device reads of one request in flight: scattered blocks keep this many dies of a drive busy.
const SCATTERED_MAX: usize = 16;

/// Reads up to this many blocks cache their map entries one by one. For longer reads a cached map
/// page is better.
const REMEMBERED_MAX: u64 = 8;

/// Consecutive blocks on a device, or a hole.
#[derive(Clone, Copy)]
struct Stretch {
    spot: PhysAddr,
    blocks: u64,
}

struct InFlightRead {
    call: Call<Command, Completion>,
    /// Offset of its data in the request's buffer, in bytes.
    at: usize,
    stretch: Stretch,
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
        let stretches = self.find(extent, &mut held).await?;
        let hole = |stretch: Option<&Stretch>| match stretch {
            Some(stretch) if stretch.is_hole() => stretch.blocks,
            _ => 0,
        };
        let before = hole(stretches.first());
        if before == extent.blocks.0 {
            return Ok(alloc::vec![Piece::Zeros(extent.blocks)]);
        }
        let after = hole(stretches.last());
        let mapped: Vec<Stretch> = stretches.into_iter().filter(|one| !one.is_hole()).collect();
        let blocks = Blocks(extent.blocks.0 - before - after);
        let data = match mapped[..] {
            [stretch] => self.read_one(stretch).await?,
            _ => {
                let first = extent.first + Blocks(before);
                self.read_scattered(Extent { first, blocks, ..extent }, held).await?
            }
        };
        let mut pieces = Vec::with_capacity(3);
        pieces.extend((0 < before).then_some(Piece::Zeros(Blocks(before))));
        pieces.push(Piece::Data(data));
        pieces.extend((0 < after).then_some(Piece::Zeros(Blocks(after))));
        Ok(pieces)
    }

    /// Addresses of the blocks, as stretches. Reads the map pages that are not in memory.
    async fn find(
        self: &Rc<Self>,
        extent: Extent,
        held: &mut Vec<Rc<Page>>,
    ) -> Result<Vec<Stretch>, BlockError> {
        loop {
            match self.stretches(extent, held)? {
                Ok(stretches) => {
                    if !held.is_empty() && extent.blocks.0 <= REMEMBERED_MAX {
                        self.remember(extent, &stretches);
                    }
                    return Ok(stretches);
                }
                Err(page) => {
                    let buffer = self.ports.buffers.take(Blocks(1)).await;
                    held.retain(|other| other.id() != page);
                    held.extend(self.read_page(page, buffer).await?);
                }
            }
        }
    }

    fn remember(&self, extent: Extent, stretches: &[Stretch]) {
        let mut state = self.state.borrow_mut();
        let Some(paged) = state.map.paged_mut() else { return };
        let spots = stretches.iter().flat_map(|stretch| {
            let is_hole = stretch.is_hole();
            let plus = move |n| if is_hole { PhysAddr::NONE } else { stretch.spot.plus(n) };
            (0..low_u32(index(stretch.blocks))).map(plus)
        });
        for (number, spot) in (extent.first.0..).zip(spots) {
            paged.remember(usize::from(extent.export.0), number, spot);
        }
        self.ask_for_merge(&state);
    }

    /// Addresses of the blocks now, as stretches, or the map page that must be read first.
    fn stretches(
        &self,
        extent: Extent,
        held: &[Rc<Page>],
    ) -> Result<Result<Vec<Stretch>, PageId>, BlockError> {
        let mut state = self.state.borrow_mut();
        let mut stretches: Vec<Stretch> = Vec::new();
        for n in 0..extent.blocks.0 {
            let key = Key::data(extent.export, extent.first.0 + n);
            if state.map.is_lost(key) {
                return Err(BlockError::Unreadable);
            }
            let spot = match state.map.look(key, held) {
                Ok(spot) => spot,
                Err(page) => return Ok(Err(page)),
            };
            match stretches.last_mut() {
                Some(last) if self.continues(*last, spot) => last.blocks += 1,
                _ => stretches.push(Stretch { spot, blocks: 1 }),
            }
        }
        Ok(Ok(stretches))
    }

    fn continues(&self, stretch: Stretch, spot: PhysAddr) -> bool {
        if stretch.is_hole() || spot == PhysAddr::NONE {
            return stretch.is_hole() && spot == PhysAddr::NONE;
        }
        let is_next = u64::from(stretch.spot.0) + stretch.blocks == u64::from(spot.0);
        is_next && self.layout.locate(stretch.spot).0 == self.layout.locate(spot).0
    }

    async fn read_one(self: &Rc<Self>, stretch: Stretch) -> Result<Payload, BlockError> {
        // Pin before the first wait: the map may change during it.
        let pin = self.pin(self.layout.locate(stretch.spot).0);
        let buffer = self.ports.buffers.take(Blocks(stretch.blocks)).await;
        let answer = self.ask(stretch, buffer).await;
        drop(pin);
        let buffer = self.answered(stretch, answer)?;
        Ok(buffer.freeze(index(Blocks(stretch.blocks).bytes().0)))
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
            let Ok(stretches) = self.stretches(rest, &held)? else {
                // The map page moved meanwhile. Release all small buffers before waiting for its
                // content.
                drop(buffer);
                while let Some(first) = under_way.pop_front() {
                    self.copy(first, &mut whole).await?;
                }
                self.find(rest, &mut held).await?;
                continue;
            };
            let stretch = stretches[0];
            let at = index(Blocks(next).bytes().0);
            next += stretch.blocks;
            if stretch.is_hole() {
                let len = index(Blocks(stretch.blocks).bytes().0);
                whole.bytes_mut()[at..at + len].fill(0);
                continue;
            }
            let pin = self.pin(self.layout.locate(stretch.spot).0);
            let call = self.ask(stretch, buffer);
            under_way.push_back(InFlightRead { call, at, stretch, _pin: pin });
        }
        while let Some(first) = under_way.pop_front() {
            self.copy(first, &mut whole).await?;
        }
        Ok(whole.freeze(index(extent.blocks.bytes().0)))
    }

    async fn copy(&self, read: InFlightRead, whole: &mut Buffer) -> Result<(), BlockError> {
        let InFlightRead { call, at, stretch, _pin } = read;
        let buffer = self.answered(stretch, call.await)?;
        whole.copy_from(at, &buffer.bytes()[..index(Blocks(stretch.blocks).bytes().0)]);
        Ok(())
    }

    fn ask(&self, stretch: Stretch, buffer: Buffer) -> Call<Command, Completion> {
        let (zone, at) = self.layout.locate(stretch.spot);
        let lba = self.layout.lba(zone, at);
        let blocks = Blocks(stretch.blocks);
        self.port(self.layout.tier_of(zone)).call(Command::Read { lba, blocks, buffer })
    }

    fn answered(&self, stretch: Stretch, answer: Completion) -> Result<Buffer, BlockError> {
        match answer {
            Ok(Answer::Read(buffer)) => Ok(buffer),
            Err(DeviceError::DeviceGone) => {
                let tier = self.layout.tier_of(self.layout.locate(stretch.spot).0);
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
}

impl Stretch {
    fn is_hole(self) -> bool {
        self.spot == PhysAddr::NONE
    }
}
