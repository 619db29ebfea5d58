//! Head publication: makes an answer of the origin the head that readers get, and stores it on
//! flash.
//!
//! 1. Size, ETag and version ID identify the bytes of an object. A head of the known version keeps
//!    its salt, so the cached chunks stay reachable; only its headers are refreshed.
//! 2. A head of another version gets a new salt ([`Inner::salt_of`]) and voids the old head on
//!    flash.
//! 3. When the origin refuses the known version (403, 412, 404 in the middle of a read), its head
//!    is untrusted, also after a restart: it is not served before the origin confirms it.

use alloc::rc::Rc;
use alloc::sync::Arc;

use zonal_base::Nanos;
use zonal_policy::PolicyTag;
use zonal_zonelog::{Record, Stream, Urgency};

use crate::cache::Inner;
use crate::head::{self, HeadState};
use crate::heads::KnownHead;
use crate::index::IndexEntry;
use crate::mutation::Mutation;
use crate::object::ObjectKey;
use crate::pins::WANTED;
use crate::recover::{HEAD, kind_on_flash};
use crate::remove::EpochGuard;
use crate::{Cache, Head, ObjectName, OriginHead, RetentionClass};

/// Limit of head writes in flight. 40,000 misses per second create this many heads during the 200
/// ms linger of a segment.
const HEADS_STORING_MAX: u32 = 8192;

/// Shortest time between two writes of one refreshed head. Some origins send another header with
/// each answer, such as `Expires`. Each read would write the head again.
const REFRESH_EVERY: Nanos = Nanos::secs(10);

impl Cache {
    /// Registers that the origin no longer has the version that `head` names: a fetch of it was
    /// refused. The object is not served before the origin has been asked again.
    pub async fn distrust(&self, object: &ObjectName, head: &Head) {
        let inner = &self.inner;
        let key = inner.keys.object(object);
        let watch = inner.watch(object, key);
        let Ok(Some(known)) = inner.known_head(object, key).await else { return };
        let is_it = known.head.salt == head.salt
            && (&known.head.etag, known.head.size) == (&head.etag, head.size);
        if is_it {
            inner.distrust_known(&watch, &known);
        }
    }
}

impl Inner {
    /// Salt of a head for an object without a known head of this version. This is the only place
    /// where the salt of an object changes. Chunks under an older salt are unreachable from then
    /// on. That is needed in three cases:
    ///
    /// - The head replaces one of another version. Versions may share size and ETag, and the keys
    ///   of chunks do not have the version ID.
    /// - The object was removed: an origin may have other bytes under the same ETag.
    /// - A prefix of its name was purged, or its bucket moved to another device and back.
    fn salt_of(&self, object: &ObjectName, key: ObjectKey, replaces: Option<u64>) -> u64 {
        let salt = replaces.or_else(|| self.log.tombstone(key.record())).unwrap_or(0);
        salt.max(self.salted_since(object))
    }

    /// Publishes a head, unless the object was removed since `epoch`. The caller may serve the head
    /// either way: the origin gave it as the answer to the caller's request.
    pub(crate) fn publish_head(
        self: &Rc<Self>,
        object: &ObjectName,
        watch: &EpochGuard,
        from_origin: OriginHead,
        (epoch, sent): (u64, (u64, Nanos)),
        retention: RetentionClass,
    ) -> Arc<Head> {
        if !watch.may_publish(epoch) {
            return self.unpublished(object, from_origin);
        }
        let (key, chunk) = (watch.key(), self.chunks.borrow().of(object));
        let on_flash = self.holdings.forget(key.record());
        let in_memory = self.heads.borrow().peek(key).is_some();
        let replaces = (on_flash || in_memory).then(|| self.log.next_generation());
        let salt = self.salt_of(object, key, replaces);
        let head = Arc::new(Head::new(from_origin, salt, chunk));
        let generation = self.log.next_generation();
        let state = HeadState { validated_at: sent.1, generation, is_untrusted: false };
        let known = KnownHead::new(object.clone(), head.clone(), state);
        known.note_confirmed(sent);
        known.is_pinned.set(retention == RetentionClass::Pinned);
        self.heads.borrow_mut().insert(key, known.clone());
        self.removed.borrow_mut().publish(key);
        self.absences.borrow_mut().forget(key);
        watch.publish(generation);
        if replaces.is_none() && retention == RetentionClass::Unkept {
            // The head is not stored on flash; memory serves it until it is evicted there.
            return head;
        }
        if replaces.is_none() && HEADS_STORING_MAX <= self.heads_storing.get() {
            // Flash does not keep up. As with a chunk, the head is not stored, and memory serves it
            // until it is evicted there. A head that replaces another is stored all the same:
            // otherwise a restart would bring the old one back.
            self.count(|stats| stats.heads_refused += 1);
            return head;
        }
        self.start_storing((watch, epoch), known, replaces);
        head
    }

