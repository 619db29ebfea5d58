//! Recovery: rebuilds the index and the policy from the records that the log finds.
//!
//! Chunks with the same key have the same bytes, so any copy is valid. The copy that was written
//! last counts, because the policy checkpoint refers to it. Of heads the newest counts, if it is
//! newer than the object's last removal.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{ZoneId, index};
use zonal_device::Geometry;
use zonal_policy::PolicyTag;
use zonal_zonelog::{Key, Kind, Log, Recovered};

use crate::Settings;
use crate::checkpoint::PolicyCheckpoint;
use crate::checkpoint_format::CHECKPOINT;
use crate::index::{Index, IndexEntry};
use crate::mutation::Mutation;
use crate::pins::WANTED;
use crate::roster::{FoundRoster, ROSTER};

/// Record kind of heads, see `head`.
pub(crate) const HEAD: Kind = Kind(1);

/// Record kind of pieces of chunks.
pub(crate) const PIECE: Kind = Kind(2);

/// Record kind of pinned pieces, see `pins`.
pub(crate) const PINNED: Kind = Kind(3);

/// Record kind of pinned heads. In the index they are [`HEAD`] with a mark.
pub(crate) const PINNED_HEAD: Kind = Kind(4);

/// Record kind on flash of an index entry.
pub(crate) fn kind_on_flash(kind: Kind, mark: PolicyTag) -> Kind {
    if kind == HEAD && mark == WANTED { PINNED_HEAD } else { kind }
}

pub(crate) struct Recovery {
    index: Index,
    heads: BTreeMap<Key, u64>,
    orders: PolicyCheckpoint,
    roster: FoundRoster,
    /// By zone: precedence of its records, which decides between two copies of a piece.
    precedences: Vec<u64>,
    settings: Settings,
}

impl Recovery {
    pub(crate) fn new(geometry: &Geometry, settings: Settings) -> Self {
        let index = Index::new(geometry.zone_count, geometry.zone_capacity);
        let precedences = vec![0; geometry.zone_count as usize];
        Self {
            index,
            heads: BTreeMap::new(),
            orders: PolicyCheckpoint::default(),
            roster: FoundRoster::default(),
            precedences,
            settings,
        }
    }

    pub(crate) fn note(&mut self, record: &Recovered<'_>) {
        let descriptor = record.descriptor;
        let key = descriptor.key;
        if descriptor.kind == CHECKPOINT {
            self.orders.note(record);
        }
        if descriptor.kind == ROSTER {
            self.roster.note(record);
        }
        let (kind, mark) = match descriptor.kind {
            PINNED_HEAD => (HEAD, WANTED),
            kind @ (HEAD | PIECE | PINNED) => (kind, PolicyTag::default()),
            _ => return,
        };
        // The pinned copy wins: reclaim may have been rewriting the piece with its new kind.
        let known = self.index.glance(key);
        if kind == PIECE && known.is_some_and(|(_, known, _)| known == PINNED) {
            return;
        }
        if kind == HEAD && !self.settings.has(Mutation::GenerationIgnored) {
            let newest = self.heads.entry(key).or_insert(0);
            if descriptor.generation < *newest {
                return;
            }
            *newest = descriptor.generation;
        }
        let of_zone = |zone: ZoneId| index(zone.0.into());
        self.precedences[of_zone(record.zone)] = record.precedence;
        let known = known.filter(|(_, known, _)| (kind, *known) == (PIECE, PIECE));
        if known.is_some_and(|(spot, ..)| {
            record.precedence < self.precedences[of_zone(spot.extent.zone)]
        }) {
            return;
        }
        let found =
            IndexEntry::new(record.extent(), kind, descriptor.checks.clone()).with_mark(mark);
        if self.index.insert(key, &found).is_none() {
            // The zone's arena is full. A missing record is better than an older one.
            self.index.remove(key);
        }
    }

    pub(crate) fn finish(mut self, log: &Log) -> (Index, PolicyCheckpoint, FoundRoster) {
        for (key, generation) in self.heads {
            if log.tombstone(key).is_some_and(|removed| generation < removed) {
                self.index.remove(key);
            }
        }
        (self.index, self.orders, self.roster)
    }
}

/// Recovery statistics: records found at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStats {
    /// Number of heads.
    pub heads: u64,
    /// Number of pieces.
    pub pieces: u64,
    /// Bytes of heads and pieces.
    pub bytes: u64,
}

impl RecoveryStats {
    pub(crate) fn of(index: &Index, log: &Log) -> Self {
        let mut all = Self::default();
        for found in log.geometry().zones().flat_map(|zone| index.zone_records(zone)) {
            match found.kind {
                HEAD => all.heads += 1,
                _ => all.pieces += 1,
            }
            all.bytes += u64::from(found.extent.len);
        }
        all
    }

    /// Sum of two shards.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            heads: self.heads + other.heads,
            pieces: self.pieces + other.pieces,
            bytes: self.bytes + other.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_on_flash_are_those_of_the_format() {
        let kinds =
            [(HEAD, PolicyTag(0)), (HEAD, WANTED), (PIECE, PolicyTag(3)), (PINNED, PolicyTag(0))];
        let on_flash = kinds.map(|(kind, mark)| kind_on_flash(kind, mark).0);
        assert_eq!(on_flash, [1, 4, 2, 3], "docs/formats/zonelog.md");
    }
}
