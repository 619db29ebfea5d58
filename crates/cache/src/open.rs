//! Head lookup: finds the current version of an object in memory, on flash or at the origin, and revalidates it.
//!
//! 1. Look in memory, then on flash. A head that is fresh by the rule is the answer; so is it that there is none, when
//!    that is remembered.
//! 2. Ask the origin; whoever asks for the same object meanwhile shares the request.
//! 3. What the origin says is published, unless the object was removed since the question was put. What it says is gone
//!    goes from the cache as if it had been removed here.
//! 4. When the origin fails, a head that is trusted for that case is the answer.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;

use zonal_base::Nanos;
use zonal_policy::Mark;
use zonal_runtime::Event;
use zonal_zonelog::{Record, Stream, Urgency};

use crate::cache::Inner;
use crate::freshness::Asking;
use crate::head::{self, check_cacheable};
use crate::heads::KnownHead;
use crate::index::IndexEntry;
use crate::object::ObjectKey;
use crate::outages::Advice;
use crate::pins::{WANTED, is_pinned};
use crate::planted::Planted;
use crate::recover::{HEAD, kind_on_flash};
use crate::remove::Watch;
use crate::{
    Cache, Care, Fetch, Fetched, Freshness, Head, ObjectName, OriginFault, OriginHead, Trust,
};

/// How a head was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// It was known and fresh.
    Hit,
    /// It was known, and the origin confirmed it.
    Revalidated,
    /// It was not known, or had changed.
    Miss,
    /// It was known and not fresh, and the origin failed.
    Stale,
}

/// A head to serve.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The version.
    pub head: Arc<Head>,
    /// How it was found.
    pub found: HeadSource,
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The origin has no such object.
    NotFound,
    /// It had none when it was asked lately.
    Absent,
    /// What is known is not fresh, and the origin may not be asked.
    NotKnown,
    /// The object cannot be cached, because the origin sends no strong ETag: go to the origin.
    NoEtag,
    /// The object cannot be cached, because its headers are too long: go to the origin.
    HeadersTooLong,
    /// The cache has lost its flash: go to the origin.
    Gone,
    /// The origin did not answer as it should.
    Origin(OriginFault),
    /// Too many requests are under way.
    Overloaded,
}

/// Heads on their way to flash: what 40,000 misses per second leave in a segment that lingers for its 200 ms.
const HEADS_STORING_MAX: u32 = 8192;

/// A question to the origin that is under way.
pub(crate) struct Lookup {
    epoch: u64,
    answer: RefCell<Option<Result<Opened, LookupError>>>,
    answered: Event,
}

impl Cache {
    /// The head to serve for `object`, as far as that is trusted, which is pinned with what is pinned of the object.
    ///
    /// # Errors
    /// When there is none, or none that the cache may serve.
    pub async fn open(
        &self,
        object: &ObjectName,
        trust: impl Into<Trust>,
        care: Care,
    ) -> Result<Opened, LookupError> {
        let (inner, trust) = (&self.inner, trust.into());
        inner.count(|stats| stats.opens += 1);
        if inner.log.is_gone() {
            return Err(LookupError::Gone);
        }
        let key = inner.keys.object(object);
        let known = inner.known_head(object, key).await;
        if let Some(known) = &known
            && known.is_pinned.replace(care == Care::Pinned) != (care == Care::Pinned)
        {
            inner.holdings.note_asked(key.record(), care);
        }
        if let Some(known) = known.as_ref().filter(|known| inner.is_fresh(known, trust.head)) {
            inner.count(|stats| stats.opens_fresh += 1);
            return Ok(Opened { head: known.head.clone(), found: HeadSource::Hit });
        }
        if known.is_none() && inner.absences.borrow().has(key, trust.absence, inner.now()) {
            inner.count(|stats| stats.opens_absent += 1);
            return Err(LookupError::Absent);
        }
        if trust.asking == Asking::Forbidden {
            return Err(LookupError::NotKnown);
        }
        if inner.is_untagged(object, key, known.as_deref()) {
            return Err(LookupError::NoEtag);
        }
        inner.ask_or_take(object, (key, care), known, trust).await
    }

