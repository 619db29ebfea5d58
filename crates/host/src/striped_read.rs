//! Striped read: the bytes of a range, stripe by stripe, each from the shard that owns it.
//!
//! The next stripe is requested before the current one is drained, so that its first bytes arrive
//! in time. It is not requested much earlier: a fetch whose reader stalls for 2 s is given up
//! (`docs/decisions/stalled-fetches.md`).
//!
//! If the lookup of the version fetches bytes of a stripe, that stripe is requested at once. The
//! stripes before it are cached.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use zonal_base::Nanos;
use zonal_cache::{Head, ObjectName, Piece, PieceSource, ReadError, ReadHints, STRIPE};

use crate::Client;
use crate::clock::monotonic;
use crate::origin::BoxFuture;
use crate::pipe::{PipeReader, pipe};
use crate::request::Request;
use crate::stripes::in_stripe;

/// The next stripe is requested when at most this much of the current one is left, in bytes: the
/// read-ahead of a fetch, and 8 ms at 1 GB/s.
const LEFT_MAX: u64 = 8 << 20;

/// ... and the reader, at its average rate so far, needs at most this long for it.
const LEFT_FOR: Nanos = Nanos::secs(1);

/// A read in progress.
pub struct StripedRead {
    /// True if no byte needs an origin request, unless cached data turn out to be damaged.
    pub all_cached: bool,
    /// True if `all_cached`, and no byte handed out so far was still waiting to be written to
    /// flash.
    pub all_on_flash: bool,
    /// Slowest source of the bytes that have arrived; `None` while there are none.
    pub slowest: Option<PieceSource>,
    first: Option<Bytes>,
    now: StripePart,
    rest: Option<Remainder>,
    /// When the read began, by [`monotonic`].
    since: Nanos,
    handed_out: u64,
}

/// The part of the read in one stripe.
struct StripePart {
    from: PartSource,
    /// Bytes still to come.
    left: u64,
}

enum PartSource {
    Asking(BoxFuture<'static, Result<PipeReader, ReadError>>),
    Piping(PipeReader),
    /// The stripe is drained.
    Drained,
}

/// A stripe that was requested before its turn.
pub(crate) struct StripeAhead {
    stripe: u64,
    from: PartSource,
}

impl StripeAhead {
    /// A stripe whose bytes come from `pipe`. Boxed: few reads have one.
    pub(crate) fn new(stripe: u64, pipe: PipeReader) -> Box<Self> {
        Box::new(Self { stripe, from: PartSource::Piping(pipe) })
    }
}

/// The part of the read that is not requested yet.
pub(crate) struct Remainder {
    pub(crate) client: Client,
    pub(crate) object: ObjectName,
    pub(crate) head: Arc<Head>,
    pub(crate) range: Range<u64>,
    pub(crate) keeping: ReadHints,
    /// A stripe of the range that was requested all the same.
    pub(crate) ahead: Option<Box<StripeAhead>>,
}

impl Remainder {
    /// True if the next stripe may be requested before its turn. If another one was, the stripes
    /// before that are cached.
    fn may_ask_ahead(&self) -> bool {
        self.ahead.is_none() && !self.range.is_empty()
    }

    /// Requests the next stripe before its turn. Requires: [`Remainder::may_ask_ahead`].
    fn ask_ahead(&mut self, cx: &mut Context<'_>) {
        let stripe = self.range.start / STRIPE.0;
        let from = in_stripe(&self.range, stripe).map(|range| self.ask(stripe, range));
        self.ahead = from.map(|from| Box::new(StripeAhead { stripe, from }));
        self.poll_ahead(cx);
    }

    /// The next stripe, if there is one. Requests it unless that was done before.
    fn next(&mut self) -> Option<StripePart> {
        let stripe = self.range.start / STRIPE.0;
        let range = in_stripe(&self.range, stripe)?;
        let left = range.end - range.start;
        self.range.start = range.end;
        let from = match self.ahead.take_if(|ahead| ahead.stripe == stripe) {
            Some(ahead) => ahead.from,
            None => self.ask(stripe, range),
        };
        // By the next stripe the response has begun, so nothing is gained by asking first.
        self.keeping.is_confirmed = true;
        Some(StripePart { from, left })
    }

    /// Drives the request for the stripe ahead.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(ahead) = &mut self.ahead
            && let PartSource::Asking(asking) = &mut ahead.from
            && let Poll::Ready(asked) = asking.as_mut().poll(cx)
        {
            ahead.from = PartSource::of(asked);
        }
    }

    /// Requests `range`, which lies in a stripe, from its shard.
    fn ask(&self, stripe: u64, range: Range<u64>) -> PartSource {
        let (to, from) = pipe();
        let (object, head) = (self.object.clone(), self.head.clone());
        let shard = self.client.stripe(&object, stripe).clone();
        let keeping = self.keeping;
        PartSource::Asking(Box::pin(async move {
            let read = Request::Read { object, head, range, keeping, body: None, to };
            shard.send(read).await.map_err(|_| ReadError::Gone)?;
            Ok(from)
        }))
    }
}

