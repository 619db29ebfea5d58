//! A page-mapped flash translation layer: where each piece of a drive without zones lies, and what
//! it costs to make room. It has no time in it: it counts work, and others say how long that takes.
//!
//! 1. The host writes. Pieces smaller than the *indirection unit* wait for their neighbours (`merge`).
//! 2. Whole units go to the host's open superblock, wherever that is; what they held before is void.
//! 3. When few superblocks are free, the full one with the fewest valid units is the victim (greedy;
//!    `victims`). Its valid units are copied to an open superblock of their own, then it is free.
//!
//! Memory: 4 bytes for each logical and 4 for each physical unit. A 1 TB drive at 4 KiB takes 1.9 GiB,
//! an 8 TB drive at 64 KiB 1.0 GiB; the system gives it when a unit is first written.

mod merge;
mod victims;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, index};

use merge::{Leaves, Merge};
use victims::Victims;

/// The shape of a flash translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlConfig {
    /// What one entry of the map stands for: 1 to 64 blocks.
    pub unit: Blocks,
    /// Units that the host sees.
    pub user_units: u32,
    /// Units that are erased together.
    pub superblock_units: u32,
    /// Superblocks in all. The spare space, `superblock_units * superblock_count / user_units - 1`, is
    /// the over-provisioning: spare divided by *user*, not by physical.
    pub superblock_count: u32,
    /// Garbage collection runs while so many superblocks are free, or fewer. At least 2: the last one is
    /// for copies alone.
    pub free_min: u32,
}

/// What happened so far, in units. All of it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Blocks (not units) that the host wrote. Times the blocks of a unit the denominator of write
    /// amplification.
    pub host_blocks: u64,
    /// Programs for the host: whole units, and partial ones after they were completed.
    pub host_programs: u64,
    /// Units read and programmed again to empty a victim.
    pub copies: u64,
    /// Units read to complete a partial one.
    pub completing_reads: u64,
    /// Units that the host trimmed and that had been mapped.
    pub trimmed: u64,
    /// Superblocks erased.
    pub erases: u64,
}

impl FtlCounters {
    /// Units programmed, whoever asked: the numerator of write amplification.
    #[must_use]
    pub const fn programs(&self) -> u64 {
        self.host_programs + self.copies
    }

    /// What happened since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            host_blocks: self.host_blocks - earlier.host_blocks,
            host_programs: self.host_programs - earlier.host_programs,
            copies: self.copies - earlier.copies,
            completing_reads: self.completing_reads - earlier.completing_reads,
            trimmed: self.trimmed - earlier.trimmed,
            erases: self.erases - earlier.erases,
        }
    }
}

/// Places of a victim that are looked at together: the bits of a word.
const WINDOW: u32 = u64::BITS;

/// A place for one unit on the flash, counted from 1.
type Place = u32;

/// The place of what was never written. It is 0 so that fresh memory says it.
const NOWHERE: Place = 0;

/// A page-mapped flash translation layer.
#[derive(Debug)]
pub struct Ftl {
    config: FtlConfig,
    /// Where each logical unit lies.
    map: Vec<Place>,
    /// Which logical unit was last written to each place; it is valid if the map agrees.
    units: Vec<u32>,
    superblocks: Vec<Superblock>,
    victims: Victims,
    free: VecDeque<u32>,
    host: Frontier,
    copies: Frontier,
    /// The superblock that is being emptied.
    victim: Option<Victim>,
    merge: Merge,
    counters: FtlCounters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Superblock {
    valid: u32,
    /// Full and waiting among the victims.
    is_listed: bool,
}

/// Where the next units of one stream go: an open superblock, or none when `next == end`.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    superblock: u32,
    next: Place,
    end: Place,
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    superblock: u32,
    /// Its valid units when it was chosen.
    valid: u32,
    /// What was not looked at yet.
    next: Place,
}

impl Ftl {
    /// A drive to which nothing was written.
    ///
    /// Requires: enough superblocks for all user units, two open ones, the free ones that are wanted and one that holds the invalid units; at most 2^32 - 2 units.
    #[must_use]
    pub fn new(config: FtlConfig) -> Self {
        let FtlConfig { user_units, superblock_units, superblock_count, free_min, .. } = config;
        assert!(0 < user_units && 0 < superblock_units);
        assert!(2 <= free_min);
        let needed = u64::from(user_units.div_ceil(superblock_units)) + 4 + u64::from(free_min);
        assert!(needed <= u64::from(superblock_count), "no room to move in");
        let places = u64::from(superblock_units) * u64::from(superblock_count);
        assert!(places < u64::from(u32::MAX));
        // No open superblock: the first write takes one.
        let none = Frontier { superblock: u32::MAX, next: NOWHERE, end: NOWHERE };
        Self {
            config,
            map: alloc::vec![NOWHERE; user_units as usize],
            units: alloc::vec![0; index(places) + 1],
            superblocks: alloc::vec![Superblock::default(); superblock_count as usize],
            victims: Victims::new(superblock_count, superblock_units),
            free: (0..superblock_count).collect(),
            host: none,
            copies: none,
            victim: None,
            merge: Merge::new(config.unit),
            counters: FtlCounters::default(),
        }
    }

