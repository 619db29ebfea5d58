//! Origin fetch as its readers see it (single flight): pieces as they arrive, and a bounded window ahead of the
//! readers.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use bytes::Bytes;
use zonal_base::{Payload, index, low_u32};
use zonal_policy::{Lot, Wasted};
use zonal_runtime::Event;
use zonal_zonelog::{Key, Record};

use crate::pins::{Care, Keeping};
use crate::remove::Watch;
use crate::{Head, ReadError};

/// How far a fetch runs ahead of its fastest reader: 8 MiB. Enough to keep a connection of 1 Gbit/s with
/// 60 ms of delay busy; what a stalled client can make us hold.
pub(crate) const WINDOW_BYTES: u64 = 8 << 20;

/// One request to the origin, as its readers see it.
pub(crate) struct FetchState {
    head: Arc<Head>,
    watch: Watch,
    /// Of the object when the origin was asked.
    epoch: u64,
    /// How far the fastest reader is, in bytes of the object.
    reached: Cell<u64>,
    /// Where it ends.
    end: u64,
    /// How far it may run ahead of the fastest reader.
    window_bytes: Cell<u64>,
    listeners: Cell<u32>,
    /// Its readers did not move on, and it ended before its end.
    has_stalled: Cell<bool>,
    /// The most that any of its readers wants of it.
    care: Cell<Care>,
    /// The lowest lot of its readers.
    lot: Cell<Lot>,
    moved: Event,
    /// Nobody has asked for it: it is fetched ahead of a reader.
    ahead: Option<Wasted>,
}

/// A reader of a fetch. The fetch goes on while there is one.
pub(crate) struct Listener {
    fetch: Rc<FetchState>,
}

/// A piece on its way from the origin to flash.
pub(crate) struct FillPiece {
    pub(crate) key: Key,
    /// Where it lies in the object.
    pub(crate) start: u64,
    pub(crate) len: u32,
    content: RefCell<Content>,
    grew: Event,
    /// Somebody read it who did not ask the origin for it.
    was_joined: Cell<bool>,
    /// Somebody read it who came after it was fetched ahead.
    was_followed: Cell<bool>,
    fetch: Rc<FetchState>,
}

enum Content {
    /// As it came from the network.
    Arriving(Vec<Bytes>, u64),
    /// In whole blocks, as the log takes it.
    Complete(Payload),
    Failed(ReadError),
}

impl Listener {
    /// Listens to `fetch`, with `before` if that listens to it already.
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

    /// It ended early, because none of its readers moved on.
    pub(crate) fn has_stalled(&self) -> bool {
        self.fetch.has_stalled.get()
    }

    /// The reader had everything before `at` from elsewhere. `None` when the fetch has no more for it.
    pub(crate) fn passed(self, at: u64) -> Option<Self> {
        self.reached(at);
        (at < self.fetch.end).then_some(self)
    }

    /// The reader has everything before `at`.
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
    }
}

impl FetchState {
    pub(crate) const fn care(&self) -> Care {
        self.care.get()
    }

    /// A reader takes such care of what comes from now on.
    pub(crate) fn raise_care(&self, care: Care) {
        self.care.set(self.care.get().max(care));
    }

    /// What comes from now on is kept as such a reader wants it, if no other wants it more.
    pub(crate) fn keep_for(&self, keeping: Keeping) {
        self.raise_care(keeping.care);
        self.lot.set(self.lot.get().min(keeping.lot));
    }

    /// A fetch of these bytes of the version that `head` names, begun now, for a reader or `ahead` of one.
    pub(crate) fn new(
        head: Arc<Head>,
        watch: Watch,
        bytes: &Range<u64>,
        ahead: Option<Wasted>,
    ) -> Rc<Self> {
        // One that nobody has asked for keeps step with nobody.
        let reached = if ahead.is_some() { bytes.end } else { bytes.start };
        Rc::new(Self {
            head,
            epoch: watch.epoch(),
            watch,
            reached: Cell::new(reached),
            end: bytes.end,
            window_bytes: Cell::new(WINDOW_BYTES),
            listeners: Cell::new(0),
            has_stalled: Cell::new(false),
            care: Cell::default(),
            lot: Cell::new(Lot::LAST),
            moved: Event::default(),
            ahead,
        })
    }

