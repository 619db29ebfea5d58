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
use core::future::poll_fn;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::Poll;

use bytes::Bytes;
use zonal_base::{Buffer, Nanos, Payload, index};
use zonal_runtime::Sleep;

use crate::cache::{Inner, STRIPE};
use crate::fetch::{FetchState, FillPiece};
use crate::object::{ObjectKey, VersionKey};
use crate::planted::Planted;
use crate::{Fetch, Fetched, Head, ObjectName, OriginFault, ReadError};

/// How long a fetch that has filled its window waits until there is room for one more piece: 2 s, longer than the
/// second repetition of a lost packet, shorter than others want to wait for its place. A reader that takes less
/// than a piece in that time (1 Mbit/s with pieces of 256 KiB) costs a request to the origin for each window
/// instead of a place for as long as it likes.
const STALL_MAX: Nanos = Nanos::secs(2);

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
            !self.holdings.has(key) && !is_coming && !self.memory.borrow().has(key, head)
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
        let bytes = run.start * piece_bytes..head.size.min(run.end * piece_bytes);
        let fetch = FetchState::new(head.clone(), self.watch(key), &bytes);
        let pieces: VecDeque<Rc<FillPiece>> = run
            .clone()
            .map(|number| {
                let start = number * piece_bytes;
                let bytes = start..head.size.min(start + piece_bytes);
                FillPiece::new(version.piece(number), &bytes, fetch.clone())
            })
            .collect();
        let table = pieces.iter().map(|piece| (piece.key, piece.clone()));
        self.filling.borrow_mut().extend(table);
        let followed = pieces[index(number - run.start)].clone();
        let timer = self.ports.clock.sleep_until(Nanos(0));
        let fill = Fill { inner: self.clone(), object, pieces, fetch, timer };
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
        if matches!(ended, Ended::Stalled) {
            self.fetch.note_stalled();
        }
        let error = match ended {
            Ended::Failed(error) => error,
            Ended::Unheard | Ended::Stalled => ReadError::Gone,
        };
        for piece in &self.pieces {
            self.inner.end_filling(piece);
            piece.fail(error);
        }
    }

    /// On failure, the pieces that are not complete are left.
    async fn fetch_pieces(&mut self, body: &mut Body) -> Result<(), Ended> {
        while let Some(piece) = self.pieces.front().cloned() {
            self.wait_for_readers(piece.start).await?;
            let payload = self.fetch_piece(body, &piece).await.map_err(Ended::Failed)?;
            piece.complete(payload);
            // From here on only the way to flash and readers hold it, and with it its memory.
            self.pieces.pop_front();
            let inner = self.inner.clone();
            self.inner.spawn_writing(|writing| async move {
                inner.admit(piece).await;
                drop(writing);
            });
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
            false => fill.fetch.head().etag.clone(),
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
