//! Emulated ZNS drive: zone state machine, write buffer and flash timing behind the [`ZonedDevice`] contract.
//!
//! 1. [`ZonedDevice::submit`] checks the command against the zone table and computes its latency (`timing`).
//! 2. Writes without buffer room, and finishes, wait until the write buffer has drained. All other commands get their
//!    completion time at once. A read may first wait behind such writes (`arbiter`).
//! 3. [`ZonedDevice::poll`] carries a command out at its completion time: its effect becomes visible when the drive
//!    answers, not before.
//!
//! The zone table of `device` alone decides which commands a zone's state allows.

mod power_on;
mod timing;

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Nanos, Payload, Rng, Ticket, ZoneId};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneAction, ZoneReport, ZoneState,
    ZoneTable, ZonedDevice, whole_blocks,
};

use crate::arbiter::Arbiter;
use crate::buffer::{Padding, WriteBuffer};
use crate::faults::Faults;
use crate::in_flight::{InFlight, SlotId};
use crate::payload::{Medium, Unreadable};
use crate::profile::Profile;
pub(crate) use power_on::state_at_power_on;
use timing::{ResetEnd, Timing, WriteKind, ZoneEnd};

/// Zoned drive in virtual time.
#[derive(Debug)]
pub struct ZonedDrive {
    pub(crate) table: ZoneTable,
    /// Geometry as the drive reports it. A fault that lowers the real limits does not change this one.
    pub(crate) geometry: Geometry,
    pub(crate) profile: Profile,
    pub(crate) timing: Timing,
    pub(crate) buffer: WriteBuffer,
    pub(crate) in_flight: InFlight<InWork>,
    pub(crate) zones: Vec<ZoneFlags>,
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) unreadable: Unreadable,
    pub(crate) faults: Faults,
    writes_in_flight: u64,
    pub(crate) arbiter: Arbiter,
}

/// State of a zone in addition to the zone table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZoneFlags {
    /// Completion time of the zone's last scheduled write. The next write is not answered earlier.
    write_due: Nanos,
    /// Blocks written since the last reset; padding does not count.
    data: Blocks,
    was_finished: bool,
    /// Blocks that a power cut cannot lose. Maintained only where the buffer is not protected.
    pub(crate) durable: Blocks,
}

impl ZoneFlags {
    pub(crate) const fn was_finished(&self) -> bool {
        self.was_finished
    }

    pub(crate) fn land(&mut self, blocks: Blocks) {
        self.data += blocks;
    }

    pub(crate) fn lose(&mut self, blocks: Blocks) {
        self.data = self.data - blocks;
    }
}

#[derive(Debug)]
pub(crate) struct InWork {
    pub(crate) ticket: Ticket,
    pub(crate) operation: Operation,
    /// Earliest completion time.
    earliest: Nanos,
}

/// The part of a command that the drive carries out at its completion time.
#[derive(Debug)]
pub(crate) enum Operation {
    Refuse(DeviceError),
    Read {
        lba: Lba,
        blocks: Blocks,
        buffer: Buffer,
    },
    Write {
        zone: ZoneId,
        lba: Lba,
        blocks: Blocks,
        data: Vec<Payload>,
    },
    Manage {
        zone: ZoneId,
        action: ZoneAction,
    },
    /// A reset that the zone's state allowed at submission.
    Reset {
        zone: ZoneId,
        end: ResetEnd,
    },
    Report {
        first: ZoneId,
        count: u32,
    },
    Restore {
        zone: ZoneId,
        written: Blocks,
    },
    Flush,
    /// A lost command: never answered.
    Lost,
}

impl ZonedDrive {
    /// Creates an empty drive. Equal seeds and equal calls give equal answers at equal times.
    ///
    /// Requires: a profile with zones of its own.
    #[must_use]
    pub fn new(profile: Profile, seed: u64, medium: Box<dyn Medium>) -> Self {
        assert!(profile.zones.is_some());
        let geometry = profile.geometry;
        let mut rng = Rng::new(seed);
        Self {
            table: ZoneTable::new(geometry),
            geometry,
            timing: Timing::new(&profile, &mut rng),
            buffer: WriteBuffer::new(&profile.buffer, geometry.zone_count, rng.next_u64()),
            in_flight: InFlight::new(),
            zones: alloc::vec![ZoneFlags::default(); geometry.zone_count as usize],
            medium,
            unreadable: Unreadable::default(),
            faults: Faults::default(),
            writes_in_flight: 0,
            arbiter: Arbiter::new(profile.controller.passed_writes),
            profile,
        }
    }

