//! Flash translation layer (FTL) of a conventional drive: page map, garbage collection and write amplification.
//! The FTL has no time: it counts the work, and the drive model turns the work into time.
//!
//! 1. The host writes. Pieces smaller than the *indirection unit* wait for their neighbours (`merge`).
//! 2. Whole units go to the host's open superblock, at any address. Their previous physical units become invalid.
//! 3. When few superblocks are free, garbage collection takes the full one with the fewest valid units as its victim
//!    (greedy; `victims`). It copies the valid units to a separate open superblock, then frees the victim.
//!
//! Memory: 4 bytes for each logical and 5 for each physical unit (4 where a unit is 64 KiB). A 1 TB drive at 4 KiB
//! takes 2.2 GiB, an 8 TB drive at 64 KiB 1.0 GiB; the system provides the memory when a unit is first written. One
//! entry is enough for 64 KiB that were written together and lie side by side (`runs`, `order`).

mod garbage_collection;
mod invalidation;
mod merge;
mod reverse_map;
mod runs;
mod victims;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, index};

use garbage_collection::{Victim, VictimRuns};
use invalidation::Invalidations;
use merge::{Leaves, Merge};
use reverse_map::{ReverseMap, RunId};
use runs::{Run, Runs};
use victims::Victims;

/// Configuration of a flash translation layer: unit, capacity and over-provisioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlConfig {
    /// Indirection unit: the size of one map entry, 1 to 64 blocks.
    pub unit: Blocks,
    /// User capacity, in units.
    pub user_units: u32,
    /// Size of a superblock, in units: the superblock is erased as a whole.
    pub superblock_units: u32,
    /// Number of superblocks. The spare space, `superblock_units * superblock_count / user_units - 1`, is the
    /// over-provisioning: spare divided by *user*, not by physical.
    pub superblock_count: u32,
    /// Garbage collection runs while at most this many superblocks are free. At least 2: the last one is for copies
    /// alone.
    pub free_min: u32,
}

/// Work of the translation layer, in units. The counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Blocks (not units) that the host wrote. Divided by the blocks of a unit, this is the denominator of write
    /// amplification.
    pub host_blocks: u64,
    /// Units programmed for the host: whole units, and partial ones after they were completed.
    pub host_programs: u64,
    /// Units copied by garbage collection: read and programmed again to empty a victim.
    pub copies: u64,
    /// Read-modify-writes: units read to complete a partial one.
    pub completing_reads: u64,
    /// Mapped units that the host trimmed.
    pub trimmed: u64,
    /// Superblocks that were erased.
    pub erases: u64,
}

impl FtlCounters {
    /// Units programmed for the host and for garbage collection: the numerator of write amplification.
    #[must_use]
    pub const fn programs(&self) -> u64 {
        self.host_programs + self.copies
    }

    /// Difference of the counters since `earlier`.
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

/// Typical size of one host write: 64 KiB. Units of such a write share an entry of each map while they lie side by
/// side.
const WRITTEN_TOGETHER: Blocks = Blocks(16);

/// Physical address of one unit on the flash, counted from 1.
type PhysicalUnit = u32;

/// Physical address of an unmapped unit. It is 0, so that fresh memory is an empty map.
const NOWHERE: PhysicalUnit = 0;

/// Flash translation layer with a page map.
#[derive(Debug)]
pub struct Ftl {
    config: FtlConfig,
    /// L2P map: the physical address of each logical unit.
    map: Runs,
    /// Logical units that were written to each superblock, in order. A unit is valid when the map agrees.
    order: ReverseMap,
    superblocks: Vec<Superblock>,
    victims: Victims,
    free: VecDeque<u32>,
    host: Frontier,
    copies: Frontier,
    /// Victim of garbage collection: the superblock that is being emptied.
    victim: Option<Victim>,
    seen: VictimRuns,
    merge: Merge,
    counters: FtlCounters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Superblock {
    valid: u32,
    /// True while the superblock is full and a candidate for garbage collection.
    is_listed: bool,
}

/// Write frontier of one stream: its open superblock. There is none when `next == end`.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    superblock: u32,
    next: PhysicalUnit,
    end: PhysicalUnit,
    /// Runs of this superblock in the `ReverseMap`, from first to end.
    first_run: RunId,
    end_run: RunId,
}

impl Ftl {
    /// Creates the translation layer of an empty drive.
    ///
    /// Requires: enough superblocks for all user units, two open ones, the wanted free ones and one that holds the
    /// invalid units; at most 2^32 - 2 units.
    #[must_use]
    pub fn new(config: FtlConfig) -> Self {
        let FtlConfig { user_units, superblock_units, superblock_count, free_min, .. } = config;
        assert!(0 < user_units && 0 < superblock_units);
        assert!(2 <= free_min);
        let needed = u64::from(user_units.div_ceil(superblock_units)) + 4 + u64::from(free_min);
        assert!(needed <= u64::from(superblock_count), "no room to move in");
        let places = u64::from(superblock_units) * u64::from(superblock_count);
        assert!(places < u64::from(u32::MAX));
        let group = (WRITTEN_TOGETHER.0 / config.unit.0).max(1);
        let group = 1 << narrow(group).ilog2().min(runs::GROUP_MAX.ilog2());
        // No superblock is open: the first write takes one.
        let none = Frontier {
            superblock: u32::MAX,
            next: NOWHERE,
            end: NOWHERE,
            first_run: 0,
            end_run: 0,
        };
        Self {
            config,
            map: Runs::new(user_units as usize, group),
            order: ReverseMap::new(index(places), group),
            superblocks: alloc::vec![Superblock::default(); superblock_count as usize],
            victims: Victims::new(superblock_count, superblock_units),
            free: (0..superblock_count).collect(),
            host: none,
            copies: none,
            victim: None,
            seen: VictimRuns::new(),
            merge: Merge::new(config.unit),
            counters: FtlCounters::default(),
        }
    }

