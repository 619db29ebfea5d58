//! Origin lookup: one request that tells the current version of an object, shared by all reads that
//! may rely on it (single flight).
//!
//! 1. A HEAD request tells the version and all its headers. It is sent when no bytes are missing.
//! 2. A GET request brings bytes with them: of an object that is not cached, or the missing bytes
//!    of the known version with `If-Match`. Its body becomes a fetch (`fill`), which readers follow.
//!    A body for the stripe of another shard goes to the reader that started the lookup.
//! 3. A read relies on a lookup that was sent after the read arrived, or on promised freshness. A
//!    read that came later waits for the answer, and then asks on its own if it must.
//!
//! Lookups of one object may be in flight side by side, because reads of different bytes need
//! requests of their own. They are numbered in the order in which they are sent. The answer to an
//! earlier one never replaces that to a later one.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use zonal_base::{Nanos, RangeSpec};
use zonal_runtime::Event;

use crate::cache::{Inner, STRIPE};
use crate::fill::{Body, Fill};
use crate::first_read::{FirstRead, UnreadBody};
use crate::head::check_cacheable;
use crate::heads::KnownHead;
use crate::mutation::Mutation;
use crate::object::ObjectKey;
use crate::question::Question;
use crate::remove::EpochGuard;
use crate::{
    Fetch, Fetched, Freshness, FreshnessPolicy, Head, HeadSource, LookupError, ObjectName, Opened,
    OriginFault, OriginHead, ReadError, RetentionClass,
};

/// A lookup in flight.
pub(crate) struct Lookup {
    /// Invalidation epoch of the object when the lookup started.
    epoch: u64,
    /// Bytes that the answer brings; `None` for HEAD.
    brings: Option<RangeSpec>,
    /// Number and time of the request; `None`: not sent yet.
    sent: Cell<Option<(u64, Nanos)>>,
    answer: RefCell<Option<Result<Answer, LookupError>>>,
    answered: Event,
    /// Body for the read that started the lookup, if it became no fetch.
    unread: RefCell<Option<UnreadBody>>,
    /// Head of an object that cannot be cached, for the read that started the lookup.
    uncacheable: RefCell<Option<Arc<Head>>>,
}

/// Answer to a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) opened: Opened,
    /// Bytes of the object that the lookup fetches.
    pub(crate) fetches: Range<u64>,
}

impl Answer {
    /// An answer without a fetch for this reader.
    pub(crate) const fn cached(opened: Opened) -> Self {
        Self { opened, fetches: 0..0 }
    }
}

/// The lookup that a read waits for.
pub(crate) enum Joined {
    /// The read started it: its answer is the read's answer, and it fetches for the read.
    Own(Rc<Lookup>),
    /// Another read started it: its answer is the read's answer too.
    Other(Rc<Lookup>),
    /// It was sent before the read arrived: the read asks again after its answer.
    Older(Rc<Lookup>),
}

impl Lookup {
    /// Waits for the answer.
    pub(crate) async fn wait(&self) -> Result<Answer, LookupError> {
        loop {
            if let Some(answer) = self.answer.borrow().clone() {
                return answer;
            }
            self.answered.wait().await;
        }
    }

    /// The answer for the read that started the lookup, and the body that is its own. An object that
    /// cannot be cached is served from that body.
    pub(crate) async fn wait_as_owner(&self) -> Result<(Answer, Option<UnreadBody>), LookupError> {
        let answer = self.wait().await;
        let body = self.unread.take();
        match (answer, self.uncacheable.take()) {
            (Err(error), Some(head)) => {
                let opened = Opened { head, found: HeadSource::Uncacheable(error) };
                Ok((Answer::cached(opened), body))
            }
            (answer, _) => Ok((answer?, body)),
        }
    }

    /// True for a read that arrived after `arrived` lookups were sent: the answer is as fresh as
    /// the read demands.
    fn is_fresh_for(&self, arrived: u64, freshness: Freshness, now: Nanos) -> bool {
        match self.sent.get() {
            None => true,
            Some((number, at)) => arrived < number || freshness.holds(at, now),
        }
    }

    /// True if the lookup brings the first byte of `range` for certain.
    fn brings_start_of(&self, range: &RangeSpec) -> bool {
        match (&self.brings, range) {
            (Some(RangeSpec::Whole), RangeSpec::Whole) => true,
            (Some(RangeSpec::Whole), RangeSpec::Int(range)) => range.start < STRIPE.0,
            (Some(RangeSpec::Int(brought)), RangeSpec::Int(range)) => {
                brought.contains(&range.start)
            }
            (Some(RangeSpec::Int(brought)), RangeSpec::Whole) => brought.start == 0,
            (Some(RangeSpec::Suffix(brought)), RangeSpec::Suffix(wanted)) => wanted <= brought,
            _ => false,
        }
    }
}