    /// A head for the readers of one answer only. It gets a salt of its own, so that no other reader
    /// reaches the chunks stored under it.
    pub(crate) fn unpublished(&self, object: &ObjectName, from_origin: OriginHead) -> Arc<Head> {
        let chunk = self.chunks.borrow().of(object);
        Arc::new(Head::new(from_origin, self.log.next_generation(), chunk))
    }

    /// The head for the reads of an answer that came after that of a later lookup. The head of the
    /// later one, `newer`, stays published. If it lacks headers of the whole object, this answer
    /// adds them. Another version gets a salt of its own.
    pub(crate) fn beside(
        self: &Rc<Self>,
        (object, watch): (&ObjectName, &EpochGuard),
        newer: &Rc<KnownHead>,
        from_origin: &OriginHead,
        sent: (u64, Nanos),
    ) -> Arc<Head> {
        if !newer.head.is_same_version(from_origin) {
            return self.unpublished(object, from_origin.clone());
        }
        match newer.head.is_partial && !from_origin.is_partial {
            true => self.confirm_head(watch, newer, newer.head.completed_by(from_origin), sent),
            false => newer.head.clone(),
        }
    }

    /// Registers that the origin confirmed the known version, and refreshes its headers.
    pub(crate) fn confirm_head(
        self: &Rc<Self>,
        watch: &EpochGuard,
        known: &Rc<KnownHead>,
        from_origin: OriginHead,
        sent: (u64, Nanos),
    ) -> Arc<Head> {
        known.note_confirmed(sent);
        let was_suspect = known.is_suspect.replace(false);
        self.count(|stats| stats.suspects_confirmed += u64::from(was_suspect));
        let was_untrusted = known.is_untrusted.replace(false) || was_suspect;
        let from_origin = known.head.complete(from_origin);
        if known.head.matches(&from_origin) {
            if was_untrusted {
                self.store_state(watch, known);
            }
            return known.head.clone();
        }
        let head = Arc::new(Head::new(from_origin, known.head.salt, known.head.chunk));
        let state = HeadState { generation: self.log.next_generation(), ..known.state() };
        let refreshed = KnownHead::new(known.name.clone(), head.clone(), state);
        refreshed.is_pinned.set(known.is_pinned.get());
        refreshed.confirmed_by.set(known.confirmed_by.get());
        refreshed.is_stored.set(known.is_stored.get());
        refreshed.refreshed_at.set(known.refreshed_at.get());
        self.heads.borrow_mut().insert(watch.key(), refreshed.clone());
        // New headers may wait. Trust may not: the head on flash is untrusted until then.
        match was_untrusted {
            true => self.store_state(watch, &refreshed),
            false => self.store_refreshed(watch, refreshed),
        }
        head
    }

    /// Registers that the origin refused the version of a known head.
    pub(crate) fn distrust_known(self: &Rc<Self>, watch: &EpochGuard, known: &Rc<KnownHead>) {
        // Lookups that are in flight do not restore the trust.
        known.confirmed_by.set(self.lookups_sent());
        if !known.is_untrusted.replace(true) {
            self.store_state(watch, known);
            // The head on flash is trusted until this state is there, so it must not be loaded.
            watch.publish(known.generation.get());
        }
    }

    /// Stores a head again whose state has changed. Requires: no removal of the object is in flight.
    pub(crate) fn store_state(self: &Rc<Self>, watch: &EpochGuard, known: &Rc<KnownHead>) {
        known.generation.set(self.log.next_generation());
        if known.is_stored.get() {
            self.start_storing((watch, watch.epoch()), known.clone(), None);
        }
    }