    /// Configuration of the translation layer.
    #[must_use]
    pub const fn config(&self) -> &FtlConfig {
        &self.config
    }

    /// Work counters. The cost of one call is the difference between the counters before and after it.
    #[must_use]
    pub const fn counters(&self) -> &FtlCounters {
        &self.counters
    }

    /// Writes blocks at any address. Requires: they lie within the user units.
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

    /// Trims blocks: unmaps the whole units among them. A drive cannot unmap a part of a unit.
    /// Requires: they lie within the user units.
    pub fn trim(&mut self, lba: Lba, blocks: Blocks) {
        let unit = self.config.unit.0;
        assert!(lba.0 + blocks.0 <= unit * u64::from(self.config.user_units));
        let (first, end) = (lba.0.div_ceil(unit), (lba.0 + blocks.0) / unit);
        if end <= first {
            return;
        }
        let (first, count) = (narrow(first), narrow(end - first));
        self.merge.forget(first, count);
        let trimmed = self.lead(first, Run { first: NOWHERE, len: count });
        self.counters.trimmed += u64::from(trimmed);
    }

    /// Maps the units from `first` on to new physical addresses. Returns the number of units that were mapped before.
    fn lead(&mut self, first: u32, places: Run) -> u32 {
        let (mut invalidations, mut voided) = (Invalidations::default(), 0);
        let (superblocks, victims) = (&mut self.superblocks, &mut self.victims);
        let superblock_units = self.config.superblock_units;
        self.map.replace(first, places, |old| {
            if old.first != NOWHERE {
                voided += old.len;
                invalidations.add(old, superblock_units, (&mut *superblocks, &mut *victims));
            }
        });
        invalidations.settle(superblocks, victims);
        voided
    }

    /// Returns the physical unit that holds a block, counted from 0. `None` when the flash has no data of it: never
    /// written, trimmed, or still in the buffer.
    /// Requires: the block lies within the user units.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> Option<u32> {
        let unit = narrow(lba.0 / self.config.unit.0);
        if self.merge.holds(unit) {
            return None;
        }
        self.map.get(unit).checked_sub(1)
    }

    fn write_partial(&mut self, unit: u32, from: u64, count: u64) {
        let unit = match self.merge.write(unit, from, count) {
            None => return,
            Some(Leaves::Complete(unit)) => unit,
            Some(Leaves::Partial(unit)) => {
                let is_mapped = self.map.get(unit) != NOWHERE;
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

    /// Programs units for the host, and runs the garbage collection that this requires.
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

    /// Opens a superblock for the host. The last free superblock is left for copies: without it garbage collection
    /// could not free another one.
    fn open_for_host(&mut self) {
        self.list(self.host.superblock);
        while self.free.len() <= 1 {
            self.reclaim(u32::MAX);
        }
        self.host = self.open();
    }

    /// Writes a run of units to the host's open superblock. Requires: there is room for the run.
    fn place_run(&mut self, first: u32, run: u32) {
        let place = self.host.take(run, first, &mut self.order);
        self.lead(first, Run { first: place, len: run });
        self.superblocks[self.host.superblock as usize].valid += run;
    }

    fn open_for_copies(&mut self) {
        self.list(self.copies.superblock);
        self.copies = self.open();
    }

    fn open(&mut self) -> Frontier {
        let superblock = self.free.pop_front().expect("room is made before the last one is taken");
        let next = self.first_place(superblock);
        let run = self.first_run(superblock);
        let end = next + self.config.superblock_units;
        Frontier { superblock, next, end, first_run: run, end_run: run }
    }

    /// Makes a full superblock a candidate for garbage collection.
    fn list(&mut self, superblock: u32) {
        if let Some(filled) = self.superblocks.get_mut(superblock as usize) {
            filled.is_listed = true;
            self.victims.insert(superblock, filled.valid);
        }
    }

    const fn first_place(&self, superblock: u32) -> PhysicalUnit {
        superblock * self.config.superblock_units + 1
    }

    /// First run of a superblock in the `ReverseMap`.
    const fn first_run(&self, superblock: u32) -> RunId {
        superblock * self.config.superblock_units
    }
}

impl Frontier {
    const fn room(&self) -> u32 {
        self.end - self.next
    }

    /// Allocates the next `count` physical units, to which the units from `unit` on are written.
    fn take(&mut self, count: u32, unit: u32, order: &mut ReverseMap) -> PhysicalUnit {
        let units = Run { first: unit, len: count };
        self.end_run = order.append(self.first_run, self.end_run, units);
        let place = self.next;
        self.next += count;
        place
    }
}

/// Narrows a number of units or blocks that lies within the user units.
#[expect(clippy::cast_possible_truncation, reason = "asserted in the line before")]
const fn narrow(n: u64) -> u32 {
    assert!(n <= u32::MAX as u64);
    n as u32
}

#[cfg(test)]
mod tests;
