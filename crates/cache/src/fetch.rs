//! Origin fetch as its readers see it (single flight): pieces as they arrive, and a bounded window
//! ahead of the readers.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use bytes::Bytes;
use zonal_base::{Buffer, Payload, index, low_u32};
use zonal_policy::{SampleRank, Wasted};
use zonal_runtime::Event;
use zonal_zonelog::{Key, Record};

use crate::pins::{ReadHints, RetentionClass};
use crate::remove::EpochGuard;
use crate::{Head, ReadError};

/// Fetch window: a fetch runs at most 8 MiB ahead of its fastest reader. That keeps a connection of
/// 1 Gbit/s with 60 ms of delay busy, and bounds the memory of a stalled client.
pub(crate) const WINDOW_BYTES: u64 = 8 << 20;

/// State of one origin request, shared with its readers.
pub(crate) struct FetchState {
    head: Arc<Head>,
    watch: EpochGuard,
    /// Invalidation epoch of the object when the request was sent.
    epoch: u64,
    /// Position of the fastest reader, in bytes of the object.
    reached: Cell<u64>,
    /// End of the fetched range, in bytes of the object.
    end: u64,
    /// Window ahead of the fastest reader, in bytes.
    window_bytes: Cell<u64>,
    listeners: Cell<u32>,
    /// The reader that started the fetch needs no byte of it.
    is_abandoned: Cell<bool>,
    /// True when the fetch ended early because its readers stalled.
    has_stalled: Cell<bool>,
    /// Strongest retention class of its readers.
    retention: Cell<RetentionClass>,
    /// Lowest sample rank of its readers.
    rank: Cell<SampleRank>,
    moved: Event,
    /// Raised when the last listener leaves.
    deserted: Event,
    /// Set for a prefetch: the counter of its wasted bytes.
    ahead: Option<Wasted>,
}

/// Drop guard of a reader: a fetch continues while it has listeners.
pub(crate) struct Listener {
    fetch: Rc<FetchState>,
}

/// A piece on its way from the origin to readers and flash.
pub(crate) struct FillPiece {
    pub(crate) key: Key,
    /// First byte in the object.
    pub(crate) start: u64,
    pub(crate) len: u32,
    content: RefCell<Content>,
    grew: Event,
    /// A reader used the piece without having requested it from the origin.
    was_joined: Cell<bool>,
    /// A reader used the prefetched piece.
    was_followed: Cell<bool>,
    fetch: Rc<FetchState>,
}

enum Content {
    /// Network buffers in order, each with its end in the piece.
    Arriving(Vec<(u64, Bytes)>),
    /// Complete, in whole blocks, as the log takes it.
    Complete(Payload),
    Failed(ReadError),
}

/// Network buffers below this size are copied together for a reader: an origin may send a few bytes
/// at a time, and each delivery has its price.
const SMALL_BYTES: usize = 4 << 10;

/// Size of the copy.
const GATHERED_BYTES: usize = 64 << 10;

