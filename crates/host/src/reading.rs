//! Striped read: the bytes of a range, one stripe after the other, each from the shard that owns it.
//!
//! The next stripe is asked for before the one before it is drained, so that its first bytes are there in time. Not
//! much before: a fetch that its reader does not come to within 2 s is given up (`docs/decisions/stalled-fetches.md`).

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use zonal_cache::{Head, Keeping, ObjectName, Piece, ReadError, STRIPE};

use crate::Client;
use crate::origin::BoxFuture;
use crate::pipe::{PipeReader, pipe};
use crate::request::Request;

/// The next stripe is asked for when no more than this is left of the one before: what a fetch runs ahead of its
/// reader, and at 1 GB/s eight milliseconds.
const LEFT_MAX: u64 = 8 << 20;

/// ... and the reader needs no longer for it, as fast as it has been so far.
const LEFT_FOR: Duration = Duration::from_secs(1);

/// The bytes of one read.
pub struct Reading {
    /// Nothing will be asked of the origin, unless something cached turns out to be damaged.
    pub all_cached: bool,
    /// The same, and nothing of what was handed out so far was still on its way to flash.
    pub all_on_flash: bool,
    first: Option<Bytes>,
    now: Part,
    /// Asked for before `now` was drained.
    next: Option<Part>,
    rest: Option<Rest>,
    since: Instant,
    handed_out: u64,
}

/// What one stripe has of the read.
struct Part {
    from: Source,
    /// Bytes that are still to come.
    left: u64,
}

enum Source {
    Asking(BoxFuture<'static, Result<PipeReader, ReadError>>),
    Piping(PipeReader),
    /// Nowhere: it is drained.
    Drained,
}

/// What has not been asked for yet.
pub(crate) struct Rest {
    pub(crate) client: Client,
    pub(crate) object: ObjectName,
    pub(crate) head: Arc<Head>,
    pub(crate) range: Range<u64>,
    pub(crate) keeping: Keeping,
}

impl Rest {
    /// Asks for the next stripe, if there is one.
    fn ask(&mut self) -> Option<Part> {
        if self.range.is_empty() {
            return None;
        }
        let stripe = self.range.start / STRIPE.0;
        let end = self.range.end.min((stripe + 1) * STRIPE.0);
        let range = self.range.start..end;
        let left = range.end - range.start;
        self.range.start = end;
        let (to, from) = pipe();
        let (object, head) = (self.object.clone(), self.head.clone());
        let shard = self.client.stripe(&object, stripe).clone();
        let keeping = self.keeping;
        let asking = Box::pin(async move {
            let read = Request::Read { object, head, range, keeping, to };
            shard.send(read).await.map_err(|_| ReadError::Gone)?;
            Ok(from)
        });
        Some(Part { from: Source::Asking(asking), left })
    }
}

impl Part {
    const DRAINED: Self = Self { from: Source::Drained, left: 0 };

    /// Sees to it that the request leaves. An error is found when its turn comes.
    fn poll_asking(&mut self, cx: &mut Context<'_>) {
        if let Source::Asking(asking) = &mut self.from
            && let Poll::Ready(asked) = asking.as_mut().poll(cx)
        {
            self.from = match asked {
                Ok(pipe) => Source::Piping(pipe),
                Err(error) => Source::Asking(Box::pin(std::future::ready(Err(error)))),
            };
        }
    }
}

impl Reading {
    pub(crate) fn of(rest: Rest) -> Self {
        Self { rest: Some(rest), ..Self::with(Part::DRAINED) }
    }

    /// Of which is not known yet how much comes through the pipe, and what after it.
    pub(crate) fn from_pipe(pipe: PipeReader) -> Self {
        Self::with(Part { from: Source::Piping(pipe), left: 0 })
    }

    fn with(now: Part) -> Self {
        Self {
            all_cached: true,
            all_on_flash: true,
            first: None,
            now,
            next: None,
            rest: None,
            since: Instant::now(),
            handed_out: 0,
        }
    }

    /// Waits until the first bytes are there, or there are none to come.
    pub(crate) async fn begin(&mut self) -> Result<(), ReadError> {
        self.first = std::future::poll_fn(|cx| self.poll_bytes(cx)).await.transpose()?;
        Ok(())
    }

    /// It began with `begun` bytes in one pipe, and goes on with the rest.
    pub(crate) fn continue_with(&mut self, begun: u64, rest: Rest) {
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
        if let Some(next) = &mut self.next {
            next.poll_asking(cx);
        }
        loop {
            self.now.from = match &mut self.now.from {
                Source::Drained => match self.next.take().or_else(|| self.rest.as_mut()?.ask()) {
                    Some(next) => {
                        self.now = next;
                        continue;
                    }
                    None => return Poll::Ready(None),
                },
                Source::Asking(asking) => match ready!(Pin::new(asking).poll(cx)) {
                    Ok(pipe) => Source::Piping(pipe),
                    Err(error) => return self.end(error),
                },
                Source::Piping(pipe) => match ready!(pipe.poll_next(cx)) {
                    Some(Piece::Start { all_cached, all_on_flash }) => {
                        self.all_cached &= all_cached;
                        self.all_on_flash &= all_on_flash;
                        continue;
                    }
                    Some(Piece::Data(bytes)) => {
                        self.hand_out(bytes.len() as u64, cx);
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    Some(Piece::End) => Source::Drained,
                    Some(Piece::Failed(error)) => return self.end(error),
                    None => return self.end(ReadError::Gone),
                },
            };
        }
    }

    fn hand_out(&mut self, len: u64, cx: &mut Context<'_>) {
        self.handed_out += len;
        self.now.left = self.now.left.saturating_sub(len);
        if self.next.is_none()
            && let Some(rest) = self.rest.as_mut().filter(|rest| !rest.range.is_empty())
            && self.now.left <= LEFT_MAX
            && is_soon(self.now.left, self.handed_out, self.since.elapsed())
        {
            self.next = rest.ask();
            self.next.iter_mut().for_each(|next| next.poll_asking(cx));
        }
    }

    fn end(&mut self, error: ReadError) -> Poll<Option<Result<Bytes, ReadError>>> {
        (self.now, self.next, self.rest) = (Part::DRAINED, None, None);
        Poll::Ready(Some(Err(error)))
    }
}

/// Whether a reader that took `handed_out` bytes in so long takes as many as are left in [`LEFT_FOR`].
fn is_soon(left: u64, handed_out: u64, took: Duration) -> bool {
    u128::from(left) * took.as_nanos() <= u128::from(handed_out) * LEFT_FOR.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_asked_for_a_second_before_it_is_needed() {
        let (mib, seconds) = (1 << 20, Duration::from_secs);
        assert!(is_soon(8 * mib, 24 * mib, seconds(3)));
        assert!(!is_soon(8 * mib + 1, 24 * mib, seconds(3)));
        assert!(!is_soon(8 * mib, 24 * mib, seconds(240)), "0.1 MiB/s");
        assert!(is_soon(mib / 10, 24 * mib, seconds(240)));
        assert!(is_soon(8 * mib, mib, Duration::ZERO));
    }
}
