//! Emulated conventional SSD: random writes, an FTL with garbage collection, and zones by convention of the host.
//!
//! 1. A command addresses the zones of the host ([`ZonedDevice::submit`]: the zone table of `device` checks it, as
//!    for any device) or plain blocks ([`ConventionalDrive::submit_block`]).
//! 2. A write goes through the FTL (`ftl`). Host programs and garbage-collection copies share one write buffer, so
//!    host writes wait for the bandwidth that garbage collection takes (`work`).
//! 3. [`ZonedDevice::poll`] carries a command out at its completion time.
//!
//! The buffer of every drive here has power-loss protection: answered writes survive (`faults`).

mod faults;
mod profile;
mod work;

pub use profile::ConventionalProfile;

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Nanos, Payload, Rng, Ticket, ZoneId};
use zonal_device::{
    Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneAction, ZoneTable,
    ZonedDevice, whole_blocks,
};

use crate::arbiter::Arbiter;
use crate::faults::Faults;
use crate::ftl::FtlCounters;
use crate::in_flight::{InFlight, SlotId};
use crate::payload::{Medium, Unreadable};
use work::CommandTiming;

/// Command that the drive receives when the host resets a zone. The drive itself knows no zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReset {
    /// Send nothing: the old blocks stay valid for the FTL until they are written again.
    Nothing,
    /// Send a trim for the blocks of the zone.
    Trim,
}

/// Block command of a conventional drive: addresses blocks without regard to zone states. Its blocks lie within one
/// of the host's zones.
#[derive(Debug)]
pub enum BlockCommand {
    /// Read blocks into the front of `buffer`.
    Read {
        /// First block of the range.
        lba: Lba,
        /// Number of blocks.
        blocks: Blocks,
        /// Destination. The drive returns the buffer in [`Answer::Read`].
        buffer: Buffer,
    },
    /// Write pieces one after the other. Answered with [`Answer::Written`].
    Write {
        /// First block of the range.
        lba: Lba,
        /// Pieces of memory to write: whole blocks at block-aligned addresses.
        data: Vec<Payload>,
    },
    /// Trim: drop the data of blocks.
    Trim {
        /// First block of the range.
        lba: Lba,
        /// Number of blocks.
        blocks: Blocks,
    },
}

/// Conventional drive in virtual time.
#[derive(Debug)]
pub struct ConventionalDrive {
    table: ZoneTable,
    profile: ConventionalProfile,
    on_reset: OnReset,
    work: CommandTiming,
    in_flight: InFlight<InWork>,
    /// By zone: completion time of the last scheduled write. The next write is not answered earlier.
    write_due: Vec<Nanos>,
    writes_in_flight: u64,
    arbiter: Arbiter,
    medium: Box<dyn Medium>,
    unreadable: Unreadable,
    faults: Faults,
}

#[derive(Debug)]
struct InWork {
    ticket: Ticket,
    operation: Operation,
    /// Earliest completion time.
    earliest: Nanos,
}

/// The part of a command that the drive carries out at its completion time.
#[derive(Debug)]
enum Operation {
    Refuse(DeviceError),
    Read {
        lba: Lba,
        blocks: Blocks,
        buffer: Buffer,
        is_in_zone: bool,
    },
    /// With the zone whose table entry accepted the write; `None` for a block command.
    Write {
        lba: Lba,
        blocks: Blocks,
        data: Vec<Payload>,
        zone: Option<ZoneId>,
    },
    Manage {
        zone: ZoneId,
        action: ZoneAction,
    },
    Report {
        first: ZoneId,
        count: u32,
    },
    Restore {
        zone: ZoneId,
        written: Blocks,
    },
    Nothing,
    /// A lost command: never answered.
    Lost,
}

