//! Long trims found by recovery, as extents: a trim of a whole export costs a start as much as one
//! of a few blocks.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::ops::Range;

use super::ScanState;
use crate::format::PAGE_SPAN;
use crate::map::MapEntry;
use crate::shaper::Inner;

/// Shorter trims are noted block by block, like data.
pub(super) const LONG_MIN: u64 = 32;

/// Trims noted before they are merged for the first time.
const MERGE_MIN: usize = 4096;

/// Long trims of all exports.
#[derive(Default)]
pub(super) struct LongTrims {
    /// By export: blocks, and sequence of the trim.
    exports: BTreeMap<usize, Vec<(Range<u64>, u64)>>,
    /// Trims in all lists, and how many remained after they were last merged.
    count: usize,
    merged: usize,
}

impl LongTrims {
    pub(super) fn push(&mut self, export: usize, blocks: Range<u64>, sequence: u64) {
        self.exports.entry(export).or_default().push((blocks, sequence));
        self.count += 1;
        // Overlapping trims are merged now and then, so that they take no more memory than their
        // extents.
        if MERGE_MIN.max(2 * self.merged) < self.count {
            self.merge();
        }
    }

    fn merge(&mut self) {
        for trims in self.exports.values_mut() {
            *trims = merged(core::mem::take(trims));
        }
        self.count = self.exports.values().map(Vec::len).sum();
        self.merged = self.count;
    }
}

/// Disjoint extents, in order, each with the highest sequence of the trims that cover it.
fn merged(mut trims: Vec<(Range<u64>, u64)>) -> Vec<(Range<u64>, u64)> {
    trims.sort_unstable_by_key(|(blocks, _)| blocks.start);
    let mut runs: Vec<(Range<u64>, u64)> = Vec::new();
    // Trims that cover the current block, the highest sequence first.
    let mut covering: BinaryHeap<(u64, u64)> = BinaryHeap::new();
    let mut trims = trims.into_iter().peekable();
    let mut at = 0;
    loop {
        while let Some((_, end)) = covering.peek()
            && *end <= at
        {
            covering.pop();
        }
        let next = trims.peek().map(|(blocks, _)| blocks.start);
        match (covering.peek(), next) {
            (_, Some(start)) if start <= at => {
                let (blocks, sequence) = trims.next().expect("it was just looked at");
                covering.push((sequence, blocks.end));
            }
            (None, Some(start)) => at = start,
            (None, None) => return runs,
            (Some((sequence, end)), _) => {
                let end = next.map_or(*end, |next| next.min(*end));
                match runs.last_mut() {
                    Some((run, of)) if run.end == at && of == sequence => run.end = end,
                    _ => runs.push((at..end, *sequence)),
                }
                at = end;
            }
        }
    }
}

impl ScanState<'_> {
    /// Applies the long trims: they drop all older entries.
    pub(super) fn apply_trims(&mut self, inner: &Inner) {
        self.trims.merge();
        let state = inner.state.borrow();
        for (export, trims) in &self.trims.exports {
            for (blocks, trim) in trims {
                // As far as an extent may reach, in the steps in which bitmaps are applied.
                let pages = blocks.start / PAGE_SPAN * PAGE_SPAN..blocks.end;
                for first in pages.step_by(zonal_base::index(PAGE_SPAN)) {
                    let part = first.max(blocks.start)..blocks.end.min(first + PAGE_SPAN);
                    self.sightings.each(state.map.paged(), (*export, part), |_, seen| {
                        let (sequence, entry) = seen;
                        if *sequence < *trim {
                            *entry = MapEntry::HOLE;
                        }
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Rng;

    #[test]
    fn each_block_has_the_highest_sequence_of_its_trims() {
        let mut rng = Rng::new(5);
        for _ in 0..200 {
            let count = rng.below(12);
            let trims: Vec<(Range<u64>, u64)> = (0..count)
                .map(|sequence| {
                    let start = rng.below(40);
                    (start..start + 1 + rng.below(20), sequence)
                })
                .collect();
            let runs = merged(trims.clone());
            assert!(runs.windows(2).all(|two| two[0].0.end <= two[1].0.start), "{runs:?}");
            for block in 0..64 {
                let of = |list: &[(Range<u64>, u64)]| {
                    let covering = list.iter().filter(|(blocks, _)| blocks.contains(&block));
                    covering.map(|(_, sequence)| *sequence).max()
                };
                assert_eq!(of(&runs), of(&trims), "{block} of {trims:?}");
            }
        }
    }

    #[test]
    fn many_trims_of_the_same_blocks_take_the_memory_of_one() {
        let mut trims = LongTrims::default();
        for sequence in 0..100_000 {
            trims.push(0, 0..65_536, sequence);
        }
        assert!(trims.count <= MERGE_MIN + 1, "{}", trims.count);
        trims.merge();
        assert_eq!(trims.exports[&0], [(0..65_536, 99_999)]);
    }
}
