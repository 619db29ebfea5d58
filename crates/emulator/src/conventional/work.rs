//! Command latency of a conventional drive, with the cost of garbage collection.
//!
//! All programs go through one write buffer: those of the host, and the copies of garbage collection that make room
//! for them. A copy costs more than a program: the dies first read its unit, and cannot program meanwhile. The same
//! holds for a partial unit that is completed. Erases have no separate cost: the bandwidth measured over whole drives
//! contains them.

use zonal_base::{Blocks, Lba, Nanos, Rng};

use super::ConventionalProfile;
use crate::buffer::{StreamId, WriteBuffer};
use crate::chance::exponential;
use crate::controller::Server;
use crate::ftl::{Ftl, FtlCounters};
use crate::in_flight::SlotId;
use crate::link::Link;
use crate::nand::{FlashExtent, Nand};
use crate::profile::{BufferProfile, ControllerProfile, NandProfile};

/// Single stream of the write buffer.
const ALL: StreamId = 0;

#[derive(Debug)]
pub(super) struct CommandTiming {
    controller: ControllerProfile,
    server: Server,
    link: Link,
    nand: Nand,
    buffer: WriteBuffer,
    /// Flash translation layer. `None`: blocks are written in place.
    ftl: Option<Ftl>,
    /// Program bandwidth that an internal read of a unit takes, in thousandths of a program: to complete a partial
    /// unit (`read_permille`), and to copy a unit (`copy_read_permille`).
    read_permille: u64,
    copy_read_permille: u64,
    /// Fraction of a block of work that is not in the buffer yet, in thousandths.
    left_permille: u64,
    trim_ps_per_block: u64,
    /// Trim queue: trims are handled one after the other.
    trims: Server,
    rng: Rng,
}

impl CommandTiming {
    pub(super) fn new(profile: &ConventionalProfile, rng: &mut Rng) -> Self {
        let drive = &profile.drive;
        let read_permille = read_permille(&drive.nand);
        Self {
            controller: drive.controller,
            server: Server::default(),
            link: Link::new(drive.link),
            nand: Nand::new(drive.nand, rng.next_u64()),
            buffer: WriteBuffer::new(&drive.buffer, ALL + 1, rng.next_u64()),
            ftl: profile.ftl.map(Ftl::new),
            read_permille,
            copy_read_permille: profile.copy_read_permille.unwrap_or(read_permille),
            left_permille: 0,
            trim_ps_per_block: profile.trim_ps_per_block,
            trims: Server::default(),
            rng: Rng::new(rng.next_u64()),
        }
    }

    /// Restarts after a power cut: the buffer has been written to the flash, and no command is in flight.
    pub(super) fn restart(&mut self, buffer: &BufferProfile, rng: &mut Rng) {
        self.buffer = WriteBuffer::new(buffer, ALL + 1, rng.next_u64());
        self.nand.restart();
        self.trims = Server::default();
    }

    pub(super) fn slow_down_die(&mut self, die: u32, times: u64) {
        self.nand.slow_down(die, times);
    }

    pub(super) const fn ftl_counters(&self) -> Option<&FtlCounters> {
        match &self.ftl {
            Some(ftl) => Some(ftl.counters()),
            None => None,
        }
    }

    pub(super) fn administrative(&self, now: Nanos) -> Nanos {
        now + self.controller.administrative
    }

    /// Completion time of a read. Blocks that the flash does not hold cost no flash time.
    pub(super) fn read(&mut self, now: Nanos, lba: Lba, blocks: Blocks) -> Nanos {
        self.nand.programmed(now, self.buffer.drained());
        let begun = self.server.serve(now, self.controller.read);
        let sent = self.link.send(begun, blocks);
        let (mut at, end) = (lba, lba + blocks);
        let (mut done, mut held_up) = (sent, Nanos(0));
        while at < end {
            let (place, next) = self.stretch(at, end);
            if let Some(place) = place {
                let read = self.nand.read(sent, place);
                done = done.max(read.done);
                held_up += read.held_up;
            }
            at = next;
        }
        self.buffer.hold_up(now, held_up);
        done + self.controller.read_fixed
    }