    /// Stores a head with other headers: at once, or later if it was stored lately. Requires: no
    /// removal of the object is in flight.
    fn store_refreshed(self: &Rc<Self>, watch: &EpochGuard, known: Rc<KnownHead>) {
        let (now, last, epoch) = (self.now(), known.refreshed_at.get(), watch.epoch());
        // A time in the future: a task waits, and will store the head that is the newest by then.
        if !known.is_stored.get() || now < last {
            return;
        }
        let due = if last == Nanos(0) { now } else { last + REFRESH_EVERY };
        known.refreshed_at.set(now.max(due));
        if due <= now {
            return self.start_storing((watch, epoch), known, None);
        }
        let (inner, watch) = (self.clone(), self.watch(&known.name, watch.key()));
        self.ports.spawner.spawn(async move {
            inner.ports.clock.sleep_until(due).await;
            if watch.may_publish(epoch) {
                let newest = inner.heads.borrow().peek(watch.key()).cloned().unwrap_or(known);
                inner.start_storing((&watch, epoch), newest, None);
            }
        });
    }

    /// Stores the heads that wait for their turn, at a graceful stop.
    pub(crate) fn store_waiting_heads(self: &Rc<Self>) {
        let (now, heads) = (self.now(), self.heads.borrow().all());
        for (key, known) in heads.into_iter().filter(|(_, known)| now < known.refreshed_at.get()) {
            known.refreshed_at.set(now);
            let watch = self.watch(&known.name, key);
            self.start_storing((&watch, watch.epoch()), known, None);
        }
    }

    fn start_storing(
        self: &Rc<Self>,
        (watch, epoch): (&EpochGuard, u64),
        known: Rc<KnownHead>,
        replaces: Option<u64>,
    ) {
        known.is_stored.set(true);
        self.heads_storing.set(self.heads_storing.get() + 1);
        let (inner, watch) = (self.clone(), self.watch(&known.name, watch.key()));
        self.spawn_writing(|writing| async move {
            inner.store_head((&watch, epoch), known, replaces).await;
            inner.heads_storing.set(inner.heads_storing.get() - 1);
            drop(writing);
        });
    }

    /// Writes a head to flash in the background.
    async fn store_head(
        &self,
        (watch, epoch): (&EpochGuard, u64),
        known: Rc<KnownHead>,
        replaces: Option<u64>,
    ) {
        // The zone of the new head may be reset before that of the old head. Without a tombstone a
        // crash after that would bring the old head back.
        if let Some(generation) = replaces
            && self.log.supersede(watch.key().record(), generation).await.is_err()
        {
            return;
        }
        self.append_head(Stream::Fill, (watch, epoch), &known).await;
    }

    /// Appends a head that was current at `epoch`. Publishes it in the index if it is still current
    /// when it is on flash.
    pub(crate) async fn append_head(
        &self,
        stream: Stream,
        (watch, epoch): (&EpochGuard, u64),
        known: &Rc<KnownHead>,
    ) {
        let (key, state) = (watch.key(), known.state());
        let Some(bytes) = head::encode(&known.name, state, &known.head) else { return };
        let (data, len) = self.record_data(stream, &bytes).await;
        let generation = Some(state.generation);
        let mark = if known.is_pinned.get() { WANTED } else { PolicyTag::default() };
        let kind = kind_on_flash(HEAD, mark);
        let record = Record { key: key.record(), kind, len, data, generation };
        let Ok(placed) = self.log.append(stream, record, Urgency::Linger).await else { return };
        self.note_placed(stream, placed.extent());
        // Eviction from memory does not make the head void. Only a removal or a newer head does.
        let is_void = watch.is_replaced(state.generation)
            || !watch.may_publish(epoch)
            || !watch.note_stored(state.generation);
        if is_void && !self.settings.has(Mutation::HeadRevived) {
            return;
        }
        let checks = placed.descriptor().checks.clone();
        // A request during the write may have changed the pin.
        let mark = if known.is_pinned.get() { WANTED } else { PolicyTag::default() };
        let found = IndexEntry::new(placed.extent(), HEAD, checks).with_mark(mark);
        self.holdings.publish(key.record(), found, self.now());
    }
}
