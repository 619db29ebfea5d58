//! Reverse map (physical to logical): the logical units that were written to each superblock, in order.
//!
//! A superblock is written from its first unit to its last, and garbage collection reads it in the same order. So the
//! reverse map is one list of runs of neighbours per superblock. Entries never change until the erase, and the
//! position at which a run begins does not matter.

use alloc::vec::Vec;

use super::runs::{GROUP_MAX, Run};

/// Lists of all superblocks. A list has as many entries as its superblock has physical units: it is never longer.
#[derive(Debug)]
pub(super) struct ReverseMap {
    /// First logical unit of each run.
    firsts: Vec<u32>,
    /// Length of each run: at most a group. Empty when each run is one unit.
    lens: Vec<u8>,
    /// Units of a group. A run does not cross the boundary of a group.
    group: u32,
}

/// Number of a run among those of all superblocks.
pub(super) type RunId = u32;

impl ReverseMap {
    /// Creates the lists for so many physical units in total. Requires: as for [`super::runs::Runs`].
    pub(super) fn new(places: usize, group: u32) -> Self {
        assert!(group.is_power_of_two() && group <= GROUP_MAX);
        let lens = if group == 1 { 0 } else { places };
        Self { firsts: alloc::vec![0; places], lens: alloc::vec![0; lens], group }
    }

    /// Appends units to the runs `begin..end` of a superblock. Returns the new end of its list.
    pub(super) fn append(&mut self, begin: RunId, mut end: RunId, run: Run) -> RunId {
        let Run { mut first, mut len } = run;
        if first & (self.group - 1) != 0 && begin < end {
            let last = self.get(end - 1);
            if last.first + last.len == first {
                // Both are parts of the same group: there is no other boundary between them.
                end -= 1;
                (first, len) = (last.first, last.len + len);
            }
        }
        while 0 < len {
            let part = len.min(self.group - (first & (self.group - 1)));
            self.firsts[end as usize] = first;
            if let Some(len) = self.lens.get_mut(end as usize) {
                *len = part.to_le_bytes()[0];
            }
            (first, len, end) = (first + part, len - part, end + 1);
        }
        end
    }

    /// Returns the run of that number. Requires: it was written since its superblock was erased.
    #[inline]
    pub(super) fn get(&self, run: RunId) -> Run {
        let len = self.lens.get(run as usize).copied().unwrap_or(1);
        Run { first: self.firsts[run as usize], len: len.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: u32, written: &[(u32, u32)], expected: &[(u32, u32)]) {
        let mut order = ReverseMap::new(80, group);
        let mut end = 40;
        for &(first, len) in written {
            end = order.append(40, end, Run { first, len });
        }
        let runs: Vec<_> =
            (40..end).map(|run| order.get(run)).map(|run| (run.first, run.len)).collect();
        assert_eq!(runs, expected);
    }

    #[test]
    fn neighbours_of_a_group_are_one_run_however_they_were_written() {
        check(16, &[(16, 16), (5, 3), (8, 8)], &[(16, 16), (5, 11)]);
        check(16, &[(14, 20)], &[(14, 2), (16, 16), (32, 2)]);
        check(16, &[(3, 1), (4, 30)], &[(3, 13), (16, 16), (32, 2)]);
        check(16, &[(4, 2), (7, 1), (3, 1), (4, 1)], &[(4, 2), (7, 1), (3, 2)]);
        check(1, &[(4, 2), (6, 1)], &[(4, 1), (5, 1), (6, 1)]);
    }
}
