//! Fill path: fetches a run of missing pieces in one origin request, and passes them to readers and
//! to admission.
//!
//! 1. Request the whole run of missing neighbours with `If-Match`.
//! 2. Pass bytes to readers as they arrive; stay at most a window ahead of the fastest reader. A
//!    piece takes a buffer of the pool when it is complete: a slow origin holds no buffer.
//! 3. When the body breaks off, request the rest, once for each body that brought bytes, up to a
//!    limit.
//! 4. Pass each complete piece to admission (`admit`), which writes it in the background.
//!
//! A fetch without readers stops at the next window, or after two seconds of a slow origin. A fetch
//! whose readers stall ends between two pieces and frees its connection slot at the origin. The
//! pieces it has brought stay on flash, or in memory for its readers. A reader that comes to their
//! end starts a new fetch.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::Poll;

use bytes::Bytes;
use zonal_base::{Blocks, Buffer, Nanos, Payload, RangeSpec, index};
use zonal_policy::Wasted;
use zonal_runtime::Sleep;

use crate::cache::{Inner, STRIPE};
use crate::chunks::pieces_of;
use crate::fetch::{FetchState, FillPiece};
use crate::mutation::Mutation;
use crate::object::{ObjectKey, VersionKey};
use crate::pins::ReadHints;
use crate::prefetch_slots::PrefetchSlot;
use crate::{Fetch, Fetched, Head, ObjectName, OriginFault, ReadError, StreamId};

/// Requests for the rest of one fetch after its body broke off: 16, so that an origin that breaks off
/// after each byte costs no more than that.
const RESUMES_MAX: u32 = 16;

/// Stall limit: how long a fetch with a full window waits for its readers. 2 s is longer than the
/// second retransmission of a lost packet, and shorter than other requests may wait for the fetch's
/// slot. A reader slower than one piece in 2 s (1 Mbit/s with pieces of 256 KiB) costs one origin
/// request per window, instead of a slot for as long as it likes.
const STALL_MAX: Nanos = Nanos::secs(2);

impl Inner {
    /// Returns the run of missing pieces around `number`. It starts no earlier than the piece's
    /// chunk. It ends with the chunk in which the read ends, with the stripe, or before the first
    /// piece that is present.
    pub(crate) fn missing_run(
        &self,
        version: VersionKey,
        head: &Head,
        range: &Range<u64>,
        number: u64,
    ) -> Range<u64> {
        let (piece, chunk) = (self.piece_of(head), self.chunk_of(head));
        let chunk_start = number * piece / chunk * (chunk / piece);
        let stripe_end = (number * piece / STRIPE.0 + 1) * STRIPE.0;
        let bytes_end = range.end.next_multiple_of(chunk).min(head.size).min(stripe_end);
        let mut first = number;
        while chunk_start < first && self.is_missing(version, head, first - 1) {
            first -= 1;
        }
        let mut end = number + 1;
        while end < bytes_end.div_ceil(piece) && self.is_missing(version, head, end) {
            end += 1;
        }
        first..end
    }

    /// True when a piece is neither cached nor being fetched.
    pub(crate) fn is_missing(&self, version: VersionKey, head: &Head, number: u64) -> bool {
        let key = version.piece(number);
        let filling = self.filling.borrow();
        let is_coming = filling.get(&key).is_some_and(|piece| piece.is_current());
        !self.holdings.has(key) && !is_coming && !self.memory.borrow().has(key, head)
    }

    /// Byte range of a run of pieces in the object.
    pub(crate) fn bytes_of(&self, head: &Head, run: &Range<u64>) -> Range<u64> {
        let piece = self.piece_of(head);
        run.start * piece..head.size.min(run.end * piece)
    }

    /// Starts the fetch of a run of pieces. Returns piece `number`, for the caller to follow.
    pub(crate) fn start_fill(
        self: &Rc<Self>,
        of: (ObjectName, Arc<Head>),
        keys: (ObjectKey, VersionKey),
        (run, number): (Range<u64>, u64),
    ) -> Rc<FillPiece> {
        let fill = self.fill(of, keys, &run, None);
        let followed = fill.pieces[index(number - run.start)].clone();
        self.start(fill, None);
        followed
    }

