//! Which units were written to each superblock, in order: the other direction of the map.
//!
//! A superblock is written from its first place to its last, and read from the first on when it is emptied. So this is a list
//! for each, of runs of neighbours; nothing in it is ever changed, and it does not matter where a run begins.

use alloc::vec::Vec;

use super::runs::{GROUP_MAX, Run};

/// The lists of all superblocks. A list has its room where its superblock has its places: it is never longer.
#[derive(Debug)]
pub(super) struct Order {
    /// The first unit of each run.
    firsts: Vec<u32>,
    /// How many there are: at most a group. Empty when each run is one unit.
    lens: Vec<u8>,
    /// Units of a group, which a run does not reach beyond.
    group: u32,
}

/// The number of a run among those of all superblocks.
pub(super) type RunId = u32;

impl Order {
    /// Lists of so many places in all. Requires: as for [`super::runs::Runs`].
    pub(super) fn new(places: usize, group: u32) -> Self {
        assert!(group.is_power_of_two() && group <= GROUP_MAX);
        let lens = if group == 1 { 0 } else { places };
        Self { firsts: alloc::vec![0; places], lens: alloc::vec![0; lens], group }
    }

    /// Writes units behind the runs `begin..end` of a superblock. Says where its list ends now.
    pub(super) fn append(&mut self, begin: RunId, mut end: RunId, run: Run) -> RunId {
        let Run { mut first, mut len } = run;
        if first & (self.group - 1) != 0 && begin < end {
            let last = self.get(end - 1);
            if last.first + last.len == first {
                // Part of the same group: there is no other boundary between them.
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

    /// The run of that number. Requires: it was written since its superblock was erased.
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
        let mut order = Order::new(80, group);
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
