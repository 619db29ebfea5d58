//! Garbage collection: empties a victim superblock at the rate at which the host needs free space.
//!
//! 1. With every run that the host writes, garbage collection copies as many units as keep the number of free
//!    superblocks.
//! 2. The reverse map of the victim is checked against the L2P map many runs ahead of the copies (`VictimRuns`).
//! 3. The units that are still valid go to the open superblock for copies.

use super::reverse_map::RunId;
use super::runs::{GROUP_MAX, Run, Runs};
use super::{Ftl, PhysicalUnit};

/// Victim superblock and the progress of its scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    superblock: u32,
    /// Number of valid units when the victim was chosen.
    valid: u32,
    /// The next run to check, and its physical address.
    run: RunId,
    next: PhysicalUnit,
}

/// Number of victim runs that are checked together.
///
/// The map lookups are random, and every one misses the CPU caches. No lookup is decided before the last lookup of
/// the window has begun. So the processor waits for all misses at once, and finds the entries in its caches when they
/// are copied a few host writes later. A larger window would no longer fit: 64 lines are 4 KiB.
const WINDOW: usize = 64;

/// Runs of the victim that were valid when they were checked. The host may have overwritten them since.
#[derive(Debug)]
pub(super) struct VictimRuns {
    runs: [AdjacentRun; WINDOW],
    next: usize,
    len: usize,
}

/// Adjacent logical units at adjacent physical addresses.
#[derive(Clone, Copy, Debug, Default)]
struct AdjacentRun {
    /// First logical unit.
    unit: u32,
    len: u32,
    place: PhysicalUnit,
}

impl Ftl {
    /// Copies as many units per host run as keep the number of free superblocks. A victim with v valid units of N
    /// gives room for N - v, so it is empty when the host has written N - v units. Drives are known to spread the
    /// work so: their throughput under random writes is even from second to second.
    pub(super) fn keep_pace(&mut self, run: u32) {
        if self.victim.is_none() && !self.choose_victim() {
            return;
        }
        let valid = self.victim.map_or(0, |victim| u64::from(victim.valid));
        let room = u64::from(self.config.superblock_units) - valid;
        // A victim has an invalid unit, so `room` is not 0.
        let budget = (u64::from(run) * valid).div_ceil(room);
        self.reclaim(u32::try_from(budget).unwrap_or(u32::MAX));
    }

    /// Copies up to `budget` valid units out of victims, as long as free superblocks are wanted.
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

    /// Chooses a victim if free superblocks are wanted. True when there is one.
    fn choose_victim(&mut self) -> bool {
        if (self.config.free_min as usize) < self.free.len() {
            return false;
        }
        self.victim = self.next_victim();
        self.victim.is_some()
    }

    fn next_victim(&mut self) -> Option<Victim> {
        let (superblock, valid) = self.victims.take_lowest()?;
        // A superblock without an invalid unit gives no space: the drive is full of valid data for now.
        if valid == self.config.superblock_units {
            self.victims.insert(superblock, valid);
            return None;
        }
        self.superblocks[superblock as usize].is_listed = false;
        self.seen.forget();
        let (run, next) = (self.first_run(superblock), self.first_place(superblock));
        Some(Victim { superblock, valid, run, next })
    }

    /// Copies up to `budget` units, and keeps the victim if it is not empty then. Returns the number of copies.
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

    /// Copies units for which there is room. Returns their number.
    fn copy(&mut self, Run { first: unit, len }: Run) -> u32 {
        let place = self.copies.take(len, unit, &mut self.order);
        self.map.replace(unit, Run { first: place, len }, |_| ());
        self.superblocks[self.copies.superblock as usize].valid += len;
        len
    }

    /// Checks the next runs of the victim. Requires: the checked ones are used up, and there are valid ones left.
    fn look_ahead(&mut self, victim: &mut Victim) {
        let end = self.first_place(victim.superblock) + self.config.superblock_units;
        assert!(victim.next < end, "its valid units are among its units");
        self.seen.forget();
        while victim.next < end && self.seen.has_room() {
            let Run { first, len } = self.order.get(victim.run);
            self.seen.add(AdjacentRun { unit: first, len, place: victim.next }, &self.map);
            victim.run += 1;
            victim.next += len;
        }
    }
}

impl VictimRuns {
    pub(super) fn new() -> Self {
        Self { runs: [AdjacentRun::default(); WINDOW], next: 0, len: 0 }
    }

    const fn forget(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// True while a run fits that is valid in parts.
    const fn has_room(&self) -> bool {
        self.len + GROUP_MAX as usize <= WINDOW
    }

    /// Adds the valid parts of a run.
    #[inline]
    fn add(&mut self, mut lying: AdjacentRun, map: &Runs) {
        loop {
            let Run { first, len } = map.run(lying.unit);
            // Branch-free: the entry is always written, and kept only if it is valid. The processor could not predict
            // the branch.
            self.runs[self.len] = AdjacentRun { len: lying.len.min(len), ..lying };
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

impl AdjacentRun {
    /// The run without its first `n` units.
    const fn behind(self, n: u32) -> Self {
        Self { unit: self.unit + n, len: self.len - n, place: self.place + n }
    }
}
