//! Conventional drive without zones: writes may go to any block.

use zonal_base::{Nanos, Ticket};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};
use zonal_emulator::{BlockCommand, ConventionalDrive};
use zonal_lab::characterize::CountsPrograms;

/// A drive whose zones by convention are ignored.
pub(super) struct Anywhere(pub(super) ConventionalDrive);

impl CountsPrograms for Anywhere {
    fn written_and_programmed(&self) -> Option<(u64, u64)> {
        let counters = self.0.ftl_counters()?;
        let unit = self.0.profile().ftl?.unit.0;
        Some((counters.host_blocks, counters.programs() * unit))
    }
}

impl ZonedDevice for Anywhere {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        match command {
            Command::Read { lba, blocks, buffer } => {
                let read = BlockCommand::Read { lba, blocks, buffer };
                self.0.submit_block(now, ticket, read).map_err(given_back)
            }
            Command::Write { lba, data } => {
                let write = BlockCommand::Write { lba, data };
                self.0.submit_block(now, ticket, write).map_err(given_back)
            }
            other => self.0.submit(now, ticket, other),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.0.poll(now)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
}

/// Command that a full drive returned.
fn given_back(command: BlockCommand) -> Command {
    match command {
        BlockCommand::Read { lba, blocks, buffer } => Command::Read { lba, blocks, buffer },
        BlockCommand::Write { lba, data } => Command::Write { lba, data },
        BlockCommand::Trim { .. } => unreachable!("no trim was submitted"),
    }
}
