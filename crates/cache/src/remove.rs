//! Invalidation path: once a removal returns, no stored version of the object is served again, even
//! after a crash.
//!
//! 1. Raise the object's epoch: origin answers to requests from before the end of the removal are
//!    not published.
//! 2. Remove the head from memory and from the index: without it no chunk can be reached.
//! 3. Write a tombstone and flush it. Heads that are published later carry its generation as their
//!    salt. So chunks from before the removal stay unreachable even if the same ETag comes back.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use core::fmt;

use zonal_base::Bytes;

use crate::cache::Inner;
use crate::mutation::Mutation;
use crate::object::ObjectKey;
use crate::{Cache, ObjectName};

/// The tombstone is not on flash: a crash may undo the removal. In memory the object is removed all
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveError;

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the removal could not be written to flash")
    }
}

impl core::error::Error for RemoveError {}

/// Target of an invalidation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidationTarget {
    /// The object with this name.
    Object(ObjectName),
    /// All objects whose names begin with this prefix: a bucket, a slash, and the start of a key.
    /// At most [`PREFIX_BYTES_MAX`](crate::PREFIX_BYTES_MAX) bytes.
    Below(Arc<str>),
}

impl InvalidationTarget {
    /// Targets all objects of a bucket whose keys begin with `prefix`, which may be empty.
    #[must_use]
    pub fn below(bucket: &str, prefix: &str) -> Self {
        Self::Below(format!("{bucket}/{prefix}").into())
    }
}

/// An object with a lookup, fetch or removal in flight.
pub(crate) struct WatchedObject {
    name: ObjectName,
    watchers: u32,
    epoch: u64,
    /// Removals in flight.
    removals: u32,
    /// Generation of the last head of another version. An older head must not replace it.
    published: u64,
    /// Generation of the newest head that is in the index. Of heads of one version, which differ in
    /// their other headers, an older one must not replace a newer one there.
    stored: u64,
}

impl WatchedObject {
    pub(crate) fn begin_removal(&mut self) {
        self.epoch += 1;
        self.removals += 1;
    }

    pub(crate) fn end_removal(&mut self) {
        self.epoch += 1;
        self.removals -= 1;
    }
}

/// Epoch guard: detects removals of one object while a request is in flight.
pub(crate) struct EpochGuard {
    /// Weak, to avoid a cycle: the cache holds its fetches, and fetches hold watches. No watch is
    /// used after its cache.
    inner: Weak<Inner>,
    key: ObjectKey,
}

impl EpochGuard {
    /// Invalidation epoch of the object: every removal raises it.
    pub(crate) fn epoch(&self) -> u64 {
        self.inner.upgrade().map_or(0, |inner| inner.epoch(self.key))
    }

    /// True when an origin answer to a request from `epoch` may be published.
    pub(crate) fn may_publish(&self, epoch: u64) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        let is_current = self.with(|watched| watched.epoch == epoch && watched.removals == 0);
        is_current == Some(true) || inner.settings.has(Mutation::EpochIgnored)
    }

    /// Registers that a head of another version was published with this generation.
    pub(crate) fn publish(&self, generation: u64) {
        self.with(|watched| watched.published = generation);
    }

    /// Registers that a head of this generation enters the index. False if a newer one is there.
    pub(crate) fn note_stored(&self, generation: u64) -> bool {
        let is_newest = self.with(|watched| {
            let is_newest = watched.stored <= generation;
            watched.stored = watched.stored.max(generation);
            is_newest
        });
        is_newest == Some(true)
    }

    /// True when a head of another version was published after this generation.
    pub(crate) fn is_replaced(&self, generation: u64) -> bool {
        self.with(|watched| generation < watched.published) == Some(true)
    }

    fn with<T>(&self, look: impl FnOnce(&mut WatchedObject) -> T) -> Option<T> {
        let inner = self.inner.upgrade()?;
        let mut watched = inner.watched.borrow_mut();
        Some(look(watched.get_mut(&self.key).expect("watched until the last watch is dropped")))
    }

    pub(crate) const fn key(&self) -> ObjectKey {
        self.key
    }
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        let is_last = self.with(|watched| {
            watched.watchers -= 1;
            watched.watchers == 0
        });
        if let (Some(true), Some(inner)) = (is_last, self.inner.upgrade()) {
            inner.watched.borrow_mut().remove(&self.key);
        }
    }
}

