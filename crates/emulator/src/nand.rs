//! NAND flash: dies and channels, each busy with one operation at a time.
//!
//! A read occupies its die for a time given by its page type. Reads of one die follow each other. Programs go round
//! the dies: the write buffer reports how much it has drained, and each drained unit is a program on the next die.
//! The `die` module decides how long a read waits for a program, and how long it keeps the die from its programs. The
//! delay of the drive's programs is proportional to the mean delay over the dies (`straggling_permille`).

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
    /// Number of units given to the dies, and the time of the last update.
    programs: u64,
    looked_at: Nanos,
}

/// Result of a flash read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashRead {
    /// Time at which all data are in the controller.
    pub(crate) done: Nanos,
    /// Delay that the read causes to the drive's programs.
    pub(crate) held_up: Nanos,
}

/// Extent: adjacent blocks in the flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashExtent {
    /// First block, counted from the start of the area that is striped over the dies.
    pub(crate) at: Blocks,
    /// Number of blocks.
    pub(crate) blocks: Blocks,
    /// Die at which the stripes begin, so that zones do not all begin on the first die.
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

    /// Fault: multiplies the time of every read of the die by `times`.
    pub(crate) fn slow_down(&mut self, die: u32, times: u64) {
        if let Some(die) = self.dies.get_mut(die as usize) {
            die.slowness = times.max(1);
        }
    }

    /// Reports how much the write buffer has drained until now. The programs since the last report are spread evenly
    /// over that time.
    pub(crate) fn programmed(&mut self, now: Nanos, drained: Blocks) {
        let programs = drained.0 / u64::from(self.profile.program_blocks);
        let count = programs.saturating_sub(self.programs);
        let passed = now.since(self.looked_at).0;
        let die_count = self.dies.len() as u64;
        // Older programs are done by now.
        for number in count.saturating_sub(2 * die_count)..count {
            let die = index((self.programs + number) % die_count);
            let begun = self.looked_at + Nanos(passed * number / count);
            self.dies[die].program(begun, &self.profile.program);
        }
        (self.programs, self.looked_at) = (programs, self.looked_at.max(now));
    }

    /// Restarts after a power cut: the write buffer is empty and counts its drained blocks from 0.
    pub(crate) fn restart(&mut self) {
        self.programs = 0;
        self.dies.iter_mut().for_each(Die::forget_programs);
    }

    /// Reads an extent into the controller.
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

    /// Reads `blocks` blocks of one page, from block `from` of that page on.
    ///
    /// Reads leave the dies in another order than they reach them. One server handles each channel, so the channel
    /// time is reserved before the die is read. The sum and the limit are the same.
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
        // The page occupies the die until it is transferred.
        let busy = sense + transfer;
        let mut read = self.dies[die].read((waited, busy), planes, &profile.program, &mut self.rng);
        read.done += profile.sense_fixed;
        read
    }
}
