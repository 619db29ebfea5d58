//! Garbage collection: a victim is emptied as fast as the host needs the room.
//!
//! 1. With every run that the host writes, so many units are copied as keep the number of free superblocks.
//! 2. What was written to the victim is looked at, many runs ahead of the copies (`VictimRuns`).
//! 3. What is still valid goes to the superblock for copies.

use super::order::RunId;
use super::runs::{GROUP_MAX, Run, Runs};
use super::{Ftl, PhysicalUnit};

/// The superblock that is emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    superblock: u32,
    /// Its valid units when it was chosen.
    valid: u32,
    /// What was not looked at yet: the run, and where it lies.
    run: RunId,
    next: PhysicalUnit,
}

/// Runs of a victim that are looked at together.
///
/// The map is read all over, and every read misses the caches. Nothing is decided before the last of so many reads has
/// begun: so the processor waits for them at once, and finds their memory at hand when they are copied a few
/// writes of the host later. More would not be at hand any more: 64 lines are 4 KiB.
const WINDOW: usize = 64;

/// Runs of the victim that were valid when they were looked at. They may have been written elsewhere since.
#[derive(Debug)]
pub(super) struct VictimRuns {
    runs: [Lying; WINDOW],
    next: usize,
    len: usize,
}

/// Neighbours that lie side by side.
#[derive(Clone, Copy, Debug, Default)]
struct Lying {
    /// The first of them.
    unit: u32,
    len: u32,
    place: PhysicalUnit,
}

impl Ftl {
    /// Copies as much for a run of the host's units as keeps the number of free superblocks: a victim
    /// with v valid units of N gives room for N - v, so it is empty when the host has written those. Drives are
    /// known to spread the work so: their throughput under random writes is even from second to second.
    pub(super) fn keep_pace(&mut self, run: u32) {
        if self.victim.is_none() && !self.choose_victim() {
            return;
        }
        let valid = self.victim.map_or(0, |victim| u64::from(victim.valid));
        let room = u64::from(self.config.superblock_units) - valid;
        // A victim has an invalid unit, so there is room.
        let budget = (u64::from(run) * valid).div_ceil(room);
        self.reclaim(u32::try_from(budget).unwrap_or(u32::MAX));
    }

    /// Copies up to `budget` valid units out of victims, as long as superblocks are wanted.
    pub(super) fn reclaim(&mut self, mut budget: u32) {
        while self.victim.is_some() || self.choose_victim() {
            let Some(victim) = self.victim.take() else { return };
            budget -= self.copy_from(victim, budget);
            if self.victim.is_some() {
                return;
            }
            self.free.push_back(victim.superblock);
            self.counters.erases += 1;
        }
    }

    /// True when there is a victim, and one was wanted.
    fn choose_victim(&mut self) -> bool {
        if (self.config.free_min as usize) < self.free.len() {
            return false;
        }
        self.victim = self.next_victim();
        self.victim.is_some()
    }

    fn next_victim(&mut self) -> Option<Victim> {
        let (superblock, valid) = self.victims.take_lowest()?;
        // One without an invalid unit gives nothing: the drive is full of valid data just now.
        if valid == self.config.superblock_units {
            self.victims.insert(superblock, valid);
            return None;
        }
        self.superblocks[superblock as usize].is_listed = false;
        self.seen.forget();
        let (run, next) = (self.first_run(superblock), self.first_place(superblock));
        Some(Victim { superblock, valid, run, next })
    }

    /// Copies up to `budget` units; puts the victim back if it is not empty then. Says how many.
    fn copy_from(&mut self, mut victim: Victim, budget: u32) -> u32 {
        let from = victim.superblock as usize;
        let budget = budget.min(self.superblocks[from].valid);
        let mut copied = 0;
        while copied < budget {
            if self.copies.room() == 0 {
                self.open_for_copies();
            }
            let max = self.copies.room().min(budget - copied);
            match self.seen.take(max, &self.map) {
                Some(units) => copied += self.copy(units),
                None => self.look_ahead(&mut victim),
            }
        }
        self.superblocks[from].valid -= copied;
        if 0 < self.superblocks[from].valid {
            self.victim = Some(victim);
        }
        self.counters.copies += u64::from(copied);
        copied
    }

    /// Copies units for which there is room. Says how many.
    fn copy(&mut self, Run { first: unit, len }: Run) -> u32 {
        let place = self.copies.take(len, unit, &mut self.order);
        self.map.replace(unit, Run { first: place, len }, |_| ());
        self.superblocks[self.copies.superblock as usize].valid += len;
        len
    }

    /// Looks at the next runs of the victim. Requires: those that were seen are gone, and there are valid ones.
    fn look_ahead(&mut self, victim: &mut Victim) {
        let end = self.first_place(victim.superblock) + self.config.superblock_units;
        assert!(victim.next < end, "its valid units are among its units");
        self.seen.forget();
        while victim.next < end && self.seen.has_room() {
            let Run { first, len } = self.order.get(victim.run);
            self.seen.add(Lying { unit: first, len, place: victim.next }, &self.map);
            victim.run += 1;
            victim.next += len;
        }
    }
}

impl VictimRuns {
    pub(super) fn new() -> Self {
        Self { runs: [Lying::default(); WINDOW], next: 0, len: 0 }
    }

    const fn forget(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// For a run that is valid in parts.
    const fn has_room(&self) -> bool {
        self.len + GROUP_MAX as usize <= WINDOW
    }

    /// Adds of a run what is valid.
    #[inline]
    fn add(&mut self, mut lying: Lying, map: &Runs) {
        loop {
            let Run { first, len } = map.run(lying.unit);
            // Written in any case, and kept if it is valid: which it is cannot be foreseen.
            self.runs[self.len] = Lying { len: lying.len.min(len), ..lying };
            self.len += usize::from(first == lying.place);
            if lying.len <= len {
                return;
            }
            lying = lying.behind(len);
        }
    }

    /// Takes the next units that are still valid, at most `max` of them.
    #[inline]
    fn take(&mut self, max: u32, map: &Runs) -> Option<Run> {
        while self.next < self.len {
            let lying = &mut self.runs[self.next];
            let Run { first, len } = map.run(lying.unit);
            let (units, is_valid) =
                (Run { first: lying.unit, len: len.min(lying.len) }, first == lying.place);
            let len = if is_valid { units.len.min(max) } else { units.len };
            if len == lying.len {
                self.next += 1;
            } else {
                *lying = lying.behind(len);
            }
            if is_valid {
                return Some(Run { len, ..units });
            }
        }
        None
    }
}

impl Lying {
    /// Without its first `n` units.
    const fn behind(self, n: u32) -> Self {
        Self { unit: self.unit + n, len: self.len - n, place: self.place + n }
    }
}