impl StripePart {
    const DRAINED: Self = Self { from: PartSource::Drained, left: 0 };
}

impl PartSource {
    /// An error is reported when the reader reaches the stripe.
    fn of(asked: Result<PipeReader, ReadError>) -> Self {
        match asked {
            Ok(pipe) => Self::Piping(pipe),
            Err(error) => Self::Asking(Box::pin(std::future::ready(Err(error)))),
        }
    }
}

impl StripedRead {
    pub(crate) fn of(rest: Remainder) -> Self {
        Self { rest: Some(rest), ..Self::with(StripePart::DRAINED) }
    }

    /// A read from a pipe, whose length and continuation are set by [`StripedRead::continue_with`].
    pub(crate) fn from_pipe(pipe: PipeReader, since: Nanos) -> Self {
        Self { since, ..Self::with(StripePart { from: PartSource::Piping(pipe), left: 0 }) }
    }

    fn with(now: StripePart) -> Self {
        Self {
            all_cached: true,
            all_on_flash: true,
            slowest: None,
            first: None,
            now,
            rest: None,
            since: monotonic(),
            handed_out: 0,
        }
    }

    /// Waits for the first bytes, or the end.
    pub(crate) async fn begin(&mut self) -> Result<(), ReadError> {
        self.first = std::future::poll_fn(|cx| self.poll_bytes(cx)).await.transpose()?;
        Ok(())
    }

    /// Sets the number of bytes in the first pipe, and the rest of the read.
    pub(crate) fn continue_with(&mut self, begun: u64, rest: Remainder) {
        self.now.left = begun - self.handed_out;
        self.rest = Some(rest);
    }

    /// The next bytes; `None` after the last.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.poll_bytes(cx),
        }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadError>>> {
        if let Some(rest) = &mut self.rest {
            rest.poll_ahead(cx);
        }
        loop {
            self.now.from = match &mut self.now.from {
                PartSource::Drained => match self.rest.as_mut().and_then(Remainder::next) {
                    Some(next) => {
                        self.now = next;
                        continue;
                    }
                    None => return Poll::Ready(None),
                },
                PartSource::Asking(asking) => match ready!(Pin::new(asking).poll(cx)) {
                    Ok(pipe) => PartSource::Piping(pipe),
                    Err(error) => return self.end(error),
                },
                PartSource::Piping(pipe) => match ready!(pipe.poll_next(cx)) {
                    Some(Piece::Start { all_cached, all_on_flash }) => {
                        self.all_cached &= all_cached;
                        self.all_on_flash &= all_on_flash;
                        continue;
                    }
                    Some(Piece::Data(bytes, source)) => {
                        self.slowest = self.slowest.max(Some(source));
                        self.hand_out(bytes.len() as u64, cx);
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    Some(Piece::End) => PartSource::Drained,
                    Some(Piece::Failed(error)) => return self.end(error),
                    None => return self.end(ReadError::Gone),
                },
            };
        }
    }

    fn hand_out(&mut self, len: u64, cx: &mut Context<'_>) {
        self.handed_out += len;
        self.now.left = self.now.left.saturating_sub(len);
        if let Some(rest) = self.rest.as_mut().filter(|rest| rest.may_ask_ahead())
            && self.now.left <= LEFT_MAX
            && is_soon(self.now.left, self.handed_out, monotonic().since(self.since))
        {
            rest.ask_ahead(cx);
        }
    }

    fn end(&mut self, error: ReadError) -> Poll<Option<Result<Bytes, ReadError>>> {
        if let Some(rest) = &self.rest {
            rest.client.note_refusal(&rest.object, &rest.head, error);
        }
        (self.now, self.rest) = (StripePart::DRAINED, None);
        Poll::Ready(Some(Err(error)))
    }
}

/// True if a reader that took `handed_out` bytes in the time `took` needs at most [`LEFT_FOR`] for
/// the bytes left.
fn is_soon(left: u64, handed_out: u64, took: Nanos) -> bool {
    u128::from(left) * u128::from(took.0) <= u128::from(handed_out) * u128::from(LEFT_FOR.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_asked_for_a_second_before_it_is_needed() {
        let (mib, seconds) = (1 << 20, Nanos::secs);
        assert!(is_soon(8 * mib, 24 * mib, seconds(3)));
        assert!(!is_soon(8 * mib + 1, 24 * mib, seconds(3)));
        assert!(!is_soon(8 * mib, 24 * mib, seconds(240)), "0.1 MiB/s");
        assert!(is_soon(mib / 10, 24 * mib, seconds(240)));
        assert!(is_soon(8 * mib, mib, Nanos(0)));
    }
}
