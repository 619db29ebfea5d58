//! The keys of versions that were read lately: making one costs as much as looking up where its bytes are.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::object::{ObjectKey, VersionKey};
use crate::{Head, ObjectName};

/// Versions that are remembered: those that a shard serves at one time. 48 KB, and their heads. Those that share a
/// place forget each other.
const PLACES: usize = 1024;

/// A head is known by where it lies: it is held here, so nothing else can lie there.
pub(crate) struct Versions {
    places: Vec<Option<Known>>,
}

struct Known {
    object: ObjectName,
    head: Arc<Head>,
    keys: (ObjectKey, VersionKey),
}

impl Versions {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| None).collect() }
    }

    /// The keys of `object` and of the version of it that `head` names; `make` is asked when they are not
    /// remembered.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OriginHead;
    use crate::object::Keys;

    #[test]
    fn a_key_is_made_once_for_each_head_and_object() {
        let keys = Keys::new([1; 16], zonal_base::Bytes::kib(64));
        let mut versions = Versions::new();
        let [one, other] = [1, 2].map(|salt| Arc::new(Head::new(OriginHead::default(), salt)));
        let [a, b] = ["a", "b"].map(|key| ObjectName::new("bucket", key));
        let mut made = 0;
        let mut check = |object: &ObjectName, head: &Arc<Head>, count: u32| {
            let key = keys.object(object);
            let expected = (key, keys.version(key, &head.etag, head.size, head.salt));
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
