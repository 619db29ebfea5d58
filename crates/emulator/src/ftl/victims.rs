//! Garbage-collection candidates: full superblocks ordered by valid units, for greedy victim selection without a
//! search.

use alloc::vec::Vec;

/// Ends a list.
const NONE: u32 = u32::MAX;

/// One list of superblocks for each number of valid units.
///
/// Among superblocks with equal counts the one that reached the count last leaves first. So equal runs stay equal.
#[derive(Debug)]
pub(super) struct Victims {
    /// First superblock of each count's list.
    heads: Vec<u32>,
    links: Vec<Links>,
    /// No superblock has fewer valid units than this.
    lowest: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
}

impl Victims {
    /// Creates an empty set. Superblocks are numbered below `superblock_count` and have up to `valid_max` valid
    /// units.
    pub(super) fn new(superblock_count: u32, valid_max: u32) -> Self {
        Self {
            heads: alloc::vec![NONE; valid_max as usize + 1],
            links: alloc::vec![Links { previous: NONE, next: NONE }; superblock_count as usize],
            lowest: valid_max,
            len: 0,
        }
    }

    pub(super) fn insert(&mut self, superblock: u32, valid: u32) {
        let next = core::mem::replace(&mut self.heads[valid as usize], superblock);
        self.links[superblock as usize] = Links { previous: NONE, next };
        if next != NONE {
            self.links[next as usize].previous = superblock;
        }
        self.lowest = self.lowest.min(valid);
        self.len += 1;
    }

    /// Requires: the superblock is listed under that count.
    pub(super) fn remove(&mut self, superblock: u32, valid: u32) {
        let Links { previous, next } = self.links[superblock as usize];
        if previous == NONE {
            assert_eq!(self.heads[valid as usize], superblock, "it stands under its count");
            self.heads[valid as usize] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        self.len -= 1;
    }

    /// Takes the superblock with the fewest valid units, and returns this number with it.
    pub(super) fn take_lowest(&mut self) -> Option<(u32, u32)> {
        if self.len == 0 {
            return None;
        }
        // Amortized: each step up was paid for by a unit that became invalid or by a superblock that was filled.
        while self.heads[self.lowest as usize] == NONE {
            self.lowest += 1;
        }
        let (superblock, valid) = (self.heads[self.lowest as usize], self.lowest);
        self.remove(superblock, valid);
        Some((superblock, valid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_with_the_fewest_valid_units_leaves_first() {
        let mut victims = Victims::new(4, 9);
        for (superblock, valid) in [(0, 9), (1, 3), (2, 3), (3, 5)] {
            victims.insert(superblock, valid);
        }
        victims.remove(0, 9);
        victims.insert(0, 1);
        let order: Vec<_> = core::iter::from_fn(|| victims.take_lowest()).collect();
        assert_eq!(order, [(0, 1), (2, 3), (1, 3), (3, 5)]);
        victims.insert(1, 0);
        assert_eq!(victims.take_lowest(), Some((1, 0)), "after it had run dry");
    }
}