/// Copies `first` and what follows it, at most `most` bytes.
fn gathered(first: Bytes, others: &[(u64, Bytes)], most: usize) -> Bytes {
    if others.is_empty() {
        return first;
    }
    let most = most.min(GATHERED_BYTES);
    let mut all = Vec::with_capacity(most);
    for bytes in core::iter::once(&first).chain(others.iter().map(|(_, bytes)| bytes)) {
        let room = most - all.len();
        if room == 0 {
            break;
        }
        all.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    all.into()
}

impl Listener {
    /// Joins `fetch`. Reuses `before` if it already listens to this fetch.
    pub(crate) fn join(before: Option<Self>, fetch: &Rc<FetchState>) -> Self {
        if let Some(same) = before.filter(|before| before.is_of(fetch)) {
            return same;
        }
        fetch.listeners.set(fetch.listeners.get() + 1);
        Self { fetch: fetch.clone() }
    }

    pub(crate) fn is_of(&self, fetch: &Rc<FetchState>) -> bool {
        Rc::ptr_eq(&self.fetch, fetch)
    }

    /// True when the fetch ended early because its readers stalled.
    pub(crate) fn has_stalled(&self) -> bool {
        self.fetch.has_stalled.get()
    }

    /// Registers that the reader got everything before `at` from elsewhere. `None` when the fetch
    /// has no more bytes for the reader.
    pub(crate) fn passed(self, at: u64) -> Option<Self> {
        self.reached(at);
        (at < self.fetch.end).then_some(self)
    }

    /// Registers that the reader has everything before `at`.
    pub(crate) fn reached(&self, at: u64) {
        if self.fetch.reached.get() < at {
            self.fetch.reached.set(at);
            self.fetch.moved.notify_all();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.fetch.listeners.set(self.fetch.listeners.get() - 1);
        self.fetch.moved.notify_all();
        if !self.fetch.has_listeners() {
            self.fetch.deserted.notify_all();
        }
    }
}

impl FetchState {
    pub(crate) const fn retention(&self) -> RetentionClass {
        self.retention.get()
    }

    /// Raises the retention class of the pieces that come from now on.
    pub(crate) fn raise_care(&self, retention: RetentionClass) {
        self.retention.set(self.retention.get().max(retention));
    }

    /// Applies a reader's retention to the pieces that come from now on: the strongest class and
    /// the lowest rank win.
    pub(crate) fn keep_for(&self, keeping: ReadHints) {
        self.raise_care(keeping.retention);
        self.rank.set(self.rank.get().min(keeping.rank));
    }

    /// Creates the state of a fetch of `bytes`. `ahead` makes it a prefetch.
    pub(crate) fn new(
        head: Arc<Head>,
        watch: EpochGuard,
        bytes: &Range<u64>,
        ahead: Option<Wasted>,
    ) -> Rc<Self> {
        // A prefetch has no reader to keep step with, so its window never closes.
        let reached = if ahead.is_some() { bytes.end } else { bytes.start };
        Rc::new(Self {
            head,
            epoch: watch.epoch(),
            watch,
            reached: Cell::new(reached),
            end: bytes.end,
            window_bytes: Cell::new(WINDOW_BYTES),
            listeners: Cell::new(0),
            is_abandoned: Cell::new(false),
            has_stalled: Cell::new(false),
            retention: Cell::default(),
            rank: Cell::new(SampleRank::LAST),
            moved: Event::default(),
            deserted: Event::default(),
            ahead,
        })
    }

    pub(crate) const fn rank(&self) -> SampleRank {
        self.rank.get()
    }

    /// True for a prefetch.
    pub(crate) const fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Counts prefetched bytes that no reader used.
    pub(crate) fn note_wasted(&self, bytes: zonal_base::Bytes) {
        self.ahead.iter().for_each(|wasted| wasted.add(bytes));
    }

    /// Waits until the last listener leaves.
    pub(crate) async fn deserted(&self) {
        self.deserted.wait().await;
    }

    /// True while the fetch has readers.
    pub(crate) const fn has_listeners(&self) -> bool {
        self.listeners.get() != 0
    }

    /// True unless the object was removed after the request was sent.
    pub(crate) fn is_current(&self) -> bool {
        self.watch.may_publish(self.epoch)
    }

    pub(crate) const fn head(&self) -> &Arc<Head> {
        &self.head
    }

    pub(crate) fn note_stalled(&self) {
        self.has_stalled.set(true);
    }

    /// Registers that the reader that started the fetch needs no byte of it. The fetch goes no
    /// further unless another reader comes.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.set(true);
    }

    pub(crate) fn reached_with_window(&self) -> u64 {
        let has_window = self.is_current() && (self.has_listeners() || !self.is_abandoned.get());
        self.reached.get() + if has_window { self.window_bytes.get() } else { 0 }
    }

    /// Waits until `is_far_enough`. False when the fetch has no reader any more.
    pub(crate) async fn wait_until(&self, is_far_enough: impl Fn() -> bool) -> bool {
        while !is_far_enough() {
            if self.listeners.get() == 0 {
                return false;
            }
            self.moved.wait().await;
        }
        true
    }
}

impl FillPiece {
    pub(crate) fn new(key: Key, bytes: &Range<u64>, fetch: Rc<FetchState>) -> Rc<Self> {
        Rc::new(Self {
            key,
            start: bytes.start,
            len: low_u32(index(bytes.end - bytes.start)),
            content: RefCell::new(Content::Arriving(Vec::new())),
            grew: Event::default(),
            was_joined: Cell::new(false),
            was_followed: Cell::new(false),
            fetch,
        })
    }

    /// Holds a piece that does not go to flash until the fastest reader has it, so that the reader
    /// need not fetch it again. From now on the window is 0, so that a reader holds no more than a
    /// piece or two.
    pub(crate) async fn wait_for_reader(&self) {
        self.fetch.window_bytes.set(0);
        self.fetch.wait_until(|| self.end() <= self.fetch.reached.get()).await;
    }

    /// Head of the piece's version.
    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.fetch.head
    }

    /// Registers a reader that did not request the piece. The first reader of a prefetched piece
    /// does not count as joined: without prefetch it would have requested the piece.
    pub(crate) fn note_joined(&self) {
        let is_first = self.fetch.is_ahead() && !self.was_followed.replace(true);
        self.was_joined.set(self.was_joined.get() || !is_first);
    }

    pub(crate) const fn was_followed(&self) -> bool {
        self.was_followed.get()
    }

    /// End of the piece in the object, in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub(crate) const fn was_joined(&self) -> bool {
        self.was_joined.get()
    }

    pub(crate) const fn fetch(&self) -> &Rc<FetchState> {
        &self.fetch
    }

    /// True unless the object was removed after the request was sent. A removed piece serves only
    /// readers that already follow its fetch. The key does not show the removal: once the tombstone
    /// is dropped, a new head with the same ETag leads to the same keys.
    pub(crate) fn is_current(&self) -> bool {
        self.fetch.is_current()
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(*self.content.borrow(), Content::Complete(_))
    }

    /// Waits for bytes of the object from `at` on: at least one, and none from `end` on.
    pub(crate) async fn bytes_from(&self, at: u64, end: u64) -> Result<Bytes, ReadError> {
        loop {
            if let Some(outcome) =
                self.content.borrow().bytes_from(at - self.start, end - self.start)
            {
                return outcome;
            }
            self.grew.wait().await;
        }
    }

    pub(crate) fn payload(&self) -> Option<Payload> {
        match &*self.content.borrow() {
            Content::Complete(payload) => Some(payload.clone()),
            _ => None,
        }
    }

    /// Moves the bytes out of the buffer pool into memory of their own, or into `spare`. A packed
    /// record takes its exact length, other records whole blocks.
    pub(crate) fn move_to_own_memory(&self, spare: Option<Payload>) -> Option<Payload> {
        let payload = self.payload()?;
        let own = match Record::is_packed(self.len) {
            true => payload.cut(0..self.len as usize).to_own_memory(spare),
            false => payload.to_own_memory(spare),
        };
        self.set(Content::Complete(own.clone()));
        Some(own)
    }

    pub(crate) fn push(&self, bytes: Bytes) {
        if let Content::Arriving(arrived) = &mut *self.content.borrow_mut() {
            let end = arrived.last().map_or(0, |(end, _)| *end) + bytes.len() as u64;
            arrived.push((end, bytes));
        }
        self.grew.notify_all();
    }

    /// Copies everything that has arrived into `buffer`.
    pub(crate) fn copy_to(&self, buffer: &mut Buffer) {
        if let Content::Arriving(arrived) = &*self.content.borrow() {
            for (end, bytes) in arrived {
                buffer.copy_from(index(*end) - bytes.len(), bytes);
            }
        }
    }

    pub(crate) fn complete(&self, payload: Payload) {
        self.set(Content::Complete(payload));
    }

    pub(crate) fn fail(&self, error: ReadError) {
        self.set(Content::Failed(error));
    }

    fn set(&self, content: Content) {
        *self.content.borrow_mut() = content;
        self.grew.notify_all();
    }
}

impl Content {
    fn bytes_from(&self, at: u64, end: u64) -> Option<Result<Bytes, ReadError>> {
        match self {
            Self::Failed(error) => Some(Err(*error)),
            Self::Complete(payload) => Some(Ok(payload.slice(index(at)..index(end)).into_bytes())),
            Self::Arriving(arrived) => {
                let rest = &arrived[arrived.partition_point(|(end, _)| *end <= at)..];
                let ((first_end, first), others) = rest.split_first()?;
                let most = index(end - at);
                let skip = first.len() - index(first_end - at);
                let first = first.slice(skip..first.len().min(skip + most));
                let is_small = first.len() < SMALL_BYTES && first.len() < most;
                Some(Ok(if is_small { gathered(first, others, most) } else { first }))
            }
        }
    }
}
