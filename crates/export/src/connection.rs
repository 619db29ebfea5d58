//! NBD connection: handshake, then transmission, until it ends.
//!
//! 1. Negotiate until the client has chosen an export, within the time limit of the server.
//! 2. Read requests, run as many at once as the memory window allows, and answer each when it is
//!    done.
//! 3. When the client disconnects or the server stops, answer the running requests and close.
//!
//! One task does all of this. In each turn it starts some of the received requests, polls every
//! request that was woken, and sends all replies with one system call. It sleeps when there is
//! nothing to do, and does not read while the window is full.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{FuturesUnordered, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep};

use crate::export::Export;
use crate::handshake::{Handshake, Negotiated, Offer, Step};
use crate::receive_buffer::{RECEIVED_BYTES, ReceiveBuffer};
use crate::reply::{Replies, RequestOutcome};
use crate::reply_queue::ReplyQueue;
use crate::request::{Request, RequestLimits, WEIGHT_MAX};
use crate::request_parser::{Arrival, RequestParser};
use crate::volume::Volume;

/// Memory window of a connection, for running requests and unsent replies: 32 MiB plus 4 KiB, so
/// that the largest request fits, or 4096 requests of 4 KiB. While it is full, the server does not
/// read from the client. A write of partial blocks takes its size again while the blocks are
/// merged.
const WINDOW_BYTES: u64 = WEIGHT_MAX;

/// Grace period for running requests after the client has disconnected or the server stops: 10 s.
const GOODBYE: Duration = Duration::from_secs(10);

/// Maximum of requests that start in one turn, before their I/O is submitted and other tasks run.
/// Without a limit, client and server would alternate: all requests are sent, then all are read,
/// then all are answered.
const REQUESTS_PER_TURN: usize = 16;

/// Maximum of buffers sent with one system call: 128, the replies to 64 reads.
const SLICES_MAX: usize = 128;

/// The byte stream of a client.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Wire for S {}

/// Negotiates options until the client has chosen an export. `None`: the client disconnected,
/// aborted, or violated the protocol.
pub(crate) async fn shake_hands<S: Wire>(
    stream: &mut S,
    received: &mut ReceiveBuffer,
    offers: &[Offer],
) -> io::Result<Option<Negotiated>> {
    let mut handshake = Handshake::new();
    let mut output = BytesMut::new();
    Handshake::greet(&mut output);
    loop {
        // Replies are sent before the next option is parsed: so at most the replies to one option
        // are in memory, however many options arrive at once.
        stream.write_all(&output).await?;
        output.clear();
        let (taken, step) = handshake.advance(received.bytes(), offers, &mut output);
        received.consume(taken);
        match step {
            Step::Next => {}
            Step::More if received.fill(stream).await? == 0 => return Ok(None),
            Step::More => {}
            Step::Agreed(agreed) => {
                stream.write_all(&output).await?;
                return Ok(Some(agreed));
            }
            Step::Close => {
                stream.write_all(&output).await?;
                return Ok(None);
            }
        }
    }
}

