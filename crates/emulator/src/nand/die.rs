//! A die: reads and programs, one at a time.
//!
//! A program is done in steps, and a read that finds one at work waits until the step has ended. Then the program is
//! suspended for it, and for a read of every other plane that waits as well; whoever else waits lets the program
//! go on until the end of another step. So a die under a queue of reads still programs, and a queue behind a die that
//! programs is long.

use zonal_base::{Nanos, Rng};

use crate::profile::ProgramProfile;

/// Programs that a die has at most: one at work and one in the buffer behind it.
const PROGRAMS_MAX: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    pub(super) channel: usize,
    /// Times slower than it should be.
    pub(super) slowness: u64,
    /// When the reads that it was given are done.
    reads_until: Nanos,
    /// From then on it works on what is left to program.
    programs_from: Nanos,
    left: Nanos,
    /// Planes that were read since a program was suspended last, a bit for each.
    planes_read: u64,
}

/// When a read has its page, and how long it kept the die from its programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRead {
    pub(super) done: Nanos,
    pub(super) held_up: Nanos,
}

impl Die {
    pub(super) const fn new(channel: usize) -> Self {
        Self {
            channel,
            slowness: 1,
            reads_until: Nanos(0),
            programs_from: Nanos(0),
            left: Nanos(0),
            planes_read: 0,
        }
    }

    /// Gives it a program at `now`.
    pub(super) fn program(&mut self, now: Nanos, profile: &ProgramProfile) {
        self.work_until(now);
        self.left = (self.left + profile.time).min(Nanos(profile.time.0 * PROGRAMS_MAX));
    }

    /// It has nothing to program any more.
    pub(super) fn forget_programs(&mut self) {
        self.left = Nanos(0);
    }

    /// Reads a page that takes `busy`, asked for at `now`, of these planes.
    pub(super) fn read(
        &mut self,
        (now, busy): (Nanos, Nanos),
        planes: u64,
        profile: &ProgramProfile,
        rng: &mut Rng,
    ) -> PageRead {
        let busy = Nanos(busy.0 * self.slowness);
        let waits_behind_reads = now <= self.reads_until;
        let joins = waits_behind_reads && 0 < self.left.0 && self.planes_read & planes == 0;
        let (mut start, mut turns) = (now.max(self.reads_until), Nanos(0));
        if joins {
            self.planes_read |= planes;
        } else {
            self.planes_read = planes;
            self.work_until(now);
        }
        if !joins && 0 < self.left.0 {
            start = self.programs_from + profile.until_step_ends(rng).min(self.left);
            self.work_until(start);
            if 0 < self.left.0 {
                start += profile.suspend;
                turns = profile.suspend + profile.resume;
            }
        }
        self.reads_until = start + busy;
        self.programs_from = self.reads_until;
        let mut held_up = Nanos(0);
        if 0 < self.left.0 {
            self.programs_from += profile.resume;
            held_up = busy + turns;
        }
        PageRead { done: self.reads_until, held_up }
    }

    /// Programs until `now`, unless it has still to read then.
    fn work_until(&mut self, now: Nanos) {
        let worked = now.since(self.programs_from);
        self.left = Nanos(self.left.0.saturating_sub(worked.0));
        self.programs_from = self.programs_from.max(now);
    }
}

impl ProgramProfile {
    /// How long a step goes on that is met at any moment.
    fn until_step_ends(&self, rng: &mut Rng) -> Nanos {
        let short = self.step.0 * self.short_steps;
        let at = rng.below((short + self.long_step.0).max(1));
        if at < short { Nanos(at % self.step.0) } else { Nanos(at - short) }
    }
}
