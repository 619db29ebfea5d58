//! Get request to the shard of an object's head: opens the object and reads the part of the range in
//! the first stripe.
//!
//! If the object is not cached, one request to the origin brings its head and bytes. If bytes of a
//! cached version are missing, their request confirms the version. Bytes of another stripe belong
//! to another shard: the body is handed over to it at once, because it holds a connection slot of
//! the origin. An object that cannot be cached is passed on from the body.

use std::ops::Range;

use tokio::sync::oneshot;
use zonal_base::{Nanos, RangeSpec};
use zonal_cache::{
    Cache, FreshnessPolicy, Head, HeadSource, InitialFetch, LookupError, ObjectName, Opened,
    OpenedRead, ReadHints, Reader, STRIPE,
};

use crate::BodyStream;
use crate::origin::OriginDriver;
use crate::peers::Peers;
use crate::pipe::PipeWriter;
use crate::striped_read::StripeAhead;

/// Chooses the range to read from the version that was found.
pub(crate) type RangeOf = Box<dyn Fn(&Head) -> Range<u64> + Send>;

/// The version that was found.
pub(crate) struct Chosen {
    pub(crate) opened: Opened,
    /// The range chosen from it.
    pub(crate) range: Range<u64>,
    /// The stripe whose bytes the request that found it fetches, if it is on another shard.
    pub(crate) ahead: Option<Box<StripeAhead>>,
}

/// A body on its way to another shard, and the bytes of the object that it has.
pub(crate) struct HandedBody {
    pub(crate) body: Box<dyn BodyStream>,
    pub(crate) range: Range<u64>,
}

/// The part of `range` in the first stripe, which lies on the head's shard.
pub(crate) fn with_head(range: &Range<u64>) -> Range<u64> {
    range.start..range.end.min(STRIPE.0)
}

pub(crate) struct Get {
    pub(crate) object: ObjectName,
    pub(crate) trust: FreshnessPolicy,
    pub(crate) keeping: ReadHints,
    /// Bytes that the client requests of any version.
    pub(crate) range: RangeSpec,
    pub(crate) range_of: RangeOf,
    /// Sent before the first piece.
    pub(crate) reply: oneshot::Sender<Result<Chosen, LookupError>>,
    pub(crate) to: PipeWriter,
    /// [`monotonic`](crate::monotonic) time when the front end sent the request.
    pub(crate) asked_at: Nanos,
}

impl Get {
    pub(crate) async fn run(self, cache: Cache, origin: OriginDriver, peers: Peers) {
        let Self { object, trust, mut keeping, range, range_of, reply, to, .. } = self;
        let reader = Reader { range, range_of: &*range_of, hints: keeping, others: Some(&peers) };
        let opened = cache.open_to_read(&object, trust, &reader).await;
        // The caller does not wait for this reply: the first bytes, or the end of the pipe, wake it.
        let OpenedRead { opened, fetches, body } = match opened {
            Ok(opened) => opened,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let (head, range) = (opened.head.clone(), range_of(&opened.head));
        if let HeadSource::Uncacheable(error) = opened.found {
            let body = body.filter(|body| has(&body.range, &range));
            let chosen = Chosen { opened, range: range.clone(), ahead: None };
            let _ = reply.send(if body.is_some() { Ok(chosen) } else { Err(error) });
            if let Some(body) = body.filter(|_| !range.is_empty()) {
                cache.pass_through(body, range, Box::new(to)).await;
            }
            return;
        }
        keeping.is_confirmed = opened.found.is_confirmed();
        let begun = with_head(&range);
        // Prefetch before the read starts, so that both origin requests leave together.
        if let Some(ahead) = cache.note_asked(&object, &head, &range) {
            peers.prefetch(&cache, &object, &head, &ahead);
        }
        let body = body.filter(|_| !range.is_empty());
        let ahead = match body.and_then(|body| origin.hand_over(body)) {
            Some(body) => peers.read_from((&object, &head), &range, keeping, body).await,
            None => None,
        };
        let _ = reply.send(Ok(Chosen { opened, range, ahead }));
        if !begun.is_empty() {
            let begun = (begun, InitialFetch::Started(fetches));
            cache.read(&object, &head, begun, keeping, Box::new(to)).await;
        }
    }
}

/// True if all bytes of `part` are in `range`.
const fn has(range: &Range<u64>, part: &Range<u64>) -> bool {
    part.start == part.end || range.start <= part.start && part.end <= range.end
}