    /// Profile of the drive that this one models.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Checks a command, updates its zone, and starts it.
    fn begin(&mut self, now: Nanos, ticket: Ticket, command: Command) {
        let begun = match command {
            Command::Read { lba, blocks, buffer } => {
                return self.begin_read(now, ticket, lba, blocks, buffer);
            }
            Command::Write { lba, data } => return self.begin_write(now, ticket, lba, data),
            Command::Append { zone, data } => return self.begin_append(now, ticket, zone, data),
            Command::Manage { zone, action } => {
                return self.begin_manage(now, ticket, zone, action);
            }
            Command::Report { first, count } => Ok((Operation::Report { first, count }, None)),
            Command::Restore { zone, written } => Ok((Operation::Restore { zone, written }, None)),
            Command::Flush => Ok((Operation::Flush, None)),
        };
        let (operation, due) = begun.unwrap_or_else(|error| (Operation::Refuse(error), None));
        let due = due.unwrap_or_else(|| self.timing.administrative(now));
        self.schedule(ticket, operation, due);
    }

    fn begin_read(&mut self, now: Nanos, ticket: Ticket, lba: Lba, blocks: Blocks, buffer: Buffer) {
        let fits = if buffer.blocks() < blocks { Err(DeviceError::InvalidField) } else { Ok(()) };
        if let Err(error) = fits.and_then(|()| self.table.check_read(lba, blocks)) {
            return self.refuse(now, ticket, error);
        }
        self.medium.prefetch(lba);
        let operation = Operation::Read { lba, blocks, buffer };
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest: now });
        if self.arbiter.takes_read(slot, lba, blocks) {
            self.start_read(now, slot, lba, blocks);
        }
    }

    fn start_read(&mut self, now: Nanos, slot: SlotId, lba: Lba, blocks: Blocks) {
        let (zone, at) = (self.geometry.zone_of(lba), self.geometry.offset_in_zone(lba));
        self.timing.nand.programmed(now, self.buffer.drained());
        let read = self.timing.read(now, zone, at, blocks);
        self.buffer.hold_up(now, read.held_up);
        self.in_flight.schedule(slot, read.done);
    }

    fn begin_write(&mut self, now: Nanos, ticket: Ticket, lba: Lba, data: Vec<Payload>) {
        let was_open = self.is_open_at(lba);
        let begun = whole_blocks(&data)
            .and_then(|blocks| Ok((self.table.begin_write(lba, blocks)?, blocks)));
        match begun {
            Ok((zone, blocks)) => {
                let others_in_flight = 0 < self.writes_in_flight;
                let kind = WriteKind { is_append: false, opens_zone: !was_open, others_in_flight };
                let operation = Operation::Write { zone, lba, blocks, data };
                self.write(now, ticket, kind, (zone, blocks), operation);
            }
            Err(error) => self.refuse(now, ticket, error),
        }
    }

    fn begin_append(&mut self, now: Nanos, ticket: Ticket, zone: ZoneId, data: Vec<Payload>) {
        let was_open = zone.0 < self.geometry.zone_count && self.table.look(zone).state.is_open();
        let begun = whole_blocks(&data)
            .and_then(|blocks| Ok((self.table.begin_append(zone, blocks)?, blocks)));
        match begun {
            Ok((lba, blocks)) => {
                let others_in_flight = 0 < self.writes_in_flight;
                let kind = WriteKind { is_append: true, opens_zone: !was_open, others_in_flight };
                let operation = Operation::Write { zone, lba, blocks, data };
                self.write(now, ticket, kind, (zone, blocks), operation);
            }
            Err(error) => self.refuse(now, ticket, error),
        }
    }

    fn is_open_at(&self, lba: Lba) -> bool {
        let end = u64::from(self.geometry.zone_count) * self.geometry.zone_size.0;
        lba.0 < end && self.table.look(self.geometry.zone_of(lba)).state.is_open()
    }

    fn write(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        kind: WriteKind,
        (zone, blocks): (ZoneId, Blocks),
        operation: Operation,
    ) {
        // Also done without reads: a read must meet the programs of the last moments, not an average since the last
        // read.
        self.timing.nand.programmed(now, self.buffer.drained());
        let earliest = self.timing.write(now, kind, zone, blocks);
        self.writes_in_flight += 1;
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest });
        if self.buffer.write(now, zone.0, blocks, slot) {
            self.schedule_write(slot, zone, earliest);
        } else {
            self.arbiter.write_waits(slot);
        }
    }

    /// Schedules a write. Writes of a zone are answered in the order in which they began.
    fn schedule_write(&mut self, slot: SlotId, zone: ZoneId, earliest: Nanos) {
        let facts = &mut self.zones[zone.0 as usize];
        facts.write_due = facts.write_due.max(earliest);
        self.in_flight.schedule(slot, facts.write_due);
    }

    fn begin_manage(&mut self, now: Nanos, ticket: Ticket, zone: ZoneId, action: ZoneAction) {
        if self.geometry.zone_count <= zone.0 {
            return self.refuse(now, ticket, DeviceError::InvalidField);
        }
        let report = self.table.look(zone);
        let operation = Operation::Manage { zone, action };
        let is_allowed = report.state.after(action).is_ok();
        let due = match action {
            ZoneAction::Finish if is_allowed && report.state != ZoneState::Full => {
                return self.begin_finish(now, ticket, zone, report.written);
            }
            ZoneAction::Reset if is_allowed => return self.begin_reset(now, ticket, report),
            ZoneAction::Open if is_allowed => self.timing.open(now),
            ZoneAction::Close if is_allowed => self.timing.close(now),
            _ => self.timing.administrative(now),
        };
        self.schedule(ticket, operation, due);
    }

    fn begin_reset(&mut self, now: Nanos, ticket: Ticket, report: ZoneReport) {
        let facts = self.zones[report.zone.0 as usize];
        let (written, end) = match report.state {
            ZoneState::Full if facts.was_finished => (facts.data, ZoneEnd::Finished),
            ZoneState::Full => (report.written, ZoneEnd::Written),
            _ => (report.written, ZoneEnd::Open),
        };
        let end = self.timing.reset(now, written, end);
        let operation = Operation::Reset { zone: report.zone, end };
        self.schedule(ticket, operation, self.timing.reset_done(end));
    }

    /// Begins a finish: its padding shares the program bandwidth with the written zones.
    fn begin_finish(&mut self, now: Nanos, ticket: Ticket, zone: ZoneId, written: Blocks) {
        let operation = Operation::Manage { zone, action: ZoneAction::Finish };
        if written == Blocks(0) {
            let due = self.timing.finish_empty(now);
            return self.schedule(ticket, operation, due);
        }
        let blocks = self.geometry.zone_capacity - written;
        let earliest = now + self.timing.zones.finish;
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest });
        let cost_permille = self.timing.zones.padding_permille;
        self.buffer.pad(now, zone.0, Padding { blocks, cost_permille }, slot);
    }

    fn refuse(&mut self, now: Nanos, ticket: Ticket, error: DeviceError) {
        let due = self.timing.administrative(now);
        self.schedule(ticket, Operation::Refuse(error), due);
    }

    fn schedule(&mut self, ticket: Ticket, operation: Operation, due: Nanos) {
        let slot = self.in_flight.insert(InWork { ticket, operation, earliest: due });
        self.in_flight.schedule(slot, due);
    }

    /// Advances the write buffer to `now`, and schedules the commands that waited for it.
    fn advance(&mut self, now: Nanos) {
        while let Some((due, slot)) = self.buffer.pop(now) {
            self.arbiter.has_room(slot);
            while let Some(held) = self.arbiter.next_read() {
                self.start_read(due, held.slot, held.lba, held.blocks);
            }
            let Some(work) = self.in_flight.get_mut(slot) else { continue };
            let earliest = work.earliest.max(due);
            match work.operation {
                Operation::Write { zone, .. } => self.schedule_write(slot, zone, earliest),
                Operation::Manage { .. } => {
                    let due = self.timing.finished(earliest);
                    self.in_flight.schedule(slot, due);
                }
                // The zone was retired, or an earlier write of it failed, while the command waited.
                _ => self.in_flight.schedule(slot, earliest),
            }
        }
    }

    pub(crate) fn carry_out(&mut self, operation: Operation) -> Completion {
        if self.faults.is_gone {
            return Err(DeviceError::DeviceGone);
        }
        match operation {
            Operation::Refuse(error) => Err(error),
            Operation::Read { lba, blocks, buffer } => self.carry_out_read(lba, blocks, buffer),
            Operation::Write { zone, lba, blocks, data } => {
                self.carry_out_write(zone, lba, blocks, &data)
            }
            Operation::Manage { zone, action } => self.carry_out_manage(zone, action),
            Operation::Reset { zone, .. } => self.carry_out_manage(zone, ZoneAction::Reset),
            Operation::Report { first, count } => {
                self.table.report(first, count).map(Answer::Report)
            }
            Operation::Restore { zone, written } => {
                self.table.restore(zone, written).map(|()| Answer::Done)
            }
            Operation::Flush => {
                self.flush();
                Ok(Answer::Done)
            }
            Operation::Lost => Err(DeviceError::DeviceGone),
        }
    }

    fn carry_out_read(&mut self, lba: Lba, blocks: Blocks, mut buffer: Buffer) -> Completion {
        // A reset may have emptied the zone since the submission: then the read fails.
        self.table.check_read(lba, blocks)?;
        if self.unreadable.contains_any(lba, blocks) {
            return Err(DeviceError::Media);
        }
        if self.medium.keeps_bytes() {
            self.medium.read(lba, blocks, &mut buffer)?;
        }
        Ok(Answer::Read(buffer))
    }

    fn carry_out_write(
        &mut self,
        zone: ZoneId,
        lba: Lba,
        blocks: Blocks,
        data: &[Payload],
    ) -> Completion {
        let written = match self.faults.write_error(zone) {
            Some(error) => Err(error),
            None => self.medium.write(lba, data),
        };
        if let Err(error) = written {
            self.table.abort_writes(zone);
            self.refuse_writes_in_flight(zone, DeviceError::InvalidWrite);
            return Err(error);
        }
        self.unreadable.forget(lba, blocks);
        self.table.end_write(zone, blocks);
        let facts = &mut self.zones[zone.0 as usize];
        facts.data += blocks;
        if !self.profile.buffer.power_loss_protected {
            let behind = self.buffer.backlog(zone.0).0;
            facts.durable = facts.durable.max(Blocks(facts.data.0.saturating_sub(behind)));
        }
        Ok(Answer::Written(lba))
    }

    fn carry_out_manage(&mut self, zone: ZoneId, action: ZoneAction) -> Completion {
        let was_full = self.table.look(zone).state == ZoneState::Full;
        self.table.manage(zone, action)?;
        let facts = &mut self.zones[zone.0 as usize];
        match action {
            ZoneAction::Reset => {
                *facts = ZoneFlags { write_due: facts.write_due, ..ZoneFlags::default() };
                self.medium.truncate(zone, Blocks(0));
                self.unreadable.forget(self.geometry.zone_start(zone), self.geometry.zone_size);
            }
            ZoneAction::Finish if !was_full => {
                (facts.was_finished, facts.durable) = (true, self.geometry.zone_capacity);
                self.medium.finish(zone);
            }
            _ => (),
        }
        Ok(Answer::Done)
    }

    pub(crate) fn refuse_writes_in_flight(&mut self, zone: ZoneId, error: DeviceError) {
        let mut refused = 0;
        for work in self.in_flight.iter_mut() {
            if matches!(work.operation, Operation::Write { zone: z, .. } if z == zone) {
                work.operation = Operation::Refuse(error);
                refused += 1;
            }
        }
        self.writes_in_flight -= refused;
    }

    pub(crate) fn forget_writes_in_flight(&mut self) {
        self.writes_in_flight = 0;
        for facts in &mut self.zones {
            facts.write_due = Nanos(0);
        }
    }

    /// Flush: every answered write survives a power cut from now on.
    fn flush(&mut self) {
        if self.profile.buffer.power_loss_protected {
            return;
        }
        for facts in &mut self.zones {
            facts.durable = facts.durable.max(facts.data);
        }
    }
}

