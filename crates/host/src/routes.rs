//! Routing table: maps an object and stripe to a device and a shard.

use std::sync::OnceLock;

use zonal_cache::{BUCKETS, ObjectName, bucket, route, spread};

/// By bucket: the first shard of its device, and the device's number of shards. Set once, before
/// requests are served.
#[derive(Debug, Default)]
pub(crate) struct Routes(OnceLock<Box<[(usize, usize)]>>);

impl Routes {
    /// Sets the routes. Requires: not set before; one device for each bucket.
    pub(crate) fn set(&self, devices: impl Iterator<Item = (usize, usize)>) {
        let devices: Box<[_]> = devices.collect();
        assert!(devices.len() == BUCKETS);
        assert!(self.0.set(devices).is_ok(), "a node starts once");
    }

    /// The shard that stores an object's stripe.
    pub(crate) fn shard(&self, object: &ObjectName, stripe: u64) -> usize {
        let spread = spread(object, stripe);
        let devices = self.0.get().expect("nobody is served before it is known");
        let (first, count) = devices[bucket(spread)];
        first + route(spread, count)
    }
}
