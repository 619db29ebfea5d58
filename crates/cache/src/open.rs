//! Head lookup: finds the current version of an object in memory, on flash or at the origin, and
//! revalidates it.
//!
//! 1. Look in memory, then on flash. A head that is fresh by the rule is the answer. So is an entry
//!    of the negative cache.
//! 2. Ask the origin (`lookup`): with a GET if bytes are missing, else with a HEAD.
//! 3. Publish the origin's answer (`publish`), unless the object was removed after the request was
//!    sent. A 404 invalidates the cached object as a removal does.
//! 4. When the origin fails, serve a stale head if the rule allows it (stale-if-error).

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::ops::Range;

use zonal_base::Nanos;

use crate::cache::Inner;
use crate::first_read::UnreadBody;
use crate::freshness::OriginUse;
use crate::head::{self, StoredHead};
use crate::heads::KnownHead;
use crate::index::IndexEntry;
use crate::lookup::{Answer, Joined};
use crate::object::ObjectKey;
use crate::origin_backoff::StaleDecision;
use crate::pins::is_pinned;
use crate::question::{Question, Wanted};
use crate::records::Unread;
use crate::recover::HEAD;
use crate::{
    Cache, Fetched, FreshnessPolicy, Head, ObjectName, OriginFault, Reader, RetentionClass,
};

/// Source of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// The cached head was fresh.
    Hit,
    /// The origin confirmed the cached head.
    Revalidated,
    /// The head came from the origin: it was not cached or had changed.
    Miss,
    /// The cached head was not fresh, but the origin failed.
    Stale,
    /// The cached head was not fresh; the origin is asked in the background.
    Updating,
    /// The head came from the origin, and the object cannot be cached for this reason. The body of
    /// the same response has its bytes.
    Uncacheable(LookupError),
}

impl HeadSource {
    /// True when the origin confirmed the version for this request.
    #[must_use]
    pub const fn is_confirmed(self) -> bool {
        match self {
            Self::Revalidated | Self::Miss | Self::Uncacheable(_) => true,
            Self::Hit | Self::Stale | Self::Updating => false,
        }
    }
}

/// Result of a successful lookup.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Head of the version to serve.
    pub head: Arc<Head>,
    /// Source of the head, for `X-Cache`.
    pub found: HeadSource,
}

/// Reason for a lookup without a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The origin answered 404 now. Forward the request if the client needs the details.
    NotFound,
    /// The origin answered 404 `NoSuchKey` now.
    NoSuchKey,
    /// The origin answered 404 to HEAD now, without an error code.
    HeadNotFound,
    /// Negative cache hit: the origin answered 404 lately.
    Absent,
    /// The cached head is missing or not fresh, and the request forbids asking the origin.
    NotKnown,
    /// The origin sends no strong ETag, so the object cannot be cached: forward the request.
    NoEtag,
    /// The headers exceed the limit of stored heads, so the object cannot be cached: forward the
    /// request.
    HeadersTooLong,
    /// The object has more pieces than the cache can number: forward the request.
    TooLarge,
    /// The shard has lost its device: forward the request.
    Gone,
    /// The device did not answer in time, so it is unknown which version is cached: forward the
    /// request.
    Late,
    /// The origin failed, or its answer was invalid.
    Origin(OriginFault),
    /// The shard has too many requests in flight: answer 503 SlowDown.
    Overloaded,
}

/// The device did not answer in time: the index has a head of the object, and it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late;

/// Result of [`Cache::open_to_read`].
#[derive(Debug)]
pub struct OpenedRead {
    /// The version to serve.
    pub opened: Opened,
    /// Bytes of the object that the request to the origin fetches on this shard, for
    /// [`Cache::read`].
    pub fetches: Range<u64>,
    /// Body of that request, if its bytes belong to the stripe of another shard, or the object
    /// cannot be cached ([`HeadSource::Uncacheable`]).
    pub body: Option<UnreadBody>,
}

