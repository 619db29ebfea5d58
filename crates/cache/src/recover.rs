//! Building the index from what the log finds when it is opened.
//!
//! Chunks with the same key have the same bytes, so any of them will do. Of heads the newest counts,
//! and only if it is newer than the object's last removal.

use alloc::collections::BTreeMap;

use zonal_device::Geometry;
use zonal_zonelog::{Key, Kind, Log, Recovered};

use crate::Settings;
use crate::index::{Found, Index};
use crate::planted::Planted;

/// A head: see `head`.
pub(crate) const HEAD: Kind = Kind(1);

/// A piece of a chunk.
pub(crate) const PIECE: Kind = Kind(2);

pub(crate) struct Recovery {
    index: Index,
    heads: BTreeMap<Key, u64>,
    settings: Settings,
}

impl Recovery {
    pub(crate) fn new(geometry: &Geometry, settings: Settings) -> Self {
        let index = Index::new(geometry.zone_count, geometry.zone_capacity);
        Self { index, heads: BTreeMap::new(), settings }
    }

    pub(crate) fn note(&mut self, record: &Recovered<'_>) {
        let descriptor = record.descriptor;
        let (key, kind) = (descriptor.key, descriptor.kind);
        if kind != HEAD && kind != PIECE {
            return;
        }
        if kind == HEAD && !self.settings.has(Planted::GenerationIgnored) {
            let newest = self.heads.entry(key).or_insert(0);
            if descriptor.generation < *newest {
                return;
            }
            *newest = descriptor.generation;
        }
        let found = Found::new(record.extent(), kind, descriptor.checks.clone());
        if self.index.insert(key, &found).is_none() {
            // Better none than an older one.
            self.index.remove(key);
        }
    }

    pub(crate) fn finish(mut self, log: &Log) -> Index {
        for (key, generation) in self.heads {
            if log.tombstone(key).is_some_and(|removed| generation < removed) {
                self.index.remove(key);
            }
        }
        self.index
    }
}