    /// Its shape.
    #[must_use]
    pub const fn config(&self) -> &FtlConfig {
        &self.config
    }

    /// What happened so far. What one call cost is the difference between before and after it.
    #[must_use]
    pub const fn counters(&self) -> &FtlCounters {
        &self.counters
    }

    /// Writes blocks, anywhere. Requires: they lie within the user units.
    pub fn write(&mut self, lba: Lba, blocks: Blocks) {
        self.counters.host_blocks += blocks.0;
        let unit = self.config.unit.0;
        let (mut at, end) = (lba.0, lba.0 + blocks.0);
        assert!(end <= unit * u64::from(self.config.user_units));
        while at < end {
            let within = at % unit;
            if within == 0 && unit <= end - at {
                let count = (end - at) / unit;
                self.write_whole(narrow(at / unit), narrow(count));
                at += count * unit;
            } else {
                let count = (unit - within).min(end - at);
                self.write_partial(narrow(at / unit), within, count);
                at += count;
            }
        }
    }

    /// Forgets what blocks held. Only whole units are: a drive cannot forget a part of one.
    /// Requires: they lie within the user units.
    pub fn trim(&mut self, lba: Lba, blocks: Blocks) {
        let unit = self.config.unit.0;
        assert!(lba.0 + blocks.0 <= unit * u64::from(self.config.user_units));
        let (first, end) = (lba.0.div_ceil(unit), (lba.0 + blocks.0) / unit);
        if end <= first {
            return;
        }
        self.merge.forget(narrow(first), narrow(end - first));
        let mut voids = Voids::default();
        for unit in index(first)..index(end) {
            let old = core::mem::replace(&mut self.map[unit], NOWHERE);
            self.counters.trimmed += u64::from(old != NOWHERE);
            voids.add(self, old);
        }
        voids.settle(self);
    }

