//! Prefetch path: detects sequential readers and fetches their next ranges.
//!
//! 1. Each requested range is reported to the scan detector (`zonal_policy`). It returns the range
//!    to prefetch.
//! 2. The missing pieces of that range are fetched as on a miss, and readers that come meanwhile
//!    follow the fetch. The fetch keeps step with no reader: there is none yet.
//! 3. A complete piece waits in its buffer until a reader has read it to the end. Only then
//!    admission judges it (`admit`), as if that reader had missed it: flash is never written for a
//!    guess.
//! 4. An unread piece gives its buffer back: after a while, or sooner when other requests need it.
//!
//! Prefetch is bounded and no reader waits for it. When room, memory or the origin is short,
//! prefetch stops and the reader misses as it would without prefetch.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use zonal_base::{Blocks, Buffer, Bytes, Nanos};
use zonal_policy::{Prefetch, SequentialDetector, Wasted};

use crate::cache::Inner;
use crate::fetch::FillPiece;
use crate::{Cache, Head, ObjectName};

/// Prefetch budget: one sixth of the buffer memory, for prefetches in flight and unread pieces.
/// That is a third of the buffers of a piece's size (`host` sets the pool sizes). With 96 MiB of
/// buffers it is twice the default window.
const SHARE: u64 = 6;

/// Effective prefetch window of one reader: the configured `window`, limited by the prefetch budget
/// that all readers of a shard share. `memory` is the shard's buffer memory in bytes.
#[must_use]
pub const fn prefetch_window(window: Bytes, memory: Bytes) -> Bytes {
    let most = memory.0 / SHARE;
    if window.0 < most { window } else { Bytes(most) }
}

/// Limit of prefetches in flight of one shard, beside the slots of the node: 8. An object store
/// answers that many requests of one client without slowing each down.
const FETCHES_MAX: u32 = 8;

/// Time limit of an unread piece: 30 s, long enough for a reader that looks at 16 MiB for half a
/// minute.
const UNREAD_MAX: Nanos = Nanos::secs(30);

/// Minimum age at which an unread piece gives way to another reader's prefetch: 2 s.
const GIVES_WAY_AFTER: Nanos = Nanos::secs(2);

/// Pause of all prefetch after the origin failed one: 5 s.
const PAUSE: Nanos = Nanos::secs(5);

/// Prefetch state of a shard: scans, prefetches in flight, and unread pieces.
pub(crate) struct Prefetched {
    scans: RefCell<SequentialDetector>,
    /// Unread pieces, in the order in which they were complete.
    unread: RefCell<VecDeque<Unread>>,
    /// Bytes of the budget in use: prefetches in flight and unread pieces.
    taken: Cell<u64>,
    most: u64,
    fetches: Cell<u32>,
    paused_until: Cell<Nanos>,
    /// True while a task expires unread pieces.
    is_looked_after: Cell<bool>,
}

/// A prefetched piece that no reader has read yet.
struct Unread {
    piece: Rc<FillPiece>,
    since: Nanos,
}

impl Prefetched {
    /// Creates the state for a window of at most `window` bytes and buffers of `memory` bytes.
    pub(crate) fn new(window: Bytes, memory: Bytes) -> Self {
        let most = memory.0 / SHARE;
        Self {
            scans: RefCell::new(SequentialDetector::new(prefetch_window(window, memory))),
            unread: RefCell::default(),
            taken: Cell::new(0),
            most,
            fetches: Cell::new(0),
            paused_until: Cell::new(Nanos(0)),
            is_looked_after: Cell::new(false),
        }
    }

    /// Registers the start of a prefetch of `bytes` bytes.
    pub(crate) fn note_begun(&self, bytes: u64) {
        self.taken.set(self.taken.get() + bytes);
        self.fetches.set(self.fetches.get() + 1);
    }

    /// Registers the end of a prefetch.
    pub(crate) fn note_over(&self) {
        self.fetches.set(self.fetches.get() - 1);
    }