    pub(crate) const fn lot(&self) -> Lot {
        self.lot.get()
    }

    /// True if nobody had asked for it when it began.
    pub(crate) const fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Of what was fetched ahead, nobody wants so much.
    pub(crate) fn note_wasted(&self, bytes: zonal_base::Bytes) {
        self.ahead.iter().for_each(|wasted| wasted.add(bytes));
    }

    /// Whether anybody reads it.
    pub(crate) const fn has_listeners(&self) -> bool {
        self.listeners.get() != 0
    }

    /// True unless the object was removed since the origin was asked.
    pub(crate) fn is_current(&self) -> bool {
        self.watch.may_publish(self.epoch)
    }

    pub(crate) const fn head(&self) -> &Arc<Head> {
        &self.head
    }

    pub(crate) fn note_stalled(&self) {
        self.has_stalled.set(true);
    }

    pub(crate) fn reached_with_window(&self) -> u64 {
        self.reached.get() + if self.is_current() { self.window_bytes.get() } else { 0 }
    }

    /// Waits until a reader has come far enough. False when there is none any more.
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
            content: RefCell::new(Content::Arriving(Vec::new(), 0)),
            grew: Event::default(),
            was_joined: Cell::new(false),
            was_followed: Cell::new(false),
            fetch,
        })
    }

    /// The piece does not go to flash: only its fetch can give it to a reader, who shall not have to ask the
    /// origin again. Waits until the fastest has it; from now on the fetch keeps step with that one, so that
    /// no more than a piece or two are held for it.
    pub(crate) async fn wait_for_reader(&self) {
        self.fetch.window_bytes.set(0);
        self.fetch.wait_until(|| self.end() <= self.fetch.reached.get()).await;
    }

    /// The version that it is a piece of.
    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.fetch.head
    }

    /// A reader comes for it that did not ask the origin for it. Of a piece that was fetched ahead, the first would have.
    pub(crate) fn note_joined(&self) {
        let is_first = self.fetch.is_ahead() && !self.was_followed.replace(true);
        self.was_joined.set(self.was_joined.get() || !is_first);
    }

    pub(crate) const fn was_followed(&self) -> bool {
        self.was_followed.get()
    }

    /// Where it ends in the object.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub(crate) const fn was_joined(&self) -> bool {
        self.was_joined.get()
    }

    pub(crate) const fn fetch(&self) -> &Rc<FetchState> {
        &self.fetch
    }

    /// True unless the object was removed since the origin was asked: then the piece is for those who follow
    /// its fetch already, and for nobody else. Its key does not tell: once the tombstone is no longer needed, a new
    /// head under the same ETag leads to the same keys.
    pub(crate) fn is_current(&self) -> bool {
        self.fetch.is_current()
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(*self.content.borrow(), Content::Complete(_))
    }

    /// Bytes of the object from `at` on, at least one and none from `end` on, once they are there.
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

    /// Its bytes, from now on in memory of their own, or in that of `spare`: of a packed record just these, of others in
    /// whole blocks.
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
        if let Content::Arriving(arrived, len) = &mut *self.content.borrow_mut() {
            *len += bytes.len() as u64;
            arrived.push(bytes);
        }
        self.grew.notify_all();
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
            Self::Arriving(_, len) if *len <= at => None,
            Self::Arriving(arrived, _) => {
                let mut skip = index(at);
                let bytes = arrived.iter().find(|bytes| {
                    let found = skip < bytes.len();
                    if !found {
                        skip -= bytes.len();
                    }
                    found
                })?;
                let most = index(end - at).min(bytes.len() - skip);
                Some(Ok(bytes.slice(skip..skip + most)))
            }
        }
    }
}
