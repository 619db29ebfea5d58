//! Listing of cached objects, for operators: their heads, and where their bytes are.
//!
//! 1. The index knows only hashes of keys. So the footer or the headers of each zone tell which of
//!    its records are heads.
//! 2. A head that is not in memory is read from flash, because it has the object's name.
//! 3. The listing is not a snapshot. A head that moves to another zone meanwhile may be listed
//!    twice, or not at all.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::{Nanos, ZoneId};
use zonal_zonelog::{Descriptor, Extent, Key};

use crate::cache::Inner;
use crate::chunks::pieces_of;
use crate::head::{self, StoredHead};
use crate::heads::KnownHead;
use crate::index::{IndexEntry, chunk_id};
use crate::pins::is_pinned;
use crate::read::is_in_memory;
use crate::recover::{HEAD, PINNED, PINNED_HEAD};
use crate::{Cache, Head, ObjectName};

/// Records looked up between two yields to other tasks: about 100 us.
const LOOK_AT_ONCE: usize = 1024;

/// A cached object, by its head.
#[derive(Clone, Debug)]
pub struct CachedObject {
    /// Its name.
    pub name: ObjectName,
    /// Its current head.
    pub head: Arc<Head>,
    /// When the origin last confirmed the head; 0 when that time is unknown.
    pub validated_at: Nanos,
    /// The head is not served before the origin confirms it: the origin has refused this version,
    /// or a removal may be lost.
    pub is_suspect: bool,
    /// Zone of the head. `None`: it is only in memory.
    pub zone: Option<ZoneId>,
    /// The head is pinned.
    pub is_pinned: bool,
}

/// Adjoining pieces of an object in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedRange {
    /// Bytes of the object.
    pub bytes: Range<u64>,
    /// Zone of the pieces. `None`: they are only in memory.
    pub zone: Option<ZoneId>,
    /// The pieces are pinned.
    pub is_pinned: bool,
}

/// A listing ended early: the device failed or was late, or the receiver has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingEnded;

impl Cache {
    /// Tells all cached objects of this shard whose `bucket/key` begins with `prefix`, in no order.
    /// `tell` returns false to end the listing, and so does `is_wanted`, which is asked before each
    /// head: a prefix without objects tells nothing.
    ///
    /// # Errors
    /// When the listing is not complete.
    pub async fn list(
        &self,
        prefix: &str,
        is_wanted: impl Fn() -> bool,
        mut tell: impl AsyncFnMut(CachedObject) -> bool,
    ) -> Result<(), ListingEnded> {
        let inner = &self.inner;
        for zone in inner.log.geometry().zones() {
            if inner.holdings.hashes(zone, HEAD).is_empty() {
                continue;
            }
            let listing = inner.list_zone(zone).await.map_err(|_| ListingEnded)?;
            let is_head = |record: &&Descriptor| record.kind == HEAD || record.kind == PINNED_HEAD;
            for (number, descriptor) in listing.records.iter().filter(is_head).enumerate() {
                if number % LOOK_AT_ONCE == LOOK_AT_ONCE - 1 {
                    zonal_runtime::yield_now().await;
                }
                if !is_wanted() {
                    return Err(ListingEnded);
                }
                let Some(object) = inner.object_of(zone, descriptor, prefix).await else {
                    continue;
                };
                if !tell(object).await {
                    return Err(ListingEnded);
                }
            }
        }
        let in_memory = inner.heads.borrow().all();
        for (key, known) in in_memory {
            let is_stored = inner.holdings.has(key.record());
            if !is_stored
                && known.name.as_str().starts_with(prefix)
                && !tell(known.tell(None)).await
            {
                return Err(ListingEnded);
            }
        }
        match inner.log.is_gone() {
            true => Err(ListingEnded),
            false => Ok(()),
        }
    }

    /// The cached object of this name. `None`: it is not cached, or its head cannot be read now.
    pub async fn find(&self, object: &ObjectName) -> Option<CachedObject> {
        let key = self.inner.keys.object(object);
        let known = self.inner.known_head(object, key).await.ok()??;
        let zone = self.inner.holdings.find(key.record()).map(|found| found.extent.zone);
        Some(known.tell(zone))
    }

    /// Where the cached bytes of `range` are, in their order.
    ///
    /// Requires: the range lies within the object and within one stripe.
    #[must_use]
    pub fn ranges(&self, object: &ObjectName, head: &Head, range: &Range<u64>) -> Vec<CachedRange> {
        let (_, version) = self.inner.keys_of(object, head);
        let piece = self.inner.piece_of(head);
        let mut ranges: Vec<CachedRange> = Vec::new();
        for number in pieces_of(range, piece) {
            let Some((zone, is_pinned)) = self.inner.place_of(version.piece(number), head) else {
                continue;
            };
            let bytes = range.start.max(number * piece)..range.end.min((number + 1) * piece);
            match ranges.last_mut() {
                Some(last)
                    if (last.bytes.end, last.zone, last.is_pinned)
                        == (bytes.start, zone, is_pinned) =>
                {
                    last.bytes.end = bytes.end;
                }
                _ => ranges.push(CachedRange { bytes, zone, is_pinned }),
            }
        }
        ranges
    }
}

impl Inner {
    /// Zone of a cached piece, and whether it is pinned. `None`: it is not cached.
    fn place_of(&self, key: Key, head: &Head) -> Option<(Option<ZoneId>, bool)> {
        if let Some(found) = self.holdings.find(key) {
            return Some((Some(found.extent.zone), found.kind == PINNED));
        }
        let is_in_memory =
            is_in_memory(&self.filling.borrow(), key) || self.memory.borrow().has(key, head);
        is_in_memory.then_some((None, false))
    }

    /// The object of a head that a zone lists. `None`: the head does not count any more, or its name
    /// begins with something else.
    pub(crate) async fn object_of(
        self: &Rc<Self>,
        zone: ZoneId,
        descriptor: &Descriptor,
        prefix: &str,
    ) -> Option<CachedObject> {
        let key = descriptor.key;
        let extent = Extent { zone, offset: descriptor.offset, len: descriptor.len };
        let found = self.holdings.find(key).filter(|found| found.extent == extent)?;
        let known = self.heads.borrow().by_hash(chunk_id(key));
        let object = match known.filter(|(of, _)| of.record() == key) {
            Some((_, known)) => known.tell(Some(zone)),
            None => self.stored_object(key, zone, found).await?,
        };
        object.name.as_str().starts_with(prefix).then_some(object)
    }

    /// The object of a head on flash. Loads nothing into memory: a listing is no use of the head.
    async fn stored_object(
        self: &Rc<Self>,
        key: Key,
        zone: ZoneId,
        found: IndexEntry,
    ) -> Option<CachedObject> {
        let is_pinned = is_pinned(HEAD, found.mark);
        let bytes = self.read_whole(key, found).await.ok()?;
        let StoredHead { name, state, head } = head::decode(bytes.as_bytes())?;
        let counts = self.counts_since(&name) <= state.generation && self.holdings.has(key);
        counts.then(|| CachedObject {
            name,
            head: Arc::new(head),
            validated_at: state.validated_at,
            is_suspect: state.is_untrusted || state.generation < self.log.suspect_below(),
            zone: Some(zone),
            is_pinned,
        })
    }
}

impl KnownHead {
    pub(crate) fn tell(&self, zone: Option<ZoneId>) -> CachedObject {
        CachedObject {
            name: self.name.clone(),
            head: self.head.clone(),
            validated_at: self.validated_at.get(),
            is_suspect: !self.is_trusted(),
            zone,
            is_pinned: self.is_pinned.get(),
        }
    }
}
