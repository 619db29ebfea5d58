//! A device in memory, for tests and simulation: it answers late, out of order, and can fail.
//!
//! Time is the caller's: a command takes as long as the seed says, and its effect is there when it is
//! answered, not before. The order of two commands in flight at once is the device's to choose, save
//! that writes of one zone land in order. Equal seeds and equal calls give equal answers.
//!
//! Read in this order: this file, `medium` (the bytes), `crash` (what a crash leaves of them).

mod crash;
mod medium;

pub use crash::Crash;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Nanos, Payload, Rng, Ticket, ZoneId};

use crate::{
    Action, Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneReport, ZoneState,
    ZoneTable, ZonedDevice, whole_blocks,
};
use medium::Medium;

/// How a [`RamDevice`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct RamOptions {
    /// Where its latencies come from.
    pub seed: u64,
    /// Commands that it takes before it gives the next one back.
    pub queue_depth: usize,
    /// The shortest time that a command takes.
    pub latency: Nanos,
    /// How much longer than that it may take.
    pub latency_spread: Nanos,
}

impl Default for RamOptions {
    /// Answers at once.
    fn default() -> Self {
        Self { seed: 0, queue_depth: 256, latency: Nanos(0), latency_spread: Nanos(0) }
    }
}

/// A zoned or conventional device in memory.
#[derive(Debug)]
pub struct RamDevice {
    table: ZoneTable,
    medium: Medium,
    options: RamOptions,
    rng: Rng,
    /// By the time of the answer, then by the order of submission.
    in_flight: BTreeMap<(Nanos, u64), (Ticket, Operation)>,
    submitted_count: u64,
    /// When the last write in flight of a zone is answered: the next is not answered before.
    writes_due: BTreeMap<ZoneId, Nanos>,
    failing_writes: BTreeSet<ZoneId>,
    is_gone: bool,
}

/// What a device held: of each zone its state and its bytes.
#[derive(Clone, Debug)]
pub struct Image(Vec<(ZoneReport, Vec<u8>)>);

impl Image {
    /// What the zone held.
    #[must_use]
    pub fn zone_bytes(&self, zone: ZoneId) -> &[u8] {
        &self.0[zone.0 as usize].1
    }
}

/// What is left to do when a command's time has come.
#[derive(Debug)]
enum Operation {
    Refuse(DeviceError),
    Read { lba: Lba, blocks: Blocks, buffer: Buffer },
    Write { zone: ZoneId, lba: Lba, blocks: Blocks, data: Vec<Payload> },
    Manage { zone: ZoneId, action: Action },
    Report { first: ZoneId, count: u32 },
    Restore { zone: ZoneId, written: Blocks },
    Flush { covers: u64 },
}

impl RamDevice {
    /// An empty device.
    #[must_use]
    pub fn new(geometry: Geometry, options: RamOptions) -> Self {
        Self {
            table: ZoneTable::new(geometry),
            medium: Medium::new(&geometry),
            options,
            rng: Rng::new(options.seed),
            in_flight: BTreeMap::new(),
            submitted_count: 0,
            writes_due: BTreeMap::new(),
            failing_writes: BTreeSet::new(),
            is_gone: false,
        }
    }