impl ConventionalDrive {
    /// Creates an empty drive. Equal seeds and equal calls give equal answers at equal times.
    ///
    /// Requires: zones by convention that lie within the drive and have no gaps between them.
    #[must_use]
    pub fn new(
        profile: ConventionalProfile,
        on_reset: OnReset,
        seed: u64,
        medium: Box<dyn Medium>,
    ) -> Self {
        let geometry = profile.drive.geometry;
        assert_eq!(geometry.kind, DeviceKind::Conventional);
        let zoned = Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0);
        assert!(zoned <= profile.user_blocks(), "the zones do not fit into the drive");
        Self {
            table: ZoneTable::new(geometry),
            on_reset,
            work: CommandTiming::new(&profile, &mut Rng::new(seed)),
            in_flight: InFlight::new(),
            write_due: alloc::vec![Nanos(0); geometry.zone_count as usize],
            writes_in_flight: 0,
            arbiter: Arbiter::new(profile.drive.controller.passed_writes),
            medium,
            unreadable: Unreadable::default(),
            faults: Faults::default(),
            profile,
        }
    }

    /// Profile of the drive that this one models.
    #[must_use]
    pub const fn profile(&self) -> &ConventionalProfile {
        &self.profile
    }

    /// Work counters of the FTL: `None` for a medium that is written in place.
    #[must_use]
    pub const fn ftl_counters(&self) -> Option<&FtlCounters> {
        self.work.ftl_counters()
    }

    /// Starts a block command. Its completion comes out of [`ZonedDevice::poll`].
    ///
    /// Block commands do not update the zone table: the caller must keep them apart from zone commands.
    ///
    /// # Errors
    /// Gives the command back when the queue is full.
    pub fn submit_block(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        command: BlockCommand,
    ) -> Result<(), BlockCommand> {
        if self.is_full() {
            return Err(command);
        }
        self.advance(now);
        if self.takes_loss(now, ticket) {
            return Ok(());
        }
        if let Err(error) = self.begin_block(now, ticket, command) {
            self.refuse(now, ticket, error);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.profile.drive.queue_depth as usize <= self.in_flight.len()
    }

    /// True when an injected fault loses the command.
    fn takes_loss(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let is_lost = self.faults.takes_loss();
        if is_lost {
            self.in_flight.insert(InWork { ticket, operation: Operation::Lost, earliest: now });
        }
        is_lost
    }

    fn begin_block(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        command: BlockCommand,
    ) -> Result<(), DeviceError> {
        match command {
            BlockCommand::Read { lba, blocks, buffer } => {
                self.check_within(lba, blocks)?;
                if buffer.blocks() < blocks {
                    return Err(DeviceError::InvalidField);
                }
                self.read(now, ticket, Operation::Read { lba, blocks, buffer, is_in_zone: false });
            }
            BlockCommand::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                self.check_within(lba, blocks)?;
                self.write(now, ticket, Operation::Write { lba, blocks, data, zone: None });
            }
            BlockCommand::Trim { lba, blocks } => {
                self.check_within(lba, blocks)?;
                let due = self.work.trim(now, lba, blocks);
                self.schedule(ticket, Operation::Nothing, due);
            }
        }
        Ok(())
    }

    /// Checks that blocks lie within one zone: the medium stores data by zone, so no command may cross a zone
    /// boundary.
    fn check_within(&self, lba: Lba, blocks: Blocks) -> Result<(), DeviceError> {
        let Geometry { zone_count, zone_size, .. } = *self.table.geometry();
        let left = zone_size - Blocks(lba.0 % zone_size.0);
        let is_on_device = lba.0 / zone_size.0 < u64::from(zone_count);
        if blocks == Blocks(0) || left < blocks || !is_on_device {
            return Err(DeviceError::InvalidField);
        }
        Ok(())
    }

    fn begin(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), DeviceError> {
        let operation = match command {
            Command::Read { lba, blocks, buffer } => {
                if buffer.blocks() < blocks {
                    return Err(DeviceError::InvalidField);
                }
                self.table.check_read(lba, blocks)?;
                self.read(now, ticket, Operation::Read { lba, blocks, buffer, is_in_zone: true });
                return Ok(());
            }
            Command::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                let zone = Some(self.table.begin_write(lba, blocks)?);
                self.write(now, ticket, Operation::Write { lba, blocks, data, zone });
                return Ok(());
            }
            Command::Append { zone, data } => {
                let blocks = whole_blocks(&data)?;
                let lba = self.table.begin_append(zone, blocks)?;
                self.write(now, ticket, Operation::Write { lba, blocks, data, zone: Some(zone) });
                return Ok(());
            }
            Command::Manage { zone, action } => Operation::Manage { zone, action },
            Command::Report { first, count } => Operation::Report { first, count },
            Command::Restore { zone, written } => Operation::Restore { zone, written },
            Command::Flush => Operation::Nothing,
        };
        let due = self.work.administrative(now);
        self.schedule(ticket, operation, due);
        Ok(())
    }

    /// Requires: a read.
    fn read(&mut self, now: Nanos, ticket: Ticket, operation: Operation) {
        let Operation::Read { lba, blocks, .. } = operation else { return };
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest: now });
        if self.arbiter.takes_read(slot, lba, blocks) {
            let due = self.work.read(now, lba, blocks);
            self.in_flight.schedule(slot, due);
        }
    }

    /// Requires: a write.
    fn write(&mut self, now: Nanos, ticket: Ticket, operation: Operation) {
        let Operation::Write { lba, blocks, zone, .. } = operation else { return };
        let earliest = self.work.receive(now, blocks, 0 < self.writes_in_flight);
        self.writes_in_flight += 1;
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest });
        if self.work.write(now, lba, blocks, slot) {
            self.schedule_write(slot, zone, earliest);
        } else {
            self.arbiter.write_waits(slot);
        }
    }

    /// Schedules a write. Writes of a zone are answered in the order in which they began, block commands in any
    /// order.
    fn schedule_write(&mut self, slot: SlotId, zone: Option<ZoneId>, earliest: Nanos) {
        let Some(zone) = zone else { return self.in_flight.schedule(slot, earliest) };
        let due = &mut self.write_due[zone.0 as usize];
        *due = earliest.max(*due);
        self.in_flight.schedule(slot, *due);
    }

    fn refuse(&mut self, now: Nanos, ticket: Ticket, error: DeviceError) {
        let due = self.work.administrative(now);
        self.schedule(ticket, Operation::Refuse(error), due);
    }

    fn schedule(&mut self, ticket: Ticket, operation: Operation, due: Nanos) {
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest: due });
        self.in_flight.schedule(slot, due);
    }

    /// Advances the write buffer to `now`, and schedules the writes that waited for room.
    fn advance(&mut self, now: Nanos) {
        while let Some((due, slot)) = self.work.pop(now) {
            self.arbiter.has_room(slot);
            while let Some(held) = self.arbiter.next_read() {
                let read = self.work.read(due, held.lba, held.blocks);
                self.in_flight.schedule(held.slot, read);
            }
            let Some(waited) = self.in_flight.get_mut(slot) else { continue };
            let earliest = waited.earliest.max(due);
            let zone = match waited.operation {
                Operation::Write { zone, .. } => zone,
                // An earlier write of the zone failed while this one waited.
                _ => None,
            };
            self.schedule_write(slot, zone, earliest);
        }
    }

    fn carry_out(&mut self, now: Nanos, operation: Operation) -> Completion {
        match operation {
            Operation::Refuse(error) => Err(error),
            Operation::Read { lba, blocks, mut buffer, is_in_zone } => {
                if is_in_zone {
                    // A reset may have emptied the zone since the submission: then the read fails.
                    self.table.check_read(lba, blocks)?;
                }
                if self.unreadable.contains_any(lba, blocks) {
                    return Err(DeviceError::Media);
                }
                if self.medium.keeps_bytes() {
                    self.medium.read(lba, blocks, &mut buffer)?;
                }
                Ok(Answer::Read(buffer))
            }
            Operation::Write { lba, blocks, data, zone } => {
                self.writes_in_flight -= 1;
                let written = self.land(lba, blocks, &data);
                match (zone, written) {
                    (Some(zone), Ok(())) => self.table.end_write(zone, blocks),
                    (Some(zone), Err(_)) => self.abort_writes(zone),
                    (None, _) => (),
                }
                written.map(|()| Answer::Written(lba))
            }
            Operation::Manage { zone, action } => self.manage(now, zone, action),
            Operation::Report { first, count } => {
                self.table.report(first, count).map(Answer::Report)
            }
            Operation::Restore { zone, written } => {
                self.table.restore(zone, written).map(|()| Answer::Done)
            }
            Operation::Nothing => Ok(Answer::Done),
            Operation::Lost => Err(DeviceError::DeviceGone),
        }
    }

    fn land(&mut self, lba: Lba, blocks: Blocks, data: &[Payload]) -> Result<(), DeviceError> {
        if let Some(error) = self.faults.write_error(self.table.geometry().zone_of(lba)) {
            return Err(error);
        }
        self.medium.write(lba, data)?;
        self.unreadable.forget(lba, blocks);
        Ok(())
    }

    /// Fails the oldest write in flight in the zone, and all writes behind it.
    fn abort_writes(&mut self, zone: ZoneId) {
        self.table.abort_writes(zone);
        for work in self.in_flight.iter_mut() {
            if matches!(work.operation, Operation::Write { zone: Some(z), .. } if z == zone) {
                work.operation = Operation::Refuse(DeviceError::InvalidWrite);
                self.writes_in_flight -= 1;
            }
        }
    }

    /// Zone management: only a reset may reach the drive, as a trim. All other zone states are known only to the
    /// host.
    fn manage(&mut self, now: Nanos, zone: ZoneId, action: ZoneAction) -> Completion {
        self.table.manage(zone, action)?;
        if action == ZoneAction::Reset && self.on_reset == OnReset::Trim {
            let Geometry { zone_size, .. } = *self.table.geometry();
            self.work.trim(now, self.table.geometry().zone_start(zone), zone_size);
        }
        Ok(Answer::Done)
    }
}

impl ZonedDevice for ConventionalDrive {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.is_full() {
            return Err(command);
        }
        self.advance(now);
        if self.takes_loss(now, ticket) {
            return Ok(());
        }
        if let Err(error) = self.begin(now, ticket, command) {
            self.refuse(now, ticket, error);
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.advance(now);
        let (_, work) = self.in_flight.pop(now)?;
        Some((work.ticket, self.carry_out(now, work.operation)))
    }

    fn next_event(&self) -> Option<Nanos> {
        let waiting = self.work.next_due();
        match (self.in_flight.next_due(), waiting) {
            (Some(due), Some(room)) => Some(due.min(room)),
            (due, room) => due.or(room),
        }
    }
}

#[cfg(test)]
mod tests;
