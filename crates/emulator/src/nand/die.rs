//! NAND die: reads and programs one at a time, with program suspend and resume for reads.
//!
//! A program runs in steps, and a read that meets a running step waits until the step has ended. Then the program is
//! suspended for this read, and for a waiting read of every other plane. Any further read lets the program run to the
//! end of another step. So a die under a queue of reads still programs, and the queue of a programming die is long.

use zonal_base::{Nanos, Rng};

use crate::profile::ProgramProfile;

/// Maximum number of programs of a die: one running and one in the buffer behind it.
const PROGRAMS_MAX: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    pub(super) channel: usize,
    /// Fault: factor by which reads are slower.
    pub(super) slowness: u64,
    /// Time at which the queued reads are done.
    reads_until: Nanos,
    /// Time from which the die works on the remaining programs.
    programs_from: Nanos,
    left: Nanos,
    /// Planes read since the last suspension of a program, one bit each.
    planes_read: u64,
}

/// Result of a page read: the time of its end, and the time for which it kept the die from its programs.
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

    /// Queues a program at `now`.
    pub(super) fn program(&mut self, now: Nanos, profile: &ProgramProfile) {
        self.work_until(now);
        self.left = (self.left + profile.time).min(Nanos(profile.time.0 * PROGRAMS_MAX));
    }

    /// Drops all queued programs.
    pub(super) fn forget_programs(&mut self) {
        self.left = Nanos(0);
    }

    /// Reads a page of the given planes at `now`; `busy` is the time for which the read occupies the die.
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

    /// Lets the die program until `now`, unless it still reads then.
    fn work_until(&mut self, now: Nanos) {
        let worked = now.since(self.programs_from);
        self.left = Nanos(self.left.0.saturating_sub(worked.0));
        self.programs_from = self.programs_from.max(now);
    }
}

impl ProgramProfile {
    /// Remaining time of the current step, at a random moment of it.
    fn until_step_ends(&self, rng: &mut Rng) -> Nanos {
        let short = self.step.0 * self.short_steps;
        let at = rng.below((short + self.long_step.0).max(1));
        if at < short { Nanos(at % self.step.0) } else { Nanos(at - short) }
    }
}