    /// Silently turns one bit of a block over.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// Reads of the block fail with `Media` until it is written again or its zone is reset.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.medium.make_unreadable(lba);
    }

    /// The next write of the zone to be answered fails with `Media`, and nothing of it lands.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.failing_writes.insert(zone);
    }

    /// The zone keeps its data and takes no more; writes in flight fail.
    pub fn make_read_only(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::ReadOnly, DeviceError::ZoneReadOnly);
    }

    /// The zone's data and space are gone; writes in flight fail.
    pub fn take_offline(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::Offline, DeviceError::ZoneOffline);
    }

    /// The device answers `DeviceGone` to everything, also to what is in flight.
    pub fn kill(&mut self) {
        self.is_gone = true;
    }

    /// What a zone holds, as far as it was ever written.
    #[must_use]
    pub fn zone_bytes(&self, zone: ZoneId) -> Vec<u8> {
        self.medium.zone_bytes(zone).to_vec()
    }

    /// Silently puts other bytes in the place of what a zone holds. Its state stays what it is.
    pub fn replace_zone_bytes(&mut self, zone: ZoneId, bytes: Vec<u8>) {
        self.medium.replace_zone_bytes(zone, bytes);
    }

    /// All that the device holds. Requires: nothing is in flight.
    #[must_use]
    pub fn image(&self) -> Image {
        assert!(self.in_flight.is_empty(), "what is in flight is in no image");
        let zones = self.geometry().zones();
        let of_zone = |zone| (self.table.look(zone), self.zone_bytes(zone));
        Image(zones.map(of_zone).collect())
    }

    /// Silently becomes what it was. Requires: nothing is in flight.
    pub fn revert(&mut self, image: &Image) {
        assert!(self.in_flight.is_empty(), "what is in flight is in no image");
        let reports: Vec<ZoneReport> = image.0.iter().map(|(report, _)| *report).collect();
        self.table = ZoneTable::from_reports(*self.geometry(), &reports);
        for (report, bytes) in &image.0 {
            self.medium.replace_zone_bytes(report.zone, bytes.clone());
        }
    }

    fn retire(&mut self, zone: ZoneId, to: ZoneState, error: DeviceError) {
        self.table.retire(zone, to);
        self.refuse_writes_in_flight(zone, error);
    }

    fn refuse_writes_in_flight(&mut self, zone: ZoneId, error: DeviceError) {
        for (_, operation) in self.in_flight.values_mut() {
            if matches!(operation, Operation::Write { zone: z, .. } if *z == zone) {
                *operation = Operation::Refuse(error);
            }
        }
    }

    /// Checks a command and takes what it needs of the zone.
    fn begin(&mut self, command: Command) -> Result<Operation, DeviceError> {
        Ok(match command {
            Command::Read { lba, blocks, buffer } => {
                if buffer.blocks() < blocks {
                    return Err(DeviceError::InvalidField);
                }
                self.table.check_read(lba, blocks)?;
                Operation::Read { lba, blocks, buffer }
            }
            Command::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                let zone = self.table.begin_write(lba, blocks)?;
                Operation::Write { zone, lba, blocks, data }
            }
            Command::Append { zone, data } => {
                let blocks = whole_blocks(&data)?;
                let lba = self.table.begin_append(zone, blocks)?;
                Operation::Write { zone, lba, blocks, data }
            }
            Command::Manage { zone, action } => Operation::Manage { zone, action },
            Command::Report { first, count } => Operation::Report { first, count },
            Command::Restore { zone, written } => Operation::Restore { zone, written },
            Command::Flush => Operation::Flush { covers: self.medium.last_write() },
        })
    }

    fn due(&mut self, now: Nanos, operation: &Operation) -> Nanos {
        let RamOptions { latency, latency_spread, .. } = self.options;
        let due = now + latency + Nanos(self.rng.below(latency_spread.0 + 1));
        match operation {
            Operation::Write { zone, .. } => {
                let last = self.writes_due.entry(*zone).or_default();
                *last = due.max(*last);
                *last
            }
            _ => due,
        }
    }

    fn carry_out(&mut self, operation: Operation) -> Completion {
        if self.is_gone {
            return Err(DeviceError::DeviceGone);
        }
        match operation {
            Operation::Refuse(error) => Err(error),
            Operation::Read { lba, blocks, mut buffer } => {
                // The zone may have been reset since: then there is nothing to read.
                self.table.check_read(lba, blocks)?;
                let bytes = zonal_base::index(blocks.bytes().0);
                self.medium.read(lba, &mut buffer.bytes_mut()[..bytes])?;
                Ok(Answer::Read(buffer))
            }
            Operation::Write { zone, .. } if self.failing_writes.remove(&zone) => {
                self.table.abort_writes(zone);
                self.refuse_writes_in_flight(zone, DeviceError::InvalidWrite);
                Err(DeviceError::Media)
            }
            Operation::Write { zone, lba, blocks, data } => {
                self.medium.write(lba, data.iter().map(Payload::as_bytes));
                self.table.end_write(zone, blocks);
                Ok(Answer::Written(lba))
            }
            Operation::Manage { zone, action } => {
                self.table.manage(zone, action)?;
                if self.geometry().kind == DeviceKind::Zoned {
                    self.medium.managed(zone, action);
                }
                Ok(Answer::Done)
            }
            Operation::Report { first, count } => {
                self.table.report(first, count).map(Answer::Report)
            }
            Operation::Restore { zone, written } => {
                self.table.restore(zone, written).map(|()| Answer::Done)
            }
            Operation::Flush { covers } => {
                self.medium.flushed(covers);
                Ok(Answer::Done)
            }
        }
    }
}

impl ZonedDevice for RamDevice {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.options.queue_depth <= self.in_flight.len() {
            return Err(command);
        }
        let operation = self.begin(command).unwrap_or_else(Operation::Refuse);
        let due = self.due(now, &operation);
        self.submitted_count += 1;
        self.in_flight.insert((due, self.submitted_count), (ticket, operation));
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        let first = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (ticket, operation) = first.remove();
        Some((ticket, self.carry_out(operation)))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.in_flight.first_key_value().map(|((due, _), _)| *due)
    }
}

#[cfg(test)]
mod tests;
