//! Prefetch path: detects sequential readers and fetches their next ranges.
//!
//! 1. Each range that is asked for is told to the scans (`zonal_policy`); they say what to fetch beyond it.
//! 2. What of that is missing is fetched as any other miss, and whoever comes meanwhile follows the fetch. It keeps no
//!    step with readers: there is none yet.
//! 3. A complete piece waits in its buffer until a reader has come to its end. Only then is it judged (`admit`), as
//!    if it had been missed by that reader: flash is never written for a guess.
//! 4. What nobody reads gives its buffer back: after a while, or sooner when others need it.
//!
//! What is fetched and held has a bound, and nobody waits for it: where room, memory or the origin is short, nothing
//! is fetched ahead, and the reader misses as it would have.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use zonal_base::{Blocks, Buffer, Bytes, Nanos};
use zonal_policy::{Prefetch, Scans, Wasted};

use crate::cache::Inner;
use crate::fetch::FillPiece;
use crate::{Cache, Head, ObjectName};

/// Of the buffers, so much may be fetched ahead or wait for readers: a third of those of a piece's size (`host`).
/// With 96 MiB it is twice the default window.
const SHARE: u64 = 6;

/// How far ahead of one reader is fetched at most, of the `window` that is asked for: all readers of a shard together have
/// a share of its buffers, which are of `memory` in all.
#[must_use]
pub const fn prefetch_window(window: Bytes, memory: Bytes) -> Bytes {
    let most = memory.0 / SHARE;
    if window.0 < most { window } else { Bytes(most) }
}

/// Fetches ahead of readers under way at once: an object store answers as many at a time to one client without
/// slowing each of them down, and they leave nearly all places at the origin (256) to readers.
const FETCHES_MAX: u32 = 8;

/// How long a piece waits for its reader: long enough for one that looks at 16 MiB for half a minute.
const UNREAD_MAX: Nanos = Nanos::secs(30);

/// What has waited for so long gives way to what another reader will ask for next.
const GIVES_WAY_AFTER: Nanos = Nanos::secs(2);

/// After the origin failed a fetch that nobody had asked for, it is left alone for so long.
const PAUSE: Nanos = Nanos::secs(5);

/// What is fetched ahead of readers, and what of it waits for them.
pub(crate) struct Prefetched {
    scans: RefCell<Scans>,
    /// By when it was complete.
    unread: RefCell<VecDeque<Unread>>,
    /// Bytes that are being fetched or wait.
    taken: Cell<u64>,
    most: u64,
    fetches: Cell<u32>,
    paused_until: Cell<Nanos>,
    /// A task looks after those that wait too long.
    is_looked_after: Cell<bool>,
}

/// A piece that waits for its reader.
struct Unread {
    piece: Rc<FillPiece>,
    since: Nanos,
}

impl Prefetched {
    /// A window of `window` at most, out of buffers of `memory` in all.
    pub(crate) fn new(window: Bytes, memory: Bytes) -> Self {
        let most = memory.0 / SHARE;
        Self {
            scans: RefCell::new(Scans::new(prefetch_window(window, memory))),
            unread: RefCell::default(),
            taken: Cell::new(0),
            most,
            fetches: Cell::new(0),
            paused_until: Cell::new(Nanos(0)),
            is_looked_after: Cell::new(false),
        }
    }

    /// A fetch of so many bytes begins.
    pub(crate) fn note_begun(&self, bytes: u64) {
        self.taken.set(self.taken.get() + bytes);
        self.fetches.set(self.fetches.get() + 1);
    }

    /// A fetch is over.
    pub(crate) fn note_over(&self) {
        self.fetches.set(self.fetches.get() - 1);
    }

