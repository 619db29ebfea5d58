//! Where each block lies.
//!
//! Flat: 4 bytes for each block of an export, in memory that is touched when the block is first written. 1 TiB written all
//! over takes 1 GiB.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::index;

use crate::format::{Key, Kind};
use crate::layout::Spot;
use crate::{Export, ExportId};

/// The map of all exports.
pub(crate) struct Map {
    exports: Vec<Vec<Spot>>,
    /// Pages of trims and the table: one of so many.
    few: BTreeMap<Key, Spot>,
    /// Of those, the sequence of what lies there. What is written anew must win over what is only moved.
    sequences: BTreeMap<Key, u64>,
    /// Data blocks that are errors. Few: a device on which there are many is replaced.
    lost: BTreeSet<Key>,
}

impl Map {
    pub(crate) fn new(exports: &[Export]) -> Self {
        let blank = |export: &Export| vec![Spot::NONE; index(export.blocks.0)];
        Self {
            exports: exports.iter().map(blank).collect(),
            few: BTreeMap::new(),
            sequences: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Exports have grown, or there are new ones.
    pub(crate) fn grow(&mut self, exports: &[Export]) {
        self.exports.resize_with(exports.len(), Vec::new);
        for (spots, export) in self.exports.iter_mut().zip(exports) {
            spots.resize(index(export.blocks.0), Spot::NONE);
        }
    }

    /// Where it lies. Requires: the key is one of these exports.
    pub(crate) fn get(&self, key: Key) -> Spot {
        match key.kind() {
            Kind::Data | Kind::Lost => {
                self.exports[usize::from(key.export().0)][index(key.number())]
            }
            _ => self.few.get(&key).copied().unwrap_or_default(),
        }
    }

    /// Where it lies from now on; what was said before comes back.
    pub(crate) fn set(&mut self, key: Key, spot: Spot) -> Spot {
        match key.kind() {
            kind @ (Kind::Data | Kind::Lost) => {
                let is_lost = kind == Kind::Lost;
                if is_lost {
                    self.lost.insert(key.as_kind(Kind::Data));
                } else if !self.lost.is_empty() {
                    self.lost.remove(&key);
                }
                let place = &mut self.exports[usize::from(key.export().0)][index(key.number())];
                core::mem::replace(place, spot)
            }
            _ if spot == Spot::NONE => self.few.remove(&key).unwrap_or_default(),
            _ => self.few.insert(key, spot).unwrap_or_default(),
        }
    }

    /// A page or the table of this sequence is on flash: true when it is newer than what the map names.
    pub(crate) fn renew(&mut self, key: Key, sequence: u64) -> bool {
        let known = self.sequences.entry(key).or_default();
        let is_newer = *known < sequence;
        *known = sequence.max(*known);
        is_newer
    }

    /// True when there is such a block on these exports.
    pub(crate) fn has(&self, key: Key) -> bool {
        match key.kind() {
            Kind::Data | Kind::Lost | Kind::Trim => self
                .exports
                .get(usize::from(key.export().0))
                .is_some_and(|export| key.number() < export.len() as u64),
            Kind::Page => self.exports.get(usize::from(key.export().0)).is_some_and(|export| {
                key.number() * crate::format::PAGE_SPAN < export.len() as u64
            }),
            Kind::Table => key == Key::TABLE,
        }
    }

    pub(crate) fn is_lost(&self, key: Key) -> bool {
        !self.lost.is_empty() && self.lost.contains(&key)
    }

    /// Every place that it names.
    pub(crate) fn spots(&self) -> impl Iterator<Item = Spot> {
        let data = self.exports.iter().flatten().copied();
        data.filter(|spot| *spot != Spot::NONE).chain(self.few.values().copied())
    }

    /// The blocks of an export.
    pub(crate) fn export(&self, export: ExportId) -> &[Spot] {
        &self.exports[usize::from(export.0)]
    }

    /// Everything that lies between two spots, by its key. Looks at the whole map: for what is lost, not for every day.
    pub(crate) fn within(&self, from: Spot, to: Spot) -> Vec<(Key, Spot)> {
        let is_within = |spot: &Spot| from <= *spot && *spot < to;
        let mut found: Vec<_> = self
            .few
            .iter()
            .filter(|(_, spot)| is_within(spot))
            .map(|(key, spot)| (*key, *spot))
            .collect();
        for (export, spots) in (0..).map(ExportId).zip(&self.exports) {
            let numbered = (0..).zip(spots).filter(|(_, spot)| is_within(spot));
            found.extend(numbered.map(|(number, spot)| (Key::data(export, number), *spot)));
        }
        found.sort_by_key(|(_, spot)| *spot);
        found
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let blocks: usize = self.exports.iter().map(Vec::len).sum();
        let few = self.few.len() * 2 * size_of::<(Key, Spot, Key, u64)>();
        (blocks * size_of::<Spot>() + few + self.lost.len() * 2 * size_of::<Key>()) as u64
    }
}
