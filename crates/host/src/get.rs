//! Get request to the shard of an object's head: opens the object and reads the part of the range in
//! the first stripe.

use std::ops::Range;

use tokio::sync::oneshot;
use zonal_base::RangeSpec;
use zonal_cache::{
    Cache, FreshnessPolicy, Head, LookupError, ObjectName, Opened, ReadHints, Reader, STRIPE,
};

use crate::peers::Peers;
use crate::pipe::PipeWriter;

/// Chooses the range to read from the version that was found.
pub(crate) type RangeOf = Box<dyn Fn(&Head) -> Range<u64> + Send>;

/// The version that was found, and the range chosen from it.
pub(crate) type Chosen = (Opened, Range<u64>);

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
}

impl Get {
    pub(crate) async fn run(self, cache: Cache, peers: Peers) {
        let Self { object, trust, mut keeping, range, range_of, reply, to } = self;
        let reader = Reader { range, range_of: &*range_of, hints: keeping };
        let opened = cache.open_to_read(&object, trust, &reader).await;
        // The caller does not wait for this reply: the first bytes, or the end of the pipe, wake it.
        let (opened, fetches) = match opened {
            Ok(opened) => opened,
            Err(error) => return drop(reply.send(Err(error))),
        };
        keeping.is_confirmed = opened.found.is_confirmed();
        let (head, range) = (opened.head.clone(), range_of(&opened.head));
        let begun = with_head(&range);
        // Prefetch before the read starts, so that both origin requests leave together.
        if let Some(ahead) = cache.note_asked(&object, &head, &range) {
            peers.prefetch(&cache, &object, &head, &ahead);
        }
        let _ = reply.send(Ok((opened, range)));
        if !begun.is_empty() {
            cache.read(&object, &head, (begun, fetches), keeping, Box::new(to)).await;
        }
    }
}
