//! Client socket with timeouts and fairness: idle and slow clients time out, and a fast one yields
//! to others.
//!
//! 1. [`Socket`] records reads and writes on the stream, and yields after it has sent enough. It
//!    also scans each request head ([`stated_length`]). [`ExchangeGuard`] records when a request begins
//!    and its response ends.
//! 2. [`TimeoutDetector`] is polled with the connection. It reads these records and reports a timeout.
//!
//! There is one timer per connection, and it is not touched while bytes flow. It is set when there
//! is something to wait for, and when it fires too early, it is reset to the real deadline. The
//! stream itself cannot keep the limits, because the server does not poll a read after each
//! response: it waits for a read that it began long before.

mod stated_length;

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use stated_length::Scan;
pub(crate) use stated_length::StatedLength;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Between two requests, and before the first.
    pub(crate) idle: Duration,
    /// From the first byte of a request to the end of its head.
    pub(crate) head: Duration,
    /// While the client takes none of the bytes of its response.
    pub(crate) write: Duration,
    /// From the end of our side of the connection until the client closes its own.
    pub(crate) farewell: Duration,
}

/// Activity of a connection. Only the connection's own task writes it. [`Connections`] reads it to
/// find connections that wait for a request.
///
/// [`Connections`]: crate::connections::Connections
#[derive(Debug)]
pub(crate) struct Activity {
    /// Starts plus ends of exchanges (a request and its response): odd while one is running.
    exchanges: AtomicU32,
    /// `exchanges + 1` at the last read that returned.
    read_in: AtomicU32,
    /// [`StatedLength`] of the request head since the last exchange.
    stated_length: AtomicU8,
    /// Number of writes that completed.
    writes: AtomicU32,
    /// True while the last write is blocked.
    write_waits: AtomicBool,
    /// True while written bytes may be in a buffer of this process: after a write, until a flush
    /// has completed. An exchange ends before that, when the server has the whole response.
    is_unflushed: AtomicBool,
    /// True after the gateway has closed its side.
    is_closed: AtomicBool,
    /// Start of the wait that [`TimeoutDetector`] saw last, as [`milliseconds`].
    waiting_since: AtomicU64,
}

impl Default for Activity {
    /// The activity of a connection that was opened now.
    fn default() -> Self {
        Self {
            exchanges: AtomicU32::new(0),
            read_in: AtomicU32::new(0),
            stated_length: AtomicU8::new(0),
            writes: AtomicU32::new(0),
            write_waits: AtomicBool::new(false),
            is_unflushed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waiting_since: AtomicU64::new(milliseconds(Instant::now())),
        }
    }
}

/// A time as milliseconds since the first call.
fn milliseconds(now: Instant) -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = now.saturating_duration_since(*FIRST.get_or_init(|| now));
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Time for a request head before its connection may be closed for another one: 100 ms. It is one
/// or two packets, sent together. A flood of unfinished heads takes all connections only if it opens
/// as many within this time.
const HEAD_MILLISECONDS: u64 = 100;

/// A request and its response. It ends when this is dropped, together with the response body.
#[derive(Debug)]
pub(crate) struct ExchangeGuard {
    notes: Arc<Activity>,
    pub(crate) stated_length: StatedLength,
}

impl ExchangeGuard {
    pub(crate) fn begin(notes: &Arc<Activity>) -> Self {
        notes.exchanges.fetch_add(1, Ordering::Relaxed);
        let seen = notes.stated_length.load(Ordering::Relaxed);
        notes.stated_length.store(StatedLength::Unseen as u8, Ordering::Relaxed);
        Self { notes: notes.clone(), stated_length: StatedLength::of(seen) }
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        self.notes.exchanges.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bytes that a connection may send before it yields to others. A client that reads as fast as it
/// can never blocks a write: without this limit it would occupy the thread until its response ends.
const TURN_BYTES: usize = 256 << 10;

/// A stream that records its activity, and yields to others.
pub(crate) struct Socket<S> {
    stream: S,
    notes: Arc<Activity>,
    /// Bytes sent since the last yield.
    sent: usize,
    /// Scanner of the request head that is arriving.
    scan: Scan,
}

impl<S> Socket<S> {
    pub(crate) fn new(stream: S, notes: Arc<Activity>) -> Self {
        Self { stream, notes, sent: 0, scan: Scan::default() }
    }

    /// Bytes that may still be sent before the next yield. If there are none, it is pending once:
    /// the task is woken after other tasks ran and sockets were polled. Such a pause does not count
    /// as waiting for the client.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.sent < TURN_BYTES {
            return Poll::Ready(TURN_BYTES - self.sent);
        }
        self.sent = 0;
        self.notes.is_unflushed.store(true, Ordering::Relaxed);
        let _ = pin!(yield_now()).poll(cx);
        Poll::Pending
    }

    /// Scans bytes that arrive between exchanges: they are a request head.
    fn note_head(&mut self, bytes: &[u8]) {
        let seen = &self.notes.stated_length;
        if seen.load(Ordering::Relaxed) == StatedLength::Unseen as u8 {
            self.scan = Scan::default();
        }
        self.scan.read(bytes);
        seen.store(self.scan.seen() as u8, Ordering::Relaxed);
    }

