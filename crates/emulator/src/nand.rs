//! The flash: dies that each do one thing at a time.
//!
//! A read keeps its die for as long as its page type says, and reads of one die follow each other. Programs are
//! not laid out one by one: the write buffer says how fast it drains, from that follows how likely a
//! die is found programming, and then the read waits until the program is suspended.

use alloc::vec::Vec;

use zonal_base::{Blocks, Nanos, Rng, index};

use crate::controller::Server;
use crate::profile::NandProfile;

/// How long the program rate is averaged over: a few stripes (3 MiB each at 1.1 GiB/s).
/// A guess; shorter, a single stripe would show, longer, a writer that stopped would.
const WINDOW: Nanos = Nanos::millis(8);

#[derive(Clone, Debug)]
pub(crate) struct Nand {
    profile: NandProfile,
    dies: Vec<Die>,
    channels: Vec<Server>,
    rng: Rng,
    window: Window,
}

#[derive(Clone, Copy, Debug)]
struct Die {
    server: Server,
    channel: usize,
    /// Times slower than it should be.
    slowness: u64,
}

/// What was programmed lately.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Nanos,
    drained: u64,
    /// Of a die's time, what programs took in the window before.
    busy_per_million: u64,
}

/// Blocks that lie side by side in the flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
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
        let die = |number| Die {
            server: Server::default(),
            channel: number % channels.len(),
            slowness: 1,
        };
        let dies = (0..profile.die_count as usize).map(die).collect();
        Self { profile, dies, channels, rng: Rng::new(seed), window: Window::default() }
    }

    /// From now on every read of the die takes so many times as long.
    pub(crate) fn slow_down(&mut self, die: u32, times: u64) {
        if let Some(die) = self.dies.get_mut(die as usize) {
            die.slowness = times.max(1);
        }
    }

    /// Tells how much the write buffer has drained until now.
    pub(crate) fn programmed(&mut self, now: Nanos, drained: Blocks) {
        let passed = now.since(self.window.began).0;
        if passed < WINDOW.0 {
            return;
        }
        let units = (drained.0 - self.window.drained) / u64::from(self.profile.program_blocks);
        let busy = units * self.profile.program.0 / u64::from(self.profile.die_count);
        let busy_per_million = (busy * 1_000_000 / passed).min(1_000_000);
        self.window = Window { began: now, drained: drained.0, busy_per_million };
    }

    /// The write buffer begins anew, and counts what it drains from 0.
    pub(crate) fn restart(&mut self) {
        self.window = Window { drained: 0, ..self.window };
    }

    /// When all of the place has been read into the controller.
    pub(crate) fn read(&mut self, now: Nanos, place: Place) -> Nanos {
        let page_blocks = u64::from(self.profile.page_blocks);
        let program_blocks = u64::from(self.profile.program_blocks);
        let (mut at, end) = (place.at.0, place.at.0 + place.blocks.0);
        let unit = at / program_blocks;
        let mut die = index((unit + place.first_die) % self.dies.len() as u64);
        let mut unit_end = (unit + 1) * program_blocks;
        let mut page_end = (at / page_blocks + 1) * page_blocks;
        let mut done = now;
        while at < end {
            let part_end = page_end.min(end);
            done = done.max(self.read_page(now, die, part_end - at));
            at = part_end;
            page_end += page_blocks;
            while unit_end <= at {
                die = if die + 1 < self.dies.len() { die + 1 } else { 0 };
                unit_end += program_blocks;
            }
        }
        done
    }

    /// Reads some blocks of one page.
    ///
    /// Reads leave the dies in another order than they reach them. To keep one server for each channel,
    /// its time is taken before the die is asked: the sum and the limit are the same.
    fn read_page(&mut self, now: Nanos, die: usize, blocks: u64) -> Nanos {
        let profile = &self.profile;
        let several = if blocks == 1 { Nanos(0) } else { profile.transfer_several };
        let more = Nanos((blocks - 1) * profile.transfer_ns_per_block);
        let transfer = profile.transfer + several + more;
        let channel = &mut self.channels[self.dies[die].channel];
        let waited = channel.serve(now, transfer) - transfer;
        let sense = profile.read[index(self.rng.below(3))] + self.wait_for_program();
        let die = &mut self.dies[die];
        // The die keeps the page until it is transferred.
        let busy = Nanos((sense + transfer).0 * die.slowness);
        die.server.serve(waited, busy) + self.profile.sense_fixed
    }

    fn wait_for_program(&mut self) -> Nanos {
        let busy_per_million = self.window.busy_per_million;
        if busy_per_million == 0 || !crate::chance::happens(&mut self.rng, busy_per_million) {
            return Nanos(0);
        }
        Nanos(self.rng.below(self.profile.suspend_max.0))
    }
}
