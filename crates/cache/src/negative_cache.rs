//! Negative cache: objects for which the origin answered 404 lately.
//!
//! The cache is bounded and in memory only: a forgotten entry costs one HEAD request.

use alloc::collections::VecDeque;

use zonal_base::Nanos;

use crate::object::ObjectKey;
use crate::prehashed_map::PrehashedMap;

/// Limit of negative entries: about 1 MB per shard. A client that polls for names to appear polls
/// few at a time.
const ABSENCES_MAX: usize = 16_384;

/// Negative entries of one shard.
#[derive(Default)]
pub(crate) struct NegativeCache {
    asked_at: PrehashedMap<ObjectKey, Nanos>,
    /// Entries in the order of the answers, for eviction; removed entries keep their place.
    order: VecDeque<(ObjectKey, Nanos)>,
}

impl NegativeCache {
    /// Adds a negative entry for a 404 of a request sent at `asked_at`.
    pub(crate) fn note(&mut self, key: ObjectKey, asked_at: Nanos) {
        self.asked_at.insert(key, asked_at);
        self.order.push_back((key, asked_at));
        while ABSENCES_MAX < self.order.len() {
            let Some((key, asked_at)) = self.order.pop_front() else { return };
            if self.asked_at.get(&key) == Some(&asked_at) {
                self.asked_at.remove(&key);
            }
        }
    }

    /// Removes the entry: the object may exist by now.
    pub(crate) fn forget(&mut self, key: ObjectKey) {
        self.asked_at.remove(&key);
    }

    /// Removes all entries, after a purge.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// True when a request less than `most` before `now` was answered 404.
    pub(crate) fn has(&self, key: ObjectKey, most: Nanos, now: Nanos) -> bool {
        most != Nanos(0)
            && self.asked_at.get(&key).is_some_and(|asked_at| now.since(*asked_at) < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::secs(1);

    #[test]
    fn an_absence_is_remembered_for_as_long_as_the_asker_wants() {
        let (mut absences, key) = (NegativeCache::default(), ObjectKey(1));
        absences.note(key, SECOND);
        assert!(absences.has(key, SECOND, Nanos(2 * SECOND.0 - 1)));
        assert!(!absences.has(key, SECOND, Nanos::secs(2)));
        assert!(absences.has(key, Nanos::secs(2), Nanos::secs(2)));
        assert!(!absences.has(key, Nanos(0), SECOND), "not at all");
        absences.forget(key);
        assert!(!absences.has(key, SECOND, SECOND));
    }

    #[test]
    fn the_oldest_absences_give_way() {
        let mut absences = NegativeCache::default();
        absences.note(ObjectKey(0), SECOND);
        absences.forget(ObjectKey(0));
        absences.note(ObjectKey(0), Nanos::secs(2));
        for n in 1..ABSENCES_MAX as u128 {
            absences.note(ObjectKey(n), Nanos::secs(2));
        }
        assert!(absences.has(ObjectKey(0), SECOND, Nanos::secs(2)), "its second note counts");
        absences.note(ObjectKey(ABSENCES_MAX as u128), Nanos::secs(2));
        assert!(!absences.has(ObjectKey(0), SECOND, Nanos::secs(2)));
        assert!(absences.has(ObjectKey(1), SECOND, Nanos::secs(2)));
        assert_eq!((absences.order.len(), absences.asked_at.len()), (ABSENCES_MAX, ABSENCES_MAX));
    }
}