    fn note_write(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.notes.write_waits.store(written.is_pending(), Ordering::Relaxed);
        self.notes.is_unflushed.store(true, Ordering::Relaxed);
        if let Poll::Ready(outcome) = &written {
            self.notes.writes.fetch_add(1, Ordering::Relaxed);
            self.sent += outcome.as_ref().map_or(0, |bytes| *bytes);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            let exchange = self.notes.exchanges.load(Ordering::Relaxed);
            if exchange.is_multiple_of(2) {
                self.note_head(&buffer.filled()[filled..]);
            }
            self.notes.read_in.store(exchange + 1, Ordering::Relaxed);
            // New bytes from the client: the send quota starts anew.
            self.sent = 0;
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let limit = ready!(self.poll_turn(cx)).min(bytes.len());
        let written = Pin::new(&mut self.stream).poll_write(cx, &bytes[..limit]);
        self.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut limit = ready!(self.poll_turn(cx));
        let fits = |slice: &&IoSlice<'_>| {
            limit.checked_sub(slice.len()).map(|rest| limit = rest).is_some()
        };
        let whole = slices.iter().take_while(fits).count();
        let stream = Pin::new(&mut self.stream);
        let written = match slices.first() {
            Some(first) if whole == 0 => stream.poll_write(cx, &first[..limit]),
            _ => stream.poll_write_vectored(cx, &slices[..whole]),
        };
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.notes.is_unflushed.store(false, Ordering::Relaxed);
        }
        flushed
    }

    /// Closes our side, then discards input until the client closes its own. A socket that is
    /// closed with unread bytes is reset, and the client would lose the response that refused its
    /// upload.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.notes.is_closed.load(Ordering::Relaxed) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.notes.is_closed.store(true, Ordering::Relaxed);
        }
        let mut ignored = [0; IGNORED_BYTES];
        for _ in 0..IGNORED_READS {
            let mut buffer = ReadBuf::new(&mut ignored);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Buffer size for discarded input, in bytes.
const IGNORED_BYTES: usize = 4096;

/// Reads of discarded input before the task yields to other connections.
const IGNORED_READS: usize = 64;

/// What the connection waits for. The numbers distinguish one wait from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Nothing: the response is being made, or the request body is arriving, for which the forward
    /// path has a timeout.
    Nothing,
    /// A request.
    Request(u32),
    /// The rest of a request head.
    RestOfHead(u32),
    /// The client to take bytes.
    Write(u32),
    /// The client to close its side.
    Farewell,
}

/// Timeout detector of a connection.
pub(crate) struct TimeoutDetector {
    notes: Arc<Activity>,
    patience: Timeouts,
    waiting: Waiting,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl TimeoutDetector {
    pub(crate) fn new(notes: Arc<Activity>, patience: Timeouts) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + patience.idle));
        Self { notes, patience, waiting: Waiting::Nothing, since: now, timer }
    }

    /// Ready when a timeout has expired. Requires: it is polled after each poll of the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waiting = self.notes.waiting();
        let patience = match waiting {
            Waiting::Nothing => {
                self.waiting = waiting;
                return Poll::Pending;
            }
            Waiting::Request(_) => self.patience.idle,
            Waiting::RestOfHead(_) => self.patience.head,
            Waiting::Write(_) => self.patience.write,
            Waiting::Farewell => self.patience.farewell,
        };
        if self.waiting != waiting {
            (self.waiting, self.since) = (waiting, Instant::now());
            self.notes.waiting_since.store(milliseconds(self.since), Ordering::Relaxed);
        }
        let deadline = self.since + patience;
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl Activity {
    /// Whether the client has sent anything.
    pub(crate) fn has_received(&self) -> bool {
        self.read_in.load(Ordering::Relaxed) != 0
    }

    /// Start of the wait for a request, in milliseconds of an arbitrary clock. `None` while a request
    /// runs, its response is not completely sent, or its head is arriving in time.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        let since = self.waiting_since.load(Ordering::Relaxed);
        let waited = || milliseconds(Instant::now()).saturating_sub(since);
        let is_sent = !self.is_unflushed.load(Ordering::Relaxed);
        let may_end = match self.waiting() {
            Waiting::Request(_) => is_sent,
            Waiting::RestOfHead(_) => is_sent && HEAD_MILLISECONDS <= waited(),
            // A client in its farewell may still have to read why its upload was refused. That wait
            // is short.
            Waiting::Nothing | Waiting::Write(_) | Waiting::Farewell => false,
        };
        may_end.then_some(since)
    }

    fn waiting(&self) -> Waiting {
        let exchanges = self.exchanges.load(Ordering::Relaxed);
        if self.is_closed.load(Ordering::Relaxed) {
            Waiting::Farewell
        } else if self.write_waits.load(Ordering::Relaxed) {
            Waiting::Write(self.writes.load(Ordering::Relaxed))
        } else if !exchanges.is_multiple_of(2) {
            Waiting::Nothing
        } else if self.read_in.load(Ordering::Relaxed) == exchanges + 1 {
            Waiting::RestOfHead(exchanges)
        } else {
            Waiting::Request(exchanges)
        }
    }
}

#[cfg(test)]
mod tests;
