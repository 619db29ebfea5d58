//! A table of numbers that mostly rise by one from entry to entry: then one number stands for a group of them.
//!
//! Both maps of a translation layer are such tables: neighbours that were written together lie side by side, and are
//! moved so. With groups of sixteen, a drive that is written in large pieces takes a sixteenth of the memory, and of the
//! time that the processor waits for memory. Groups of which that is not true have their entries each in its place, as if there
//! were nothing else.

use alloc::vec::Vec;

/// Entries that one number may stand for at most.
pub(super) const GROUP_MAX: u32 = 16;

/// Groups whose bits share a word.
const WORD: usize = u64::BITS as usize;

/// The numbers of entries from 0 on. 0 means none: it does not rise.
#[derive(Debug)]
pub(super) struct Runs {
    /// Entries of a group: 2 to the power of this.
    group_bits: u32,
    /// Of a group that is a run the number of its first entry; 0 when it has none.
    heads: Vec<u32>,
    /// A bit for each group that is not a run.
    mixed: Vec<u64>,
    /// The entries of those; the memory of others is not touched.
    entries: Vec<u32>,
    /// The run that was broken last: most come to be one again with the next write, as they are moved in parts.
    broken: Broken,
}

/// A group with its entries, which stand for themselves wherever else it is kept.
#[derive(Debug)]
struct Broken {
    group: u32,
    entries: [u32; GROUP_MAX as usize],
}

/// No group has this number.
const NO_GROUP: u32 = u32::MAX;

/// Entries in a row that rise by one from the first number, or all have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
}

impl Runs {
    /// So many entries without a number, of which `group` in a row may become a run.
    ///
    /// Requires: a power of two, at most [`GROUP_MAX`].
    pub(super) fn new(len: usize, group: u32) -> Self {
        assert!(group.is_power_of_two() && group <= GROUP_MAX);
        let groups = len.div_ceil(group as usize);
        // A group of one is always a run.
        let (words, entries) = match group {
            1 => (0, 0),
            _ => (groups.div_ceil(WORD), groups * group as usize),
        };
        Self {
            group_bits: group.ilog2(),
            heads: alloc::vec![0; groups],
            mixed: alloc::vec![0; words],
            entries: alloc::vec![0; entries],
            broken: Broken { group: NO_GROUP, entries: [0; GROUP_MAX as usize] },
        }
    }

    pub(super) fn get(&self, at: u32) -> u32 {
        self.run(at).first
    }

    /// The run that begins at an entry; it may go on behind what is said here.
    pub(super) fn run(&self, at: u32) -> Run {
        let (group, within) = self.split(at);
        let entries = match self.is_mixed(group) {
            true => &self.entries[self.places(group)],
            false if group == self.broken.group => self.broken.entries(self.group_len()),
            false => {
                let first = nth(self.heads[group as usize], within);
                return Run { first, len: self.group_len() - within };
            }
        };
        let entries = &entries[within as usize..];
        Run { first: entries[0], len: rising(entries) }
    }

    /// Writes a run, and tells what stood there before.
    pub(super) fn replace(&mut self, at: u32, run: Run, mut tell: impl FnMut(Run)) {
        let (mut done, mut at) = (0, at);
        while done < run.len {
            let (group, within) = self.split(at);
            let len = (self.group_len() - within).min(run.len - done);
            let part = Run { first: nth(run.first, done), len };
            if len == self.group_len() {
                self.replace_group(group, part.first, &mut tell);
            } else {
                self.replace_part((group, within), part, &mut tell);
            }
            (done, at) = (done + len, at + len);
        }
    }

    fn replace_group(&mut self, group: u32, first: u32, tell: &mut impl FnMut(Run)) {
        let head = core::mem::replace(&mut self.heads[group as usize], first);
        if self.is_mixed(group) {
            self.mixed[group as usize / WORD] &= !bit(group);
            tell_all(&self.entries[self.places(group)], tell);
        } else if group == self.broken.group {
            self.broken.group = NO_GROUP;
            tell_all(self.broken.entries(self.group_len()), tell);
        } else {
            tell(Run { first: head, len: self.group_len() });
        }
    }

    fn replace_part(&mut self, (group, within): (u32, u32), run: Run, tell: &mut impl FnMut(Run)) {
        let (places, len) = (self.places(group), self.group_len());
        let is_mixed = self.is_mixed(group);
        if !is_mixed && group != self.broken.group {
            self.break_up(group);
        }
        let entries = match is_mixed {
            true => &mut self.entries[places],
            false => &mut self.broken.entries[..len as usize],
        };
        let part = &mut entries[within as usize..][..run.len as usize];
        tell_all(part, tell);
        lay(run.first, part);
        // A run that came in parts ends with its last one.
        if within + run.len == len && rising(entries) == len {
            self.heads[group as usize] = entries[0];
            match is_mixed {
                true => self.mixed[group as usize / WORD] &= !bit(group),
                false => self.broken.group = NO_GROUP,
            }
        }
    }

    /// The entries of a run are written one by one from now on; those of the last that was broken go to their place.
    fn break_up(&mut self, group: u32) {
        let (before, len) = (self.broken.group, self.group_len());
        if before != NO_GROUP {
            let places = self.places(before);
            self.entries[places].copy_from_slice(self.broken.entries(len));
            self.mixed[before as usize / WORD] |= bit(before);
        }
        self.broken.group = group;
        lay(self.heads[group as usize], &mut self.broken.entries[..len as usize]);
    }

    const fn group_len(&self) -> u32 {
        1 << self.group_bits
    }

    /// The group of an entry, and its place in there.
    const fn split(&self, at: u32) -> (u32, u32) {
        (at >> self.group_bits, at & (self.group_len() - 1))
    }

    /// The entries of a group.
    const fn places(&self, group: u32) -> core::ops::Range<usize> {
        let first = (group as usize) << self.group_bits;
        first..first + self.group_len() as usize
    }

    fn is_mixed(&self, group: u32) -> bool {
        self.mixed.get(group as usize / WORD).is_some_and(|word| word & bit(group) != 0)
    }
}

impl Broken {
    fn entries(&self, len: u32) -> &[u32] {
        &self.entries[..len as usize]
    }
}

/// The number so many entries behind `first` in its run.
const fn nth(first: u32, n: u32) -> u32 {
    if first == 0 { 0 } else { first + n }
}

/// Writes a run out.
fn lay(first: u32, entries: &mut [u32]) {
    (0..).zip(entries).for_each(|(n, entry)| *entry = nth(first, n));
}

/// How many of the entries are one run with the first. Requires: there is one.
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

const fn bit(group: u32) -> u64 {
    1 << (group % u64::BITS)
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
            // Some go on where the last one ended, and come to be one run with it.
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
        runs.mixed.iter().map(|word| word.count_ones()).sum()
    }

    #[test]
    fn runs_hold_what_plain_numbers_hold() {
        assert!((1..13).contains(&check(16)), "both kinds were there");
        assert!((1..52).contains(&check(4)));
        assert_eq!(check(1), 0);
    }
}