    /// So much was read, is not wanted, or was not fetched after all.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken.set(self.taken.get() - bytes);
    }

    /// The origin failed a fetch that nobody had asked for.
    pub(crate) fn pause(&self, now: Nanos) {
        self.paused_until.set(now + PAUSE);
    }

    fn take(&self, piece: &Rc<FillPiece>) -> bool {
        let mut unread = self.unread.borrow_mut();
        // Readers come in the order in which pieces did, so it is among the first.
        let at = unread.iter().position(|unread| Rc::ptr_eq(&unread.piece, piece));
        at.and_then(|at| unread.remove(at)).is_some()
    }

    /// The piece that waits for longest, if that is since `before` or earlier.
    fn take_oldest(&self, before: Nanos) -> Option<Rc<FillPiece>> {
        let mut unread = self.unread.borrow_mut();
        let is_old = unread.front().is_some_and(|oldest| oldest.since <= before);
        if is_old { unread.pop_front().map(|oldest| oldest.piece) } else { None }
    }

    /// The piece that waits for longest of those that fill so many blocks.
    fn take_oldest_of(&self, blocks: Blocks) -> Option<Rc<FillPiece>> {
        let fills = |unread: &Unread| Bytes(unread.piece.len.into()).blocks_ceil() == blocks;
        let mut unread = self.unread.borrow_mut();
        let at = unread.iter().position(fills)?;
        unread.remove(at).map(|oldest| oldest.piece)
    }
}

impl Cache {
    /// A reader asks for `range` of the version that `head` names: what to fetch ahead of it, with
    /// [`Cache::prefetch`] of the shards on which that lives.
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

    /// Starts to fetch what of `range` is missing, as far as there is room for it now. `wasted` hears of what goes
    /// unread.
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
        // What the reader has asked for a part of, its own fetch brings.
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
            let of = (object.clone(), head.clone());
            inner.start_prefetch(of, keys, &(next..until), wasted.clone());
            next = until;
        }
    }

    /// Readers that go front to back and are fetched ahead of.
    #[must_use]
    pub fn open_scans(&self) -> u64 {
        self.inner.prefetched.scans.borrow().open_count(self.inner.now())
    }

    /// Bytes that were fetched ahead of readers and wait for them.
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

    /// Others have need of the buffers that a piece of so many bytes would take.
    pub(crate) fn is_memory_short(&self, piece: u64) -> bool {
        self.ports.buffers.pool().is_short(Bytes(piece).blocks_ceil())
    }

    /// Bytes that may be fetched ahead now.
    fn room_to_prefetch(self: &Rc<Self>, piece: u64) -> u64 {
        let Prefetched { taken, most, .. } = &self.prefetched;
        let before = Nanos(self.now().0.saturating_sub(GIVES_WAY_AFTER.0));
        while *most < taken.get() + piece {
            let Some(unread) = self.prefetched.take_oldest(before) else { break };
            self.end_unread(&unread);
        }
        most.saturating_sub(taken.get())
    }

    /// A piece that was fetched ahead is complete: it waits for its reader.
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

    /// A reader has everything of the piece before `at`.
    pub(crate) fn note_followed(self: &Rc<Self>, piece: &Rc<FillPiece>, at: u64) {
        if at == piece.end() && self.prefetched.take(piece) {
            self.end_read(piece.clone());
        }
    }

    /// The piece has waited for its reader, and is from now on as if that had missed it.
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

    /// The piece waits no longer.
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

    /// A buffer for somebody who cannot go on without. When there is none, a piece that waits for its reader in one of
    /// that size gives way.
    pub(crate) async fn buffer(self: &Rc<Self>, blocks: Blocks) -> Buffer {
        if let Some(buffer) = self.ports.buffers.try_take(blocks) {
            return buffer;
        }
        if let Some(unread) = self.prefetched.take_oldest_of(blocks) {
            self.end_unread(&unread);
        }
        self.ports.buffers.take(blocks).await
    }

    /// A buffer for what nobody has asked for: when others may need them there is none.
    pub(crate) fn spare_buffer(&self, blocks: Blocks) -> Option<Buffer> {
        let is_short = self.ports.buffers.pool().is_short(blocks);
        if is_short { None } else { self.ports.buffers.try_take(blocks) }
    }
}
