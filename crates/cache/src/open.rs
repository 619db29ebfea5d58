//! The path to a head: which version of the object is the one to serve?
//!
//! 1. Look in memory, then on flash. A head that is fresh by the rule is the answer.
//! 2. Ask the origin; whoever asks for the same object meanwhile shares the request.
//! 3. What the origin says is published, unless the object was removed since the question was put.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;

use zonal_base::Nanos;
use zonal_policy::Mark;
use zonal_runtime::Event;
use zonal_zonelog::{Record, Stream, Urgency};

use crate::cache::Inner;
use crate::head::{self, is_cacheable};
use crate::heads::KnownHead;
use crate::index::Found as FoundRecord;
use crate::object::ObjectKey;
use crate::pins::{WANTED, is_pinned};
use crate::planted::Planted;
use crate::recover::{HEAD, kind_on_flash};
use crate::remove::Watch;
use crate::{Cache, Care, Fetch, Fetched, Head, ObjectName, OriginFault, OriginHead};

/// How fresh a head must be to be served without asking the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Ask, unless the origin was asked within the window.
    Revalidate {
        /// 0: always ask; concurrent questions are still one.
        window: Nanos,
    },
    /// Ask when the last answer is older than this.
    Ttl(Nanos),
    /// Never ask about an object that is known.
    Immutable,
}

impl Freshness {
    /// True when a head that the origin confirmed at `validated_at` need not be asked about at `now`.
    fn holds(self, validated_at: Nanos, now: Nanos) -> bool {
        // A head from the future was written when the clock was wrong: how old it is nobody knows.
        let is_known = Nanos(0) < validated_at && validated_at <= now;
        match self {
            Self::Revalidate { window: most } | Self::Ttl(most) => {
                is_known && now.since(validated_at) < most
            }
            Self::Immutable => true,
        }
    }
}

/// How a head was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was known and fresh.
    Hit,
    /// It was known, and the origin confirmed it.
    Revalidated,
    /// It was not known, or had changed.
    Miss,
}

/// A head to serve.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The version.
    pub head: Arc<Head>,
    /// How it was found.
    pub found: Found,
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The origin has no such object.
    NotFound,
    /// The object cannot be cached (no strong ETag), or the cache has lost its flash: go to the origin.
    Uncacheable,
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
    answer: RefCell<Option<Result<Opened, OpenError>>>,
    answered: Event,
}

impl Cache {
    /// The head to serve for `object`, which is pinned with what is pinned of the object.
    ///
    /// # Errors
    /// When there is none, or none that the cache may serve.
    pub async fn open(
        &self,
        object: &ObjectName,
        freshness: Freshness,
        care: Care,
    ) -> Result<Opened, OpenError> {
        let inner = &self.inner;
        inner.count(|stats| stats.opens += 1);
        if inner.log.is_gone() {
            return Err(OpenError::Uncacheable);
        }
        let key = inner.keys.object(object);
        let known = inner.known_head(object, key).await;
        if let Some(known) = &known
            && known.is_pinned.replace(care == Care::Pinned) != (care == Care::Pinned)
        {
            inner.holdings.note_asked(key.record(), care);
        }
        if let Some(known) = known.as_ref().filter(|known| inner.is_fresh(known, freshness)) {
            inner.count(|stats| stats.opens_fresh += 1);
            return Ok(Opened { head: known.head.clone(), found: Found::Hit });
        }
        inner.ask_origin(object, (key, care), known).await
    }
}

impl Inner {
    fn is_fresh(&self, known: &KnownHead, freshness: Freshness) -> bool {
        freshness.holds(known.validated_at.get(), self.now())
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
        let watch = self.watch(key);
        let epoch = watch.epoch();
        let found = self.holdings.find(key.record()).filter(|found| found.kind == HEAD)?;
        let is_pinned = is_pinned(HEAD, found.mark);
        let stored = match self.read_whole(key.record(), found).await {
            Some(bytes) => head::decode(bytes.as_bytes())?,
            None => return None,
        };
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
    ) -> Result<Opened, OpenError> {
        let epoch = self.epoch(key);
        let under_way = self.lookups.borrow().get(&key).cloned();
        // An answer to a question put before a removal is of no use to whoever came after it.
        let lookup = match under_way.filter(|lookup| lookup.epoch == epoch) {
            Some(lookup) => {
                self.count(|stats| stats.opens_joined += 1);
                lookup
            }
            None => self.start_lookup(object.clone(), (key, care), known),
        };
        loop {
            if let Some(answer) = lookup.answer.borrow().clone() {
                return answer;
            }
            lookup.answered.wait().await;
        }
    }