    /// Returns bytes to the budget: they were read, expired, or not fetched after all.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken.set(self.taken.get() - bytes);
    }

    /// Pauses prefetch because the origin failed one.
    pub(crate) fn pause(&self, now: Nanos) {
        self.paused_until.set(now + PAUSE);
    }

    fn take(&self, piece: &Rc<FillPiece>) -> bool {
        let mut unread = self.unread.borrow_mut();
        // Readers come in the order of the pieces, so the search ends early.
        let at = unread.iter().position(|unread| Rc::ptr_eq(&unread.piece, piece));
        at.and_then(|at| unread.remove(at)).is_some()
    }

    /// Takes the oldest unread piece, if it is complete since `before` or earlier.
    fn take_oldest(&self, before: Nanos) -> Option<Rc<FillPiece>> {
        let mut unread = self.unread.borrow_mut();
        let is_old = unread.front().is_some_and(|oldest| oldest.since <= before);
        if is_old { unread.pop_front().map(|oldest| oldest.piece) } else { None }
    }

    /// Takes the oldest unread piece that fills exactly `blocks` blocks.
    fn take_oldest_of(&self, blocks: Blocks) -> Option<Rc<FillPiece>> {
        let fills = |unread: &Unread| Bytes(unread.piece.len.into()).blocks_ceil() == blocks;
        let mut unread = self.unread.borrow_mut();
        let at = unread.iter().position(fills)?;
        unread.remove(at).map(|oldest| oldest.piece)
    }
}

impl Cache {
    /// Registers a read of `range` of the version that `head` names. Returns the range to prefetch,
    /// for [`Cache::prefetch`] of the shards that own it.
    #[must_use]
    pub fn note_asked(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
    ) -> Option<Prefetch> {
        let inner = &self.inner;
        if inner.settings.prefetch == Bytes(0) {
            return None;
        }
        let make = || inner.keys_of(object, head);
        let (_, version) = inner.versions.borrow_mut().keys(object, head, make);
        let mut scans = inner.prefetched.scans.borrow_mut();
        let least = Bytes(inner.chunk_of(head));
        scans.note(version.hash(), range, (head.size, least), inner.now())
    }

    /// Prefetches the missing pieces of `range`, as far as there is room now. `wasted` counts bytes
    /// that go unread.
    ///
    /// Requires: the range lies within the object and within one stripe.
    pub fn prefetch(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
        wasted: &Wasted,
    ) {
        assert!(range.start <= range.end && range.end <= head.size);
        let inner = &self.inner;
        let make = || inner.keys_of(object, head);
        let keys = inner.versions.borrow_mut().keys(object, head, make);
        let piece = inner.piece_of(head);
        // The piece that the reader's range touches comes with its own fetch, so prefetch starts
        // behind it.
        let mut next = range.start.div_ceil(piece);
        let end = range.end.div_ceil(piece);
        while next < end && inner.may_prefetch(piece) {
            if !inner.is_missing(keys.1, head, next) {
                next += 1;
                continue;
            }
            let room = inner.room_to_prefetch(piece) / piece;
            let most = end.min(next + room);
            let mut until = next;
            while until < most && inner.is_missing(keys.1, head, until) {
                until += 1;
            }
            if until == next {
                return;
            }
            let Some(slot) = inner.ports.prefetch_slots.take() else { return };
            let of = (object.clone(), head.clone());
            inner.start_prefetch(of, keys, &(next..until), (wasted.clone(), slot));
            next = until;
        }
    }

    /// Number of sequential readers with an open scan.
    #[must_use]
    pub fn open_scans(&self) -> u64 {
        self.inner.prefetched.scans.borrow().open_count(self.inner.now())
    }

    /// Bytes that were prefetched and not read yet.
    #[must_use]
    pub fn unread(&self) -> Bytes {
        let unread = self.inner.prefetched.unread.borrow();
        Bytes(unread.iter().map(|unread| u64::from(unread.piece.len)).sum())
    }
}

