//! Object names, and the keys under which the records of an object are stored.

use alloc::sync::Arc;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use zonal_zonelog::Key;

use crate::placement_epochs::BUCKETS;
use crate::purge::key_of_prefix;

/// Name of an object, or of one of its versions. Cloning is cheap (reference count).
///
/// The cache treats each named version as an object of its own, beside the object's current
/// version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// `bucket/key`. The name of a version continues with a NUL and the version ID, so rules and
    /// purges by prefix cover the versions of an object.
    text: Arc<str>,
    /// Length of `bucket/key` in the text. A key may contain a NUL as well.
    key_end: usize,
}

impl ObjectName {
    /// Creates a name. Requires: the bucket is not empty and has no slash.
    #[must_use]
    pub fn new(bucket: &str, key: &str) -> Self {
        assert!(!bucket.is_empty() && !bucket.contains('/'));
        let mut name = alloc::string::String::with_capacity(bucket.len() + 1 + key.len());
        name.push_str(bucket);
        name.push('/');
        name.push_str(key);
        Self { key_end: name.len(), text: name.into() }
    }

    /// Name of the version of this object with this ID.
    ///
    /// Requires: the ID is not empty and contains no NUL.
    #[must_use]
    pub fn with_version(&self, id: &str) -> Self {
        assert!(!id.is_empty() && !id.contains(VERSION_MARK));
        let text = alloc::format!("{}{VERSION_MARK}{id}", self.without_version());
        Self { text: text.into(), key_end: self.key_end }
    }

    /// The name as a head stores it. `None`: no name has this form.
    pub(crate) fn of_stored(text: &str, is_of_version: bool) -> Option<Self> {
        let (plain, id) = match is_of_version {
            true => text.rsplit_once(VERSION_MARK).map(|(plain, id)| (plain, Some(id)))?,
            false => (text, None),
        };
        let (bucket, key) = plain.split_once('/').filter(|(bucket, _)| !bucket.is_empty())?;
        let name = Self::new(bucket, key);
        match id {
            Some(id) => (!id.is_empty()).then(|| name.with_version(id)),
            None => Some(name),
        }
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

    /// Version ID, if the name is of one version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.text.get(self.key_end + VERSION_MARK.len_utf8()..)
    }

    /// The name as `bucket/key`, and behind it the version, if the name is of one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name as `bucket/key`.
    #[must_use]
    pub fn without_version(&self) -> &str {
        &self.text[..self.key_end]
    }

    fn parts(&self) -> (&str, &str) {
        self.without_version().split_once('/').expect("made with a slash")
    }
}

/// Separates the key of a name from its version.
const VERSION_MARK: char = '\0';

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.without_version())?;
        self.version().map_or(Ok(()), |id| write!(f, "?versionId={id}"))
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
        // A key may look like another name with a version.
        let mut hasher = self.hasher(if object.version().is_some() { b'r' } else { b'o' });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_name_of_its_own() {
        let object = ObjectName::new("b", "a/k");
        let version = object.with_version("v1");
        assert_eq!((version.bucket(), version.key(), version.version()), ("b", "a/k", Some("v1")));
        assert_eq!((version.without_version(), object.version()), ("b/a/k", None));
        assert!(version != object && version.as_str().starts_with(object.as_str()));
        assert_eq!(version.with_version("v2"), object.with_version("v2"), "one version at a time");
        assert_eq!(alloc::format!("{object} {version}"), "b/a/k b/a/k?versionId=v1");
    }

    /// S3 allows a NUL in a key.
    #[test]
    fn a_key_that_looks_like_a_version_is_another_object() {
        let version = ObjectName::new("b", "k").with_version("v");
        let object = ObjectName::new("b", "k\0v");
        assert_eq!(version.as_str(), object.as_str());
        assert!(version != object && object.version().is_none() && object.key() == "k\0v");
        let keys = Keys::new([0; 16]);
        assert_ne!(keys.object(&version), keys.object(&object));
        for name in [version, object.with_version("w"), object] {
            let stored = ObjectName::of_stored(name.as_str(), name.version().is_some());
            assert_eq!(stored, Some(name));
        }
    }

    #[test]
    fn other_text_is_no_stored_name() {
        for (text, is_of_version) in [
            ("b", false),
            ("/k", false),
            ("", false),
            ("b/k", true),
            ("b/k\0", true),
            ("\0v", true),
        ] {
            assert_eq!(ObjectName::of_stored(text, is_of_version), None, "{text:?}");
        }
    }
}
