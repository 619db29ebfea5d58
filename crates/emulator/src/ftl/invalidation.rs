//! Invalidation: lowers the valid-unit count of each superblock whose units were overwritten or trimmed.

use super::runs::Run;
use super::victims::Victims;
use super::{PhysicalUnit, Superblock};

/// Invalid units, batched per superblock: a large write invalidates long runs.
#[derive(Default)]
pub(super) struct Invalidations {
    superblock: u32,
    first: PhysicalUnit,
    end: PhysicalUnit,
    count: u32,
}

impl Invalidations {
    /// Adds a run of physical units that became invalid. Requires: units were written to them.
    pub(super) fn add(
        &mut self,
        mut run: Run,
        superblock_units: u32,
        ftl: (&mut [Superblock], &mut Victims),
    ) {
        let (superblocks, victims) = ftl;
        while 0 < run.len {
            if run.first < self.first || self.end <= run.first {
                self.settle(superblocks, victims);
                let superblock = (run.first - 1) / superblock_units;
                let first = superblock * superblock_units + 1;
                *self = Self { superblock, first, end: first + superblock_units, count: 0 };
            }
            let len = run.len.min(self.end - run.first);
            self.count += len;
            run = Run { first: run.first + len, len: run.len - len };
        }
    }

    /// Applies the batch to the count of its superblock.
    pub(super) fn settle(&self, superblocks: &mut [Superblock], victims: &mut Victims) {
        if self.count == 0 {
            return;
        }
        let superblock = &mut superblocks[self.superblock as usize];
        let before = superblock.valid;
        superblock.valid -= self.count;
        if superblock.is_listed {
            let after = superblock.valid;
            victims.remove(self.superblock, before);
            victims.insert(self.superblock, after);
        }
    }
}