impl Cache {
    /// Returns the head to serve for `object` under the freshness rule `trust`. With
    /// [`RetentionClass::Pinned`] the head is pinned like the object's chunks.
    ///
    /// # Errors
    /// When there is no head, or none that the cache may serve.
    pub async fn open(
        &self,
        object: &ObjectName,
        trust: impl Into<FreshnessPolicy>,
        retention: RetentionClass,
    ) -> Result<Opened, LookupError> {
        let (answer, _) = self.inner.open(object, trust.into(), (retention, None)).await?;
        Ok(answer.opened)
    }

    /// As [`Cache::open`], for a reader of bytes. If the origin must be asked and bytes are missing,
    /// one request brings both.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub async fn open_to_read(
        &self,
        object: &ObjectName,
        trust: FreshnessPolicy,
        reader: &Reader<'_>,
    ) -> Result<OpenedRead, LookupError> {
        let wanted = (reader.hints.retention, Some(reader));
        let (answer, body) = self.inner.open(object, trust, wanted).await?;
        Ok(OpenedRead { opened: answer.opened, fetches: answer.fetches, body })
    }

    /// Registers that the origin has sent a strong ETag for the object. The next lookup asks the
    /// origin again.
    pub fn note_etag(&self, object: &ObjectName) {
        let key = self.inner.keys.object(object);
        self.inner.untagged.borrow_mut().forget(key, object.bucket());
    }
}

/// The answer to a request, and a body for it alone.
type Found = (Answer, Option<UnreadBody>);

/// An answer that fetches nothing for this request.
const fn cached(opened: Opened) -> Found {
    (Answer::cached(opened), None)
}

impl Inner {
    async fn open(
        self: &Rc<Self>,
        object: &ObjectName,
        trust: FreshnessPolicy,
        wanted: Wanted<'_>,
    ) -> Result<Found, LookupError> {
        self.count(|stats| stats.opens += 1);
        let arrived = self.lookups_sent();
        let key = self.keys.object(object);
        loop {
            if self.log.is_gone() {
                return Err(LookupError::Gone);
            }
            let known = self.known_head(object, key).await.map_err(|Late| LookupError::Late)?;
            if let Some(known) = &known {
                self.note_retention(key, known, wanted.0);
                if let Some(found) = self.found(known, trust, arrived) {
                    return Ok(cached(Opened { head: known.head.clone(), found }));
                }
            }
            if known.is_none() && self.absences.borrow().has(key, trust.absence, self.now()) {
                self.count(|stats| stats.opens_absent += 1);
                return Err(LookupError::Absent);
            }
            if trust.asking == OriginUse::Forbidden {
                return Err(LookupError::NotKnown);
            }
            if self.is_untagged(object, key, known.as_deref()) {
                return Err(LookupError::NoEtag);
            }
            if let Some(answer) =
                self.ask_or_take((object, key), known, (trust, arrived), wanted).await
            {
                return answer;
            }
        }
    }

    fn note_retention(&self, key: ObjectKey, known: &KnownHead, retention: RetentionClass) {
        let is_pinned = retention == RetentionClass::Pinned;
        if known.is_pinned.replace(is_pinned) != is_pinned {
            self.holdings.note_asked(key.record(), retention);
        }
    }

    /// The source of a head that may be served without a request: it is fresh, or the origin
    /// confirmed it since the read arrived.
    fn found(&self, known: &KnownHead, trust: FreshnessPolicy, arrived: u64) -> Option<HeadSource> {
        if !known.is_trusted() || (trust.needs_whole_head && known.head.is_partial) {
            return None;
        }
        if trust.head.holds(known.validated_at.get(), self.now()) {
            self.count(|stats| stats.opens_fresh += 1);
            return Some(HeadSource::Hit);
        }
        if arrived < known.confirmed_by.get() {
            self.count(|stats| stats.opens_joined += 1);
            return Some(HeadSource::Revalidated);
        }
        None
    }

