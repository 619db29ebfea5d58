//! Question to the origin about an object: which request tells the version and brings missing bytes.
//!
//! 1. Nothing is known of the object: GET of the bytes that the reader requests.
//! 2. Bytes of the known version are missing: GET of the first missing ones, with `If-Match`. Later
//!    stripes may be on other shards, which tell what they lack ([`OtherStripes`]).
//! 3. No bytes are missing, or none are needed: HEAD.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;
use core::pin::Pin;

use zonal_base::RangeSpec;

use crate::cache::{Inner, STRIPE};
use crate::first_read::FirstRead;
use crate::heads::KnownHead;
use crate::object::ObjectKey;
use crate::{Head, ObjectName, ReadHints, RetentionClass};

/// Question to the origin about an object.
pub(crate) enum Question {
    /// HEAD.
    Head(RetentionClass),
    /// GET, as the object is not cached, or its version was refused.
    Object(FirstRead),
    /// GET of missing bytes of the known version. If it is gone, GET of the object.
    Missing {
        /// The version and its missing bytes: adjoining pieces of one stripe.
        known: Rc<KnownHead>,
        bytes: Range<u64>,
        first: FirstRead,
    },
}

/// Reader of an object that may not be cached.
pub struct Reader<'a> {
    /// Bytes that the reader requests of any version.
    pub range: RangeSpec,
    /// Bytes that the reader gets of a version: none if it only needs the head.
    pub range_of: &'a dyn Fn(&Head) -> Range<u64>,
    /// How fetched bytes are kept.
    pub hints: ReadHints,
    /// The stripes after the first. `None`: what they lack is not known, and a HEAD request tells the
    /// version.
    pub others: Option<&'a dyn OtherStripes>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("range", &self.range).finish_non_exhaustive()
    }
}

/// First missing bytes of a range, as [`OtherStripes::first_missing`] finds them.
pub type FirstMissing<'a> = Pin<Box<dyn Future<Output = Option<Range<u64>>> + 'a>>;

/// The stripes of an object after the first, which may be on other shards.
pub trait OtherStripes {
    /// The first bytes of `range` that a reader would have to fetch, as
    /// [`Cache::first_missing`](crate::Cache::first_missing) of the stripe's shard tells them.
    /// `None`: there are none, or a shard does not answer.
    fn first_missing<'a>(
        &'a self,
        object: &'a ObjectName,
        head: &'a Arc<Head>,
        range: Range<u64>,
    ) -> FirstMissing<'a>;
}

/// What a request needs: its retention class, and the reader if it needs bytes.
pub(crate) type Wanted<'a> = (RetentionClass, Option<&'a Reader<'a>>);

impl Inner {
    /// What to ask the origin. `None`: the head changed while other shards were asked.
    pub(crate) async fn question(
        self: &Rc<Self>,
        (object, key): (&ObjectName, ObjectKey),
        known: Option<&Rc<KnownHead>>,
        (retention, reader): Wanted<'_>,
    ) -> Option<Question> {
        let is_empty =
            |range: &RangeSpec| matches!(range, RangeSpec::Int(range) if range.is_empty());
        let Some(reader) = reader.filter(|reader| !is_empty(&reader.range)) else {
            return Some(Question::Head(retention));
        };
        let first = FirstRead { range: reader.range.clone(), hints: reader.hints };
        let Some(known) = known.filter(|known| !known.is_untrusted.get()) else {
            return Some(Question::Object(first));
        };
        let range = (reader.range_of)(&known.head);
        let own = range.start..range.end.min(STRIPE.0);
        let missing = match self.first_missing(object, &known.head, &own) {
            None => self.missing_elsewhere((object, key), known, reader, range).await?,
            missing => missing,
        };
        Some(match missing {
            Some(bytes) => Question::Missing { known: known.clone(), bytes, first },
            None => Question::Head(retention),
        })
    }

    /// The first missing bytes of `range` in the stripes after the first. `None`: the head changed
    /// while other shards were asked.
    async fn missing_elsewhere(
        self: &Rc<Self>,
        (object, key): (&ObjectName, ObjectKey),
        known: &Rc<KnownHead>,
        reader: &Reader<'_>,
        range: Range<u64>,
    ) -> Option<Option<Range<u64>>> {
        let rest = range.start.max(STRIPE.0)..range.end;
        let Some(others) = reader.others.filter(|_| !rest.is_empty()) else { return Some(None) };
        let watch = self.watch(object, key);
        let (epoch, confirmed_by) = (watch.epoch(), known.confirmed_by.get());
        let missing = others.first_missing(object, &known.head, rest).await;
        let is_unchanged = watch.may_publish(epoch)
            && !watch.is_replaced(known.generation.get())
            && known.confirmed_by.get() == confirmed_by;
        is_unchanged.then_some(missing)
    }
}