    /// A fetch of the pieces in `bytes`, which waits for its body.
    pub(crate) fn fill_for(
        self: &Rc<Self>,
        (object, head): (&ObjectName, &Arc<Head>),
        bytes: &Range<u64>,
        hints: ReadHints,
    ) -> Fill {
        let (of, keys) = ((object.clone(), head.clone()), self.keys_of(object, head));
        let fill = self.fill(of, keys, &pieces_of(bytes, self.piece_of(head)), None);
        fill.keep_for(hints);
        fill
    }

    /// Starts a prefetch of a run of pieces.
    pub(crate) fn start_prefetch(
        self: &Rc<Self>,
        of: (ObjectName, Arc<Head>),
        keys: (ObjectKey, VersionKey),
        run: &Range<u64>,
        (wasted, slot): (Wasted, PrefetchSlot),
    ) {
        let bytes = self.bytes_of(&of.1, run);
        self.prefetched.note_begun(bytes.end - bytes.start);
        let fill = Fill { slot: Some(slot), ..self.fill(of, keys, run, Some(wasted)) };
        self.start(fill, None);
    }

    /// Creates the fetch of a run of pieces and registers the pieces as being fetched.
    pub(crate) fn fill(
        self: &Rc<Self>,
        (object, head): (ObjectName, Arc<Head>),
        (key, version): (ObjectKey, VersionKey),
        run: &Range<u64>,
        ahead: Option<Wasted>,
    ) -> Fill {
        let bytes = self.bytes_of(&head, run);
        let fetch = FetchState::new(head.clone(), self.watch(&object, key), &bytes, ahead);
        let pieces: VecDeque<Rc<FillPiece>> = run
            .clone()
            .map(|number| {
                let bytes = self.bytes_of(&head, &(number..number + 1));
                FillPiece::new(version.piece(number), &bytes, fetch.clone())
            })
            .collect();
        let table = pieces.iter().map(|piece| (piece.key, piece.clone()));
        self.filling.borrow_mut().extend(table);
        let timer = self.ports.clock.sleep_until(Nanos(0));
        let (inner, slot, deserted_until) = (self.clone(), None, None);
        Fill { inner, object, pieces, fetch, slot, timer, resumes: 0, deserted_until }
    }

    /// Starts a fetch: from `body`, or with a request of its own.
    pub(crate) fn start(self: &Rc<Self>, fill: Fill, body: Option<Body>) {
        self.fetching.set(self.fetching.get() + 1);
        let (inner, is_ahead) = (self.clone(), fill.fetch.is_ahead());
        self.ports.spawner.spawn(async move {
            fill.run(body).await;
            inner.fetching.set(inner.fetching.get() - 1);
            if is_ahead {
                inner.prefetched.note_over();
            }
        });
    }

    /// Removes a piece from the table of fetched pieces, unless a newer fetch has replaced it
    /// there.
    pub(crate) fn end_filling(&self, piece: &Rc<FillPiece>) {
        let mut filling = self.filling.borrow_mut();
        if filling.get(&piece.key).is_some_and(|current| Rc::ptr_eq(current, piece)) {
            filling.remove(&piece.key);
        }
    }
}

/// State of one fetch task.
pub(crate) struct Fill {
    inner: Rc<Inner>,
    object: ObjectName,
    /// Pieces that are not complete yet, in order.
    pieces: VecDeque<Rc<FillPiece>>,
    fetch: Rc<FetchState>,
    /// Slot of a prefetch.
    slot: Option<PrefetchSlot>,
    /// Timer of the stall limit. It may fire early and is set again then.
    timer: Sleep,
    /// How often the rest was requested again.
    resumes: u32,
    /// When the fetch ends, unless the origin answers or a reader comes. `None`: it has readers.
    deserted_until: Option<Nanos>,
}

/// Reason for which a fetch ended early.
#[derive(Clone, Copy)]
enum Ended {
    Failed(ReadError),
    /// No reader is left, or a prefetch lacks memory or its object was removed.
    Unheard,
    /// No reader advanced within the stall limit.
    Stalled,
}

impl Fill {
    /// Applies a reader's retention to the pieces of the fetch.
    pub(crate) fn keep_for(&self, hints: ReadHints) {
        self.fetch.keep_for(hints);
    }

    /// Fails the fetch before it has begun.
    pub(crate) fn fail(&self, error: ReadError) {
        self.give_up(Ended::Failed(error));
    }

