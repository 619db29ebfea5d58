//! Objects without a strong ETag. They cannot be cached, so reads of them skip the lookup and go to the origin.
//!
//! An origin without ETags has none for every object of a bucket. After some in a row, an object of that bucket that is
//! not known is taken for one more.
//!
//! In memory only, and bounded: what is forgotten costs a question.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use crate::hashed::Hashed;
use crate::object::ObjectKey;

/// Objects that are remembered: about 1 MB of a shard.
const OBJECTS_MAX: usize = 16_384;

/// Objects in a row without an ETag after which a bucket is taken to have none. One that is not like the others is met
/// before that, mostly: among 16 of which a quarter has an ETag with 99 %.
const IN_A_ROW: u32 = 16;

/// Buckets that are remembered. A name takes 63 bytes, so some 10 KB.
const BUCKETS_MAX: usize = 128;

/// See the module.
#[derive(Default)]
pub(crate) struct Untagged {
    objects: Hashed<ObjectKey, ()>,
    /// In the order of the answers; what was forgotten keeps its place.
    order: VecDeque<ObjectKey>,
    /// How many objects in a row had none.
    buckets: BTreeMap<Box<str>, u32>,
}

impl Untagged {
    /// The origin sent no strong ETag.
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

    /// The origin sent one.
    pub(crate) fn forget(&mut self, key: ObjectKey, bucket: &str) {
        // Most origins send one with every object.
        if !self.buckets.is_empty() {
            self.buckets.remove(bucket);
        }
        if !self.objects.is_empty() {
            self.objects.remove(&key);
        }
    }

    /// There may be another object of the name by now. It is not counted twice.
    pub(crate) fn forget_object(&mut self, key: ObjectKey, bucket: &str) {
        if !self.objects.is_empty()
            && self.objects.remove(&key).is_some()
            && let Some(in_a_row) = self.buckets.get_mut(bucket)
        {
            *in_a_row = in_a_row.saturating_sub(1);
        }
    }

    /// There may be others by now.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Whether the origin sent none with this object when it was asked last.
    pub(crate) fn has(&self, key: ObjectKey) -> bool {
        !self.objects.is_empty() && self.objects.contains_key(&key)
    }

    /// Whether objects of a bucket of which nothing is known are taken to be without.
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
        let mut untagged = Untagged::default();
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
        let mut untagged = Untagged::default();
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
        let mut untagged = Untagged::default();
        for _ in 0..2 * IN_A_ROW {
            untagged.note(ObjectKey(1), "b");
            untagged.note(ObjectKey(1), "b");
            untagged.forget_object(ObjectKey(1), "b");
        }
        assert!(!untagged.has_all_of("b"));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut untagged = Untagged::default();
        for n in 0..=OBJECTS_MAX as u128 {
            untagged.note(ObjectKey(n), &alloc::format!("{n}"));
        }
        assert!(!untagged.has(ObjectKey(0)) && untagged.has(ObjectKey(1)));
        assert_eq!((untagged.order.len(), untagged.objects.len()), (OBJECTS_MAX, OBJECTS_MAX));
        assert!(untagged.buckets.len() <= BUCKETS_MAX);
    }
}