impl Inner {
    /// Number of lookups sent so far: a read notes it when it arrives.
    pub(crate) const fn lookups_sent(&self) -> u64 {
        self.lookups_sent.get()
    }

    /// Joins a lookup in flight, or starts one.
    pub(crate) fn join_or_start(
        self: &Rc<Self>,
        (object, key): (&ObjectName, ObjectKey),
        known: Option<Rc<KnownHead>>,
        question: Question,
        (arrived, trust): (u64, FreshnessPolicy),
    ) -> Joined {
        let freshness = trust.head;
        let (epoch, now) = (self.epoch(key), self.now());
        // A request that came after a removal must not use an answer to a question from before it.
        let in_flight: Vec<Rc<Lookup>> =
            self.lookups.borrow().get(&key).into_iter().flatten().cloned().collect();
        let mut in_flight = in_flight.into_iter().filter(|lookup| lookup.epoch == epoch);
        let other = match &question {
            // A read whose bytes are cached needs the version only.
            Question::Head(_) => {
                let mut heads = None;
                let fresh = in_flight.find(|lookup| {
                    if lookup.brings.is_none() {
                        heads = Some(lookup.clone());
                    }
                    let has_whole_head = matches!(lookup.brings, None | Some(RangeSpec::Whole));
                    (has_whole_head || !trust.needs_whole_head)
                        && lookup.is_fresh_for(arrived, freshness, now)
                });
                fresh.or(heads)
            }
            Question::Object(first) => {
                in_flight.find(|lookup| lookup.brings_start_of(&first.range))
            }
            // A first read of these bytes may have been sent before the version was known.
            Question::Missing { bytes, .. } => {
                let bytes = RangeSpec::Int(bytes.clone());
                in_flight.find(|lookup| lookup.brings_start_of(&bytes))
            }
        };
        match other {
            Some(lookup) if lookup.is_fresh_for(arrived, freshness, now) => {
                self.count(|stats| stats.opens_joined += 1);
                Joined::Other(lookup)
            }
            Some(lookup) => Joined::Older(lookup),
            None => Joined::Own(self.start_lookup(object.clone(), key, known, question)),
        }
    }

    /// Starts a lookup as its own task, which continues when the first requester disconnects.
    pub(crate) fn start_lookup(
        self: &Rc<Self>,
        object: ObjectName,
        key: ObjectKey,
        known: Option<Rc<KnownHead>>,
        question: Question,
    ) -> Rc<Lookup> {
        let watch = self.watch(&object, key);
        let (brings, request) = match question {
            Question::Head(retention) => (None, Request::Head(retention)),
            Question::Object(first) => {
                (Some(self.aligned(&object, &first.range)), Request::Object(first))
            }
            Question::Missing { known, bytes, first } => {
                // From here on, other reads of these pieces follow this fetch.
                let fill = (bytes.start < STRIPE.0)
                    .then(|| self.fill_for((&object, &known.head), &bytes, first.hints));
                let missing = Missing { known, bytes: bytes.clone(), fill };
                (Some(RangeSpec::Int(bytes)), Request::Missing(missing, first))
            }
        };
        let lookup = Rc::new(Lookup {
            epoch: watch.epoch(),
            brings,
            sent: Cell::new(None),
            answer: RefCell::default(),
            answered: Event::default(),
            unread: RefCell::default(),
            uncacheable: RefCell::default(),
        });
        self.lookups.borrow_mut().entry(key).or_default().push(lookup.clone());
        let (inner, running) = (self.clone(), lookup.clone());
        self.ports.spawner.spawn(async move {
            let asking =
                LookupTask { inner: &inner, object: &object, watch: &watch, lookup: &running };
            let answer = asking.run(known, request).await;
            inner.end_lookup(key, &running);
            *running.answer.borrow_mut() = Some(answer);
            running.answered.notify_all();
        });
        lookup
    }

    fn end_lookup(&self, key: ObjectKey, ended: &Rc<Lookup>) {
        let mut lookups = self.lookups.borrow_mut();
        let Some(of_object) = lookups.get_mut(&key) else { return };
        of_object.retain(|lookup| !Rc::ptr_eq(lookup, ended));
        if of_object.is_empty() {
            lookups.remove(&key);
        }
    }
}

/// The request of a lookup.
enum Request {
    Head(RetentionClass),
    Object(FirstRead),
    Missing(Missing, FirstRead),
}

/// Missing bytes of the known version.
struct Missing {
    known: Rc<KnownHead>,
    bytes: Range<u64>,
    /// Their fetch, which waits for its body. `None`: they are in the stripe of another shard.
    fill: Option<Fill>,
}

/// A lookup in its task.
struct LookupTask<'a> {
    inner: &'a Rc<Inner>,
    object: &'a ObjectName,
    watch: &'a EpochGuard,
    lookup: &'a Lookup,
}

