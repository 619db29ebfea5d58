//! A drive without zones: any block can be written at any time, and the drive makes its own room.
//!
//! 1. A command comes with zones by agreement ([`ZonedDevice::submit`]: the table of `device` judges
//!    it, as for any device) or without ([`ConventionalDrive::submit_block`]).
//! 2. A write goes through the translation layer (`ftl`). What this programs and copies all goes through the one
//!    write buffer: the host waits for the room that garbage collection takes (`work`).
//! 3. [`ZonedDevice::poll`] carries a command out when its time has come.
//!
//! The buffer of every drive here is protected against loss of power: what was answered survives (`faults`).

mod faults;
mod profile;
mod work;

pub use profile::ConventionalProfile;

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Nanos, Payload, Rng, Ticket, ZoneId};
use zonal_device::{
    Action, Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneTable, ZonedDevice,
    whole_blocks,
};

use crate::faults::Faults;
use crate::ftl::FtlCounters;
use crate::in_flight::{InFlight, SlotId};
use crate::intake::Intake;
use crate::payload::{Medium, Unreadable};
use work::Work;

/// What a drive is told when a zone is reset, which it knows nothing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReset {
    /// Nothing: the old blocks stay valid to it until they are written again.
    Nothing,
    /// That it may forget the blocks of the zone.
    Trim,
}

/// A command that asks for blocks wherever they are, as a drive without zones takes it. Its blocks lie
/// within one of the zones by agreement.
#[derive(Debug)]
pub enum BlockCommand {
    /// Read blocks into the front of `buffer`.
    Read {
        /// First block.
        lba: Lba,
        /// How many.
        blocks: Blocks,
        /// Where to; comes back in [`Answer::Read`].
        buffer: Buffer,
    },
    /// Write pieces one after the other. Answered with [`Answer::Written`].
    Write {
        /// First block.
        lba: Lba,
        /// The pieces, whole blocks at block-aligned addresses.
        data: Vec<Payload>,
    },
    /// Forget what blocks held.
    Trim {
        /// First block.
        lba: Lba,
        /// How many.
        blocks: Blocks,
    },
}

/// A drive without zones in virtual time.
#[derive(Debug)]
pub struct ConventionalDrive {
    table: ZoneTable,
    profile: ConventionalProfile,
    on_reset: OnReset,
    work: Work,
    in_flight: InFlight<InWork>,
    /// When the last write of each zone that has its time is answered: the next is not before.
    write_due: Vec<Nanos>,
    writes_in_flight: u64,
    intake: Intake,
    medium: Box<dyn Medium>,
    unreadable: Unreadable,
    faults: Faults,
}

#[derive(Debug)]
struct InWork {
    ticket: Ticket,
    operation: Operation,
    /// Not answered before.
    earliest: Nanos,
}

/// What is left to do when a command's time has come.
#[derive(Debug)]
enum Operation {
    Refuse(DeviceError),
    Read {
        lba: Lba,
        blocks: Blocks,
        buffer: Buffer,
        is_in_zone: bool,
    },
    /// With the zone that judged it, or none.
    Write {
        lba: Lba,
        blocks: Blocks,
        data: Vec<Payload>,
        zone: Option<ZoneId>,
    },
    Manage {
        zone: ZoneId,
        action: Action,
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
    /// Never answered.
    Lost,
}

impl ConventionalDrive {
    /// A drive to which nothing was written. Equal seeds and equal calls give equal answers at equal
    /// times.
    ///
    /// Requires: zones by agreement that lie within the drive and have no gaps between them.
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
            work: Work::new(&profile, &mut Rng::new(seed)),
            in_flight: InFlight::new(),
            write_due: alloc::vec![Nanos(0); geometry.zone_count as usize],
            writes_in_flight: 0,
            intake: Intake::new(profile.drive.controller.passed_writes),
            medium,
            unreadable: Unreadable::default(),
            faults: Faults::default(),
            profile,
        }
    }

    /// What it is a model of.
    #[must_use]
    pub const fn profile(&self) -> &ConventionalProfile {
        &self.profile
    }

    /// What its translation layer did: `None` for a medium that is written in place.
    #[must_use]
    pub const fn ftl_counters(&self) -> Option<&FtlCounters> {
        self.work.ftl_counters()
    }

    /// Starts a command that knows nothing of zones; its answer comes out of [`ZonedDevice::poll`].
    ///
    /// The zones of the agreement know nothing of it either: whoever uses both keeps them apart.
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

    /// True when the command is lost.
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

    /// What is kept is kept by zones: no command crosses from one to the next.
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
        if self.intake.takes_read(slot, lba, blocks) {
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
            self.intake.write_waits(slot);
        }
    }

    /// Writes of a zone are answered in the order in which they began; others as they come.
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

    /// Lets the write buffer drain until `now`: writes that waited for room get their time.
    fn advance(&mut self, now: Nanos) {
        while let Some((due, slot)) = self.work.pop(now) {
            self.intake.has_room(slot);
            while let Some(held) = self.intake.next_read() {
                let read = self.work.read(due, held.lba, held.blocks);
                self.in_flight.schedule(held.slot, read);
            }
            let Some(waited) = self.in_flight.get_mut(slot) else { continue };
            let earliest = waited.earliest.max(due);
            let zone = match waited.operation {
                Operation::Write { zone, .. } => zone,
                // One before it in its zone failed while it waited.
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
                    // The zone may have been reset since: then there is nothing to read.
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
        if self.faults.takes_write_error(self.table.geometry().zone_of(lba)) {
            return Err(DeviceError::Media);
        }
        self.medium.write(lba, data)?;
        self.unreadable.forget(lba, blocks);
        Ok(())
    }

    /// The oldest write in flight in the zone failed, and with it those behind it.
    fn abort_writes(&mut self, zone: ZoneId) {
        self.table.abort_writes(zone);
        for work in self.in_flight.iter_mut() {
            if matches!(work.operation, Operation::Write { zone: Some(z), .. } if z == zone) {
                work.operation = Operation::Refuse(DeviceError::InvalidWrite);
                self.writes_in_flight -= 1;
            }
        }
    }

    /// Only a reset may reach the drive; all else about zones is the host's own knowledge.
    fn manage(&mut self, now: Nanos, zone: ZoneId, action: Action) -> Completion {
        self.table.manage(zone, action)?;
        if action == Action::Reset && self.on_reset == OnReset::Trim {
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