    async fn run(mut self, body: Option<Body>) {
        let start = self.pieces[0].start;
        let body = match body {
            Some(body) => Ok(body),
            None => Body::open(&self, start).await,
        };
        let body = match body {
            Ok(body) => self.skip_to(start, body).await,
            Err(error) => Err(error),
        };
        let mut body = match body {
            Ok(body) => body,
            Err(error) => return self.give_up(Ended::Failed(error)),
        };
        if let Err(ended) = self.fetch_pieces(&mut body).await {
            self.give_up(ended);
        }
        body.close().await;
        drop(self.slot);
    }

    /// Fails the incomplete pieces and removes them from the table, so that later readers fetch
    /// them anew.
    fn give_up(&self, ended: Ended) {
        self.inner.count(|stats| match ended {
            Ended::Unheard => stats.fetches_abandoned += 1,
            Ended::Stalled => stats.fetches_stalled += 1,
            Ended::Failed(ReadError::Origin(fault)) => {
                stats.fetch_errors += u64::from(fault.is_error());
            }
            Ended::Failed(_) => {}
        });
        if matches!(ended, Ended::Stalled) {
            self.fetch.note_stalled();
        }
        if self.fetch.is_ahead() {
            self.give_up_ahead(ended);
        }
        let error = match ended {
            // A follower of a failed prefetch did not request it, so it retries on its own.
            Ended::Failed(error) if !self.fetch.is_ahead() || error == ReadError::Changed => error,
            Ended::Failed(_) | Ended::Unheard | Ended::Stalled => ReadError::Gone,
        };
        for piece in &self.pieces {
            self.inner.end_filling(piece);
            piece.fail(error);
        }
    }

    fn give_up_ahead(&self, ended: Ended) {
        let left = self.pieces.iter().map(|piece| u64::from(piece.len)).sum();
        self.inner.prefetched.give_back(left);
        self.fetch.note_wasted(zonal_base::Bytes(left));
        if let Ended::Failed(ReadError::Origin(fault)) = ended
            && fault.is_error()
        {
            self.inner.prefetched.pause(self.inner.now());
        }
    }

    /// Drops the bytes before `start`, which an origin that ignores ranges has sent.
    async fn skip_to(&mut self, start: u64, mut body: Body) -> Result<Body, ReadError> {
        while body.range.start < start {
            let most = index(start - body.range.start);
            match self.next(&mut body, most).await {
                Ok(_) => {}
                Err(Ended::Failed(error)) => return Err(error),
                Err(Ended::Unheard | Ended::Stalled) => {
                    body.close().await;
                    return Err(ReadError::Gone);
                }
            }
        }
        Ok(body)
    }

    /// Fetches all pieces in order. On failure the incomplete ones stay in `pieces`.
    async fn fetch_pieces(&mut self, body: &mut Body) -> Result<(), Ended> {
        while let Some(piece) = self.pieces.front().cloned() {
            self.wait_for_readers(piece.start).await?;
            let payload = self.fetch_piece(body, &piece).await?;
            piece.complete(payload);
            // From here on only admission and readers hold the piece and its memory.
            self.pieces.pop_front();
            if self.fetch.is_ahead() {
                self.inner.wait_unread(piece);
                continue;
            }
            let inner = self.inner.clone();
            self.inner.spawn_writing(|writing| async move {
                inner.admit(piece).await;
                drop(writing);
            });
        }
        Ok(())
    }

    async fn fetch_piece(
        &mut self,
        body: &mut Body,
        piece: &Rc<FillPiece>,
    ) -> Result<Payload, Ended> {
        let len = piece.len as usize;
        let mut have = 0;
        while have < len {
            match self.next(body, len - have).await {
                Ok(bytes) => {
                    have += bytes.len();
                    piece.push(bytes);
                }
                Err(Ended::Failed(ReadError::Origin(OriginFault::Broken)))
                    if body.has_begun && self.resumes < RESUMES_MAX =>
                {
                    self.resumes += 1;
                    self.inner.count(|stats| stats.fetches_resumed += 1);
                    let start = piece.start + have as u64;
                    let rest = Body::open(self, start).await.map_err(Ended::Failed)?;
                    *body = self.skip_to(start, rest).await.map_err(Ended::Failed)?;
                }
                Err(ended) => return Err(ended),
            }
        }
        let blocks = zonal_base::Bytes(len as u64).blocks_ceil();
        let mut buffer = self.buffer(blocks).await?;
        piece.copy_to(&mut buffer);
        let whole = index(blocks.bytes().0);
        buffer.bytes_mut()[len..whole].fill(0);
        Ok(buffer.freeze(whole))
    }

