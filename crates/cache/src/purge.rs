//! Purge by prefix: removes all stored objects with a prefix, without listing them.
//!
//! 1. Raise the epochs of objects below the prefix, so that older origin answers are not published,
//!    as in `remove`.
//! 2. Remove their heads from memory.
//! 3. Write a tombstone of the prefix and flush it. Its key contains the length of the prefix. So
//!    the cache knows which prefixes of a name may have a tombstone.
//! 4. Judge a head on flash when it is read: it is void if it is older than the tombstone of a
//!    prefix of its name. Heads published later have a salt at least as high, so older chunks are
//!    unreachable.
//!
//! The log keeps a tombstone as long as any older record exists. So a purge scans nothing, and
//! needs no state of its own to end.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;

use zonal_base::{Bytes, low_u32};
use zonal_zonelog::{Key, Log};

use crate::cache::Inner;
use crate::head;
use crate::mutation::Mutation;
use crate::{Cache, ObjectName, RemoveError};

/// Longest prefix in bytes: four times the longest key that S3 allows.
pub const PREFIX_BYTES_MAX: usize = 4096;

/// Heads checked between two yields to other tasks: about 100 us.
const LOOK_AT_ONCE: usize = 512;

/// Lengths of prefixes that have or had tombstones. They are few, whatever the number of prefixes.
#[derive(Default)]
pub(crate) struct PurgedLengths(BTreeSet<u16>);

impl PurgedLengths {
    /// Collects the lengths from the log's tombstones at a start.
    pub(crate) fn found(log: &Log) -> Self {
        let mut lengths = BTreeSet::new();
        log.each_tombstone(|key| lengths.extend(prefix_length(key)));
        Self(lengths)
    }
}

/// Marker at the start of a prefix's key. Another key has it only by accident, which costs a
/// lookup.
const OF_PREFIX: [u8; 6] = *b"prefix";

/// Key of a prefix's tombstone: marker, length, hash.
pub(crate) fn key_of_prefix(hash: u64, length: u16) -> Key {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&OF_PREFIX);
    bytes[6..8].copy_from_slice(&length.to_be_bytes());
    bytes[8..].copy_from_slice(&hash.to_be_bytes());
    Key(u128::from_be_bytes(bytes))
}

fn prefix_length(key: Key) -> Option<u16> {
    let bytes = key.0.to_be_bytes();
    let (marked, rest) = bytes.split_first_chunk()?;
    let length = rest.first_chunk()?;
    (*marked == OF_PREFIX).then_some(u16::from_be_bytes(*length))
}

/// A purge in flight. Until its tombstone is on flash, no head below the prefix is published,
/// because it would have the old salt.
struct Purge {
    inner: Rc<Inner>,
    prefix: Rc<str>,
}

impl Purge {
    fn begin(inner: &Rc<Inner>, prefix: &str) -> Self {
        let prefix: Rc<str> = prefix.into();
        if !inner.settings.has(Mutation::PurgeOverlooksQuestions) {
            inner.purging.borrow_mut().push(prefix.clone());
            inner.each_watched_below(&prefix, |watched| watched.begin_removal());
        }
        Self { inner: inner.clone(), prefix }
    }
}

impl Drop for Purge {
    fn drop(&mut self) {
        let mut purging = self.inner.purging.borrow_mut();
        let Some(at) = purging.iter().position(|prefix| Rc::ptr_eq(prefix, &self.prefix)) else {
            return;
        };
        purging.swap_remove(at);
        drop(purging);
        self.inner.each_watched_below(&self.prefix, |watched| watched.end_removal());
    }
}

impl Cache {
    /// Removes all objects whose names begin with `prefix`: a bucket, a slash, and the start of a
    /// key.
    ///
    /// Requires: the prefix has a slash, and is no longer than [`PREFIX_BYTES_MAX`].
    ///
    /// # Errors
    /// When the tombstone is not on flash.
    pub(crate) async fn remove_below(&self, prefix: &str) -> Result<(), RemoveError> {
        assert!(prefix.contains('/'), "of no bucket: {prefix:?}");
        let inner = &self.inner;
        let purge = Purge::begin(inner, prefix);
        inner.absences.borrow_mut().forget_all();
        inner.untagged.borrow_mut().forget_all();
        inner.forget_heads_below(prefix).await;
        let (key, length) = inner.keys.prefix(prefix);
        inner.log.remove(key).await.map_err(|_| RemoveError)?;
        inner.purged.borrow_mut().0.insert(length);
        drop(purge);
        inner.count(|stats| stats.removals += 1);
        Ok(())
    }
}

