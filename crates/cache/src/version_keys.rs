//! Version-key cache: avoids hashing the object name on every read.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::cache::Inner;
use crate::mutation::Mutation;
use crate::object::{ObjectKey, VersionKey};
use crate::{Head, ObjectName};

/// Cache entries: the versions that a shard serves at one time. They take 48 KB, and their heads.
/// The cache is direct-mapped: versions with the same slot replace each other.
const PLACES: usize = 1024;

/// Cache of version keys, indexed by the address of the head. An entry holds its head, so no other
/// head can have that address.
pub(crate) struct VersionKeyCache {
    places: Vec<Option<Known>>,
}

struct Known {
    object: ObjectName,
    head: Arc<Head>,
    keys: (ObjectKey, VersionKey),
}

impl VersionKeyCache {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| None).collect() }
    }

    /// Returns the keys of `object` and of the version that `head` names. Calls `make` on a miss.
    pub(crate) fn keys(
        &mut self,
        object: &ObjectName,
        head: &Arc<Head>,
        make: impl FnOnce() -> (ObjectKey, VersionKey),
    ) -> (ObjectKey, VersionKey) {
        let place = &mut self.places[Arc::as_ptr(head).addr() / size_of::<Head>() % PLACES];
        let known = place.as_ref().filter(|known| Arc::ptr_eq(&known.head, head));
        if let Some(known) = known.filter(|known| known.object == *object) {
            return known.keys;
        }
        let keys = make();
        *place = Some(Known { object: object.clone(), head: head.clone(), keys });
        keys
    }
}

impl Inner {
    /// Derives the keys of an object and of the version that `head` names.
    pub(crate) fn keys_of(&self, object: &ObjectName, head: &Head) -> (ObjectKey, VersionKey) {
        let key = self.keys.object(object);
        (key, self.version_of(key, head))
    }

    pub(crate) fn version_of(&self, key: ObjectKey, head: &Head) -> VersionKey {
        let salt = if self.settings.has(Mutation::SaltIgnored) { 0 } else { head.salt };
        let piece = if self.settings.has(Mutation::PieceIgnored) { 0 } else { self.piece_of(head) };
        self.keys.version(key, (&head.etag, head.size), salt, piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OriginHead;
    use crate::object::Keys;

    /// Regression: piece keys had only the piece number. The short last piece of an object was
    /// served as a whole piece of another size with the same number.
    #[test]
    fn pieces_of_one_size_have_other_keys_than_those_of_another() {
        let keys = Keys::new([1; 16]);
        let object = keys.object(&ObjectName::new("bucket", "a"));
        let piece = |bytes| keys.version(object, ("\"e\"", 100_000), 0, bytes).piece(1);
        assert_eq!(piece(1 << 16), piece(1 << 16));
        assert_ne!(piece(1 << 16), piece(1 << 14));
    }

    #[test]
    fn a_key_is_made_once_for_each_head_and_object() {
        let keys = Keys::new([1; 16]);
        let mut versions = VersionKeyCache::new();
        let [one, other] =
            [1, 2].map(|salt| Arc::new(Head::new(OriginHead::default(), salt, None)));
        let [a, b] = ["a", "b"].map(|key| ObjectName::new("bucket", key));
        let mut made = 0;
        let mut check = |object: &ObjectName, head: &Arc<Head>, count: u32| {
            let key = keys.object(object);
            let expected = (key, keys.version(key, (&head.etag, head.size), head.salt, 1 << 16));
            let found = versions.keys(object, head, || {
                made += 1;
                expected
            });
            assert!(found == expected && made == count, "{object} {made}");
        };
        check(&a, &one, 1);
        check(&a, &one, 1);
        check(&a, &other, 2);
        check(&b, &other, 3);
        check(&b, &other, 3);
    }
}
