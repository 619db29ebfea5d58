//! The write buffer: a write is answered when it lies there, and the flash drains it.
//!
//! Every *stream* (a zone that is written or finished, the host's or the collector's writes of a
//! conventional drive) gets the same share of the program bandwidth while it has something to
//! drain, and may have so much undrained. A write beyond that waits for room in its own stream.
//!
//! Shares are kept in *virtual time*, as in generalised processor sharing: it runs the slower the more
//! streams share the drain, so the moment at which a stream's work is done is known in virtual time
//! when it begins, and need not be touched when others come and go.

mod clock;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Reverse;

use zonal_base::{Blocks, Nanos};

use crate::in_flight::SlotId;
use crate::profile::BufferProfile;
use clock::{BLOCK_GRAINS, DrainClock, Grains};

/// One that shares the drain.
pub(crate) type StreamId = u32;

#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    clock: DrainClock,
    stream_grains: Grains,
    /// Where each stream's work ends, in virtual time. Up to `virtual_now`: it has none.
    streams: Vec<Grains>,
    active_count: u64,
    virtual_now: Grains,
    /// What was drained up to `at`, by the clock.
    drained: Grains,
    at: Nanos,
    /// Who waits until virtual time has come so far.
    waiting: BinaryHeap<Reverse<(Grains, u64, SlotId)>>,
    /// Streams that have work, by where it ended when they were last looked at.
    active: BinaryHeap<Reverse<(Grains, StreamId)>>,
    wait_count: u64,
    /// What happens first, as far as it was asked about and nothing has changed it since.
    first: Cell<Option<Moment>>,
}

/// A moment in virtual time, and when that is.
#[derive(Clone, Copy, Debug)]
struct Moment {
    target: Grains,
    due: Nanos,
}

impl WriteBuffer {
    pub(crate) fn new(profile: &BufferProfile, stream_count: u32, seed: u64) -> Self {
        Self {
            clock: DrainClock::new(profile, seed),
            stream_grains: profile.blocks_per_stream * BLOCK_GRAINS,
            streams: alloc::vec![0; stream_count as usize],
            active_count: 0,
            virtual_now: 0,
            drained: 0,
            at: Nanos(0),
            waiting: BinaryHeap::new(),
            active: BinaryHeap::new(),
            wait_count: 0,
            first: Cell::new(None),
        }
    }

    /// Puts blocks into a stream. True: there is room, or will be when the blocks arrive. False: `slot` comes out
    /// of [`WriteBuffer::pop`] when there is.
    ///
    /// Requires: everything due at `now` was popped.
    pub(crate) fn write(
        &mut self,
        now: Nanos,
        stream: StreamId,
        blocks: Blocks,
        slot: SlotId,
    ) -> bool {
        let end = self.add(now, stream, blocks.0 * BLOCK_GRAINS);
        let has_room_at = end.saturating_sub(self.stream_grains);
        if has_room_at <= self.virtual_now {
            return true;
        }
        self.wait(has_room_at, slot);
        false
    }

    /// Drains so many blocks' worth of work, `permille` of it, in a stream; `slot` comes out when the last is on flash.
    pub(crate) fn pad(&mut self, now: Nanos, stream: StreamId, work: Padding, slot: SlotId) {
        let end = self.add(now, stream, work.blocks.0 * BLOCK_GRAINS / 1000 * work.cost_permille);
        self.wait(end, slot);
    }

    /// Nothing is drained for so long, or as much less than usual for longer: something else has the flash.
    ///
    /// Requires: everything due at `now` was popped.
    pub(crate) fn hold_up(&mut self, now: Nanos, by: Nanos) {
        if by == Nanos(0) || self.active_count == 0 {
            return;
        }
        self.catch_up(now);
        self.clock.hold_up(by);
        self.first.set(None);
    }

    /// Blocks of the stream that are not on flash yet.
    ///
    /// Requires: everything due now was popped.
    pub(crate) fn backlog(&self, stream: StreamId) -> Blocks {
        let work = self.streams[stream as usize].saturating_sub(self.virtual_now);
        Blocks(work.div_ceil(BLOCK_GRAINS))
    }

    /// Blocks that were drained up to the last moment that it was asked about.
    pub(crate) const fn drained(&self) -> Blocks {
        Blocks(self.drained / BLOCK_GRAINS)
    }

    /// When the first who waits comes out, or sooner: shares change when a stream has nothing left.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.waiting.peek()?;
        self.first().map(|first| first.due)
    }

    /// When virtual time has come to the first who waits, or to the end of a stream's work as it was last looked at. None:
    /// there is nothing to drain.
    fn first(&self) -> Option<Moment> {
        if self.first.get().is_none() {
            let Reverse((end, _)) = self.active.peek()?;
            let target = self.waiting.peek().map_or(*end, |Reverse((room, ..))| *end.min(room));
            self.first.set(Some(Moment { target, due: self.when(target) }));
        }
        self.first.get()
    }

    /// The next who waited and is served by `now`, and when that was.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<(Nanos, SlotId)> {
        while let Some(Moment { target, due }) = self.first() {
            if now < due {
                break;
            }
            self.move_to(due, target);
            if self.waiting.peek().is_some_and(|Reverse((room, ..))| *room <= target) {
                let Reverse((.., slot)) = self.waiting.pop()?;
                return Some((due, slot));
            }
            let Reverse((_, stream)) = self.active.pop()?;
            let end_now = self.streams[stream as usize];
            if self.virtual_now < end_now {
                self.active.push(Reverse((end_now, stream)));
            } else {
                self.active_count -= 1;
            }
        }
        self.catch_up(now);
        None
    }

    fn add(&mut self, now: Nanos, stream: StreamId, work: Grains) -> Grains {
        if self.active_count == 0 {
            self.clock.resume(self.drained, now);
            self.at = now;
        }
        let end = &mut self.streams[stream as usize];
        let was_idle = *end <= self.virtual_now;
        *end = (*end).max(self.virtual_now) + work;
        if was_idle {
            self.active.push(Reverse((*end, stream)));
            self.active_count += 1;
            self.first.set(None);
        }
        *end
    }

    fn wait(&mut self, until: Grains, slot: SlotId) {
        self.wait_count += 1;
        if self.first.get().is_some_and(|first| until < first.target) {
            self.first.set(None);
        }
        self.waiting.push(Reverse((until, self.wait_count, slot)));
    }

    fn when(&self, target: Grains) -> Nanos {
        let work = target.saturating_sub(self.virtual_now) * self.active_count;
        self.clock.when(self.drained + work).max(self.at)
    }

    /// Virtual time has come to `target`; that is at `due`.
    fn move_to(&mut self, due: Nanos, target: Grains) {
        self.first.set(None);
        self.drained += target.saturating_sub(self.virtual_now) * self.active_count;
        self.virtual_now = self.virtual_now.max(target);
        // The clock follows.
        self.clock.drained(due);
        self.at = due;
    }

    /// Lets virtual time run to `now`, at which nothing is due.
    fn catch_up(&mut self, now: Nanos) {
        if self.active_count == 0 || now <= self.at {
            return;
        }
        let passed = self.clock.drained(now).saturating_sub(self.drained) / self.active_count;
        self.drained += passed * self.active_count;
        self.virtual_now += passed;
        self.at = now;
        if 1 < self.active_count {
            // What the division leaves over moves it a little.
            self.first.set(None);
        }
    }
}

/// What finishing a zone drains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Padding {
    /// Blocks that nobody wrote.
    pub(crate) blocks: Blocks,
    /// What each costs, compared with a written one.
    pub(crate) cost_permille: u64,
}
