//! Residency lookup: which bytes of a version are on flash or in memory, and whether they are
//! pinned, without reading any.

use alloc::sync::Arc;
use core::ops::Range;

use crate::cache::Inner;
use crate::chunks::pieces_of;
use crate::object::VersionKey;
use crate::read::is_in_memory;
use crate::{Cache, Head, ObjectName, RetentionClass};

/// Residency of a range: how many bytes are cached where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes on flash.
    pub on_flash: u64,
    /// Bytes on flash that are pinned.
    pub pinned: u64,
    /// Bytes only in memory: on their way to flash, waiting for admission, or about to be evicted.
    pub in_memory: u64,
}

impl Cache {
    /// True when no part of `range` would have to be fetched now.
    #[must_use]
    pub fn is_cached(&self, object: &ObjectName, head: &Arc<Head>, range: &Range<u64>) -> bool {
        let (_, version) = self.inner.keys_of(object, head);
        self.inner.all_cached(head, version, range)
    }

    /// The first bytes of `range` that a reader would have to fetch now: whole pieces that adjoin,
    /// and that no fetch under way brings.
    ///
    /// Requires: the range lies within the object and within one stripe.
    #[must_use]
    pub fn first_missing(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
    ) -> Option<Range<u64>> {
        self.inner.first_missing(object, head, range)
    }

    /// True when all of `range` would be read from flash now.
    #[must_use]
    pub fn is_on_flash(&self, object: &ObjectName, head: &Head, range: &Range<u64>) -> bool {
        let (_, version) = self.inner.keys_of(object, head);
        self.inner.all_on_flash(head, version, range)
    }

    /// Returns the residency of `range`.
    #[must_use]
    pub fn residency(&self, object: &ObjectName, head: &Head, range: &Range<u64>) -> Residency {
        let (_, version) = self.inner.keys_of(object, head);
        self.inner.residency(head, version, range)
    }
}

impl Cache {
    /// Pins the pieces of `range` that are on flash, as far as there is room, or releases their
    /// pins. The policy counts no read.
    ///
    /// Requires: the range lies within the object and within one stripe.
    pub fn set_retention(
        &self,
        object: &ObjectName,
        head: &Head,
        range: &Range<u64>,
        retention: RetentionClass,
    ) {
        let (_, version) = self.inner.keys_of(object, head);
        for number in pieces_of(range, self.inner.piece_of(head)) {
            self.inner.holdings.set_retention(version.piece(number), retention, self.inner.now());
        }
    }
}

impl Inner {
    /// The first missing bytes of `range`, which lies in one stripe: adjoining pieces that neither
    /// are cached nor are being fetched.
    pub(crate) fn first_missing(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
    ) -> Option<Range<u64>> {
        let make = || self.keys_of(object, head);
        let (_, version) = self.versions.borrow_mut().keys(object, head, make);
        let mut pieces = pieces_of(range, self.piece_of(head));
        let number = pieces.find(|number| self.is_missing(version, head, *number))?;
        let run = self.missing_run(version, head, range, number);
        Some(self.bytes_of(head, &run))
    }

    fn all_cached(&self, head: &Head, version: VersionKey, range: &Range<u64>) -> bool {
        let (filling, memory) = (self.filling.borrow(), self.memory.borrow());
        let pieces = pieces_of(range, self.piece_of(head));
        let mut keys = pieces.map(|number| version.piece(number));
        keys.all(|key| {
            self.holdings.has(key) || is_in_memory(&filling, key) || memory.has(key, head)
        })
    }

    fn all_on_flash(&self, head: &Head, version: VersionKey, range: &Range<u64>) -> bool {
        let pieces = pieces_of(range, self.piece_of(head));
        let mut keys = pieces.map(|number| version.piece(number));
        keys.all(|key| self.holdings.has(key))
    }

    fn residency(&self, head: &Head, version: VersionKey, range: &Range<u64>) -> Residency {
        let (filling, memory) = (self.filling.borrow(), self.memory.borrow());
        let piece = self.piece_of(head);
        let mut found = Residency::default();
        for number in pieces_of(range, piece) {
            let key = version.piece(number);
            let start = range.start.max(number * piece);
            let len = range.end.min((number + 1) * piece) - start;
            if self.holdings.has(key) {
                found.on_flash += len;
                found.pinned += if self.holdings.has_pinned(key) { len } else { 0 };
            } else if is_in_memory(&filling, key) || memory.has(key, head) {
                found.in_memory += len;
            }
        }
        found
    }
}