impl ZonedDevice for ZonedDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.profile.queue_depth as usize <= self.in_flight.len() {
            return Err(command);
        }
        self.advance(now);
        if self.faults.takes_loss() {
            self.in_flight.insert(InWork { ticket, operation: Operation::Lost, earliest: now });
            return Ok(());
        }
        self.begin(now, ticket, command);
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.advance(now);
        loop {
            let due = self.in_flight.next_due()?;
            let (_, work) = self.in_flight.pop(now)?;
            match &work.operation {
                Operation::Write { .. } => self.writes_in_flight -= 1,
                Operation::Reset { end, .. } => {
                    // Writes delayed the reset.
                    let done = self.timing.reset_done(*end);
                    if due < done {
                        self.schedule(work.ticket, work.operation, done);
                        continue;
                    }
                }
                _ => (),
            }
            return Some((work.ticket, self.carry_out(work.operation)));
        }
    }

    /// May be earlier than the next completion, when the shares of the write buffer change before. Then `poll`
    /// returns nothing, and the next event has a later time.
    fn next_event(&self) -> Option<Nanos> {
        match (self.in_flight.next_due(), self.buffer.next_due()) {
            (Some(due), Some(room)) => Some(due.min(room)),
            (due, room) => due.or(room),
        }
    }
}

#[cfg(test)]
mod tests;
