//! What can go wrong with a drive without zones; the table is that of `crate::faults`.

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Rng, ZoneId};
use zonal_device::{Action, ZoneTable};

use super::{ConventionalDrive, Operation};
use crate::intake::Intake;

impl ConventionalDrive {
    /// Reads of the block fail until it is written again.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.unreadable.insert(lba);
    }

    /// Reads of the block fail until it is written again or the power is cut.
    pub fn make_unreadable_while_on(&mut self, lba: Lba) {
        self.unreadable.insert_while_on(lba);
    }

    /// Silently turns one bit of a block over.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// The next write within the zone to be answered fails, and nothing of it lands.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.faults.fail_next_write(zone);
    }

    /// The next command is taken and never answered, nor carried out. Its place in the queue
    /// and its buffers are gone until the power is cut.
    pub fn lose_next_command(&mut self) {
        self.faults.lose_next_command();
    }

    /// Reads of the die take so many times as long.
    pub fn slow_down_die(&mut self, die: u32, times: u64) {
        self.work.slow_down_die(die, times);
    }

    /// A host comes up that knows nothing of the zones that the one before it agreed with itself about: all are empty
    /// until it says otherwise ([`zonal_device::Command::Restore`]). The drive itself notices nothing.
    ///
    /// Requires: no command in flight, but for those that were lost.
    pub fn forget_zones(&mut self) {
        assert!(self.in_flight.next_due().is_none(), "nothing is left to be answered");
        self.table = ZoneTable::new(*self.table.geometry());
    }

    /// The power goes and comes back. What was in flight is never answered; of its writes any blocks have landed. What was
    /// answered is there, and the translation layer is as it was: the buffer is protected. The agreement about zones is
    /// the host's, and forgotten.
    pub fn cut_power(&mut self, rng: &mut Rng) {
        for work in self.in_flight.take_all() {
            match work.operation {
                Operation::Write { lba, data, .. } => self.tear(lba, &data, rng),
                Operation::Manage { zone, action: Action::Reset } if rng.one_in(2) => {
                    // It changes what the drive knows of the blocks; when it is answered does not matter any more.
                    let _ = self.manage(Nanos(0), zone, Action::Reset);
                }
                _ => (),
            }
        }
        self.unreadable.switch_off();
        self.writes_in_flight = 0;
        self.write_due.fill(Nanos(0));
        self.intake = Intake::new(self.profile.drive.controller.passed_writes);
        self.work.restart(&self.profile.drive.buffer, rng);
        self.forget_zones();
    }

    fn tear(&mut self, mut at: Lba, data: &[Payload], rng: &mut Rng) {
        for piece in data {
            for begin in (0..piece.len()).step_by(BLOCK_BYTES) {
                if rng.one_in(2) {
                    let block = piece.slice(begin..begin + BLOCK_BYTES);
                    // What the medium refuses is gone with the power.
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
