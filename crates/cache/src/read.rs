//! Read path: serves a range of one version in order, from memory, flash or a fetch.
//!
//! 1. A piece in memory is delivered at once.
//! 2. A piece on flash is read (only the granules that the range touches) and verified.
//! 3. A piece in a fetch or on its way to flash is delivered as it arrives (single flight).
//! 4. For a missing piece the read starts a fetch, which includes the missing neighbours (`fill`).
//!    If the version was not confirmed for this request, the origin is asked for the first missing
//!    piece before any byte is delivered.
//!
//! Read-ahead and prefetch are bounded; a slow reader holds one piece.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use zonal_base::{BLOCK_BYTES, Blocks, RangeSpec};
use zonal_zonelog::Key;

use self::device::PendingRead;

use crate::cache::Inner;
use crate::chunks::pieces_of;
use crate::fetch::{FillPiece, Listener, WINDOW_BYTES};
use crate::fill::Body;
use crate::object::{ObjectKey, VersionKey};
use crate::pins::ReadHints;
use crate::prehashed_map::PrehashedMap;
use crate::{Cache, Head, ObjectName, OriginFault, StreamId};

/// Message to a reader. [`Piece::Start`] comes first.
#[derive(Clone, Debug)]
pub enum Piece {
    /// First message: whether the whole range was cached when the read began.
    Start {
        /// The whole range is cached: the origin is asked only if a piece proves to be damaged.
        all_cached: bool,
        /// The whole range is on flash, and no part of it is read from memory.
        all_on_flash: bool,
    },
    /// The next bytes of the range, in order, and the slowest source that the read has waited for
    /// so far.
    Data(Bytes, PieceSource),
    /// The whole range was delivered.
    End,
    /// The read failed; no more bytes will come.
    Failed(ReadError),
}

/// Source of a piece, from fast to slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceSource {
    /// Memory: the piece waits for admission, is on its way to flash, or is hot.
    Memory,
    /// Flash.
    Flash,
    /// A fetch that another read started.
    Joined,
    /// A fetch that this read started.
    Missed,
}

/// Fetch that the lookup of the version has started for a reader. Its bytes count as missed.
#[derive(Clone, Debug)]
pub enum InitialFetch {
    /// Nothing.
    None,
    /// A fetch of these bytes of the object on this shard.
    Started(Range<u64>),
    /// A body with these bytes of the object, handed over by another shard.
    Body(StreamId, Range<u64>),
}

/// Failure of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The version is gone at the origin: open the object again.
    Changed,
    /// The origin failed or refused the request.
    Origin(OriginFault),
    /// The shard has too many requests in flight: answer 503 SlowDown.
    Overloaded,
    /// The fetch or the shard ended before all bytes came: read the rest from the origin.
    Gone,
}

/// The consumer hung up: stop sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Destination of a read. The client behind it may disconnect at any time.
pub trait Consumer {
    /// Ready when the consumer accepts another piece.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Ready when the consumer has hung up. Polled while a read waits for the origin.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone>;

    /// Delivers a piece. Requires: [`Consumer::poll_ready`] was ready.
    fn accept(&mut self, piece: Piece);
}

/// Size of a copy for a slow client: small, so that waiting clients hold little memory.
const COPY_BYTES: usize = 64 << 10;

/// Fetches in a row that may end early without a byte for this read before the read gives up.
const ABANDONED_MAX: u32 = 3;

mod device;

/// State of one read.
struct Read<'a> {
    inner: &'a Rc<Inner>,
    object: &'a ObjectName,
    head: &'a Arc<Head>,
    key: ObjectKey,
    version: VersionKey,
    /// Piece size of the object, in bytes.
    piece: u64,
    range: Range<u64>,
    keeping: ReadHints,
    consumer: Box<dyn Consumer>,
    /// Device read of the next piece to deliver; the first starts before [`Piece::Start`] is sent.
    /// It stays here until it is done, because moving it costs as much as an index lookup.
    current: Option<PendingRead>,
    ahead: VecDeque<PendingRead>,
    /// Fetch that this read follows.
    listener: Option<Listener>,
    /// Numbers of the pieces that this read last requested from the origin.
    asked: Range<u64>,
    /// Slowest source of the pieces so far.
    slowest: PieceSource,
    /// True once a fetch has stalled on this reader. From then on the read requests only as much as
    /// a fetch delivers without waiting for the reader.
    is_slow: bool,
}

