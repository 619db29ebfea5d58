//! Placement epochs: rejects heads that were stored before their bucket moved to another device.
//!
//! 1. Objects are hashed to placement buckets, and buckets are mapped to the devices of a node.
//! 2. When a bucket moves to another device, or its device comes back empty, copies of its objects
//!    on other shards may be older than their last removal. The record of these removals is gone.
//! 3. So every bucket has a placement epoch: the generation since which it is on its present
//!    device. A head from before is rejected. A later head has a salt at least as high, so chunks
//!    from before are unreachable.

use alloc::sync::Arc;

use crate::cache::Inner;
use crate::object::{bucket, spread};
use crate::{Cache, ObjectName};

/// Placement buckets of a node. Adding or removing a device moves whole buckets. The shares of
/// equal devices differ by at most one in ten while there are fewer than a hundred devices.
pub const BUCKETS: usize = 1024;

/// Placement epochs: the generation since which each bucket is on its present device.
#[derive(Clone, Debug, Default)]
pub struct PlacementEpochs(Option<Arc<[u64]>>);

impl PlacementEpochs {
    /// Creates the epochs. Requires: one generation for each bucket.
    #[must_use]
    pub fn since(generations: Arc<[u64]>) -> Self {
        assert!(generations.len() == BUCKETS);
        let has_moved = generations.iter().any(|since| *since != 0);
        Self(has_moved.then_some(generations))
    }

    /// Placement epoch of an object's bucket; 0 when the bucket has never moved.
    pub(crate) fn of(&self, object: &ObjectName) -> u64 {
        let Some(generations) = &self.0 else { return 0 };
        generations[bucket(spread(object, 0))]
    }
}

impl Cache {
    /// Sets the placement epochs. Requires: the cache has not served a request yet.
    pub fn set_placement_epochs(&self, placement_epochs: PlacementEpochs) {
        *self.inner.placement_epochs.borrow_mut() = placement_epochs;
    }
}

impl Inner {
    /// Placement epoch of the object's bucket.
    pub(crate) fn placement_epoch(&self, object: &ObjectName) -> u64 {
        self.placement_epochs.borrow().of(object)
    }
}