impl LookupTask<'_> {
    async fn run(
        &self,
        known: Option<Rc<KnownHead>>,
        request: Request,
    ) -> Result<Answer, LookupError> {
        let first = match request {
            Request::Head(retention) => return self.ask_head(known, retention).await,
            Request::Object(first) => first,
            Request::Missing(missing, first) => {
                match self.ask_missing(missing, first.hints.retention).await {
                    Err(LookupError::Origin(OriginFault::Changed)) => first,
                    answer => return answer,
                }
            }
        };
        self.ask_object(known, &first).await
    }

    /// Sends the request and numbers it.
    async fn ask(&self, fetch: Fetch) -> Result<Fetched, OriginFault> {
        let number = self.inner.lookups_sent.get() + 1;
        self.inner.lookups_sent.set(number);
        self.lookup.sent.set(Some((number, self.inner.now())));
        let answer = self.inner.ports.origin.call(fetch).await;
        self.inner.note_reached(self.object, &answer);
        match answer {
            Fetched::Failed(fault) => Err(fault),
            answer => Ok(answer),
        }
    }

    /// The number and the time of the request.
    fn sent(&self) -> (u64, Nanos) {
        self.lookup.sent.get().expect("an answer follows a request")
    }

    async fn ask_head(
        &self,
        known: Option<Rc<KnownHead>>,
        retention: RetentionClass,
    ) -> Result<Answer, LookupError> {
        self.inner.count(|stats| stats.head_fetches += 1);
        match self.ask(Fetch::Head { object: self.object.clone() }).await {
            Ok(Fetched::Head(head)) => Ok(Answer::cached(self.settle(known, &head, retention)?)),
            Ok(_) => Err(LookupError::Origin(OriginFault::Lied)),
            Err(fault) => Err(self.refused(known.as_ref(), fault)),
        }
    }

    /// GET of the object, without knowledge of its version.
    async fn ask_object(
        &self,
        known: Option<Rc<KnownHead>>,
        first: &FirstRead,
    ) -> Result<Answer, LookupError> {
        let (object, range) = (self.object.clone(), self.inner.aligned(self.object, &first.range));
        self.inner.count(|stats| stats.fetches += 1);
        match self.ask(Fetch::Get { object, range, version: None }).await {
            Ok(Fetched::Object { head, range, stream }) => {
                let body = Body::of(self.inner, stream, range);
                match self.settle(known, &head, first.hints.retention) {
                    Ok(opened) => {
                        let fetches = self.fetch(&opened.head, first, body).await;
                        Ok(Answer { opened, fetches })
                    }
                    Err(error) => {
                        let head = self.inner.unpublished(self.object, head);
                        self.lookup.uncacheable.replace(Some(head));
                        self.give_to_owner(body);
                        Err(error)
                    }
                }
            }
            Ok(_) => Err(LookupError::Origin(OriginFault::Lied)),
            Err(fault) => Err(self.refused(known.as_ref(), fault)),
        }
    }

    /// Turns the body of a GET into a fetch. Returns its bytes. A body for another stripe goes to the
    /// read that started the lookup.
    async fn fetch(&self, head: &Arc<Head>, first: &FirstRead, body: Body) -> Range<u64> {
        if first.range.in_object(head.size).start < STRIPE.0 {
            let asked = (&first.range, first.hints);
            return self.inner.fetch_from((self.object, head), asked, body).await;
        }
        self.give_to_owner(body)
    }

    /// Gives a body to the read that started the lookup: this shard fetches no bytes from it.
    fn give_to_owner(&self, body: Body) -> Range<u64> {
        self.lookup.unread.replace(Some(UnreadBody::of(body)));
        0..0
    }

    /// GET of missing pieces of the known version. It confirms the version.
    async fn ask_missing(
        &self,
        Missing { known, bytes, fill }: Missing,
        retention: RetentionClass,
    ) -> Result<Answer, LookupError> {
        self.inner.count(|stats| stats.fetches += 1);
        let (object, range) = (self.object.clone(), RangeSpec::Int(bytes.clone()));
        let is_unpinned = self.inner.settings.has(Mutation::LookupNotPinned);
        let version = Some(known.head.clone()).filter(|_| !is_unpinned);
        let fault = match self.ask(Fetch::Get { object, range, version }).await {
            Ok(Fetched::Object { head, range, stream }) => {
                let body = Body::of(self.inner, stream, range);
                let has_them = body.range.start <= bytes.start && bytes.end <= body.range.end;
                if (known.head.is_same_version(&head) || is_unpinned) && has_them {
                    let opened = self.settle(Some(known), &head, retention);
                    let fetches = match fill {
                        Some(fill) => {
                            self.inner.start(fill, Some(body));
                            bytes
                        }
                        None => self.give_to_owner(body),
                    };
                    return opened.map(|opened| Answer { opened, fetches });
                }
                body.close().await;
                OriginFault::Changed
            }
            Ok(_) => OriginFault::Lied,
            Err(fault) => fault,
        };
        if let Some(fill) = fill {
            fill.fail(ReadError::from(fault));
        }
        Err(self.refused(Some(&known), fault))
    }

    /// The origin refused the request. An answer that does not confirm the known head makes that
    /// head untrusted at once.
    fn refused(&self, known: Option<&Rc<KnownHead>>, fault: OriginFault) -> LookupError {
        let error = match fault {
            OriginFault::NotFound => LookupError::NotFound,
            OriginFault::NoSuchKey => LookupError::NoSuchKey,
            OriginFault::HeadNotFound => LookupError::HeadNotFound,
            fault => LookupError::Origin(fault),
        };
        if fault.is_not_found() {
            if self.watch.may_publish(self.lookup.epoch) && self.newer().is_none() {
                self.inner.note_absent(
                    self.watch.key(),
                    self.sent().1,
                    known.map(|known| &**known),
                );
            }
        } else {
            self.inner.count(|stats| stats.fetch_errors += u64::from(fault.is_error()));
        }
        self.distrust(known, error);
        error
    }

    fn distrust(&self, known: Option<&Rc<KnownHead>>, error: LookupError) {
        let is_answer = match error {
            LookupError::Origin(fault) => !fault.is_failure(),
            _ => true,
        };
        if !is_answer || self.newer().is_some() || !self.watch.may_publish(self.lookup.epoch) {
            return;
        }
        // The refusal is about the version that was known, and not about one published since.
        let is_it = |current: &Rc<KnownHead>| {
            known.is_some_and(|known| {
                (current.head.salt, &current.head.etag) == (known.head.salt, &known.head.etag)
            })
        };
        if let Some(current) = self.current(known).filter(is_it) {
            self.inner.distrust_known(self.watch, &current);
        }
    }

    /// The head of the object, which was `known` when the lookup started. Another lookup may have
    /// refreshed or replaced it since.
    fn current(&self, known: Option<&Rc<KnownHead>>) -> Option<Rc<KnownHead>> {
        let current = self.inner.heads.borrow().peek(self.watch.key()).cloned();
        current.filter(|current| current.name == *self.object).or_else(|| {
            known.filter(|known| !self.watch.is_replaced(known.generation.get())).cloned()
        })
    }

    /// The head that a later lookup has published.
    fn newer(&self) -> Option<Rc<KnownHead>> {
        let heads = self.inner.heads.borrow();
        let current = heads.peek(self.watch.key())?;
        (self.sent().0 < current.confirmed_by.get()).then(|| current.clone())
    }

    /// Makes the origin's answer the head of the object, or confirms the known head.
    fn settle(
        &self,
        known: Option<Rc<KnownHead>>,
        from_origin: &OriginHead,
        retention: RetentionClass,
    ) -> Result<Opened, LookupError> {
        let (inner, watch) = (self.inner, self.watch);
        let chunk = inner.chunks.borrow().of(self.object);
        let is_too_large = || inner.is_too_large(from_origin.size, chunk);
        let checked = check_cacheable(from_origin)
            .and_then(|()| if is_too_large() { Err(LookupError::TooLarge) } else { Ok(()) });
        let is_current = watch.may_publish(self.lookup.epoch);
        match checked {
            Ok(()) => inner.untagged.borrow_mut().forget(watch.key(), self.object.bucket()),
            Err(error) => {
                if error == LookupError::NoEtag && is_current {
                    inner.untagged.borrow_mut().note(watch.key(), self.object.bucket());
                }
                self.distrust(known.as_ref(), error);
                return Err(error);
            }
        }
        // An answer from before a removal says nothing about a head from after it.
        if let Some(newer) = self.newer().filter(|_| is_current) {
            inner.count(|stats| stats.opens_missed += 1);
            let head = inner.beside((self.object, watch), &newer, from_origin, self.sent());
            return Ok(Opened { head, found: HeadSource::Miss });
        }
        if let Some(known) = self.current(known.as_ref()).filter(|_| is_current) {
            if known.head.is_same_version(from_origin) {
                inner.count(|stats| stats.opens_revalidated += 1);
                let head = inner.confirm_head(watch, &known, from_origin.clone(), self.sent());
                return Ok(Opened { head, found: HeadSource::Revalidated });
            }
            inner.release_pins(watch.key(), &known.head);
        }
        inner.count(|stats| stats.opens_missed += 1);
        let sent = (self.lookup.epoch, self.sent());
        let head = inner.publish_head(self.object, watch, from_origin.clone(), sent, retention);
        Ok(Opened { head, found: HeadSource::Miss })
    }
}
