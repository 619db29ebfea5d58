//! The flash: dies that each do one thing at a time.
//!
//! A read keeps its die for as long as its page type says, and reads of one die follow each other. Programs go round the
//! dies: the write buffer says how much it has drained, and each unit of that is a program on the next die.
//! What a read finds there, and how long it keeps the die from its programs, is in `die`; the drive's programs are
//! held up by the mean over the dies.

mod die;

use alloc::vec::Vec;

use zonal_base::{Blocks, Nanos, Rng, index};

use crate::controller::Server;
use crate::profile::NandProfile;
use die::{Die, PageRead};

#[derive(Clone, Debug)]
pub(crate) struct Nand {
    profile: NandProfile,
    dies: Vec<Die>,
    channels: Vec<Server>,
    rng: Rng,
    /// Units that were given to the dies, and when the last of them was.
    programs: u64,
    looked_at: Nanos,
}

/// A read of the flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashRead {
    /// When all of it is in the controller.
    pub(crate) done: Nanos,
    /// How long it holds up the programs of the drive.
    pub(crate) held_up: Nanos,
}

/// Blocks that lie side by side in the flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashExtent {
    /// The first, counted from the start of what is striped over the dies.
    pub(crate) at: Blocks,
    /// How many.
    pub(crate) blocks: Blocks,
    /// Where the stripes begin: so that zones do not all begin on the first die.
    pub(crate) first_die: u64,
}

impl Nand {
    pub(crate) fn new(profile: NandProfile, seed: u64) -> Self {
        let channels = alloc::vec![Server::default(); profile.channel_count as usize];
        let die = |number| Die::new(number % channels.len());
        let dies = (0..profile.die_count as usize).map(die).collect();
        let (programs, looked_at) = (0, Nanos(0));
        Self { profile, dies, channels, rng: Rng::new(seed), programs, looked_at }
    }

    /// From now on every read of the die takes so many times as long.
    pub(crate) fn slow_down(&mut self, die: u32, times: u64) {
        if let Some(die) = self.dies.get_mut(die as usize) {
            die.slowness = times.max(1);
        }
    }

    /// Tells how much the write buffer has drained until now: evenly since it was told last.
    pub(crate) fn programmed(&mut self, now: Nanos, drained: Blocks) {
        let programs = drained.0 / u64::from(self.profile.program_blocks);
        let count = programs.saturating_sub(self.programs);
        let passed = now.since(self.looked_at).0;
        let die_count = self.dies.len() as u64;
        // More than that is done by now.
        for number in count.saturating_sub(2 * die_count)..count {
            let die = index((self.programs + number) % die_count);
            let begun = self.looked_at + Nanos(passed * number / count);
            self.dies[die].program(begun, &self.profile.program);
        }
        (self.programs, self.looked_at) = (programs, self.looked_at.max(now));
    }

    /// The write buffer begins anew, and counts what it drains from 0.
    pub(crate) fn restart(&mut self) {
        self.programs = 0;
        self.dies.iter_mut().for_each(Die::forget_programs);
    }

    /// Reads all of the place into the controller.
    pub(crate) fn read(&mut self, now: Nanos, place: FlashExtent) -> FlashRead {
        let page_blocks = u64::from(self.profile.page_blocks);
        let program_blocks = u64::from(self.profile.program_blocks);
        let (mut at, end) = (place.at.0, place.at.0 + place.blocks.0);
        let unit = at / program_blocks;
        let mut die = index((unit + place.first_die) % self.dies.len() as u64);
        let mut unit_end = (unit + 1) * program_blocks;
        let mut page_end = (at / page_blocks + 1) * page_blocks;
        let (mut done, mut held_up) = (now, Nanos(0));
        while at < end {
            let part_end = page_end.min(end);
            let page = self.read_page(now, die, (at % page_blocks, part_end - at));
            done = done.max(page.done);
            held_up += page.held_up;
            at = part_end;
            page_end += page_blocks;
            while unit_end <= at {
                die = if die + 1 < self.dies.len() { die + 1 } else { 0 };
                unit_end += program_blocks;
            }
        }
        let straggling = self.profile.program.straggling_permille;
        let held_up = Nanos(held_up.0 * straggling / 1000 / self.dies.len() as u64);
        FlashRead { done, held_up }
    }

    /// Reads some blocks of one page, from the block at `from` of it on.
    ///
    /// Reads leave the dies in another order than they reach them. To keep one server for each channel,
    /// its time is taken before the die is asked: the sum and the limit are the same.
    fn read_page(&mut self, now: Nanos, die: usize, (from, blocks): (u64, u64)) -> PageRead {
        let profile = &self.profile;
        let several = if blocks == 1 { Nanos(0) } else { profile.transfer_several };
        let more = Nanos((blocks - 1) * profile.transfer_ns_per_block);
        let transfer = profile.transfer + several + more;
        let channel = &mut self.channels[self.dies[die].channel];
        let waited = channel.serve(now, transfer) - transfer;
        let sense = profile.read[index(self.rng.below(3))];
        let plane_blocks = u64::from(profile.page_blocks / profile.plane_count);
        let (first, last) = (from / plane_blocks, (from + blocks - 1) / plane_blocks);
        let planes = (1 << (last + 1)) - (1 << first);
        // The die keeps the page until it is transferred.
        let busy = sense + transfer;
        let mut read = self.dies[die].read((waited, busy), planes, &profile.program, &mut self.rng);
        read.done += profile.sense_fixed;
        read
    }
}
