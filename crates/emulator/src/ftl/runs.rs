//! Run-compressed array of integers: one number stands for a group of entries when they rise by one.
//!
//! The L2P map of a flash translation layer is such an array: neighbours that were written together lie side by side,
//! and are moved together. With groups of sixteen, a drive that is written in large pieces takes a sixteenth of the
//! memory, and of the time that the processor waits for memory. Groups that are not such a run keep each entry in its
//! place, as in a plain array.

use alloc::vec::Vec;

/// Maximum number of entries for which one number stands.
pub(super) const GROUP_MAX: u32 = 16;

/// Marks the head of a group that is not a run. No entry has this number.
const NO_RUN: u32 = u32::MAX;

/// Array of numbers, indexed from 0. The number 0 means none: it does not rise.
#[derive(Debug)]
pub(super) struct Runs {
    /// Size of a group: 2 to the power of this.
    group_bits: u32,
    /// For a group that is a run: the number of its first entry, 0 when it has none. [`NO_RUN`] for any other group.
    heads: Vec<u32>,
    /// Entries of groups that are not runs, except the split one. The memory of other groups is not touched.
    entries: Vec<u32>,
    split: Split,
}

/// The run that was last overwritten in part, from its first entry on. Most such groups become one run again with the
/// next write, since their units are moved in parts. Deferring the expansion saves memory accesses.
#[derive(Clone, Copy, Debug)]
struct Split {
    group: u32,
    /// Number of overwritten entries at the front of the group: they are a run.
    len: u32,
    first: u32,
    /// Previous number of the group's first entry.
    before: u32,
}

/// No group is split.
const NO_SPLIT: Split = Split { group: u32::MAX, len: 0, first: 0, before: 0 };

/// Adjacent entries that rise by one from the first number, or that all have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
}

impl Runs {
    /// Creates an array of entries without a number. Up to `group` adjacent entries may become a run.
    ///
    /// Requires: `group` is a power of two, at most [`GROUP_MAX`]. Numbers will be below `u32::MAX`.
    pub(super) fn new(len: usize, group: u32) -> Self {
        assert!(group.is_power_of_two() && group <= GROUP_MAX);
        let groups = len.div_ceil(group as usize);
        // A group of one entry is always a run.
        let entries = if group == 1 { 0 } else { groups * group as usize };
        Self {
            group_bits: group.ilog2(),
            heads: alloc::vec![0; groups],
            entries: alloc::vec![0; entries],
            split: NO_SPLIT,
        }
    }

    pub(super) fn get(&self, at: u32) -> u32 {
        self.run(at).first
    }

    /// Returns a run that begins at an entry; the next entries may continue it.
    #[inline]
    pub(super) fn run(&self, at: u32) -> Run {
        let (group, within) = self.locate(at);
        match self.heads[group as usize] {
            NO_RUN => self.run_in_parts(group, within),
            head => Run { first: nth(head, within), len: self.group_len() - within },
        }
    }

    fn run_in_parts(&self, group: u32, within: u32) -> Run {
        if group == self.split.group {
            let [written, rest] = self.split.runs(self.group_len());
            return match within.checked_sub(written.len) {
                Some(within) => rest.behind(within),
                None => written.behind(within),
            };
        }
        let entries = &self.entries[self.places(group)][within as usize..];
        Run { first: entries[0], len: rising(entries) }
    }

    /// Writes a run, and passes the previous runs to `tell`.
    #[inline]
    pub(super) fn replace(&mut self, at: u32, run: Run, mut tell: impl FnMut(Run)) {
        let (mut done, mut at) = (0, at);
        while done < run.len {
            let (group, within) = self.locate(at);
            let len = (self.group_len() - within).min(run.len - done);
            let part = Run { first: nth(run.first, done), len };
            if len == self.group_len() {
                let head = core::mem::replace(&mut self.heads[group as usize], part.first);
                match head {
                    NO_RUN => self.leave_parts(group, &mut tell),
                    _ => tell(Run { first: head, len }),
                }
            } else {
                self.replace_part((group, within), part, &mut tell);
            }
            (done, at) = (done + len, at + len);
        }
    }

    /// Turns a group with parts into a run, and passes its previous runs to `tell`.
    fn leave_parts(&mut self, group: u32, tell: &mut impl FnMut(Run)) {
        if group == self.split.group {
            let split = core::mem::replace(&mut self.split, NO_SPLIT);
            split.runs(self.group_len()).into_iter().for_each(tell);
        } else {
            tell_all(&self.entries[self.places(group)], tell);
        }
    }

    fn replace_part(&mut self, (group, within): (u32, u32), run: Run, tell: &mut impl FnMut(Run)) {
        let len = self.group_len();
        let head = &mut self.heads[group as usize];
        if *head != NO_RUN && within == 0 {
            let before = core::mem::replace(head, NO_RUN);
            tell(Run { first: before, len: run.len });
            self.spell_out_split();
            self.split = Split { group, len: run.len, first: run.first, before };
            return;
        }
        if group == self.split.group && self.split.is_continued_by(within, run) {
            tell(Run { first: nth(self.split.before, within), len: run.len });
            self.split.len += run.len;
            if self.split.len == len {
                *head = self.split.first;
                self.split = NO_SPLIT;
            }
            return;
        }
        self.spell_out(group);
        let places = self.places(group);
        let entries = &mut self.entries[places];
        let part = &mut entries[within as usize..][..run.len as usize];
        tell_all(part, tell);
        lay(run.first, part);
        // A run that was written in parts is complete with its last part.
        if within + run.len == len && rising(entries) == len {
            self.heads[group as usize] = entries[0];
        }
    }