    /// The number of the place on the flash that holds a block, counted in units from 0; `None` when
    /// the flash has nothing to read: never written, trimmed, or still in the buffer.
    /// Requires: the block lies within the user units.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> Option<u32> {
        let unit = narrow(lba.0 / self.config.unit.0);
        if self.merge.holds(unit) {
            return None;
        }
        self.map[unit as usize].checked_sub(1)
    }

    fn write_partial(&mut self, unit: u32, from: u64, count: u64) {
        let unit = match self.merge.write(unit, from, count) {
            None => return,
            Some(Leaves::Complete(unit)) => unit,
            Some(Leaves::Partial(unit)) => {
                let is_mapped = self.map[unit as usize] != NOWHERE;
                self.counters.completing_reads += u64::from(is_mapped);
                unit
            }
        };
        self.program(unit, 1);
    }

    fn write_whole(&mut self, first: u32, count: u32) {
        self.merge.forget(first, count);
        self.program(first, count);
    }

    /// Programs units for the host, and makes the room that this takes.
    fn program(&mut self, mut first: u32, mut count: u32) {
        while 0 < count {
            if self.host.room() == 0 {
                self.open_for_host();
            }
            let run = count.min(self.host.room());
            self.place_run(first, run);
            self.counters.host_programs += u64::from(run);
            (first, count) = (first + run, count - run);
            self.keep_pace(run);
        }
    }

    /// Takes a superblock for the host. The last free one is left for copies: without it no room
    /// could be made any more.
    fn open_for_host(&mut self) {
        self.list(self.host.superblock);
        while self.free.len() <= 1 {
            self.reclaim(u32::MAX);
        }
        self.host = self.open();
    }

    /// Writes a run of units to the host's open superblock, which has room for it.
    fn place_run(&mut self, first: u32, run: u32) {
        let place = self.host.take(run);
        let mut voids = Voids::default();
        let from = first as usize;
        for at in 0..run {
            let old = core::mem::replace(&mut self.map[from + at as usize], place + at);
            voids.add(self, old);
        }
        voids.settle(self);
        let units = &mut self.units[place as usize..][..run as usize];
        units.iter_mut().zip(first..).for_each(|(slot, unit)| *slot = unit);
        self.superblocks[self.host.superblock as usize].valid += run;
    }

    /// Copies as much for a run of the host's units as keeps the number of free superblocks: a victim
    /// with v valid units of N gives room for N - v, so it is empty when the host has written those. Drives are
    /// known to spread the work so: their throughput under random writes is even from second to second.
    fn keep_pace(&mut self, run: u32) {
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
    fn reclaim(&mut self, mut budget: u32) {
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
        Some(Victim { superblock, valid, next: self.first_place(superblock) })
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
            let room = self.copies.room().min(budget - copied);
            let moved = self.copy_run(&mut victim, room);
            copied += moved;
            self.superblocks[from].valid -= moved;
        }
        if 0 < self.superblocks[from].valid {
            self.victim = Some(victim);
        }
        self.counters.copies += u64::from(copied);
        copied
    }

    /// Copies the next `count` valid units: the victim has so many, and the superblock for copies room
    /// for them. Says how many, which is `count`.
    fn copy_run(&mut self, victim: &mut Victim, count: u32) -> u32 {
        let place = self.copies.take(count);
        let end = self.first_place(victim.superblock) + self.config.superblock_units;
        let mut copied = 0;
        while copied < count {
            // No further than where that many may be found: the next call looks again.
            let len = (end - victim.next).min(WINDOW).min(2 * (count - copied));
            let mut valid = self.valid_within(victim.next, len);
            let mut next = victim.next + len;
            while valid != 0 {
                if copied == count {
                    next = victim.next + valid.trailing_zeros();
                    break;
                }
                let unit = self.units[(victim.next + valid.trailing_zeros()) as usize];
                self.map[unit as usize] = place + copied;
                self.units[(place + copied) as usize] = unit;
                copied += 1;
                valid &= valid - 1;
            }
            victim.next = next;
        }
        self.superblocks[self.copies.superblock as usize].valid += copied;
        copied
    }

    /// Which of the next `len` places hold a valid unit: a bit for each.
    ///
    /// The map is read all over, and every read misses the caches. Without a branch on what was read the
    /// processor waits for many of them at once.
    fn valid_within(&self, from: Place, len: u32) -> u64 {
        let units = &self.units[from as usize..][..len as usize];
        let mut valid = 0;
        for ((at, place), unit) in (0..).zip(from..).zip(units) {
            valid |= u64::from(self.map[*unit as usize] == place) << at;
        }
        valid
    }

    fn open_for_copies(&mut self) {
        self.list(self.copies.superblock);
        self.copies = self.open();
    }

    fn open(&mut self) -> Frontier {
        let superblock = self.free.pop_front().expect("room is made before the last one is taken");
        let next = self.first_place(superblock);
        Frontier { superblock, next, end: next + self.config.superblock_units }
    }

    /// A superblock was filled: from now on it can be a victim.
    fn list(&mut self, superblock: u32) {
        if let Some(filled) = self.superblocks.get_mut(superblock as usize) {
            filled.is_listed = true;
            self.victims.insert(superblock, filled.valid);
        }
    }

    const fn first_place(&self, superblock: u32) -> Place {
        superblock * self.config.superblock_units + 1
    }
}

impl Frontier {
    const fn room(&self) -> u32 {
        self.end - self.next
    }

    const fn take(&mut self, count: u32) -> Place {
        let place = self.next;
        self.next += count;
        place
    }
}

/// Units that became void, gathered as long as they lie in one superblock: a large write voids long
/// runs.
#[derive(Default)]
struct Voids {
    superblock: u32,
    first: Place,
    end: Place,
    count: u32,
}

impl Voids {
    fn add(&mut self, ftl: &mut Ftl, place: Place) {
        if self.first <= place && place < self.end {
            self.count += 1;
        } else if place != NOWHERE {
            self.settle(ftl);
            let units = ftl.config.superblock_units;
            let superblock = (place - 1) / units;
            let first = ftl.first_place(superblock);
            *self = Self { superblock, first, end: first + units, count: 1 };
        }
    }

    fn settle(&self, ftl: &mut Ftl) {
        if self.count == 0 {
            return;
        }
        let superblock = &mut ftl.superblocks[self.superblock as usize];
        let before = superblock.valid;
        superblock.valid -= self.count;
        if superblock.is_listed {
            let after = superblock.valid;
            ftl.victims.remove(self.superblock, before);
            ftl.victims.insert(self.superblock, after);
        }
    }
}

/// A number of units or blocks that lies within the user units.
#[expect(clippy::cast_possible_truncation, reason = "asserted in the line before")]
const fn narrow(n: u64) -> u32 {
    assert!(n <= u32::MAX as u64);
    n as u32
}

#[cfg(test)]
mod tests;
