//! Negative cache for ETags: objects without a strong ETag cannot be cached, so reads of them skip
//! the lookup and go to the origin.
//!
//! An origin without ETags sends none for any object of a bucket. So after some such objects in a
//! row, an unknown object of the bucket is expected to have none either.
//!
//! The cache is bounded and in memory only: a forgotten object costs one HEAD request.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use crate::object::ObjectKey;
use crate::prehashed_map::PrehashedMap;

/// Remembered objects: about 1 MB per shard.
const OBJECTS_MAX: usize = 16_384;

/// Objects in a row without an ETag after which a bucket is expected to have none. If a quarter of
/// a bucket's objects have an ETag, one of 16 has it with a probability of 99 %.
const IN_A_ROW: u32 = 16;

/// Remembered buckets. A name takes 63 bytes at most, so all take some 10 KB.
const BUCKETS_MAX: usize = 128;

/// Objects and buckets without strong ETags.
#[derive(Default)]
pub(crate) struct NoEtagCache {
    objects: PrehashedMap<ObjectKey, ()>,
    /// Objects in the order of the answers, for eviction; forgotten ones keep their place.
    order: VecDeque<ObjectKey>,
    /// By bucket: number of objects in a row without an ETag.
    buckets: BTreeMap<Box<str>, u32>,
}

impl NoEtagCache {
    /// Registers that the origin sent no strong ETag for the object.
    pub(crate) fn note(&mut self, key: ObjectKey, bucket: &str) {
        if self.objects.insert(key, ()).is_some() {
            return;
        }
        self.order.push_back(key);
        while OBJECTS_MAX < self.order.len() {
            let Some(key) = self.order.pop_front() else { break };
            self.objects.remove(&key);
        }
        if let Some(in_a_row) = self.buckets.get_mut(bucket) {
            *in_a_row = in_a_row.saturating_add(1);
            return;
        }
        if BUCKETS_MAX <= self.buckets.len() {
            self.buckets.clear();
        }
        self.buckets.insert(bucket.into(), 1);
    }

    /// Registers that the origin sent a strong ETag for the object.
    pub(crate) fn forget(&mut self, key: ObjectKey, bucket: &str) {
        // Fast path: most origins send an ETag with every object, so both tables are empty.
        if !self.buckets.is_empty() {
            self.buckets.remove(bucket);
        }
        if !self.objects.is_empty() {
            self.objects.remove(&key);
        }
    }

    /// Forgets an object that was removed or written. It does not count twice for its bucket.
    pub(crate) fn forget_object(&mut self, key: ObjectKey, bucket: &str) {
        if !self.objects.is_empty()
            && self.objects.remove(&key).is_some()
            && let Some(in_a_row) = self.buckets.get_mut(bucket)
        {
            *in_a_row = in_a_row.saturating_sub(1);
        }
    }

    /// Forgets everything, after a purge.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// True when the origin sent no strong ETag for the object when it was asked last.
    pub(crate) fn has(&self, key: ObjectKey) -> bool {
        !self.objects.is_empty() && self.objects.contains_key(&key)
    }

    /// True when unknown objects of the bucket are expected to have no ETag.
    pub(crate) fn has_all_of(&self, bucket: &str) -> bool {
        !self.buckets.is_empty()
            && self.buckets.get(bucket).is_some_and(|in_a_row| IN_A_ROW <= *in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_an_etag_is_known_until_it_has_one() {
        let mut untagged = NoEtagCache::default();
        untagged.note(ObjectKey(1), "b");
        assert!(untagged.has(ObjectKey(1)) && !untagged.has(ObjectKey(2)));
        untagged.forget(ObjectKey(1), "b");
        assert!(!untagged.has(ObjectKey(1)));
        untagged.note(ObjectKey(1), "b");
        untagged.forget_object(ObjectKey(1), "b");
        assert!(!untagged.has(ObjectKey(1)));
        untagged.note(ObjectKey(1), "b");
        untagged.forget_all();
        assert!(!untagged.has(ObjectKey(1)));
    }

    #[test]
    fn a_bucket_is_taken_to_have_none_until_one_object_has_one() {
        let mut untagged = NoEtagCache::default();
        for n in 0..IN_A_ROW {
            assert!(!untagged.has_all_of("b"), "after {n}");
            untagged.note(ObjectKey(n.into()), "b");
        }
        assert!(untagged.has_all_of("b") && !untagged.has_all_of("c"));
        untagged.forget(ObjectKey(99), "b");
        assert!(!untagged.has_all_of("b") && untagged.has(ObjectKey(1)));
        untagged.note(ObjectKey(98), "b");
        assert!(!untagged.has_all_of("b"), "a row begins anew");
    }

    #[test]
    fn an_object_that_is_written_or_asked_about_again_and_again_speaks_for_no_other() {
        let mut untagged = NoEtagCache::default();
        for _ in 0..2 * IN_A_ROW {
            untagged.note(ObjectKey(1), "b");
            untagged.note(ObjectKey(1), "b");
            untagged.forget_object(ObjectKey(1), "b");
        }
        assert!(!untagged.has_all_of("b"));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut untagged = NoEtagCache::default();
        for n in 0..=OBJECTS_MAX as u128 {
            untagged.note(ObjectKey(n), &alloc::format!("{n}"));
        }
        assert!(!untagged.has(ObjectKey(0)) && untagged.has(ObjectKey(1)));
        assert_eq!((untagged.order.len(), untagged.objects.len()), (OBJECTS_MAX, OBJECTS_MAX));
        assert!(untagged.buckets.len() <= BUCKETS_MAX);
    }
}