/// Runs requests until the client disconnects or `stopping` changes, and answers all that it
/// accepted.
///
/// # Errors
/// The connection broke without a disconnect request, the client violated the protocol, or the
/// grace period ended.
pub(crate) async fn transmit<S: Wire, V: Volume>(
    stream: &mut S,
    received: ReceiveBuffer,
    (export, agreed): (&Export<V>, &Negotiated),
    stopping: &mut watch::Receiver<()>,
) -> io::Result<()> {
    let Negotiated { structured, allocation, .. } = *agreed;
    let terms = RequestLimits { size: export.size(), structured, allocation };
    let mut line = Transmission {
        stream,
        received,
        incoming: RequestParser::new(terms),
        outgoing: ReplyQueue::default(),
        replies: Replies { structured },
        under_way_bytes: 0,
        has_no_room: false,
        is_ending: false,
    };
    let mut under_way = FuturesUnordered::new();
    let mut stop = pin!(stopping.changed());
    let mut goodbye = pin!(None::<Sleep>);
    poll_fn(|cx| {
        if !line.is_ending && stop.as_mut().poll(cx).is_ready() {
            line.is_ending = true;
        }
        let mut room = REQUESTS_PER_TURN;
        loop {
            while let Poll::Ready(Some((request, outcome))) = Pin::new(&mut under_way).poll_next(cx)
            {
                line.answer(&request, outcome);
            }
            let start = |request: Request, data| {
                let carried_out = async move { (request, export.carry_out(&request, data).await) };
                under_way.push(carried_out);
            };
            let taken = line.take(export, room, start)?;
            if 0 < taken {
                // A started request may be done already. Then its reply is sent together with the
                // others.
                room -= taken;
                continue;
            }
            let moved = line.send(cx)? | line.receive(cx)?;
            if line.is_ending && under_way.is_empty() && line.outgoing.bytes() == 0 {
                return Poll::Ready(Ok(()));
            }
            if room == 0 {
                // Woken after other tasks ran and sockets were polled.
                let _ = pin!(yield_now()).poll(cx);
                break;
            }
            if !moved {
                break;
            }
        }
        if line.is_ending {
            if goodbye.is_none() {
                goodbye.set(Some(sleep(GOODBYE)));
            }
            let patience = goodbye.as_mut().as_pin_mut().expect("it was set before");
            return patience.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    })
    .await
}

/// Transmission phase of a connection.
struct Transmission<'a, S> {
    stream: &'a mut S,
    received: ReceiveBuffer,
    incoming: RequestParser,
    outgoing: ReplyQueue,
    replies: Replies,
    /// Memory of the running requests, in bytes.
    under_way_bytes: u64,
    /// The next request has arrived, and waits for room in the window.
    has_no_room: bool,
    /// No more requests are accepted.
    is_ending: bool,
}

impl<S: Wire> Transmission<'_, S> {
    fn answer(&mut self, request: &Request, outcome: RequestOutcome) {
        self.under_way_bytes -= request.weight();
        self.replies.answer(request, outcome, &mut self.outgoing);
    }

    /// Starts up to `at_most` requests that have arrived completely and fit the window. Returns the
    /// number of requests handled, including refused ones.
    fn take<V: Volume>(
        &mut self,
        export: &Export<V>,
        at_most: usize,
        mut start: impl FnMut(Request, Bytes),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while !self.is_ending && taken < at_most {
            let used = self.under_way_bytes + self.outgoing.bytes();
            let room = WINDOW_BYTES.saturating_sub(used);
            let (bytes, arrival) = self.incoming.advance(self.received.bytes(), room);
            self.received.consume(bytes);
            self.has_no_room = arrival == Arrival::NoRoom;
            match arrival {
                Arrival::Request(request, data) => {
                    self.under_way_bytes += request.weight();
                    start(request, data);
                }
                Arrival::Refused(refusal) => {
                    export.counts().refusals.add(1);
                    self.replies.refuse(&refusal, &mut self.outgoing);
                }
                Arrival::Disconnect => self.is_ending = true,
                Arrival::More | Arrival::NoRoom => break,
                Arrival::Garbage => return Err(io::ErrorKind::InvalidData.into()),
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Sends queued replies. True if the socket accepted some bytes.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut any = false;
        while 0 < self.outgoing.bytes() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.outgoing.slices(&mut slices);
            match Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..count]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(sent)) => self.outgoing.sent(sent),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
            any = true;
        }
        Ok(any)
    }

    /// Reads from the socket unless the window is full. True if bytes arrived.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.is_ending || self.has_no_room {
            return Ok(false);
        }
        let read = match self.incoming.payload() {
            // A large rest of a payload is read directly to its destination, without a copy.
            Some((memory, left)) if RECEIVED_BYTES <= left => {
                let mut room = memory.limit(left);
                pin!(self.stream.read_buf(&mut room)).poll(cx)
            }
            _ => self.received.poll_fill(&mut self.stream, cx),
        };
        match read {
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Poll::Ready(read) => read.map(|_| true),
            Poll::Pending => Ok(false),
        }
    }
}
