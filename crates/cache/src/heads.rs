//! Head cache: recently used object heads in memory, with CLOCK eviction.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;

use zonal_base::Nanos;

use crate::head::HeadState;
use crate::index::chunk_id;
use crate::object::ObjectKey;
use crate::prehashed_map::PrehashedMap;
use crate::{Head, ObjectName};

/// A head of an object in memory, and what the cache knows of it.
pub(crate) struct KnownHead {
    pub(crate) name: ObjectName,
    pub(crate) head: Arc<Head>,
    /// When the origin last confirmed the head; 0 when that time is unknown.
    pub(crate) validated_at: Cell<Nanos>,
    /// The origin has refused this version since: it is not served before the origin confirms it.
    pub(crate) is_untrusted: Cell<bool>,
    /// A tombstone of the object may be lost: the head is not served before the origin confirms it.
    pub(crate) is_suspect: Cell<bool>,
    /// Generation of the head's record. Rewrites of the same state keep it.
    pub(crate) generation: Cell<u64>,
    /// Whether the head is pinned, as the last request for it demanded.
    pub(crate) is_pinned: Cell<bool>,
    /// The head is on flash, or on its way there. Others stay in memory only.
    pub(crate) is_stored: Cell<bool>,
    /// Number of the newest lookup that confirmed the head; 0: none since the head was loaded.
    pub(crate) confirmed_by: Cell<u64>,
    /// When a refreshed head was last written; 0: never.
    pub(crate) refreshed_at: Cell<Nanos>,
    /// Memory that the head takes.
    bytes: usize,
    /// CLOCK reference bit: the head was requested since the hand last passed.
    touched: Cell<bool>,
}

impl KnownHead {
    pub(crate) fn new(name: ObjectName, head: Arc<Head>, state: HeadState) -> Rc<Self> {
        Rc::new(Self {
            bytes: bytes_of(&name, &head),
            name,
            head,
            validated_at: Cell::new(state.validated_at),
            is_untrusted: Cell::new(state.is_untrusted),
            is_suspect: Cell::new(false),
            generation: Cell::new(state.generation),
            is_pinned: Cell::new(false),
            is_stored: Cell::new(false),
            confirmed_by: Cell::new(0),
            refreshed_at: Cell::new(Nanos(0)),
            touched: Cell::new(false),
        })
    }

    /// True when the head may be served without a request, if it is fresh.
    pub(crate) const fn is_trusted(&self) -> bool {
        !self.is_untrusted.get() && !self.is_suspect.get()
    }

    /// Registers that a lookup confirmed the head: the request was its `number`th and was sent at
    /// `asked_at`. The answers to two requests may arrive in any order.
    pub(crate) fn note_confirmed(&self, (number, asked_at): (u64, Nanos)) {
        if self.confirmed_by.get() < number {
            self.confirmed_by.set(number);
            self.validated_at.set(asked_at);
        }
    }

    /// The state to store with the head.
    pub(crate) const fn state(&self) -> HeadState {
        HeadState {
            validated_at: self.validated_at.get(),
            generation: self.generation.get(),
            is_untrusted: self.is_untrusted.get(),
        }
    }
}

/// Cache of heads with CLOCK eviction, so that a hit costs one store. Heads are found by the hash
/// that the index has of them, so reclaim can tell which heads of a zone are in use.
pub(crate) struct Heads {
    known: PrehashedMap<u64, (ObjectKey, Rc<KnownHead>)>,
    hand: VecDeque<u64>,
    limit: usize,
    /// Memory of the heads in `known`, in bytes.
    bytes: usize,
    bytes_max: usize,
}

impl Heads {
    /// Keeps at most `limit` heads that take at most `bytes_max` bytes.
    pub(crate) fn new(limit: usize, bytes_max: usize) -> Self {
        let (known, hand) = (PrehashedMap::default(), VecDeque::new());
        Self { known, hand, limit, bytes: 0, bytes_max }
    }

    pub(crate) fn get(&self, key: ObjectKey) -> Option<Rc<KnownHead>> {
        let known = self.peek(key)?;
        known.touched.set(true);
        Some(known.clone())
    }

