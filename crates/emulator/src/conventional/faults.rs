//! Fault injection for a conventional drive; the fault model is the table in `crate::faults`.

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Rng, ZoneId};
use zonal_device::{ZoneAction, ZoneTable};

use super::{ConventionalDrive, Operation};
use crate::arbiter::Arbiter;

impl ConventionalDrive {
    /// Fault: reads of the block fail until it is written again.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.unreadable.insert(lba);
    }

    /// Fault: reads of the block fail until it is written again or the power is cut.
    pub fn make_unreadable_while_on(&mut self, lba: Lba) {
        self.unreadable.insert_while_on(lba);
    }

    /// Fault: flips one bit of a block silently.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// Fault: the next write within the zone to complete fails, and none of its blocks land.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.faults.fail_next_write(zone);
    }

    /// Fault: from now on every write fails with `DeviceReadOnly`, or no longer.
    pub fn take_no_writes(&mut self, is_on: bool) {
        self.faults.takes_no_writes = is_on;
    }

    /// Fault: the drive accepts the next command, but never carries it out and never answers. The command's place in
    /// the queue and its buffers are gone until the power is cut.
    pub fn lose_next_command(&mut self) {
        self.faults.lose_next_command();
    }

    /// Fault: multiplies the time of every read of the die by `times`.
    pub fn slow_down_die(&mut self, die: u32, times: u64) {
        self.work.slow_down_die(die, times);
    }

    /// Restarts the host: it knows nothing of the zones of the host before. All zones are empty until the new host
    /// restores their write pointers ([`zonal_device::Command::Restore`]). The drive itself notices nothing.
    ///
    /// Requires: no command in flight, except lost ones.
    pub fn forget_zones(&mut self) {
        assert!(self.in_flight.next_due().is_none(), "nothing is left to be answered");
        self.table = ZoneTable::new(*self.table.geometry());
    }

    /// Fault: power cut and restart. Commands in flight are never answered, and any blocks of their writes may have
    /// landed. Answered writes and the translation layer survive: the buffer is protected. The zones are a convention
    /// of the host, and are forgotten.
    pub fn cut_power(&mut self, rng: &mut Rng) {
        for work in self.in_flight.take_all() {
            match work.operation {
                Operation::Write { lba, data, .. } => self.tear(lba, &data, rng),
                Operation::Manage { zone, action: ZoneAction::Reset } if rng.one_in(2) => {
                    // The reset may trim blocks in the drive. The time of its answer does not matter any more.
                    let _ = self.manage(Nanos(0), zone, ZoneAction::Reset);
                }
                _ => (),
            }
        }
        self.unreadable.switch_off();
        self.writes_in_flight = 0;
        self.write_due.fill(Nanos(0));
        self.arbiter = Arbiter::new(self.profile.drive.controller.passed_writes);
        self.work.restart(&self.profile.drive.buffer, rng);
        self.forget_zones();
    }

    fn tear(&mut self, mut at: Lba, data: &[Payload], rng: &mut Rng) {
        for piece in data {
            for begin in (0..piece.len()).step_by(BLOCK_BYTES) {
                if rng.one_in(2) {
                    let block = piece.slice(begin..begin + BLOCK_BYTES);
                    // A write that the medium refuses is lost in the power cut.
                    if self.medium.write(at, core::slice::from_ref(&block)).is_ok() {
                        self.unreadable.forget(at, Blocks(1));
                    }
                }
                at = at + Blocks(1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
