//! The fill path: missing pieces of one version, in one request to the origin.
//!
//! 1. Ask for the whole run of missing neighbours, pinned to the version.
//! 2. Hand bytes to readers as they arrive; stay at most a window ahead of the fastest of them.
//! 3. A complete piece goes on its way to flash (`admit`) behind everybody's back.
//!
//! A fetch to which nobody listens any more stops at the next window. So does one whose readers do not move on:
//! it ends between two pieces and gives its place at the origin to others. What it brought is on flash or held
//! for its readers as before; when they get to the end of that, they ask anew.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::Poll;

use bytes::Bytes;
use zonal_base::{Buffer, Nanos, Payload, index};
use zonal_runtime::{Event, Sleep};
use zonal_zonelog::Key;

use crate::cache::{Inner, STRIPE};
use crate::object::{ObjectKey, VersionKey};
use crate::planted::Planted;
use crate::remove::Watch;
use crate::{Fetch, Fetched, Head, ObjectName, OriginFault, ReadError};

/// How far a fetch runs ahead of its fastest reader: 8 MiB. Enough to keep a connection of 1 Gbit/s with
/// 60 ms of delay busy; what a stalled client can make us hold.
pub(crate) const WINDOW_BYTES: u64 = 8 << 20;

/// How long a fetch that has filled its window waits until there is room for one more piece: 2 s, longer than the
/// second repetition of a lost packet, shorter than others want to wait for its place. A reader that takes less
/// than a piece in that time (1 Mbit/s with pieces of 256 KiB) costs a request to the origin for each window
/// instead of a place for as long as it likes.
const STALL_MAX: Nanos = Nanos::secs(2);

/// One request to the origin, as its readers see it.
pub(crate) struct FetchState {
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
    moved: Event,
}

/// A reader of a fetch. The fetch goes on while there is one.
pub(crate) struct Listener {
    fetch: Rc<FetchState>,
}

/// A piece on its way from the origin to flash.
pub(crate) struct FillPiece {
    pub(crate) key: Key,
    /// Where it lies in the object.
    start: u64,
    pub(crate) len: u32,
    content: RefCell<Content>,
    grew: Event,
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
    fn reached_with_window(&self) -> u64 {
        let is_current = self.watch.may_publish(self.epoch);
        self.reached.get() + if is_current { self.window_bytes.get() } else { 0 }
    }

