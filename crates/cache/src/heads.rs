//! In-memory metadata: recently used heads (LRU), in-flight lookups, and invalidation epochs of objects.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;

use zonal_base::Nanos;

use crate::hashed::Hashed;
use crate::index::chunk_id;
use crate::object::ObjectKey;
use crate::{Head, ObjectName};

/// A head that is known to be the object's, as of some time.
pub(crate) struct KnownHead {
    pub(crate) name: ObjectName,
    pub(crate) head: Arc<Head>,
    pub(crate) validated_at: Cell<Nanos>,
    /// The generation of its record: a rewrite keeps it.
    pub(crate) generation: u64,
    /// Whoever asked for it last says so.
    pub(crate) is_pinned: Cell<bool>,
    /// Asked for since the hand of the clock last passed.
    touched: Cell<bool>,
}

impl KnownHead {
    pub(crate) fn new(
        name: ObjectName,
        head: Arc<Head>,
        validated_at: Nanos,
        generation: u64,
    ) -> Rc<Self> {
        Rc::new(Self {
            name,
            head,
            validated_at: Cell::new(validated_at),
            generation,
            is_pinned: Cell::new(false),
            touched: Cell::new(false),
        })
    }
}

/// The heads asked for lately: CLOCK, so that a hit costs one store. They are found by the hash that the
/// index has of them, so reclaim can tell which of a zone's heads are wanted.
pub(crate) struct Heads {
    known: Hashed<u64, (ObjectKey, Rc<KnownHead>)>,
    hand: VecDeque<u64>,
    limit: usize,
}

impl Heads {
    pub(crate) fn new(limit: usize) -> Self {
        Self { known: Hashed::default(), hand: VecDeque::new(), limit }
    }

    pub(crate) fn get(&self, key: ObjectKey) -> Option<Rc<KnownHead>> {
        let known = self.peek(key)?;
        known.touched.set(true);
        Some(known.clone())
    }

    /// As [`Heads::get`], without being asked for.
    pub(crate) fn peek(&self, key: ObjectKey) -> Option<&Rc<KnownHead>> {
        let (of, known) = self.known.get(&chunk_id(key.record()))?;
        (*of == key).then_some(known)
    }

    pub(crate) fn by_hash(&self, hash: u64) -> Option<(ObjectKey, Rc<KnownHead>)> {
        self.known.get(&hash).cloned()
    }

    /// Those of all heads; some may be forgotten already.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.hand.iter().copied()
    }

    pub(crate) fn insert(&mut self, key: ObjectKey, head: Rc<KnownHead>) {
        let hash = chunk_id(key.record());
        if self.known.insert(hash, (key, head)).is_none() {
            self.hand.push_back(hash);
        }
        while self.limit < self.hand.len() {
            let Some(hash) = self.hand.pop_front() else { return };
            match self.known.get(&hash) {
                Some((_, head)) if head.touched.replace(false) => self.hand.push_back(hash),
                _ => drop(self.known.remove(&hash)),
            }
        }
    }

    pub(crate) fn remove(&mut self, key: ObjectKey) {
        if self.peek(key).is_some() {
            self.remove_by_hash(chunk_id(key.record()));
        }
    }

    /// The key keeps its place under the hand until that comes by.
    pub(crate) fn remove_by_hash(&mut self, hash: u64) {
        self.known.remove(&hash);
    }
}