enum Failure {
    /// The consumer hung up.
    Reader,
    /// The origin or the cache failed.
    Source(ReadError),
}

impl Cache {
    /// Delivers `range` of the version that `head` names to `consumer`. `keeping` decides how
    /// fetched bytes are kept.
    ///
    /// Requires: the range lies within the object and within one stripe.
    pub async fn read(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        (range, begun): (Range<u64>, InitialFetch),
        keeping: ReadHints,
        consumer: Box<dyn Consumer>,
    ) {
        assert!(range.start <= range.end && range.end <= head.size);
        let inner = &self.inner;
        let make = || inner.keys_of(object, head);
        let (key, version) = inner.versions.borrow_mut().keys(object, head, make);
        let piece = inner.piece_of(head);
        let fetches = match begun {
            InitialFetch::None => 0..0,
            InitialFetch::Started(bytes) => bytes,
            InitialFetch::Body(stream, bytes) => {
                let asked = (&RangeSpec::Int(range.clone()), keeping);
                let body = Body::of(inner, stream, bytes);
                inner.fetch_from((object, head), asked, body).await
            }
        };
        inner.holdings.prefetch(version.piece(range.start / piece));
        let mut read = Read {
            inner,
            object,
            head,
            key,
            version,
            piece,
            range,
            keeping,
            consumer,
            current: None,
            ahead: VecDeque::new(),
            listener: None,
            asked: pieces_of(&fetches, piece),
            slowest: PieceSource::Memory,
            is_slow: false,
        };
        read.run().await;
    }
}

