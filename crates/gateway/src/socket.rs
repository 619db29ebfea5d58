//! Client socket with limits: idle and slow clients time out, and a fast one yields to others.
//!
//! 1. [`Socket`] notes what happens on the stream, and lets others send when it has sent enough; [`Exchange`] notes
//!    when a request begins and its answer ends.
//!    A head is looked at on the way ([`stated_length`]).
//! 2. [`Watch`] is polled with the connection. It looks at the notes, and says when the client has been
//!    waited for long enough.
//!
//! One timer per connection, and it is not touched while bytes flow: it is set when there is something
//! to wait for, and when it rings too early it is set again to the real deadline. The limits are not
//! kept by the stream itself, because a server does not read again after each answer: it waits to be
//! woken by a read that it began long before.

mod stated_length;

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use stated_length::Scan;
pub(crate) use stated_length::StatedLength;

/// How long a client may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Between two requests, and before the first.
    pub(crate) idle: Duration,
    /// From the first byte of a request to the end of its head.
    pub(crate) head: Duration,
    /// While it takes none of the bytes that we have for it.
    pub(crate) write: Duration,
    /// After our last byte, until it closes too.
    pub(crate) farewell: Duration,
}

/// What happened on a connection. Written and read by its own task only; atomic because that task may
/// move to another thread.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Exchanges (a request and its answer) that began, and that ended: odd while one is under way.
    exchanges: AtomicU32,
    /// Reads that brought bytes, by the value of `exchanges` at the last one.
    read_in: AtomicU32,
    /// [`StatedLength`] of the head that came since the last exchange.
    stated_length: AtomicU8,
    /// Writes that took bytes.
    writes: AtomicU32,
    /// The last write has to wait.
    write_waits: AtomicBool,
    /// We have closed our side.
    is_closed: AtomicBool,
}

/// One exchange; it ends when this is dropped, which the answer's body does.
#[derive(Debug)]
pub(crate) struct Exchange {
    notes: Arc<Notes>,
    pub(crate) stated_length: StatedLength,
}

impl Exchange {
    pub(crate) fn begin(notes: &Arc<Notes>) -> Self {
        notes.exchanges.fetch_add(1, Ordering::Relaxed);
        let seen = notes.stated_length.load(Ordering::Relaxed);
        notes.stated_length.store(StatedLength::Unseen as u8, Ordering::Relaxed);
        Self { notes: notes.clone(), stated_length: StatedLength::of(seen) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.notes.exchanges.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a connection may send before others have their turn. A client that reads as fast as it can takes all that is
/// written: without a limit it would keep the thread until its answer ends.
const TURN_BYTES: usize = 256 << 10;

/// A stream that takes notes, and turns with others.
pub(crate) struct Socket<S> {
    stream: S,
    notes: Arc<Notes>,
    /// Sent in this turn.
    sent: usize,
    /// Of the head that is coming.
    scan: Scan,
}

impl<S> Socket<S> {
    pub(crate) fn new(stream: S, notes: Arc<Notes>) -> Self {
        Self { stream, notes, sent: 0, scan: Scan::default() }
    }

    /// Ready with what may still be sent in this turn; pending, once, when that is nothing. The task is woken when
    /// other tasks ran and sockets were looked at. The client is not waited for meanwhile.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.sent < TURN_BYTES {
            return Poll::Ready(TURN_BYTES - self.sent);
        }
        self.sent = 0;
        let _ = pin!(yield_now()).poll(cx);
        Poll::Pending
    }

    /// Looks at what came while no exchange was under way: that is a head.
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
            // It asks for something new: its turn begins anew.
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
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closes our side, and reads what still comes until the client closes its own: a socket that is
    /// closed with unread bytes is reset, and the answer that refused an upload is lost with it.
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

/// What comes after we have closed is read in pieces of this size.
const IGNORED_BYTES: usize = 4096;

/// So many pieces, then other connections have their turn.
const IGNORED_READS: usize = 64;

/// What the client is waited for. The numbers make each wait one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// For nothing: the answer is being made, or the request's body is coming, which is the forward
    /// path's affair.
    Nothing,
    /// To ask.
    Request(u32),
    /// To finish asking.
    RestOfHead(u32),
    /// To take bytes.
    Write(u32),
    /// To close its side.
    Farewell,
}

/// Watches over a connection's silence.
pub(crate) struct Watch {
    notes: Arc<Notes>,
    patience: Patience,
    waiting: Waiting,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Watch {
    pub(crate) fn new(notes: Arc<Notes>, patience: Patience) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + patience.idle));
        Self { notes, patience, waiting: Waiting::Nothing, since: now, timer }
    }

    /// Ready when the client was waited for long enough. Requires: it is polled after each poll of the
    /// connection.
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

impl Notes {
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