impl Cache {
    /// Removes an object, or all objects with a prefix.
    ///
    /// # Errors
    /// When the tombstone is not on flash.
    pub async fn remove_any(&self, target: &InvalidationTarget) -> Result<(), RemoveError> {
        match target {
            InvalidationTarget::Object(object) => self.remove(object).await,
            InvalidationTarget::Below(prefix) => self.remove_below(prefix).await,
        }
    }

    /// Removes the object from the cache.
    ///
    /// # Errors
    /// When the tombstone is not on flash.
    pub async fn remove(&self, object: &ObjectName) -> Result<(), RemoveError> {
        let inner = &self.inner;
        let key = inner.keys.object(object);
        // Without the head, the cache no longer knows the object's pinned pieces, so their pins go
        // first.
        if inner.holdings.pinned() != Bytes(0)
            && let Ok(Some(known)) = inner.known_head(object, key).await
        {
            inner.release_pins(key, &known.head);
        }
        inner.bury(inner.begin_removal(object, key)).await?;
        inner.count(|stats| stats.removals += 1);
        Ok(())
    }
}

impl Inner {
    /// Starts a removal: from here on this shard serves nothing of the object that is stored, until
    /// it restarts.
    pub(crate) fn begin_removal(self: &Rc<Self>, object: &ObjectName, key: ObjectKey) -> Removal {
        let removal = Removal::begin(self.watch(object, key));
        if !self.settings.has(Mutation::InvalidationLost) {
            self.heads.borrow_mut().remove(key);
        }
        self.holdings.forget(key.record());
        if !self.settings.has(Mutation::AbsenceKept) {
            self.absences.borrow_mut().forget(key);
        }
        self.untagged.borrow_mut().forget_object(key, object.bucket());
        removal
    }

    /// Writes the tombstone of a removal, so that it survives a crash.
    pub(crate) async fn bury(&self, removal: Removal) -> Result<(), RemoveError> {
        let key = removal.0.key();
        let is_buried = self.removed.borrow().contains(key);
        if !is_buried && !self.settings.has(Mutation::NoTombstone) {
            self.log.remove(key.record()).await.map_err(|_| RemoveError)?;
            self.removed.borrow_mut().insert(key);
        }
        drop(removal);
        Ok(())
    }
}

/// A removal in flight. Until its tombstone is on flash no head is published, because it would have
/// the old salt. Origin answers to requests from before the end of the removal are not published
/// later either.
pub(crate) struct Removal(EpochGuard);

impl Removal {
    fn begin(watch: EpochGuard) -> Self {
        watch.with(WatchedObject::begin_removal);
        Self(watch)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.0.with(WatchedObject::end_removal);
    }
}

/// Objects that were removed lately and not published since. Their tombstone still covers them, so
/// a repeated removal costs nothing. Gateways remove before *and* after they forward a write.
#[derive(Default)]
pub(crate) struct RemovedLately {
    keys: BTreeSet<ObjectKey>,
    order: VecDeque<ObjectKey>,
}

/// Remembered removals: 4096. Forgetting one costs a tombstone.
const REMOVED_LATELY_MAX: usize = 4096;

impl RemovedLately {
    fn contains(&self, key: ObjectKey) -> bool {
        self.keys.contains(&key)
    }

    fn insert(&mut self, key: ObjectKey) {
        if self.keys.insert(key) {
            self.order.push_back(key);
        }
        while REMOVED_LATELY_MAX < self.order.len() {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.keys.remove(&oldest));
        }
    }

    pub(crate) fn publish(&mut self, key: ObjectKey) {
        if self.keys.remove(&key) {
            self.order.retain(|other| *other != key);
        }
    }
}

impl Inner {
    pub(crate) fn watch(self: &Rc<Self>, object: &ObjectName, key: ObjectKey) -> EpochGuard {
        let new = || {
            let (name, removals) = (object.clone(), self.purges_of(object));
            WatchedObject { name, watchers: 0, epoch: 0, removals, published: 0, stored: 0 }
        };
        self.watched.borrow_mut().entry(key).or_insert_with(new).watchers += 1;
        EpochGuard { inner: Rc::downgrade(self), key }
    }

    /// Calls `note` for every watched object whose name begins with `prefix`.
    pub(crate) fn each_watched_below(&self, prefix: &str, note: impl Fn(&mut WatchedObject)) {
        let mut watched = self.watched.borrow_mut();
        let below = watched.values_mut().filter(|of| of.name.as_str().starts_with(prefix));
        below.for_each(note);
    }

    pub(crate) fn epoch(&self, key: ObjectKey) -> u64 {
        self.watched.borrow().get(&key).map_or(0, |watched| watched.epoch)
    }
}