impl Read<'_> {
    async fn run(&mut self) {
        let (start, missing) = self.survey();
        let outcome = match self.hand_over(start).await {
            Ok(()) => self.deliver_all(missing).await,
            Err(failure) => Err(failure),
        };
        let last = match outcome {
            Ok(()) => Piece::End,
            Err(Failure::Source(error)) => Piece::Failed(error),
            Err(Failure::Reader) => return,
        };
        // If the consumer is gone, this last message changes nothing.
        let _ = self.hand_over(last).await;
    }

    /// Probes the cache for the range, and starts the device read of the first piece if that is on
    /// flash. Also returns the first piece that only the origin has.
    fn survey(&mut self) -> (Piece, Option<u64>) {
        let pieces = pieces_of(&self.range, self.piece);
        let (mut missing, mut all_on_flash) = (None, true);
        for number in pieces.clone() {
            let key = self.version.piece(number);
            if self.asked.contains(&number) {
                (missing, all_on_flash) = (Some(number), false);
                break;
            }
            let is_held = self.is_held(key);
            let is_from_flash = !is_held
                && match number == pieces.start {
                    true => self.start_first(number, key),
                    false => self.inner.holdings.has(key),
                };
            all_on_flash &= is_from_flash;
            if !(is_held || is_from_flash || is_in_memory(&self.inner.filling.borrow(), key)) {
                missing = Some(number);
                break;
            }
        }
        (Piece::Start { all_cached: missing.is_none(), all_on_flash }, missing)
    }

    async fn deliver_all(&mut self, missing: Option<u64>) -> Result<(), Failure> {
        self.listen_to_asked();
        if let Some(number) = missing.filter(|_| !self.keeping.is_confirmed) {
            self.ask_first(number).await?;
        }
        self.all_pieces().await
    }

    /// Becomes a reader of the fetch that was begun for this read, which may be ahead of it: the
    /// pieces before it are cached.
    fn listen_to_asked(&mut self) {
        let first = self.version.piece(self.asked.start);
        let piece = self.inner.filling.borrow().get(&first).cloned();
        if let Some(piece) = piece.filter(|_| !self.asked.is_empty()) {
            self.listener = Some(self.join(&piece));
        }
    }

    /// Asks the origin for the first missing piece before any cached byte is delivered. So a
    /// version that is gone at the origin is found while the caller can still serve another.
    async fn ask_first(&mut self, number: u64) -> Result<(), Failure> {
        let at = number * self.piece;
        if at <= self.range.start {
            return Ok(());
        }
        let (piece, source) = self.fetched(number, at);
        self.slowest = self.slowest.max(source);
        self.listener = Some(self.join(&piece));
        match self.unless_gone(piece.bytes_from(piece.start, piece.end())).await? {
            // A fetch that ended early says nothing: the read asks again when it comes there.
            Ok(_) | Err(ReadError::Gone) => Ok(()),
            Err(error) => Err(Failure::Source(error)),
        }
    }

    async fn all_pieces(&mut self) -> Result<(), Failure> {
        let mut abandoned = 0;
        let mut at = self.range.start;
        while at < self.range.end {
            let number = at / self.piece;
            let wanted = self.wanted(number, at);
            let reached = match self.piece(number, &wanted).await {
                Ok(()) => wanted.end,
                Err((reached, Failure::Source(ReadError::Gone))) if abandoned < ABANDONED_MAX => {
                    reached
                }
                Err((_, failure)) => return Err(failure),
            };
            abandoned = if at < reached { 0 } else { abandoned + 1 };
            at = reached;
        }
        Ok(())
    }

    /// Delivers `wanted`, which lies in one piece. On failure returns the position reached.
    async fn piece(&mut self, number: u64, wanted: &Range<u64>) -> Result<(), (u64, Failure)> {
        let key = self.version.piece(number);
        // A piece whose device read is in flight is not looked up in memory.
        let in_memory = match self.is_under_way(number) {
            true => None,
            false => self.read_memory(number, key, wanted),
        };
        if let Some(bytes) = in_memory {
            self.count_piece(number, PieceSource::Memory);
            self.listener = self.listener.take().and_then(|listener| listener.passed(wanted.end));
            return self.deliver(bytes).await.map_err(|failure| (wanted.start, failure));
        }
        if let Some(bytes) = self.read_flash(number, key, wanted).await {
            self.count_piece(number, PieceSource::Flash);
            // The fetch may have written this piece to flash before this read came to it. The read
            // stays a listener for the rest.
            self.listener = self.listener.take().and_then(|listener| listener.passed(wanted.end));
            return self.deliver(bytes).await.map_err(|failure| (wanted.start, failure));
        }
        let (piece, source) = self.fetched(number, wanted.start);
        self.count_piece(number, source);
        self.follow(&piece, wanted).await
    }

    /// Piece `number` in a fetch: in one under way, or in a new one.
    fn fetched(&mut self, number: u64, at: u64) -> (Rc<FillPiece>, PieceSource) {
        let key = self.version.piece(number);
        let under_way = self.inner.filling.borrow().get(&key).cloned();
        // A follower may use every piece of its fetch, even after a removal: they are all one
        // version.
        let is_followed = |piece: &FillPiece| {
            self.listener.as_ref().is_some_and(|listener| listener.is_of(piece.fetch()))
        };
        let under_way = under_way.filter(|piece| piece.is_current() || is_followed(piece));
        if let Some(piece) = under_way {
            let is_complete = piece.is_complete();
            let source = if is_complete { PieceSource::Memory } else { PieceSource::Joined };
            if !self.asked.contains(&number) {
                piece.note_joined();
            }
            return (piece, source);
        }
        let range = at..self.end_to_ask_for(at);
        let run = self.inner.missing_run(self.version, self.head, &range, number);
        self.asked = run.clone();
        let of = (self.object.clone(), self.head.clone());
        let piece = self.inner.start_fill(of, (self.key, self.version), (run, number));
        (piece, PieceSource::Missed)
    }

    fn end_to_ask_for(&mut self, at: u64) -> u64 {
        self.is_slow |= self.listener.as_ref().is_some_and(Listener::has_stalled);
        if self.is_slow { self.range.end.min(at + WINDOW_BYTES) } else { self.range.end }
    }

    /// Counts the source of a piece. A piece that this read requested from the origin counts as
    /// missed, wherever it is by now.
    fn count_piece(&mut self, number: u64, source: PieceSource) {
        let source = if self.asked.contains(&number) { PieceSource::Missed } else { source };
        self.slowest = self.slowest.max(source);
        self.inner.count(|stats| {
            stats.pieces += 1;
            match source {
                PieceSource::Flash => stats.pieces_flash_hits += 1,
                PieceSource::Memory => stats.pieces_dram_hits += 1,
                PieceSource::Joined => stats.pieces_joined += 1,
                PieceSource::Missed => stats.pieces_missed += 1,
            }
        });
    }

    /// Becomes a reader of the piece's fetch.
    fn join(&mut self, piece: &FillPiece) -> Listener {
        piece.fetch().keep_for(self.keeping);
        Listener::join(self.listener.take(), piece.fetch())
    }

    /// Delivers the bytes of a fetch as they arrive.
    async fn follow(
        &mut self,
        piece: &Rc<FillPiece>,
        wanted: &Range<u64>,
    ) -> Result<(), (u64, Failure)> {
        let listener = self.join(piece);
        let mut at = wanted.start;
        while at < wanted.end {
            listener.reached(at);
            let arrived = self.unless_gone(piece.bytes_from(at, wanted.end)).await;
            match arrived.map_err(|failure| (at, failure))? {
                Ok(bytes) => {
                    let len = bytes.len() as u64;
                    self.deliver(bytes).await.map_err(|failure| (at, failure))?;
                    at += len;
                }
                Err(error) => return Err((at, Failure::Source(error))),
            }
        }
        listener.reached(at);
        if piece.fetch().is_ahead() {
            self.inner.note_followed(piece, at);
        }
        self.listener = Some(listener);
        Ok(())
    }

    /// The requested part of piece `number`, from `at` on.
    fn wanted(&self, number: u64, at: u64) -> Range<u64> {
        at..self.range.end.min((number + 1) * self.piece)
    }

    async fn deliver(&mut self, bytes: Bytes) -> Result<(), Failure> {
        // A slow client's socket may hold its bytes for long. When memory is short, the client gets
        // a copy, and the buffer is free for the next read.
        let blocks = Blocks(bytes.len().div_ceil(BLOCK_BYTES) as u64);
        let pool = self.inner.ports.buffers.pool();
        self.inner.count(|stats| stats.served_bytes += bytes.len() as u64);
        if blocks <= pool.largest() && pool.is_short(blocks) {
            return self.deliver_copies(bytes).await;
        }
        self.hand_over(Piece::Data(bytes, self.slowest)).await
    }

    /// Delivers copies in small parts. Each is freed once sent, so a slow client holds little more
    /// than one piece.
    async fn deliver_copies(&mut self, bytes: Bytes) -> Result<(), Failure> {
        let copies: VecDeque<Bytes> =
            bytes.chunks(COPY_BYTES).map(Bytes::copy_from_slice).collect();
        drop(bytes);
        for copy in copies {
            self.hand_over(Piece::Data(copy, self.slowest)).await?;
        }
        Ok(())
    }

    /// Waits for bytes of the origin. Fails as soon as the consumer hangs up: its fetch may have no
    /// other reader.
    async fn unless_gone<T>(&mut self, arriving: impl Future<Output = T>) -> Result<T, Failure> {
        let mut arriving = pin!(arriving);
        poll_fn(|cx| match arriving.as_mut().poll(cx) {
            Poll::Ready(bytes) => Poll::Ready(Ok(bytes)),
            Poll::Pending => self.consumer.poll_gone(cx).map(|Gone| Err(Failure::Reader)),
        })
        .await
    }

    async fn hand_over(&mut self, piece: Piece) -> Result<(), Failure> {
        let ready = poll_fn(|cx| self.consumer.poll_ready(cx)).await;
        ready.map_err(|Gone| Failure::Reader)?;
        self.consumer.accept(piece);
        Ok(())
    }
}

/// True when the piece is complete in memory and on its way to flash.
pub(crate) fn is_in_memory(filling: &PrehashedMap<Key, Rc<FillPiece>>, key: Key) -> bool {
    filling.get(&key).is_some_and(|piece| piece.is_complete() && piece.is_current())
}