    /// The next bytes of the body. Ends the fetch when the origin is slow and no reader is left.
    async fn next(&mut self, body: &mut Body, most: usize) -> Result<Bytes, Ended> {
        let clock = self.inner.ports.clock.clone();
        let Self { fetch, timer, deserted_until, .. } = self;
        let mut next = pin!(body.next(most));
        let mut deserted = pin!(fetch.deserted());
        poll_fn(|cx| {
            if let Poll::Ready(next) = next.as_mut().poll(cx) {
                return Poll::Ready(next.map_err(Ended::Failed));
            }
            while deserted.as_mut().poll(cx).is_ready() {
                deserted.set(fetch.deserted());
            }
            if fetch.is_ahead() || fetch.has_listeners() {
                *deserted_until = None;
                return Poll::Pending;
            }
            let until = *deserted_until.get_or_insert_with(|| clock.now() + STALL_MAX);
            *timer = clock.sleep_until(until);
            match Pin::new(&mut *timer).poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(Ended::Unheard)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    async fn buffer(&self, blocks: Blocks) -> Result<Buffer, Ended> {
        if !self.fetch.is_ahead() || self.fetch.has_listeners() {
            return Ok(self.inner.buffer(blocks).await);
        }
        let buffer = self.inner.spare_buffer(blocks).filter(|_| self.fetch.is_current());
        buffer.ok_or(Ended::Unheard)
    }

    /// Flow control: waits until `at` is within the window of the fastest reader. Fails when there
    /// is no reader, or when none advances.
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

/// Response body of the origin.
pub(crate) struct Body {
    inner: Rc<Inner>,
    stream: StreamId,
    /// Bytes of the object that are still to come.
    pub(crate) range: Range<u64>,
    /// Bytes received and not yet consumed.
    rest: Bytes,
    is_open: bool,
    /// The body brought a byte, or the head of the object.
    has_begun: bool,
}

impl Body {
    /// The body of an answer that has the bytes `range` of the object. If it breaks off before its
    /// first byte, it is requested once more: the answer itself has brought a head.
    pub(crate) fn of(inner: &Rc<Inner>, stream: StreamId, range: Range<u64>) -> Self {
        let (rest, is_open, has_begun) = (Bytes::new(), true, true);
        Self { inner: inner.clone(), stream, range, rest, is_open, has_begun }
    }

    pub(crate) fn into_parts(self) -> (Rc<Inner>, StreamId, Range<u64>) {
        (self.inner, self.stream, self.range)
    }

    /// Requests the rest of the run from `start` on.
    async fn open(fill: &Fill, start: u64) -> Result<Self, ReadError> {
        let last = fill.pieces.back().expect("a run has a piece");
        let range = start..last.end();
        let settings = &fill.inner.settings;
        let is_unpinned = settings.has(Mutation::VersionNotPinned)
            || (fill.fetch.is_ahead() && settings.has(Mutation::PrefetchNotPinned));
        let head = fill.fetch.head();
        fill.inner.count(|stats| stats.fetches += 1);
        let (object, asked) = (fill.object.clone(), RangeSpec::Int(range.clone()));
        let version = Some(head.clone()).filter(|_| !is_unpinned);
        match fill.inner.ports.origin.call(Fetch::Get { object, range: asked, version }).await {
            Fetched::Object { head: told, range: has, stream } => {
                let has_them = has.start <= range.start && range.end <= has.end;
                let body = Self { has_begun: false, ..Self::of(&fill.inner, stream, has) };
                if has_them && (is_unpinned || head.is_same_version(&told)) {
                    return Ok(body);
                }
                body.close().await;
                Err(ReadError::Changed)
            }
            Fetched::Failed(fault) => Err(fault.into()),
            _ => Err(ReadError::Origin(OriginFault::Lied)),
        }
    }

    /// Returns the next bytes of the body, at most `most`.
    pub(crate) async fn next(&mut self, most: usize) -> Result<Bytes, ReadError> {
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
            self.has_begun = true;
            self.inner.count(|stats| stats.fetched_bytes += self.rest.len() as u64);
        }
        let bytes = self.rest.split_to(most.min(self.rest.len()));
        self.range.start += bytes.len() as u64;
        Ok(bytes)
    }

    pub(crate) async fn close(self) {
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
