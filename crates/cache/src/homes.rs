//! Placement epochs: rejects heads that were stored before their bucket moved to another device.
//!
//! 1. Objects are spread over buckets by their name, and buckets over the devices of a node.
//! 2. When a bucket gets another device, or its device comes back empty, what other shards of the node have of its objects
//!    may be older than the last removal of it: nobody knows any more which removals there were.
//! 3. So every bucket has a generation since which its home is where it is. A head from before is not served, and one
//!    from after has a salt that is not lower: chunks from before are out of its reach.

use alloc::sync::Arc;

use crate::cache::Inner;
use crate::object::{bucket, spread};
use crate::{Cache, ObjectName};

/// Buckets of a node: a device more or less moves whole buckets, and each device gets its part of them to one in ten
/// while there are fewer than a hundred.
pub const BUCKETS: usize = 1024;

/// The generation since which each bucket is at home where it is.
#[derive(Clone, Debug, Default)]
pub struct Homes(Option<Arc<[u64]>>);

impl Homes {
    /// Requires: one generation for each bucket.
    #[must_use]
    pub fn since(generations: Arc<[u64]>) -> Self {
        assert!(generations.len() == BUCKETS);
        let has_moved = generations.iter().any(|since| *since != 0);
        Self(has_moved.then_some(generations))
    }

    /// 0: since ever.
    pub(crate) fn of(&self, object: &ObjectName) -> u64 {
        let Some(generations) = &self.0 else { return 0 };
        generations[bucket(spread(object, 0))]
    }
}

impl Cache {
    /// Says since when the node's objects are at home where they are. Requires: nothing was asked of it yet.
    pub fn set_homes(&self, homes: Homes) {
        *self.inner.homes.borrow_mut() = homes;
    }
}

impl Inner {
    /// The generation since which the object is at home here.
    pub(crate) fn home_since(&self, object: &ObjectName) -> u64 {
        self.homes.borrow().of(object)
    }
}
