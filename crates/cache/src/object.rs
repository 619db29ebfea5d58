//! Object names, and the keys under which the records of an object are stored.

use alloc::sync::Arc;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use zonal_zonelog::Key;

use crate::placement_epochs::BUCKETS;
use crate::purge::key_of_prefix;

/// Name of an object: its bucket and key. Cloning is cheap (reference count).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<str>);

impl ObjectName {
    /// Creates a name. Requires: the bucket is not empty and has no slash.
    #[must_use]
    pub fn new(bucket: &str, key: &str) -> Self {
        assert!(!bucket.is_empty() && !bucket.contains('/'));
        let mut name = alloc::string::String::with_capacity(bucket.len() + 1 + key.len());
        name.push_str(bucket);
        name.push('/');
        name.push_str(key);
        Self(name.into())
    }

    /// Bucket name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        self.parts().0
    }

    /// Object key within the bucket.
    #[must_use]
    pub fn key(&self) -> &str {
        self.parts().1
    }

    /// The name as `bucket/key`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').expect("made with a slash")
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Placement hash of a stripe, which spreads stripes over the devices of a node and the shards of
/// each device. The head has the hash of stripe 0.
#[must_use]
pub fn spread(object: &ObjectName, stripe: u64) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(object.as_str().as_bytes());
    hasher.write_u64(stripe);
    hasher.finish()
}

/// Placement bucket of a hash, see [`BUCKETS`].
#[must_use]
pub const fn bucket(spread: u64) -> usize {
    zonal_base::index(spread % BUCKETS as u64)
}

/// Shard, out of `count` shards of a device, of a placement hash. Uses the high bits, which do not
/// depend on the placement bucket.
#[must_use]
pub const fn route(spread: u64, count: usize) -> usize {
    zonal_base::index(((spread as u128 * count as u128) >> 64) as u64)
}

/// Largest number of pieces of an object: keys have 32 bits for the number of a piece. That is 16
/// TiB in pieces of 4 KiB, and 1 PiB in pieces of 256 KiB.
pub(crate) const PIECES_MAX: u64 = 1 << 32;

/// Derives record keys. The hash is keyed with the log's random ID, so that an attacker cannot
/// produce collisions.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    secret: [u8; 16],
}

/// Key of an object's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey(pub(crate) u128);

/// Common prefix of the keys of all pieces of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionKey(u128);

impl Keys {
    pub(crate) const fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    pub(crate) fn object(self, object: &ObjectName) -> ObjectKey {
        let mut hasher = self.hasher(b'o');
        hasher.write(object.as_str().as_bytes());
        ObjectKey(hasher.finish128().as_u128())
    }

    /// Derives the key prefix of a version. `salt` separates content before a removal from content
    /// after it, even under the same ETag. `piece` is the piece size: with another size a piece
    /// number means other bytes.
    pub(crate) fn version(
        self,
        object: ObjectKey,
        (etag, size): (&str, u64),
        salt: u64,
        piece: u64,
    ) -> VersionKey {
        let mut hasher = self.hasher(b'v');
        hasher.write_u128(object.0);
        hasher.write_u64(size);
        hasher.write_u64(salt);
        hasher.write_u64(piece);
        hasher.write(etag.as_bytes());
        VersionKey(hasher.finish128().as_u128() & !u128::from(u32::MAX))
    }

    /// Key of a prefix's tombstone, and the length of the prefix.
    ///
    /// Requires: the prefix is no longer than [`PREFIX_BYTES_MAX`](crate::PREFIX_BYTES_MAX).
    pub(crate) fn prefix(self, prefix: &str) -> (Key, u16) {
        let mut hasher = self.hasher(b'p');
        hasher.write(prefix.as_bytes());
        let length = u16::try_from(prefix.len()).expect("a prefix is shorter than 64 KiB");
        (key_of_prefix(hasher.finish128().h1, length), length)
    }

    fn hasher(self, domain: u8) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write_u8(domain);
        hasher
    }
}

impl ObjectKey {
    pub(crate) const fn record(self) -> Key {
        Key(self.0)
    }
}

impl VersionKey {
    /// Hash that identifies the version, collisions aside.
    pub(crate) const fn hash(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Key of one piece. Requires: the object has at most [`PIECES_MAX`] pieces.
    pub(crate) fn piece(self, number: u64) -> Key {
        let number = u32::try_from(number).expect("larger objects are not cached");
        Key(self.0 | u128::from(number))
    }
}
