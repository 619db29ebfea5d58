//! Head lookup: finds the current version of an object in memory, on flash or at the origin, and
//! revalidates it.
//!
//! 1. Look in memory, then on flash. A head that is fresh by the rule is the answer. So is an entry
//!    of the negative cache.
//! 2. Ask the origin. Concurrent requests for the object share one request (single flight).
//! 3. Publish the origin's answer (`publish`), unless the object was removed after the request was
//!    sent. A 404 invalidates the cached object as a removal does.
//! 4. When the origin fails, serve a stale head if the rule allows it (stale-if-error).

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;

use zonal_base::Nanos;
use zonal_runtime::Event;

use crate::cache::Inner;
use crate::freshness::OriginUse;
use crate::head::{self, StoredHead, check_cacheable};
use crate::heads::KnownHead;
use crate::index::IndexEntry;
use crate::object::ObjectKey;
use crate::origin_backoff::StaleDecision;
use crate::pins::is_pinned;
use crate::records::Unread;
use crate::recover::HEAD;
use crate::remove::EpochGuard;
use crate::{
    Cache, Fetch, Fetched, Freshness, FreshnessPolicy, Head, ObjectName, OriginFault,
    RetentionClass,
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
}

impl HeadSource {
    /// True when the origin confirmed the version for this request.
    #[must_use]
    pub const fn is_confirmed(self) -> bool {
        match self {
            Self::Revalidated | Self::Miss => true,
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
    /// The origin answered 404 now.
    NotFound,
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

/// A HEAD request to the origin in flight.
pub(crate) struct InflightHead {
    epoch: u64,
    answer: RefCell<Option<Result<Opened, LookupError>>>,
    answered: Event,
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
        let (inner, trust) = (&self.inner, trust.into());
        inner.count(|stats| stats.opens += 1);
        if inner.log.is_gone() {
            return Err(LookupError::Gone);
        }
        let key = inner.keys.object(object);
        let known = inner.known_head(object, key).await.map_err(|Late| LookupError::Late)?;
        if let Some(known) = &known
            && known.is_pinned.replace(retention == RetentionClass::Pinned)
                != (retention == RetentionClass::Pinned)
        {
            inner.holdings.note_asked(key.record(), retention);
        }
        if let Some(known) = known.as_ref().filter(|known| inner.is_fresh(known, trust.head)) {
            inner.count(|stats| stats.opens_fresh += 1);
            return Ok(Opened { head: known.head.clone(), found: HeadSource::Hit });
        }
        if known.is_none() && inner.absences.borrow().has(key, trust.absence, inner.now()) {
            inner.count(|stats| stats.opens_absent += 1);
            return Err(LookupError::Absent);
        }
        if trust.asking == OriginUse::Forbidden {
            return Err(LookupError::NotKnown);
        }
        if inner.is_untagged(object, key, known.as_deref()) {
            return Err(LookupError::NoEtag);
        }
        inner.ask_or_take(object, (key, retention), known, trust).await
    }

    /// Registers that the origin has sent a strong ETag for the object. The next lookup asks the
    /// origin again.
    pub fn note_etag(&self, object: &ObjectName) {
        let key = self.inner.keys.object(object);
        self.inner.untagged.borrow_mut().forget(key, object.bucket());
    }
}

impl Inner {
    /// True when the origin is expected to send no ETag for the object, so that a HEAD request is
    /// useless.
    fn is_untagged(&self, object: &ObjectName, key: ObjectKey, known: Option<&KnownHead>) -> bool {
        let untagged = self.untagged.borrow();
        untagged.has(key) || (known.is_none() && untagged.has_all_of(object.bucket()))
    }

    fn is_fresh(&self, known: &KnownHead, freshness: Freshness) -> bool {
        !known.is_untrusted.get() && freshness.holds(known.validated_at.get(), self.now())
    }

    /// Asks the origin. Serves the cached head if the rule allows it to be stale while the origin is
    /// asked, or if the origin fails or is known to be down.
    async fn ask_or_take(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, retention): (ObjectKey, RetentionClass),
        known: Option<Rc<KnownHead>>,
        trust: FreshnessPolicy,
    ) -> Result<Opened, LookupError> {
        let in_trouble = |known: &Rc<KnownHead>| {
            let holds = trust.holds_in_trouble(known.validated_at.get(), self.now());
            holds && !known.is_untrusted.get()
        };
        let meanwhile = |known: &&Rc<KnownHead>| {
            let holds = trust.holds_meanwhile(known.validated_at.get(), self.now());
            holds && !known.is_untrusted.get()
        };
        if let Some(served) = known.as_ref().filter(meanwhile) {
            self.count(|stats| stats.opens_updating += 1);
            self.lookup(object, (key, retention), known.clone());
            return Ok(Opened { head: served.head.clone(), found: HeadSource::Updating });
        }
        if let Some(known) = known.as_ref().filter(|known| in_trouble(known)) {
            let advice = self.outages.borrow_mut().advise(object.bucket(), self.now());
            if advice == StaleDecision::Ask {
                self.lookup(object, (key, retention), Some(known.clone()));
            }
            if advice != StaleDecision::Wait {
                return Ok(self.stale(known));
            }
        }
        let answer = self.ask_origin(object, (key, retention), known).await;
        let Err(LookupError::Origin(fault)) = answer else { return answer };
        if trust.stale_if_error == Nanos(0) || !fault.is_failure() {
            return answer;
        }
        // A removal or a new head during the request takes precedence.
        let known = self.known_head(object, key).await.ok().flatten();
        known.filter(in_trouble).map_or(answer, |known| Ok(self.stale(&known)))
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

    async fn ask_origin(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, retention): (ObjectKey, RetentionClass),
        known: Option<Rc<KnownHead>>,
    ) -> Result<Opened, LookupError> {
        let lookup = self.lookup(object, (key, retention), known);
        loop {
            if let Some(answer) = lookup.answer.borrow().clone() {
                return answer;
            }
            lookup.answered.wait().await;
        }
    }

    /// Joins the lookup in flight, or starts one.
    fn lookup(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, retention): (ObjectKey, RetentionClass),
        known: Option<Rc<KnownHead>>,
    ) -> Rc<InflightHead> {
        let epoch = self.epoch(key);
        let under_way = self.lookups.borrow().get(&key).cloned();
        // A request that came after a removal must not use an answer to a question from before it.
        match under_way.filter(|lookup| lookup.epoch == epoch) {
            Some(lookup) => {
                self.count(|stats| stats.opens_joined += 1);
                lookup
            }
            None => self.start_lookup(object.clone(), (key, retention), known),
        }
    }