    /// The origin has answered with a strong ETag of the object, though it was taken to have none: it is asked again.
    pub fn note_etag(&self, object: &ObjectName) {
        let key = self.inner.keys.object(object);
        self.inner.untagged.borrow_mut().forget(key, object.bucket());
    }
}

impl Inner {
    /// Whether the origin is taken to send no ETag of it, so that asking is of no use.
    fn is_untagged(&self, object: &ObjectName, key: ObjectKey, known: Option<&KnownHead>) -> bool {
        let untagged = self.untagged.borrow();
        untagged.has(key) || (known.is_none() && untagged.has_all_of(object.bucket()))
    }

    fn is_fresh(&self, known: &KnownHead, freshness: Freshness) -> bool {
        freshness.holds(known.validated_at.get(), self.now())
    }

    /// Asks the origin. A head that is trusted if the origin fails is served if it does, or is known to.
    async fn ask_or_take(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, care): (ObjectKey, Care),
        known: Option<Rc<KnownHead>>,
        trust: Trust,
    ) -> Result<Opened, LookupError> {
        let in_trouble =
            |known: &Rc<KnownHead>| trust.holds_in_trouble(known.validated_at.get(), self.now());
        if let Some(known) = known.as_ref().filter(|known| in_trouble(known)) {
            let advice = self.outages.borrow_mut().advise(object.bucket(), self.now());
            if advice == Advice::Ask {
                self.lookup(object, (key, care), Some(known.clone()));
            }
            if advice != Advice::Wait {
                return Ok(self.stale(known));
            }
        }
        let answer = self.ask_origin(object, (key, care), known).await;
        let Err(LookupError::Origin(fault)) = answer else { return answer };
        if trust.stale == Nanos(0) || !fault.is_failure() {
            return answer;
        }
        // Whoever removed the object or gave it another head meanwhile has the last word.
        let known = self.known_head(object, key).await;
        known.filter(in_trouble).map_or(answer, |known| Ok(self.stale(&known)))
    }

    fn stale(&self, known: &KnownHead) -> Opened {
        self.count(|stats| stats.opens_stale += 1);
        Opened { head: known.head.clone(), found: HeadSource::Stale }
    }

    /// The head as memory or flash has it.
    pub(crate) async fn known_head(
        self: &Rc<Self>,
        object: &ObjectName,
        key: ObjectKey,
    ) -> Option<Rc<KnownHead>> {
        if let Some(known) = self.heads.borrow_mut().get(key).filter(|head| head.name == *object) {
            return Some(known);
        }
        let watch = self.watch(object, key);
        let epoch = watch.epoch();
        let found = self.holdings.find(key.record()).filter(|found| found.kind == HEAD)?;
        let (is_pinned, extent) = (is_pinned(HEAD, found.mark), found.extent);
        let stored = match self.read_whole(key.record(), found).await {
            Some(bytes) => head::decode(bytes.as_bytes())?,
            None => return None,
        };
        if stored.generation < self.counts_since(object) {
            self.forget_pins(key, &stored.head);
            self.holdings.forget_at(key.record(), extent);
            return None;
        }
        // Whoever removed the object or gave it another head while we read has the last word.
        let is_current = watch.may_publish(epoch) && !watch.is_replaced(stored.generation);
        if stored.name != object.as_str() || !is_current {
            return None;
        }
        let head = Arc::new(stored.head);
        let known = KnownHead::new(object.clone(), head, stored.validated_at, stored.generation);
        known.is_pinned.set(is_pinned);
        // Its zone may have been emptied while we read: then it is good for this reader only.
        if !self.holdings.has(key.record()) {
            return Some(known);
        }
        let mut heads = self.heads.borrow_mut();
        // Another reader may have been faster, or a newer head may have been published.
        if let Some(other) = heads.get(key) {
            return (other.name == *object).then_some(other);
        }
        heads.insert(key, known.clone());
        Some(known)
    }

    async fn ask_origin(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, care): (ObjectKey, Care),
        known: Option<Rc<KnownHead>>,
    ) -> Result<Opened, LookupError> {
        let lookup = self.lookup(object, (key, care), known);
        loop {
            if let Some(answer) = lookup.answer.borrow().clone() {
                return answer;
            }
            lookup.answered.wait().await;
        }
    }

    /// The question that is under way, or another.
    fn lookup(
        self: &Rc<Self>,
        object: &ObjectName,
        (key, care): (ObjectKey, Care),
        known: Option<Rc<KnownHead>>,
    ) -> Rc<Lookup> {
        let epoch = self.epoch(key);
        let under_way = self.lookups.borrow().get(&key).cloned();
        // An answer to a question put before a removal is of no use to whoever came after it.
        match under_way.filter(|lookup| lookup.epoch == epoch) {
            Some(lookup) => {
                self.count(|stats| stats.opens_joined += 1);
                lookup
            }
            None => self.start_lookup(object.clone(), (key, care), known),
        }
    }

    /// The question is a task of its own: it goes on when whoever asked first goes away.
    fn start_lookup(
        self: &Rc<Self>,
        object: ObjectName,
        (key, care): (ObjectKey, Care),
        known: Option<Rc<KnownHead>>,
    ) -> Rc<Lookup> {
        let watch = self.watch(&object, key);
        let epoch = watch.epoch();
        let lookup =
            Rc::new(Lookup { epoch, answer: RefCell::default(), answered: Event::default() });
        self.lookups.borrow_mut().insert(key, lookup.clone());
        let (inner, running) = (self.clone(), lookup.clone());
        self.ports.spawner.spawn(async move {
            let answer = inner.look_up(&object, (&watch, epoch), known, care).await;
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
        (watch, epoch): (&Watch, u64),
        known: Option<Rc<KnownHead>>,
        care: Care,
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
        // It was asked and did not confirm it: whatever comes, that is not what it confirmed last.
        let is_answer = |error: &LookupError| match error {
            LookupError::Origin(fault) => !fault.is_failure(),
            _ => true,
        };
        let from_origin = from_origin.and_then(|head| check_cacheable(&head).map(|()| head));
        match &from_origin {
            Ok(_) => self.untagged.borrow_mut().forget(watch.key(), object.bucket()),
            Err(LookupError::NoEtag) if watch.may_publish(epoch) => {
                self.untagged.borrow_mut().note(watch.key(), object.bucket());
            }
            Err(_) => {}
        }
        let from_origin = from_origin.inspect_err(|error| {
            known
                .iter()
                .filter(|_| is_answer(error))
                .for_each(|known| known.validated_at.set(Nanos(0)));
        })?;
        let is_confirmed = |known: &Rc<KnownHead>| known.head.matches(&from_origin);
        if let Some(known) = known.filter(|_| watch.may_publish(epoch)) {
            if is_confirmed(&known) {
                known.validated_at.set(asked_at);
                self.count(|stats| stats.opens_revalidated += 1);
                return Ok(Opened { head: known.head.clone(), found: HeadSource::Revalidated });
            }
            self.forget_pins(watch.key(), &known.head);
        }
        self.count(|stats| stats.opens_missed += 1);
        let head = self.publish_head(object, watch, from_origin, (epoch, asked_at), care);
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

    /// The origin has no such object. What is cached of one that was there goes for good, though nobody waits for that:
    /// who was told that it is gone is not to find it again when freshness says that nothing need be asked.
    fn note_absent(self: &Rc<Self>, key: ObjectKey, asked_at: Nanos, known: Option<&KnownHead>) {
        if let Some(known) = known {
            self.forget_pins(key, &known.head);
            let removal = self.begin_removal(&known.name, key);
            let inner = self.clone();
            self.spawn_writing(|writing| async move {
                // Flash that takes no more loses what it has, or is lost.
                let _ = inner.bury(removal).await;
                drop(writing);
            });
        }
        self.absences.borrow_mut().note(key, asked_at);
    }

    /// Makes a head the object's, unless the object was removed since `epoch`. The caller may serve it
    /// either way: it was the origin's answer to its question.
    fn publish_head(
        self: &Rc<Self>,
        object: &ObjectName,
        watch: &Watch,
        from_origin: OriginHead,
        (epoch, asked_at): (u64, Nanos),
        care: Care,
    ) -> Arc<Head> {
        let (key, chunk) = (watch.key(), self.chunks.borrow().of(object));
        if !watch.may_publish(epoch) {
            // A salt of its own: what this caller stores under it is out of everybody else's reach.
            return Arc::new(Head::new(from_origin, self.log.next_generation(), chunk));
        }
        let on_flash = self.holdings.forget(key.record());
        let in_memory = self.heads.borrow().peek(key).is_some();
        let replaces = (on_flash || in_memory).then(|| self.log.next_generation());
        let salt = replaces.or_else(|| self.log.tombstone(key.record())).unwrap_or(0);
        let salt = salt.max(self.salted_since(object));
        let head = Arc::new(Head::new(from_origin, salt, chunk));
        let generation = self.log.next_generation();
        let known = KnownHead::new(object.clone(), head.clone(), asked_at, generation);
        known.is_pinned.set(care == Care::Pinned);
        self.heads.borrow_mut().insert(key, known.clone());
        self.removed.borrow_mut().publish(key);
        self.absences.borrow_mut().forget(key);
        watch.publish(generation);
        if replaces.is_none() && care == Care::Unkept {
            // Until memory forgets it, it is known.
            return head;
        }
        if replaces.is_none() && HEADS_STORING_MAX <= self.heads_storing.get() {
            // Flash does not keep up. Like a chunk then, it is not stored; until memory forgets it, it is known.
            // One that replaces another waits: after a restart, the other would be known again.
            self.count(|stats| stats.heads_refused += 1);
            return head;
        }
        self.heads_storing.set(self.heads_storing.get() + 1);
        let (inner, watch) = (self.clone(), self.watch(object, key));
        self.spawn_writing(|writing| async move {
            inner.store_head((&watch, epoch), known, replaces).await;
            inner.heads_storing.set(inner.heads_storing.get() - 1);
            drop(writing);
        });
        head
    }

    /// Writes a head to flash. Nobody waits for it.
    async fn store_head(
        &self,
        (watch, epoch): (&Watch, u64),
        known: Rc<KnownHead>,
        replaces: Option<u64>,
    ) {
        // The zone of the new head may be emptied before that of the one it replaces: without a
        // tombstone a crash after that would bring the old one back.
        if let Some(generation) = replaces
            && self.log.supersede(watch.key().record(), generation).await.is_err()
        {
            return;
        }
        self.append_head(Stream::Fill, (watch, epoch), &known).await;
    }

    /// Appends a head that was the object's at `epoch`, and publishes it if it still is when it is on flash.
    pub(crate) async fn append_head(
        &self,
        stream: Stream,
        (watch, epoch): (&Watch, u64),
        known: &Rc<KnownHead>,
    ) {
        let key = watch.key();
        let times = (known.validated_at.get(), known.generation);
        let Some(bytes) = head::encode(&known.name, times, &known.head) else { return };
        let (data, len) = self.record_data(stream, &bytes).await;
        let generation = Some(known.generation);
        let mark = if known.is_pinned.get() { WANTED } else { Mark::default() };
        let kind = kind_on_flash(HEAD, mark);
        let record = Record { key: key.record(), kind, len, data, generation };
        let Ok(placed) = self.log.append(stream, record, Urgency::Linger).await else { return };
        // Memory may have let go of it meanwhile; only a removal or another head makes it void.
        let is_void = watch.is_replaced(known.generation) || !watch.may_publish(epoch);
        if is_void && !self.settings.has(Planted::HeadRevived) {
            return;
        }
        let checks = placed.descriptor().checks.clone();
        // Who asked meanwhile may have another rule than who asked before it was written.
        let mark = if known.is_pinned.get() { WANTED } else { Mark::default() };
        let found = IndexEntry::new(placed.extent(), HEAD, checks).with_mark(mark);
        self.holdings.publish(key.record(), found, self.now());
    }
}