    /// Waits until a reader has come far enough. False when there is none any more.
    async fn wait_until(&self, is_far_enough: impl Fn() -> bool) -> bool {
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
    /// The piece does not go to flash: only its fetch can give it to a reader, who shall not have to ask the
    /// origin again. Waits until the fastest has it; from now on the fetch keeps step with that one, so that
    /// no more than a piece or two are held for it.
    pub(crate) async fn wait_for_reader(&self) {
        self.fetch.window_bytes.set(0);
        let end = self.start + u64::from(self.len);
        self.fetch.wait_until(|| end <= self.fetch.reached.get()).await;
    }

    pub(crate) const fn fetch(&self) -> &Rc<FetchState> {
        &self.fetch
    }

    /// True unless the object was removed since the origin was asked: then the piece is for those who follow
    /// its fetch already, and for nobody else. Its key does not tell: once the tombstone is no longer needed, a new
    /// head under the same ETag leads to the same keys.
    pub(crate) fn is_current(&self) -> bool {
        self.fetch.watch.may_publish(self.fetch.epoch)
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

    fn push(&self, bytes: Bytes) {
        if let Content::Arriving(arrived, len) = &mut *self.content.borrow_mut() {
            *len += bytes.len() as u64;
            arrived.push(bytes);
        }
        self.grew.notify_all();
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

impl Inner {
    /// The missing pieces around `number`, by number: back to the start of its chunk, and on to the end of
    /// the chunk in which the read ends, of the stripe, or to the first that is there.
    pub(crate) fn missing_run(
        &self,
        version: VersionKey,
        head: &Head,
        range: &Range<u64>,
        number: u64,
    ) -> Range<u64> {
        let (piece, chunk) = (self.settings.piece().0, self.settings.chunk.0);
        let chunk_start = number * piece / chunk * (chunk / piece);
        let stripe_end = (number * piece / STRIPE.0 + 1) * STRIPE.0;
        let bytes_end = range.end.next_multiple_of(chunk).min(head.size).min(stripe_end);
        let filling = self.filling.borrow();
        let is_missing = |number: u64| {
            let key = version.piece(number);
            let is_coming = filling.get(&key).is_some_and(|piece| piece.is_current());
            !self.holdings.has(key) && !is_coming
        };
        let mut first = number;
        while chunk_start < first && is_missing(first - 1) {
            first -= 1;
        }
        let mut end = number + 1;
        while end < bytes_end.div_ceil(piece) && is_missing(end) {
            end += 1;
        }
        first..end
    }

    /// Starts the fetch of a run of pieces; the one that was missed comes back to be followed.
    pub(crate) fn start_fill(
        self: &Rc<Self>,
        (object, head): (ObjectName, Arc<Head>),
        (key, version): (ObjectKey, VersionKey),
        (run, number): (Range<u64>, u64),
    ) -> Rc<FillPiece> {
        let piece_bytes = self.settings.piece().0;
        let watch = self.watch(key);
        let fetch = Rc::new(FetchState {
            epoch: watch.epoch(),
            watch,
            reached: Cell::new(run.start * piece_bytes),
            end: head.size.min(run.end * piece_bytes),
            window_bytes: Cell::new(WINDOW_BYTES),
            listeners: Cell::new(0),
            has_stalled: Cell::new(false),
            moved: Event::default(),
        });
        let pieces: VecDeque<Rc<FillPiece>> = run
            .clone()
            .map(|number| {
                let start = number * piece_bytes;
                let len = zonal_base::low_u32(index(piece_bytes.min(head.size - start)));
                Rc::new(FillPiece {
                    key: version.piece(number),
                    start,
                    len,
                    content: RefCell::new(Content::Arriving(Vec::new(), 0)),
                    grew: Event::default(),
                    fetch: fetch.clone(),
                })
            })
            .collect();
        let table = pieces.iter().map(|piece| (piece.key, piece.clone()));
        self.filling.borrow_mut().extend(table);
        let followed = pieces[index(number - run.start)].clone();
        let timer = self.ports.clock.sleep_until(Nanos(0));
        let fill = Fill { inner: self.clone(), object, head, pieces, fetch, timer };
        self.fetching.set(self.fetching.get() + 1);
        let inner = self.clone();
        self.ports.spawner.spawn(async move {
            fill.run().await;
            inner.fetching.set(inner.fetching.get() - 1);
        });
        followed
    }

    /// Takes a piece out of the table, if it is the one that stands there.
    pub(crate) fn end_filling(&self, piece: &Rc<FillPiece>) {
        let mut filling = self.filling.borrow_mut();
        if filling.get(&piece.key).is_some_and(|current| Rc::ptr_eq(current, piece)) {
            filling.remove(&piece.key);
        }
    }
}

/// The task of one fetch.
struct Fill {
    inner: Rc<Inner>,
    object: ObjectName,
    head: Arc<Head>,
    /// Those that are not complete yet.
    pieces: VecDeque<Rc<FillPiece>>,
    fetch: Rc<FetchState>,
    /// Rings at the end of a wait for readers, or sooner, and is set again then.
    timer: Sleep,
}

/// Why a fetch ended before its end.
#[derive(Clone, Copy)]
enum Ended {
    Failed(ReadError),
    /// Nobody listens any more.
    Unheard,
    /// Nobody moves on.
    Stalled,
}

impl Fill {
    async fn run(mut self) {
        let mut body = match Body::open(&self).await {
            Ok(body) => body,
            Err(error) => return self.give_up(Ended::Failed(error)),
        };
        if let Err(ended) = self.fetch_pieces(&mut body).await {
            self.give_up(ended);
        }
        body.close().await;
    }

    /// Lets go of the pieces that are not complete. Whoever comes from now on asks the origin for them.
    fn give_up(&self, ended: Ended) {
        self.inner.count(|stats| match ended {
            Ended::Unheard => stats.fetches_abandoned += 1,
            Ended::Stalled => stats.fetches_stalled += 1,
            Ended::Failed(ReadError::Origin(fault)) => {
                stats.fetch_errors += u64::from(fault.is_error());
            }
            Ended::Failed(_) => {}
        });
        self.fetch.has_stalled.set(matches!(ended, Ended::Stalled));
        let error = match ended {
            Ended::Failed(error) => error,
            Ended::Unheard | Ended::Stalled => ReadError::Gone,
        };
        for piece in &self.pieces {
            self.inner.end_filling(piece);
            piece.set(Content::Failed(error));
        }
    }

    /// On failure, the pieces that are not complete are left.
    async fn fetch_pieces(&mut self, body: &mut Body) -> Result<(), Ended> {
        while let Some(piece) = self.pieces.front().cloned() {
            self.wait_for_readers(piece.start).await?;
            let payload = self.fetch_piece(body, &piece).await.map_err(Ended::Failed)?;
            piece.set(Content::Complete(payload));
            // From here on only the way to flash and readers hold it, and with it its memory.
            self.pieces.pop_front();
            let inner = self.inner.clone();
            self.inner.spawn_writing(async move { inner.admit(piece).await });
        }
        Ok(())
    }

    async fn fetch_piece(
        &self,
        body: &mut Body,
        piece: &Rc<FillPiece>,
    ) -> Result<Payload, ReadError> {
        let len = piece.len as usize;
        let blocks = zonal_base::Bytes(len as u64).blocks_ceil();
        let mut buffer: Buffer = self.inner.ports.buffers.take(blocks).await;
        let mut have = 0;
        while have < len {
            let bytes = body.next(len - have).await?;
            buffer.copy_from(have, &bytes);
            have += bytes.len();
            piece.push(bytes);
        }
        let whole = index(blocks.bytes().0);
        buffer.bytes_mut()[len..whole].fill(0);
        Ok(buffer.freeze(whole))
    }

    /// Stays within the window of the fastest reader, while there is one and it moves on.
    async fn wait_for_readers(&mut self, at: u64) -> Result<(), Ended> {
        let clock = self.inner.ports.clock.clone();
        let deadline = clock.now() + STALL_MAX;
        let mut near = pin!(self.fetch.wait_until(|| at <= self.fetch.reached_with_window()));
        let timer = &mut self.timer;
        poll_fn(|cx| {
            if let Poll::Ready(is_heard) = near.as_mut().poll(cx) {
                return Poll::Ready(if is_heard { Ok(()) } else { Err(Ended::Unheard) });
            }
            while Pin::new(&mut *timer).poll(cx).is_ready() {
                if deadline <= clock.now() {
                    return Poll::Ready(Err(Ended::Stalled));
                }
                *timer = clock.sleep_until(deadline);
            }
            Poll::Pending
        })
        .await
    }
}

/// A body as it comes from the origin port.
struct Body {
    inner: Rc<Inner>,
    stream: crate::StreamId,
    /// Received and not yet used.
    rest: Bytes,
    is_open: bool,
}

impl Body {
    async fn open(fill: &Fill) -> Result<Self, ReadError> {
        let start = fill.pieces[0].start;
        let last = fill.pieces.back().expect("a run has a piece");
        let range = start..last.start + u64::from(last.len);
        let etag = match fill.inner.settings.has(Planted::VersionNotPinned) {
            true => "".into(),
            false => fill.head.etag.clone(),
        };
        fill.inner.count(|stats| stats.fetches += 1);
        let open = Fetch::Open { object: fill.object.clone(), range, etag };
        match fill.inner.ports.origin.call(open).await {
            Fetched::Opened(stream) => {
                Ok(Self { inner: fill.inner.clone(), stream, rest: Bytes::new(), is_open: true })
            }
            Fetched::Failed(fault) => Err(fault.into()),
            _ => Err(ReadError::Origin(OriginFault::Lied)),
        }
    }

    /// The next bytes, at most `most`.
    async fn next(&mut self, most: usize) -> Result<Bytes, ReadError> {
        if self.rest.is_empty() {
            let more = Fetch::More { stream: self.stream };
            match self.inner.ports.origin.call(more).await {
                Fetched::Data(bytes) if !bytes.is_empty() => self.rest = bytes,
                Fetched::Failed(fault) => {
                    self.is_open = false;
                    return Err(fault.into());
                }
                _ => return Err(ReadError::Origin(OriginFault::Broken)),
            }
            self.inner.count(|stats| stats.fetched_bytes += self.rest.len() as u64);
        }
        Ok(self.rest.split_to(most.min(self.rest.len())))
    }

    async fn close(self) {
        if self.is_open {
            self.inner.ports.origin.call(Fetch::Close { stream: self.stream }).await;
        }
    }
}

impl From<OriginFault> for ReadError {
    fn from(fault: OriginFault) -> Self {
        match fault {
            OriginFault::Changed => Self::Changed,
            other => Self::Origin(other),
        }
    }
}