    /// Starts a lookup as its own task, which continues when the first requester disconnects.
    fn start_lookup(
        self: &Rc<Self>,
        object: ObjectName,
        (key, retention): (ObjectKey, RetentionClass),
        known: Option<Rc<KnownHead>>,
    ) -> Rc<InflightHead> {
        let watch = self.watch(&object, key);
        let epoch = watch.epoch();
        let lookup =
            Rc::new(InflightHead { epoch, answer: RefCell::default(), answered: Event::default() });
        self.lookups.borrow_mut().insert(key, lookup.clone());
        let (inner, running) = (self.clone(), lookup.clone());
        self.ports.spawner.spawn(async move {
            let answer = inner.look_up(&object, (&watch, epoch), known, retention).await;
            let mut lookups = inner.lookups.borrow_mut();
            if lookups.get(&key).is_some_and(|current| Rc::ptr_eq(current, &running)) {
                lookups.remove(&key);
            }
            drop(lookups);
            *running.answer.borrow_mut() = Some(answer);
            running.answered.notify_all();
        });
        lookup
    }

    async fn look_up(
        self: &Rc<Self>,
        object: &ObjectName,
        (watch, epoch): (&EpochGuard, u64),
        known: Option<Rc<KnownHead>>,
        retention: RetentionClass,
    ) -> Result<Opened, LookupError> {
        self.count(|stats| stats.head_fetches += 1);
        let asked_at = self.now();
        let answer = self.ports.origin.call(Fetch::Head { object: object.clone() }).await;
        self.note_reached(object, &answer);
        let from_origin = match answer {
            Fetched::Head(head) => Ok(head),
            Fetched::Failed(OriginFault::NotFound) => {
                if watch.may_publish(epoch) {
                    self.note_absent(watch.key(), asked_at, known.as_deref());
                }
                Err(LookupError::NotFound)
            }
            Fetched::Failed(fault) => {
                self.count(|stats| stats.fetch_errors += u64::from(fault.is_error()));
                Err(LookupError::Origin(fault))
            }
            _ => Err(LookupError::Origin(OriginFault::Lied)),
        };
        // An answer that does not confirm the known head makes that head untrusted at once.
        let is_answer = |error: &LookupError| match error {
            LookupError::Origin(fault) => !fault.is_failure(),
            _ => true,
        };
        let from_origin = from_origin.and_then(|head| {
            check_cacheable(&head)?;
            let chunk = self.chunks.borrow().of(object);
            if self.is_too_large(head.size, chunk) { Err(LookupError::TooLarge) } else { Ok(head) }
        });
        match &from_origin {
            Ok(_) => self.untagged.borrow_mut().forget(watch.key(), object.bucket()),
            Err(LookupError::NoEtag) if watch.may_publish(epoch) => {
                self.untagged.borrow_mut().note(watch.key(), object.bucket());
            }
            Err(_) => {}
        }
        let known = known.filter(|_| watch.may_publish(epoch));
        let from_origin = from_origin.inspect_err(|error| {
            known
                .iter()
                .filter(|_| is_answer(error))
                .for_each(|known| self.distrust_known(watch, known));
        })?;
        if let Some(known) = known {
            if known.head.is_same_version(&from_origin) {
                self.count(|stats| stats.opens_revalidated += 1);
                let head = self.confirm_head(watch, &known, from_origin, asked_at);
                return Ok(Opened { head, found: HeadSource::Revalidated });
            }
            self.release_pins(watch.key(), &known.head);
        }
        self.count(|stats| stats.opens_missed += 1);
        let head = self.publish_head(object, watch, from_origin, (epoch, asked_at), retention);
        Ok(Opened { head, found: HeadSource::Miss })
    }

    fn note_reached(&self, object: &ObjectName, answer: &Fetched) {
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
    fn note_absent(self: &Rc<Self>, key: ObjectKey, asked_at: Nanos, known: Option<&KnownHead>) {
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
