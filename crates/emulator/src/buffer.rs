//! Write buffer: a write completes once its data are in the buffer, and the flash drains the buffer.
//!
//! Every *stream* gets an equal share of the program bandwidth while it has data to drain. A stream is a zone that is
//! written or finished, or all writes of a conventional drive. Each stream may have a fixed amount of undrained data;
//! a write beyond that waits for room in its own stream.
//!
//! The shares are kept in *virtual time*, as in generalised processor sharing: the more streams share the drain, the
//! slower virtual time runs. So the end of a stream's work is known in virtual time when the work begins, and does
//! not change when other streams come and go.

mod clock;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Reverse;

use zonal_base::{Blocks, Nanos};

use crate::in_flight::SlotId;
use crate::profile::BufferProfile;
use clock::{BLOCK_GRAINS, DrainClock, Grains};

/// Stream that shares the drain bandwidth.
pub(crate) type StreamId = u32;

#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    clock: DrainClock,
    stream_grains: Grains,
    /// End of each stream's work, in virtual time. A stream whose end is not after `virtual_now` has no work.
    streams: Vec<Grains>,
    active_count: u64,
    virtual_now: Grains,
    /// Total work drained up to `at`, by the clock.
    drained: Grains,
    at: Nanos,
    /// Commands that wait for a virtual time, ordered by it.
    waiting: BinaryHeap<Reverse<(Grains, u64, SlotId)>>,
    /// Streams with work, ordered by the end of their work at the last check.
    active: BinaryHeap<Reverse<(Grains, StreamId)>>,
    wait_count: u64,
    /// Cached next event; empty when it has not been computed since the last change.
    first: Cell<Option<Moment>>,
}

/// An event: its virtual time, and the time at which that is reached.
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

    /// Adds the blocks of a write to a stream. True: the stream has room, or will have when the blocks arrive. False:
    /// `slot` comes out of [`WriteBuffer::pop`] once there is room.
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

    /// Adds the padding of a zone finish to a stream: each block costs `cost_permille` thousandths of a written one.
    /// `slot` comes out when the last padding block is on flash.
    pub(crate) fn pad(&mut self, now: Nanos, stream: StreamId, work: Padding, slot: SlotId) {
        let end = self.add(now, stream, work.blocks.0 * BLOCK_GRAINS / 1000 * work.cost_permille);
        self.wait(end, slot);
    }

    /// Delays the drain by the given time: something else occupies the flash. A slower drain for a longer time counts
    /// as its equivalent in full stops.
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

    /// Blocks drained up to the last time at which the buffer was advanced.
    pub(crate) const fn drained(&self) -> Blocks {
        Blocks(self.drained / BLOCK_GRAINS)
    }

    /// Time at which the first waiting command comes out, or an earlier time: the shares change when a stream runs
    /// empty.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.waiting.peek()?;
        self.first().map(|first| first.due)
    }

    /// Next event: the first waiting command, or the end of a stream's work as of its last check. `None`: there is no
    /// work to drain.
    fn first(&self) -> Option<Moment> {
        if self.first.get().is_none() {
            let Reverse((end, _)) = self.active.peek()?;
            let target = self.waiting.peek().map_or(*end, |Reverse((room, ..))| *end.min(room));
            self.first.set(Some(Moment { target, due: self.when(target) }));
        }
        self.first.get()
    }

    /// Takes the next waiting command that is served by `now`, with the time at which it was served.
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

    /// Advances virtual time to `target`, which it reaches at `due`.
    fn move_to(&mut self, due: Nanos, target: Grains) {
        self.first.set(None);
        self.drained += target.saturating_sub(self.virtual_now) * self.active_count;
        self.virtual_now = self.virtual_now.max(target);
        // Advances the clock as well.
        self.clock.drained(due);
        self.at = due;
    }

    /// Advances virtual time to `now`, at which no event is due.
    fn catch_up(&mut self, now: Nanos) {
        if self.active_count == 0 || now <= self.at {
            return;
        }
        let passed = self.clock.drained(now).saturating_sub(self.drained) / self.active_count;
        self.drained += passed * self.active_count;
        self.virtual_now += passed;
        self.at = now;
        if 1 < self.active_count {
            // The remainder of the division shifts the next event slightly.
            self.first.set(None);
        }
    }
}

/// Padding of a zone finish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Padding {
    /// Blocks of the zone that the host did not write.
    pub(crate) blocks: Blocks,
    /// Cost of a padding block, in thousandths of a written block.
    pub(crate) cost_permille: u64,
}