    /// The question is a task of its own: it goes on when whoever asked first goes away.
    fn start_lookup(
        self: &Rc<Self>,
        object: ObjectName,
        (key, care): (ObjectKey, Care),
        known: Option<Rc<KnownHead>>,
    ) -> Rc<Lookup> {
        let watch = self.watch(key);
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
    ) -> Result<Opened, OpenError> {
        self.count(|stats| stats.head_fetches += 1);
        let asked_at = self.now();
        let answer = self.ports.origin.call(Fetch::Head { object: object.clone() }).await;
        let from_origin = match answer {
            Fetched::Head(head) => Ok(head),
            Fetched::Failed(OriginFault::NotFound) => Err(OpenError::NotFound),
            Fetched::Failed(fault) => {
                self.count(|stats| stats.fetch_errors += u64::from(fault.is_error()));
                Err(OpenError::Origin(fault))
            }
            _ => Err(OpenError::Origin(OriginFault::Lied)),
        }?;
        if !is_cacheable(&from_origin.etag) {
            return Err(OpenError::Uncacheable);
        }
        let is_confirmed = |known: &Rc<KnownHead>| known.head.matches(&from_origin);
        if let Some(known) = known.filter(|_| watch.may_publish(epoch)) {
            if is_confirmed(&known) {
                known.validated_at.set(asked_at);
                self.count(|stats| stats.opens_revalidated += 1);
                return Ok(Opened { head: known.head.clone(), found: Found::Revalidated });
            }
            self.forget_pins(watch.key(), &known.head);
        }
        self.count(|stats| stats.opens_missed += 1);
        let head = self.publish_head(object, watch, from_origin, (epoch, asked_at), care);
        Ok(Opened { head, found: Found::Miss })
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
        let key = watch.key();
        if !watch.may_publish(epoch) {
            // A salt of its own: what this caller stores under it is out of everybody else's reach.
            return Arc::new(Head::new(from_origin, self.log.next_generation()));
        }
        let on_flash = self.holdings.forget(key.record());
        let in_memory = self.heads.borrow().peek(key).is_some();
        let replaces = (on_flash || in_memory).then(|| self.log.next_generation());
        let salt = replaces.or_else(|| self.log.tombstone(key.record())).unwrap_or(0);
        let head = Arc::new(Head::new(from_origin, salt));
        let generation = self.log.next_generation();
        let known = KnownHead::new(object.clone(), head.clone(), asked_at, generation);
        known.is_pinned.set(care == Care::Pinned);
        self.heads.borrow_mut().insert(key, known.clone());
        self.removed.borrow_mut().publish(key);
        watch.publish(generation);
        if replaces.is_none() && HEADS_STORING_MAX <= self.heads_storing.get() {
            // Flash does not keep up. Like a chunk then, it is not stored; until memory forgets it, it is known.
            // One that replaces another waits: after a restart, the other would be known again.
            self.count(|stats| stats.heads_refused += 1);
            return head;
        }
        self.heads_storing.set(self.heads_storing.get() + 1);
        let (inner, watch) = (self.clone(), self.watch(key));
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
        let found = FoundRecord::new(placed.extent(), HEAD, checks).with_mark(mark);
        self.holdings.publish(key.record(), found, self.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_for_as_long_as_it_is_told_and_one_from_the_future_not_at_all() {
        let (hour, now) = (Nanos::secs(3600), Nanos::secs(1_000_000));
        for most in [Freshness::Ttl(hour), Freshness::Revalidate { window: hour }] {
            assert!(most.holds(now, now) && most.holds(Nanos(now.0 - hour.0 + 1), now));
            assert!(!most.holds(Nanos(now.0 - hour.0), now));
            assert!(!most.holds(now + Nanos(1), now), "the clock was ahead when it was written");
            assert!(!most.holds(Nanos(0), now), "never confirmed");
        }
        let always_asked = Freshness::Revalidate { window: Nanos(0) };
        assert!(!always_asked.holds(now, now));
        assert!(Freshness::Immutable.holds(now + hour, now));
    }
}
