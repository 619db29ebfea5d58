//! Write coalescing: writes smaller than the indirection unit wait in the drive's buffer for their neighbours.
//!
//! So a stream of small sequential writes programs each unit once, as drives do. A unit that must leave while still
//! partial is completed by a read of its previous data (read-modify-write).

use alloc::collections::VecDeque;

use zonal_base::Blocks;

/// Maximum number of partial units that wait: more than the 14 zones that a host of the ZN540 may write to, so that
/// each stream keeps its own. A guess: no data give the number of a drive. When the limit is reached, the unit that
/// has waited longest leaves. Random writes are not affected by the limit.
const PARTIAL_MAX: usize = 32;

/// Blocks of the largest unit: the bit mask of a unit has a bit for each.
pub(super) const UNIT_BLOCKS_MAX: u64 = 64;

/// Partial units that wait for their neighbours.
#[derive(Debug)]
pub(super) struct Merge {
    full: u64,
    /// Oldest first.
    partial: VecDeque<Partial>,
}

#[derive(Clone, Copy, Debug)]
struct Partial {
    unit: u32,
    /// Bit mask of the written blocks.
    written: u64,
}

/// Unit that must be programmed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// All blocks of the unit were written: program it.
    Complete(u32),
    /// Some blocks of the unit were not written: read them from the flash first.
    Partial(u32),
}

impl Merge {
    pub(super) fn new(unit: Blocks) -> Self {
        assert!((1..=UNIT_BLOCKS_MAX).contains(&unit.0));
        Self { full: bits(0, unit.0), partial: VecDeque::new() }
    }

    /// Adds a write of `count` blocks, fewer than a unit, from block `from` of the unit on. At most one unit leaves
    /// as a result.
    pub(super) fn write(&mut self, unit: u32, from: u64, count: u64) -> Option<Leaves> {
        let written = bits(from, count);
        if let Some(at) = self.partial.iter().position(|partial| partial.unit == unit) {
            let partial = &mut self.partial[at];
            partial.written |= written;
            if partial.written != self.full {
                return None;
            }
            self.partial.remove(at);
            return Some(Leaves::Complete(unit));
        }
        self.partial.push_back(Partial { unit, written });
        if self.partial.len() <= PARTIAL_MAX {
            return None;
        }
        self.partial.pop_front().map(|oldest| Leaves::Partial(oldest.unit))
    }

    /// Drops the partial data of units that are written or trimmed as a whole.
    pub(super) fn forget(&mut self, first: u32, count: u32) {
        if !self.partial.is_empty() {
            self.partial.retain(|partial| partial.unit < first || count <= partial.unit - first);
        }
    }

    /// True when the unit waits as a partial one.
    pub(super) fn holds(&self, unit: u32) -> bool {
        self.partial.iter().any(|partial| partial.unit == unit)
    }
}

const fn bits(from: u64, count: u64) -> u64 {
    (u64::MAX >> (UNIT_BLOCKS_MAX - count)) << from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_leaves_when_it_is_complete_or_has_waited_longest() {
        let mut merge = Merge::new(Blocks(16));
        assert_eq!(merge.write(7, 4, 12), None);
        assert_eq!(merge.write(8, 0, 15), None);
        assert_eq!(merge.write(7, 0, 4), Some(Leaves::Complete(7)));
        for unit in 100..100 + 31 {
            assert_eq!(merge.write(unit, 0, 1), None);
        }
        assert_eq!(merge.write(200, 0, 1), Some(Leaves::Partial(8)));
        merge.forget(100, 30);
        assert!(merge.holds(130) && merge.holds(200) && !merge.holds(129));
    }
}