    /// True when the origin is expected to send no ETag for the object, so that a HEAD request is
    /// useless.
    fn is_untagged(&self, object: &ObjectName, key: ObjectKey, known: Option<&KnownHead>) -> bool {
        let untagged = self.untagged.borrow();
        untagged.has(key) || (known.is_none() && untagged.has_all_of(object.bucket()))
    }

    /// Asks the origin. Serves the cached head if the rule allows it to be stale while the origin is
    /// asked, or if the origin fails or is known to be down. `None`: the request must look again. It
    /// shares an answer that is older than itself, or the head changed before it was sent.
    async fn ask_or_take(
        self: &Rc<Self>,
        (object, key): (&ObjectName, ObjectKey),
        known: Option<Rc<KnownHead>>,
        (trust, arrived): (FreshnessPolicy, u64),
        wanted: Wanted<'_>,
    ) -> Option<Result<Found, LookupError>> {
        let in_trouble = |known: &Rc<KnownHead>| {
            let holds = trust.holds_in_trouble(known.validated_at.get(), self.now());
            holds && known.is_trusted()
        };
        let meanwhile = |known: &&Rc<KnownHead>| {
            let holds = trust.holds_meanwhile(known.validated_at.get(), self.now());
            holds && known.is_trusted()
        };
        let join_or_start = |known: Option<Rc<KnownHead>>, question| {
            self.join_or_start((object, key), known, question, (arrived, trust))
        };
        if let Some(served) = known.as_ref().filter(meanwhile) {
            self.count(|stats| stats.opens_updating += 1);
            join_or_start(known.clone(), Question::Head(wanted.0));
            let opened = Opened { head: served.head.clone(), found: HeadSource::Updating };
            return Some(Ok(cached(opened)));
        }
        if let Some(known) = known.as_ref().filter(|known| in_trouble(known)) {
            let advice = self.outages.borrow_mut().advise(object.bucket(), self.now());
            if advice == StaleDecision::Ask {
                join_or_start(Some(known.clone()), Question::Head(wanted.0));
            }
            if advice != StaleDecision::Wait {
                return Some(Ok(cached(self.stale(known))));
            }
        }
        let question = self.question((object, key), known.as_ref(), wanted).await?;
        let answer = match join_or_start(known, question) {
            Joined::Own(lookup) => {
                let found = lookup.wait_as_owner().await;
                if let (Ok((answer, _)), Some(reader)) = (&found, wanted.1) {
                    self.abandon_unread(object, answer, reader);
                }
                found
            }
            Joined::Other(lookup) => lookup.wait().await.map(|answer| cached(answer.opened)),
            Joined::Older(lookup) => match lookup.wait().await {
                Err(LookupError::Origin(fault)) if fault.is_failure() => {
                    Err(LookupError::Origin(fault))
                }
                _ => return None,
            },
        };
        let Err(LookupError::Origin(fault)) = answer else { return Some(answer) };
        if trust.stale_if_error == Nanos(0) || !fault.is_failure() {
            return Some(answer);
        }
        // A removal or a new head during the request takes precedence.
        let known = self.known_head(object, key).await.ok().flatten();
        let known = known.filter(in_trouble);
        Some(known.map_or(answer, |known| Ok(cached(self.stale(&known)))))
    }

    /// Ends the fetch of a lookup whose reader gets no bytes: its conditions do not hold.
    fn abandon_unread(&self, object: &ObjectName, answer: &Answer, reader: &Reader<'_>) {
        let head = &answer.opened.head;
        if answer.fetches.is_empty() || !(reader.range_of)(head).is_empty() {
            return;
        }
        let (_, version) = self.keys_of(object, head);
        let first = version.piece(answer.fetches.start / self.piece_of(head));
        if let Some(piece) = self.filling.borrow().get(&first) {
            piece.fetch().abandon();
        }
    }

    fn stale(&self, known: &KnownHead) -> Opened {
        self.count(|stats| stats.opens_stale += 1);
        Opened { head: known.head.clone(), found: HeadSource::Stale }
    }

