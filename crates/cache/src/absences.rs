//! Negative cache: objects that the origin did not have when it was asked lately.
//!
//! In memory only, and bounded: what is forgotten costs a question.

use alloc::collections::VecDeque;

use zonal_base::Nanos;

use crate::hashed::Hashed;
use crate::object::ObjectKey;

/// Absences that are remembered: about 1 MB of a shard. A reader that polls for names to appear asks for few at a time.
const ABSENCES_MAX: usize = 16_384;

/// See the module.
#[derive(Default)]
pub(crate) struct Absences {
    asked_at: Hashed<ObjectKey, Nanos>,
    /// In the order of the answers; what was forgotten or is there again keeps its place.
    order: VecDeque<(ObjectKey, Nanos)>,
}

impl Absences {
    /// The origin had no such object when it was asked.
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

    /// There may be such an object by now.
    pub(crate) fn forget(&mut self, key: ObjectKey) {
        self.asked_at.remove(&key);
    }

    /// There may be any of them by now.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Whether the origin had no such object less than `most` before `now`.
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
        let (mut absences, key) = (Absences::default(), ObjectKey(1));
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
        let mut absences = Absences::default();
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
