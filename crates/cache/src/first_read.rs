//! First read of an object: which bytes to request before the version is known, and which pieces to
//! take from the answer.
//!
//! 1. Whole chunks are requested, and none behind the stripe: those are on other shards.
//! 2. Of the body, the missing pieces of the requested chunks become a fetch.
//! 3. A body that is no fetch of this shard goes to the reader that asked for it: its bytes belong
//!    to the stripe of another shard, or the object cannot be cached ([`UnreadBody`]).

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use zonal_base::RangeSpec;

use crate::cache::{Inner, STRIPE};
use crate::chunks::pieces_of;
use crate::fill::Body;
use crate::object::VersionKey;
use crate::pins::ReadHints;
use crate::{Chunk, Fetch, Head, ObjectName, StreamId};

/// Bytes of an object whose version is not known.
#[derive(Clone, Debug)]
pub(crate) struct FirstRead {
    /// The bytes that the reader requested.
    pub(crate) range: RangeSpec,
    pub(crate) hints: ReadHints,
}

/// Body of a GET that has not become a fetch. It is closed when it is dropped.
pub struct UnreadBody {
    /// `None` once the body was handed over.
    inner: Option<Rc<Inner>>,
    stream: StreamId,
    /// Bytes of the object in the body.
    pub range: Range<u64>,
}

impl fmt::Debug for UnreadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnreadBody")
            .field("stream", &self.stream)
            .field("range", &self.range)
            .finish()
    }
}

impl UnreadBody {
    pub(crate) fn of(body: Body) -> Self {
        let (inner, stream, range) = body.into_parts();
        Self { inner: Some(inner), stream, range }
    }

    /// Hands the body over: the caller closes it.
    #[must_use]
    pub fn take(mut self) -> (StreamId, Range<u64>) {
        self.inner = None;
        (self.stream, self.range.clone())
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            // The command is executed although nobody awaits it.
            drop(inner.ports.origin.call(Fetch::Close { stream: self.stream }));
        }
    }
}

impl Inner {
    /// The bytes to request for a reader of `range`: whole chunks, and none behind the stripe. The
    /// start of a suffix is unknown, so one chunk more is requested.
    pub(crate) fn aligned(&self, object: &ObjectName, range: &RangeSpec) -> RangeSpec {
        let chunk = self.chunks.borrow().of(object).map_or(self.settings.chunk, Chunk::bytes).0;
        match range {
            RangeSpec::Whole => RangeSpec::Whole,
            RangeSpec::Int(range) => {
                let start = range.start - range.start % chunk;
                let stripe_end = (start / STRIPE.0 + 1).saturating_mul(STRIPE.0);
                let end = range.end.checked_next_multiple_of(chunk).unwrap_or(u64::MAX);
                RangeSpec::Int(start..end.min(stripe_end))
            }
            RangeSpec::Suffix(bytes) => RangeSpec::Suffix(bytes.saturating_add(chunk)),
        }
    }

    /// Turns a body into a fetch of the missing pieces that it has for a reader of `asked`. Returns
    /// the bytes of the fetch.
    pub(crate) async fn fetch_from(
        self: &Rc<Self>,
        (object, head): (&ObjectName, &Arc<Head>),
        (asked, hints): (&RangeSpec, ReadHints),
        body: Body,
    ) -> Range<u64> {
        let (key, version) = self.keys_of(object, head);
        let Some(run) = self.run_in_body(version, head, (&body.range, asked)) else {
            body.close().await;
            return 0..0;
        };
        let of = (object.clone(), head.clone());
        let fill = self.fill(of, (key, version), &run, None);
        fill.keep_for(hints);
        self.start(fill, Some(body));
        self.bytes_of(head, &run)
    }

    /// The missing pieces to fetch from a body that has the bytes `body` of the object, for a reader
    /// of `asked`. They adjoin, and lie in one stripe.
    fn run_in_body(
        &self,
        version: VersionKey,
        head: &Head,
        (body, asked): (&Range<u64>, &RangeSpec),
    ) -> Option<Range<u64>> {
        let (piece, chunk) = (self.piece_of(head), self.chunk_of(head));
        // An origin that ignores ranges sends more than the chunks of the reader.
        let wanted = asked.in_object(head.size);
        let from = wanted.start - wanted.start % chunk;
        let start = body.start.max(from).next_multiple_of(piece);
        let stripe_end = (start / STRIPE.0 + 1) * STRIPE.0;
        let end = wanted.end.next_multiple_of(chunk).min(body.end).min(stripe_end);
        // A piece that is cut off is whole only at the end of the object.
        let end = if end == head.size { end } else { end - end % piece };
        if end <= start {
            return None;
        }
        let mut pieces = pieces_of(&(start..end), piece);
        let first = pieces.find(|number| self.is_missing(version, head, *number))?;
        let behind = pieces.find(|number| !self.is_missing(version, head, *number));
        Some(first..behind.unwrap_or(end.div_ceil(piece)))
    }
}