    /// Returns the head that is in memory or on flash, fresh or not.
    pub(crate) async fn known_head(
        self: &Rc<Self>,
        object: &ObjectName,
        key: ObjectKey,
    ) -> Result<Option<Rc<KnownHead>>, Late> {
        if let Some(known) = self.heads.borrow_mut().get(key).filter(|head| head.name == *object) {
            return Ok(Some(known));
        }
        match self.holdings.find(key.record()).filter(|found| found.kind == HEAD) {
            Some(found) => self.load_head(object, key, found).await,
            None => Ok(None),
        }
    }

    async fn load_head(
        self: &Rc<Self>,
        object: &ObjectName,
        key: ObjectKey,
        found: IndexEntry,
    ) -> Result<Option<Rc<KnownHead>>, Late> {
        let watch = self.watch(object, key);
        let epoch = watch.epoch();
        let (is_pinned, extent) = (is_pinned(HEAD, found.mark), found.extent);
        let stored = match self.read_whole(key.record(), found).await {
            Ok(bytes) => head::decode(bytes.as_bytes()),
            Err(Unread::Late) => return Err(Late),
            Err(Unread::Gone) => None,
        };
        let Some(StoredHead { name, mut state, head }) = stored else { return Ok(None) };
        if state.generation < self.counts_since(object) {
            self.release_pins(key, &head);
            self.holdings.forget_at(key.record(), extent);
            return Ok(None);
        }
        // A removal or a new head during the read takes precedence.
        let is_current = watch.may_publish(epoch) && !watch.is_replaced(state.generation);
        // Buffers, and with them pieces, may have been larger when the head was stored.
        let is_too_large = self.is_too_large(head.size, head.chunk);
        if name != *object || !is_current || is_too_large {
            return Ok(None);
        }
        // The clock was ahead when the head was confirmed, so its age is unknown. It must not
        // become fresh when the clock reaches that time.
        let is_of_the_future = self.now() < state.validated_at;
        if is_of_the_future {
            state.validated_at = Nanos(0);
        }
        let known = KnownHead::new(object.clone(), Arc::new(head), state);
        known.is_pinned.set(is_pinned);
        known.is_stored.set(true);
        known.is_suspect.set(state.generation < self.log.suspect_below());
        // Reclaim may have emptied the head's zone during the read. Then only this reader may use
        // the head.
        if !self.holdings.has(key.record()) {
            return Ok(Some(known));
        }
        // Another reader may have loaded the head first, or a newer head may have been published.
        let other = self.heads.borrow_mut().get(key);
        if let Some(other) = other {
            return Ok((other.name == *object).then_some(other));
        }
        self.heads.borrow_mut().insert(key, known.clone());
        if is_of_the_future {
            self.store_state(&watch, &known);
        }
        Ok(Some(known))
    }

    pub(crate) fn note_reached(&self, object: &ObjectName, answer: &Fetched) {
        let mut outages = self.outages.borrow_mut();
        match answer {
            Fetched::Failed(OriginFault::Unreachable) => {
                outages.note_failed(object.bucket(), self.now());
            }
            _ => outages.note_answered(object.bucket()),
        }
    }

    /// Registers a 404 of the origin. Invalidates the cached object in the background: a client
    /// that was told 404 must not find the object again under a rule that asks no more.
    pub(crate) fn note_absent(
        self: &Rc<Self>,
        key: ObjectKey,
        asked_at: Nanos,
        known: Option<&KnownHead>,
    ) {
        if let Some(known) = known {
            self.release_pins(key, &known.head);
            let removal = self.begin_removal(&known.name, key);
            let inner = self.clone();
            self.spawn_writing(|writing| async move {
                // A failure needs no handling: it means that the device is lost with all that it
                // holds.
                let _ = inner.bury(removal).await;
                drop(writing);
            });
        }
        self.absences.borrow_mut().note(key, asked_at);
    }
}