impl Inner {
    /// Generation below which heads of the object are void: because of a move of its bucket or a
    /// purge.
    pub(crate) fn counts_since(&self, object: &ObjectName) -> u64 {
        match self.settings.has(Mutation::PurgedHeadServed) {
            true => self.placement_epoch(object),
            false => self.placement_epoch(object).max(self.purged_since(object)),
        }
    }

    /// True when a stored head is void or malformed.
    pub(crate) fn is_void(&self, bytes: &[u8]) -> bool {
        let Some(stored) = head::decode(bytes) else { return true };
        stored.state.generation < self.counts_since(&stored.name)
    }

    /// Lowest salt for new heads of the object.
    pub(crate) fn salted_since(&self, object: &ObjectName) -> u64 {
        match self.settings.has(Mutation::PurgedSaltIgnored) {
            true => self.placement_epoch(object),
            false => self.placement_epoch(object).max(self.purged_since(object)),
        }
    }

    /// Generation of the last purge of a prefix of the name, while its tombstone exists.
    fn purged_since(&self, object: &ObjectName) -> u64 {
        let name = object.as_str();
        let purged = self.purged.borrow();
        let beginnings = purged.0.iter().map_while(|length| {
            let length = usize::from(*length);
            (length <= name.len()).then_some(length)
        });
        // Prefixes are UTF-8: a length that splits a character of the name is not one of its
        // prefixes.
        let beginnings = beginnings.filter_map(|length| name.get(..length));
        let tombstones =
            beginnings.filter_map(|prefix| self.log.tombstone(self.keys.prefix(prefix).0));
        tombstones.max().unwrap_or(0)
    }

    /// Number of purges in flight that cover the object.
    pub(crate) fn purges_of(&self, object: &ObjectName) -> u32 {
        let purging = self.purging.borrow();
        low_u32(purging.iter().filter(|prefix| object.as_str().starts_with(&***prefix)).count())
    }

    /// Removes heads below a prefix from memory. [`Purge`] keeps heads that are read from flash
    /// meanwhile out of memory.
    async fn forget_heads_below(self: &Rc<Self>, prefix: &str) {
        let hashes: Box<[u64]> = self.heads.borrow().hashes().collect();
        for some in hashes.chunks(LOOK_AT_ONCE) {
            for hash in some {
                let known = self.heads.borrow().by_hash(*hash);
                let Some((key, known)) = known else { continue };
                if !known.name.as_str().starts_with(prefix) {
                    continue;
                }
                if self.holdings.pinned() != Bytes(0) {
                    self.release_pins(key, &known.head);
                }
                self.heads.borrow_mut().remove_by_hash(*hash);
            }
            zonal_runtime::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::object::Keys;

    #[test]
    fn the_key_of_a_prefix_tells_its_length_and_no_other_key_does() {
        let keys = Keys::new([3; 16]);
        let long = String::from("b/") + &"k".repeat(PREFIX_BYTES_MAX - 2);
        for prefix in ["b/", "b/k", &long] {
            let (key, length) = keys.prefix(prefix);
            assert_eq!((prefix_length(key), usize::from(length)), (Some(length), prefix.len()));
        }
        assert_ne!(keys.prefix("b/k").0, keys.prefix("b/l").0);
        let object = keys.object(&ObjectName::new("b", "k"));
        assert_eq!(prefix_length(object.record()), None);
    }

    #[test]
    fn the_key_of_a_prefix_is_that_of_the_format() {
        assert_eq!(key_of_prefix(0x0102, 3).0.to_be_bytes(), *b"prefix\0\x03\0\0\0\0\0\0\x01\x02");
    }
}
