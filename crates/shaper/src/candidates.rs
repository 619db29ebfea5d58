//! Recovery candidates: the newest valid entry of each block while headers are scanned.
//!
//! For a flat map all blocks are collected at once. For a paged map recovery works in turns: it
//! first counts the entries of each page. Each turn then collects as many pages as fit the memory
//! of the later lists, and scans all headers again.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::{index, low_u32};

use crate::map::{MapEntry, PAGE_BLOCKS_MIN, PageId, Paged};

/// Minimum number of entries in a turn.
const TURN_MIN: usize = 1024;

/// Newest entry known of a block.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) sequence: u64,
    pub(crate) entry: MapEntry,
    number: u16,
}

pub(crate) enum Candidates {
    /// By export: newest sequence and map entry of each block. Grows as blocks are found.
    Flat(Vec<(Vec<u64>, Vec<MapEntry>)>),
    /// By export: number of entries for each [`PAGE_BLOCKS_MIN`] blocks.
    Counted(Vec<Vec<u32>>),
    /// First page of the turn, and the entries of each of its pages, sorted by block number.
    Window(PageId, Vec<Vec<Candidate>>),
}

impl Candidates {
    /// Counts an entry for this many blocks.
    pub(crate) fn count(&mut self, export: usize, first: u64, blocks: u64) {
        let Self::Counted(exports) = self else { return };
        if exports.len() <= export {
            exports.resize_with(export + 1, Vec::new);
        }
        let parts = first / PAGE_BLOCKS_MIN..=(first + blocks.max(1) - 1) / PAGE_BLOCKS_MIN;
        let counts = &mut exports[export];
        if counts.len() <= index(*parts.end()) {
            counts.resize(index(*parts.end()) + 1, 0);
        }
        for part in parts {
            let most = low_u32(index(blocks.min(PAGE_BLOCKS_MIN)));
            counts[index(part)] = (counts[index(part)] + most).min(low_u32(index(PAGE_BLOCKS_MIN)));
        }
    }

    /// Sequence and map entry of a block, mutable. `None` if the block belongs to another turn.
    pub(crate) fn at(
        &mut self,
        paged: Option<&Paged>,
        (export, number): (usize, u64),
    ) -> Option<(&mut u64, &mut MapEntry)> {
        match self {
            Self::Counted(_) => None,
            Self::Flat(exports) => {
                let at = index(number);
                if exports.len() <= export {
                    exports.resize_with(export + 1, Default::default);
                }
                let (sequences, entries) = &mut exports[export];
                if entries.len() <= at {
                    sequences.resize(at + 1, 0);
                    entries.resize(at + 1, MapEntry::HOLE);
                }
                Some((&mut sequences[at], &mut entries[at]))
            }
            Self::Window(first, pages) => {
                let (page, n) = paged?.find_page(export, number)?;
                let seen = pages.get_mut(index(u64::from(page.0.checked_sub(first.0)?)))?;
                let at = seen.binary_search_by_key(&n, |seen| seen.number);
                let at = at.unwrap_or_else(|at| {
                    seen.insert(at, Candidate { sequence: 0, entry: MapEntry::HOLE, number: n });
                    at
                });
                let Candidate { sequence, entry, .. } = &mut seen[at];
                Some((sequence, entry))
            }
        }
    }
}

impl Candidates {
    /// Calls `hear` with number, sequence and map entry of each known block in a range.
    pub(crate) fn each(
        &mut self,
        paged: Option<&Paged>,
        (export, numbers): (usize, Range<u64>),
        mut hear: impl FnMut(u64, (&mut u64, &mut MapEntry)),
    ) {
        match self {
            Self::Counted(_) => (),
            Self::Flat(exports) => {
                let Some((sequences, entries)) = exports.get_mut(export) else { return };
                let seen = sequences.iter_mut().zip(entries).skip(index(numbers.start));
                for (n, seen) in numbers.zip(seen) {
                    hear(n, seen);
                }
            }
            Self::Window(first, pages) => {
                let Some(paged) = paged else { return };
                let step = paged.page_blocks(export);
                let begin = numbers.start / step * step;
                for start in (begin..numbers.end).step_by(index(step)) {
                    let seen = in_window(paged, *first, (export, start));
                    let seen = seen.and_then(|at| pages.get_mut(at));
                    for seen in seen.into_iter().flatten() {
                        let n = start + u64::from(seen.number);
                        if !numbers.contains(&n) {
                            continue;
                        }
                        hear(n, (&mut seen.sequence, &mut seen.entry));
                    }
                }
            }
        }
    }

    /// True when some of these blocks may be known.
    pub(crate) fn has_some(
        &self,
        paged: Option<&Paged>,
        (export, numbers): (usize, Range<u64>),
    ) -> bool {
        match self {
            Self::Counted(_) => false,
            Self::Flat(exports) => exports.get(export).is_some_and(|(_, seen)| !seen.is_empty()),
            Self::Window(first, pages) => paged.is_some_and(|paged| {
                let mut starts = numbers.step_by(index(paged.page_blocks(export)));
                starts.any(|start| {
                    let at = in_window(paged, *first, (export, start));
                    at.and_then(|at| pages.get(at)).is_some_and(|seen| !seen.is_empty())
                })
            }),
        }
    }
}

/// Index of the block's page in the turn; `None` if it is before the first page.
fn in_window(paged: &Paged, first: PageId, (export, number): (usize, u64)) -> Option<usize> {
    let (page, _) = paged.find_page(export, number)?;
    Some(index(u64::from(page.0.checked_sub(first.0)?)))
}

/// Divides recovery into turns: the first page of each, and its number of pages.
pub(crate) fn turns(paged: &Paged, counted: &[Vec<u32>]) -> Vec<(PageId, u32)> {
    let room = (paged.lists_max() / size_of::<Candidate>()).max(TURN_MIN);
    let (mut turns, mut taken) = (vec![], room);
    for page in (0..paged.page_count()).map(PageId) {
        let (export, first) = paged.first_of(page);
        let parts = first / PAGE_BLOCKS_MIN..(first + paged.page_blocks(export)) / PAGE_BLOCKS_MIN;
        let counts = counted.get(export).map_or(&[][..], Vec::as_slice);
        let counts = parts.filter_map(|part| counts.get(index(part)));
        let count = counts.map(|count| index(u64::from(*count))).sum::<usize>();
        if turns.is_empty() || room < taken + count {
            turns.push((page, 0));
            taken = 0;
        }
        taken += count;
        turns.last_mut().expect("pushed before").1 += 1;
    }
    turns
}

impl Candidate {
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }
}