impl Inner {
    fn may_prefetch(&self, piece: u64) -> bool {
        let Prefetched { paused_until, fetches, .. } = &self.prefetched;
        paused_until.get() <= self.now()
            && fetches.get() < FETCHES_MAX
            && !self.log.is_gone()
            && !self.is_memory_short(piece)
    }

    /// True when free buffers for a piece of `piece` bytes are short.
    pub(crate) fn is_memory_short(&self, piece: u64) -> bool {
        self.ports.buffers.pool().is_short(Bytes(piece).blocks_ceil())
    }

    /// Bytes that may be prefetched now. Old unread pieces give way.
    fn room_to_prefetch(self: &Rc<Self>, piece: u64) -> u64 {
        let Prefetched { taken, most, .. } = &self.prefetched;
        let before = Nanos(self.now().0.saturating_sub(GIVES_WAY_AFTER.0));
        while *most < taken.get() + piece {
            let Some(unread) = self.prefetched.take_oldest(before) else { break };
            self.end_unread(&unread);
        }
        most.saturating_sub(taken.get())
    }

    /// Keeps a complete prefetched piece for its reader.
    pub(crate) fn wait_unread(self: &Rc<Self>, piece: Rc<FillPiece>) {
        self.count(|stats| stats.prefetched_bytes += u64::from(piece.len));
        let since = self.now();
        self.prefetched.unread.borrow_mut().push_back(Unread { piece, since });
        if !self.prefetched.is_looked_after.replace(true) {
            self.ports.spawner.spawn(self.clone().look_after_unread());
        }
    }

    async fn look_after_unread(self: Rc<Self>) {
        loop {
            let oldest = self.prefetched.unread.borrow().front().map(|oldest| oldest.since);
            let Some(since) = oldest else { break };
            self.ports.clock.sleep_until(since + UNREAD_MAX).await;
            let before = Nanos(self.now().0.saturating_sub(UNREAD_MAX.0));
            while let Some(piece) = self.prefetched.take_oldest(before) {
                self.end_unread(&piece);
            }
        }
        self.prefetched.is_looked_after.set(false);
    }

    /// Registers that a reader has everything of the piece before `at`.
    pub(crate) fn note_followed(self: &Rc<Self>, piece: &Rc<FillPiece>, at: u64) {
        if at == piece.end() && self.prefetched.take(piece) {
            self.end_read(piece.clone());
        }
    }

    /// Ends the wait of a prefetched piece that was read: admission treats it as a miss from now
    /// on.
    fn end_read(self: &Rc<Self>, piece: Rc<FillPiece>) {
        let len = u64::from(piece.len);
        self.prefetched.give_back(len);
        self.count(|stats| stats.prefetched_read_bytes += len);
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            inner.admit(piece).await;
            drop(writing);
        });
    }

    /// Expires an unread piece. A piece with a follower counts as read.
    fn end_unread(self: &Rc<Self>, piece: &Rc<FillPiece>) {
        if piece.was_followed() {
            return self.end_read(piece.clone());
        }
        let len = u64::from(piece.len);
        self.prefetched.give_back(len);
        self.count(|stats| stats.prefetched_unread_bytes += len);
        piece.fetch().note_wasted(Bytes(len));
        self.end_filling(piece);
    }

    /// Takes a buffer for a reader, waiting for one if needed. When none is free, the oldest unread
    /// piece of that size gives its buffer up.
    pub(crate) async fn buffer(self: &Rc<Self>, blocks: Blocks) -> Buffer {
        if let Some(buffer) = self.ports.buffers.try_take(blocks) {
            return buffer;
        }
        if let Some(unread) = self.prefetched.take_oldest_of(blocks) {
            self.end_unread(&unread);
        }
        self.ports.buffers.take(blocks).await
    }

    /// Takes a buffer for a prefetch. `None` when readers may need the free buffers.
    pub(crate) fn spare_buffer(&self, blocks: Blocks) -> Option<Buffer> {
        let is_short = self.ports.buffers.pool().is_short(blocks);
        if is_short { None } else { self.ports.buffers.try_take(blocks) }
    }
}