    /// Expands a group into single entries, unless it is expanded.
    fn spell_out(&mut self, group: u32) {
        if group == self.split.group {
            return self.spell_out_split();
        }
        let head = core::mem::replace(&mut self.heads[group as usize], NO_RUN);
        if head != NO_RUN {
            let places = self.places(group);
            lay(head, &mut self.entries[places]);
        }
    }

    fn spell_out_split(&mut self) {
        let split = core::mem::replace(&mut self.split, NO_SPLIT);
        if split.len == 0 {
            return;
        }
        let places = self.places(split.group);
        let [written, rest] = split.runs(self.group_len());
        let (front, back) = self.entries[places].split_at_mut(written.len as usize);
        lay(written.first, front);
        lay(rest.first, back);
    }

    const fn group_len(&self) -> u32 {
        1 << self.group_bits
    }

    /// Group of an entry, and the position of the entry in the group.
    const fn locate(&self, at: u32) -> (u32, u32) {
        (at >> self.group_bits, at & (self.group_len() - 1))
    }

    /// Range of a group's entries.
    const fn places(&self, group: u32) -> core::ops::Range<usize> {
        let first = (group as usize) << self.group_bits;
        first..first + self.group_len() as usize
    }
}

impl Split {
    /// The overwritten run, and the rest of the previous run.
    const fn runs(&self, group_len: u32) -> [Run; 2] {
        let rest = Run { first: nth(self.before, self.len), len: group_len - self.len };
        [Run { first: self.first, len: self.len }, rest]
    }

    const fn is_continued_by(&self, within: u32, run: Run) -> bool {
        within == self.len && run.first == nth(self.first, within)
    }
}

impl Run {
    /// The run without its first `n` entries.
    const fn behind(self, n: u32) -> Self {
        Self { first: nth(self.first, n), len: self.len - n }
    }
}

/// Number of the entry `n` places after `first` in a run.
const fn nth(first: u32, n: u32) -> u32 {
    if first == 0 { 0 } else { first + n }
}

/// Expands a run into single entries.
fn lay(first: u32, entries: &mut [u32]) {
    (0..).zip(entries).for_each(|(n, entry)| *entry = nth(first, n));
}

/// Length of the run at the start of the entries. Requires: there is an entry.
fn rising(entries: &[u32]) -> u32 {
    let first = entries[0];
    let others = (1..).zip(&entries[1..]).take_while(|(n, entry)| **entry == nth(first, *n));
    zonal_base::low_u32(others.count()) + 1
}

fn tell_all(mut entries: &[u32], tell: &mut impl FnMut(Run)) {
    while !entries.is_empty() {
        let len = rising(entries);
        tell(Run { first: entries[0], len });
        entries = &entries[len as usize..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::{Rng, index, low_u32};

    #[track_caller]
    fn check(group: u32) -> u32 {
        let mut rng = Rng::new(4);
        let mut draw = |below: u32| low_u32(index(rng.below(u64::from(below))));
        let (mut runs, mut plain) = (Runs::new(208, group), [0; 208]);
        let range = |at: u32, len: u32| at as usize..(at + len) as usize;
        for round in 0..20_000 {
            let aligned = draw(2) == 0;
            let at = if aligned { draw(208 / group) * group } else { draw(207) };
            let len = if aligned { group } else { (1 + draw(40)).min(208 - at) };
            let first = if draw(5) == 0 { 0 } else { 1 + draw(1000) };
            // Some runs continue the previous one, and merge with it.
            let before = at.checked_sub(1).map_or(0, |before| runs.get(before));
            let first = if 0 < before && draw(3) == 0 { before + 1 } else { first };
            let mut told = Vec::new();
            runs.replace(at, Run { first, len }, |run| {
                told.extend((0..run.len).map(|n| nth(run.first, n)));
            });
            let part = &mut plain[range(at, len)];
            assert_eq!(told, part, "round {round}");
            lay(first, part);
            let at = draw(208);
            let Run { first, len } = runs.run(at);
            assert!(1 <= len && first == runs.get(at));
            let found: Vec<u32> = (0..len).map(|n| nth(first, n)).collect();
            assert_eq!(found, plain[range(at, len)], "round {round}");
        }
        assert!((0..208).all(|at| runs.get(at) == plain[at as usize]));
        low_u32(runs.heads.iter().filter(|head| **head == NO_RUN).count())
    }

    #[test]
    fn runs_hold_what_plain_numbers_hold() {
        assert!((1..13).contains(&check(16)), "both kinds were there");
        assert!((1..52).contains(&check(4)));
        assert_eq!(check(1), 0);
    }
}
