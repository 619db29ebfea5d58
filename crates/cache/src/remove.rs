//! Invalidation path: once it returns, no stored version of the object is served again, also after a crash.
//!
//! 1. Answers to what the origin was asked before the end are not published (epochs).
//! 2. The head goes from memory and from the index: no chunk can be reached without it.
//! 3. A tombstone goes to flash and is flushed. Heads published later carry its generation as their
//!    salt, so chunks from before the removal stay unreachable even if the same ETag comes back.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use core::fmt;

use zonal_base::Bytes;

use crate::cache::Inner;
use crate::object::ObjectKey;
use crate::planted::Planted;
use crate::{Cache, ObjectName};

/// The removal would not survive a crash: the flash did not take the tombstone. What is in memory was
/// removed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveError;

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the removal could not be written to flash")
    }
}

impl core::error::Error for RemoveError {}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doomed {
    /// Everything that is stored under this name.
    Object(ObjectName),
    /// Everything that is stored under names which begin so: a bucket, a slash, and what keys begin with. No longer than
    /// [`PREFIX_BYTES_MAX`](crate::PREFIX_BYTES_MAX).
    Below(Arc<str>),
}

impl Doomed {
    /// All of a bucket whose keys begin with `prefix`, which may be empty.
    #[must_use]
    pub fn below(bucket: &str, prefix: &str) -> Self {
        Self::Below(format!("{bucket}/{prefix}").into())
    }
}

/// An object that somebody looks at.
pub(crate) struct Watched {
    name: ObjectName,
    watchers: u32,
    epoch: u64,
    /// Removals under way.
    removals: u32,
    /// Generation of the head that was published last, while somebody looked.
    published: u64,
}

impl Watched {
    pub(crate) fn begin_removal(&mut self) {
        self.epoch += 1;
        self.removals += 1;
    }

    pub(crate) fn end_removal(&mut self) {
        self.epoch += 1;
        self.removals -= 1;
    }
}

/// Sees removals of one object.
pub(crate) struct Watch {
    /// Weak: fetches hold watches, and the cache holds its fetches. Nothing is asked of a watch after its cache.
    inner: Weak<Inner>,
    key: ObjectKey,
}

impl Watch {
    /// Changes with every removal.
    pub(crate) fn epoch(&self) -> u64 {
        self.inner.upgrade().map_or(0, |inner| inner.epoch(self.key))
    }

    /// True when what was asked of the origin at `epoch` may become what is known of the object.
    pub(crate) fn may_publish(&self, epoch: u64) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        let is_current = self.with(|watched| watched.epoch == epoch && watched.removals == 0);
        is_current == Some(true) || inner.settings.has(Planted::EpochIgnored)
    }

    /// The object has a new head, of this generation.
    pub(crate) fn publish(&self, generation: u64) {
        self.with(|watched| watched.published = generation);
    }

    /// True when a head of this generation is not the object's any more.
    pub(crate) fn is_replaced(&self, generation: u64) -> bool {
        self.with(|watched| generation < watched.published) == Some(true)
    }

    fn with<T>(&self, look: impl FnOnce(&mut Watched) -> T) -> Option<T> {
        let inner = self.inner.upgrade()?;
        let mut watched = inner.watched.borrow_mut();
        Some(look(watched.get_mut(&self.key).expect("watched until the last watch is dropped")))
    }

    pub(crate) const fn key(&self) -> ObjectKey {
        self.key
    }
}

impl Drop for Watch {
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
    /// Removes an object, or all below a prefix.
    ///
    /// # Errors
    /// When the removal is not on flash.
    pub async fn remove_any(&self, doomed: &Doomed) -> Result<(), RemoveError> {
        match doomed {
            Doomed::Object(object) => self.remove(object).await,
            Doomed::Below(prefix) => self.remove_below(prefix).await,
        }
    }

    /// Removes everything that is stored under the name.
    ///
    /// # Errors
    /// When the removal is not on flash.
    pub async fn remove(&self, object: &ObjectName) -> Result<(), RemoveError> {
        let inner = &self.inner;
        let key = inner.keys.object(object);
        // Once the head is gone, nobody knows any more what it leads to.
        if inner.holdings.pinned() != Bytes(0)
            && let Some(known) = inner.known_head(object, key).await
        {
            inner.forget_pins(key, &known.head);
        }
        inner.bury(inner.begin_removal(object, key)).await?;
        inner.count(|stats| stats.removals += 1);
        Ok(())
    }
}

impl Inner {
    /// From here on nothing that is stored of the object is served, as long as this shard runs.
    pub(crate) fn begin_removal(self: &Rc<Self>, object: &ObjectName, key: ObjectKey) -> Removal {
        let removal = Removal::begin(self.watch(object, key));
        if !self.settings.has(Planted::InvalidationLost) {
            self.heads.borrow_mut().remove(key);
        }
        self.holdings.forget(key.record());
        if !self.settings.has(Planted::AbsenceKept) {
            self.absences.borrow_mut().forget(key);
        }
        self.untagged.borrow_mut().forget_object(key, object.bucket());
        removal
    }

    /// Makes a removal outlive a crash.
    pub(crate) async fn bury(&self, removal: Removal) -> Result<(), RemoveError> {
        let key = removal.0.key();
        let is_buried = self.removed.borrow().contains(key);
        if !is_buried && !self.settings.has(Planted::NoTombstone) {
            self.log.remove(key.record()).await.map_err(|_| RemoveError)?;
            self.removed.borrow_mut().insert(key);
        }
        drop(removal);
        Ok(())
    }
}

/// A removal under way. Until its tombstone is on flash no head is published: it would have the salt
/// from before. What was asked of the origin before the end is not published after it either.
pub(crate) struct Removal(Watch);

impl Removal {
    fn begin(watch: Watch) -> Self {
        watch.with(Watched::begin_removal);
        Self(watch)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.0.with(Watched::end_removal);
    }
}

/// Objects that were removed lately and have not been published since: their tombstone still says it
/// all, so a second removal (gateways remove before *and* after they forward a write) costs nothing.
#[derive(Default)]
pub(crate) struct RemovedLately {
    keys: BTreeSet<ObjectKey>,
    order: VecDeque<ObjectKey>,
}

/// Removals that are remembered. Forgetting one costs a tombstone.
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
    pub(crate) fn watch(self: &Rc<Self>, object: &ObjectName, key: ObjectKey) -> Watch {
        let new = || {
            let (name, removals) = (object.clone(), self.purges_of(object));
            Watched { name, watchers: 0, epoch: 0, removals, published: 0 }
        };
        self.watched.borrow_mut().entry(key).or_insert_with(new).watchers += 1;
        Watch { inner: Rc::downgrade(self), key }
    }

    /// Objects that somebody looks at whose names begin so.
    pub(crate) fn each_watched_below(&self, prefix: &str, note: impl Fn(&mut Watched)) {
        let mut watched = self.watched.borrow_mut();
        let below = watched.values_mut().filter(|of| of.name.as_str().starts_with(prefix));
        below.for_each(note);
    }

    pub(crate) fn epoch(&self, key: ObjectKey) -> u64 {
        self.watched.borrow().get(&key).map_or(0, |watched| watched.epoch)
    }
}