    /// Like [`Heads::get`], without setting the reference bit.
    pub(crate) fn peek(&self, key: ObjectKey) -> Option<&Rc<KnownHead>> {
        let (of, known) = self.known.get(&chunk_id(key.record()))?;
        (*of == key).then_some(known)
    }

    pub(crate) fn by_hash(&self, hash: u64) -> Option<(ObjectKey, Rc<KnownHead>)> {
        self.known.get(&hash).cloned()
    }

    /// All heads.
    pub(crate) fn all(&self) -> Vec<(ObjectKey, Rc<KnownHead>)> {
        self.known.values().cloned().collect()
    }

    /// Hashes of all heads; some heads may be removed already.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.hand.iter().copied()
    }

    pub(crate) fn insert(&mut self, key: ObjectKey, head: Rc<KnownHead>) {
        let hash = chunk_id(key.record());
        self.bytes += head.bytes;
        match self.known.insert(hash, (key, head)) {
            None => self.hand.push_back(hash),
            Some((_, replaced)) => self.bytes -= replaced.bytes,
        }
        while self.limit < self.hand.len() || self.bytes_max < self.bytes {
            let Some(hash) = self.hand.pop_front() else { return };
            match self.known.get(&hash) {
                Some((_, head)) if head.touched.replace(false) => self.hand.push_back(hash),
                _ => self.remove_by_hash(hash),
            }
        }
    }

    pub(crate) fn remove(&mut self, key: ObjectKey) {
        if self.peek(key).is_some() {
            self.remove_by_hash(chunk_id(key.record()));
        }
    }

    /// Removes a head. Its hash stays in the CLOCK queue until the hand reaches it.
    pub(crate) fn remove_by_hash(&mut self, hash: u64) {
        if let Some((_, removed)) = self.known.remove(&hash) {
            self.bytes -= removed.bytes;
        }
    }
}

/// Memory that a head takes: its texts, and for each text a pointer and what the allocator adds.
fn bytes_of(name: &ObjectName, head: &Head) -> usize {
    const TEXT: usize = 32;
    let of_headers = head.headers.iter().map(|(name, value)| name.len() + value.len() + 2 * TEXT);
    let texts = [name.as_str(), &head.etag, &head.version_id, &head.last_modified];
    size_of::<KnownHead>()
        + size_of::<Head>()
        + texts.map(|text| text.len() + TEXT).into_iter().sum::<usize>()
        + of_headers.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::ToString;

    use super::*;

    fn head(n: u128, value_bytes: usize) -> (ObjectKey, Rc<KnownHead>) {
        let name = ObjectName::new("b", &n.to_string());
        let value: Box<[u8]> = alloc::vec![b'x'; value_bytes].into();
        let head = Head {
            size: 1,
            etag: "\"e\"".into(),
            version_id: "".into(),
            last_modified: "".into(),
            headers: Vec::from([("x-amz-meta-a".into(), value)]),
            salt: 0,
            chunk: None,
            is_partial: false,
        };
        let state = HeadState { validated_at: Nanos(0), generation: 0, is_untrusted: false };
        // The index takes its hash from the upper bits of a key.
        (ObjectKey(n << 64), KnownHead::new(name, Arc::new(head), state))
    }

    #[test]
    fn heads_are_bounded_in_number_and_in_bytes() {
        let mut heads = Heads::new(100, 100_000);
        for n in 0..1000 {
            let (key, head) = head(n, 0);
            heads.insert(key, head);
        }
        assert_eq!(heads.known.len(), 100);
        for n in 0..1000 {
            let (key, head) = head(n, 10_000);
            heads.insert(key, head);
            assert!(heads.bytes <= 100_000);
        }
        assert!((5..10).contains(&heads.known.len()), "{}", heads.known.len());
        let sum = |heads: &Heads| heads.all().iter().map(|(_, head)| head.bytes).sum::<usize>();
        assert_eq!(heads.bytes, sum(&heads));
        for (key, _) in heads.all() {
            let (_, smaller) = head(key.0 >> 64, 10);
            heads.insert(key, smaller);
        }
        assert_eq!(heads.bytes, sum(&heads));
        for (key, _) in heads.all() {
            heads.remove(key);
        }
        assert_eq!((heads.bytes, heads.known.len()), (0, 0));
    }
}