    /// Returns the first adjacent extent of the blocks from `at` on, and the block after it.
    fn stretch(&self, at: Lba, end: Lba) -> (Option<FlashExtent>, Lba) {
        let place = |from, blocks| FlashExtent { at: Blocks(from), blocks, first_die: 0 };
        let Some(ftl) = &self.ftl else { return (Some(place(at.0, end - at)), end) };
        let unit = ftl.config().unit.0;
        let first = ftl.locate(at);
        let mut next = Lba((at.0 / unit + 1) * unit);
        let mut following = first;
        while next < end {
            following = following.map(|unit| unit + 1);
            if ftl.locate(next) != following {
                break;
            }
            next = next + Blocks(unit);
        }
        let next = next.min(end);
        let lies = first.map(|first| place(u64::from(first) * unit + at.0 % unit, next - at));
        (lies, next)
    }

    /// Cost of reading a unit for a copy, in programs of a unit.
    #[cfg(test)]
    pub(super) fn copy_read_cost(&self) -> f64 {
        self.copy_read_permille as f64 / 1000.0
    }

    /// Time at which the blocks of a write have arrived in the buffer, if there is room.
    pub(super) fn receive(&mut self, now: Nanos, blocks: Blocks, others_in_flight: bool) -> Nanos {
        let costs = self.controller.write;
        let serial = if blocks.0 == 1 { costs.single_block } else { costs.several_blocks };
        let served = self.server.serve(now, serial);
        let arrived = self.link.receive(served, blocks);
        let mut more = costs.fixed + exponential(&mut self.rng, self.controller.write_jitter);
        if 2 < blocks.0 {
            more += costs.list_fetch;
        }
        if others_in_flight && served == now + serial {
            more += costs.interleaved;
        }
        arrived + more
    }

    /// Writes blocks, and runs the garbage collection that this requires. True: the buffer takes the blocks at once.
    /// False: `slot` comes out of [`CommandTiming::pop`] once there is room.
    ///
    /// Requires: everything due at `now` was popped.
    pub(super) fn write(&mut self, now: Nanos, lba: Lba, blocks: Blocks, slot: SlotId) -> bool {
        // Also done without reads: a read must meet the programs of the last moments, not an average since the last
        // read.
        self.nand.programmed(now, self.buffer.drained());
        let Some(ftl) = &mut self.ftl else {
            return self.buffer.write(now, ALL, blocks, slot);
        };
        let earlier = *ftl.counters();
        ftl.write(lba, blocks);
        let did = ftl.counters().since(&earlier);
        let units_permille = did.programs() * 1000
            + did.copies * self.copy_read_permille
            + did.completing_reads * self.read_permille;
        let work_permille = units_permille * ftl.config().unit.0 + self.left_permille;
        self.left_permille = work_permille % 1000;
        self.buffer.write(now, ALL, Blocks(work_permille / 1000), slot)
    }

    /// Completion time of a trim. Only blocks that were mapped cost time.
    pub(super) fn trim(&mut self, now: Nanos, lba: Lba, blocks: Blocks) -> Nanos {
        let Some(ftl) = &mut self.ftl else { return self.administrative(now) };
        let earlier = ftl.counters().trimmed;
        ftl.trim(lba, blocks);
        let trimmed = (ftl.counters().trimmed - earlier) * ftl.config().unit.0;
        let cost = Nanos(trimmed * self.trim_ps_per_block / 1000);
        self.trims.serve(now, self.controller.administrative + cost)
    }

    /// Takes the next write that waited for room and has it by `now`, with the time since which it has room.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, SlotId)> {
        self.buffer.pop(now)
    }

    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.buffer.next_due()
    }
}

/// Time in which a die reads a program unit, in thousandths of the time to program it.
fn read_permille(nand: &NandProfile) -> u64 {
    let pages = u64::from(nand.program_blocks.div_ceil(nand.page_blocks));
    let sense = nand.read.iter().map(|read| read.0).sum::<u64>() / 3;
    let transfer = nand.transfer.0
        + nand.transfer_several.0
        + u64::from(nand.page_blocks - 1) * nand.transfer_ns_per_block;
    pages * (sense + transfer) * 1000 / nand.program.time.0.max(1)
}
