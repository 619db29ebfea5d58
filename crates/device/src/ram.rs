//! RAM device for tests and simulation: a zoned device in memory with latency, reordered completions and faults.
//!
//! The caller owns the time. The seed decides how long a command takes. The effect of a command becomes visible when
//! the device answers it, not before. The device chooses the order of two commands in flight, but writes of one zone
//! land in order. Equal seeds and equal calls give equal answers.
//!
//! Read in this order: this file, `medium` (the bytes), `crash` (their state after a crash).

mod crash;
mod medium;

pub use crash::Crash;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Nanos, Payload, Rng, Ticket, ZoneId};

use crate::{
    Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneAction, ZoneReport,
    ZoneState, ZoneTable, ZonedDevice, whole_blocks,
};
use medium::Medium;

/// Queue depth and latencies of a [`RamDevice`].
#[derive(Clone, Copy, Debug)]
pub struct RamOptions {
    /// Seed of the random latencies.
    pub seed: u64,
    /// Queue depth: the commands in flight at which the device gives the next one back.
    pub queue_depth: usize,
    /// Minimum latency of a command.
    pub latency: Nanos,
    /// Maximum random latency of a command in addition to the minimum.
    pub latency_spread: Nanos,
    /// One read of 32 takes up to this much longer, as behind an erase.
    pub slow_reads: Nanos,
}

impl Default for RamOptions {
    /// Zero latency and 256 commands in flight.
    fn default() -> Self {
        let none = Nanos(0);
        Self { seed: 0, queue_depth: 256, latency: none, latency_spread: none, slow_reads: none }
    }
}

/// Zoned or conventional device in memory.
#[derive(Debug)]
pub struct RamDevice {
    table: ZoneTable,
    medium: Medium,
    options: RamOptions,
    rng: Rng,
    /// Commands in flight, by the time of their answer, then by the order of submission.
    in_flight: BTreeMap<(Nanos, u64), (Ticket, Operation)>,
    submitted_count: u64,
    /// Time at which the last write in flight of a zone is answered. The next write is not answered earlier.
    writes_due: BTreeMap<ZoneId, Nanos>,
    failing_writes: BTreeSet<ZoneId>,
    takes_no_writes: bool,
    is_gone: bool,
}

/// Image of a device: the state and the bytes of each zone.
#[derive(Clone, Debug)]
pub struct Image(Vec<(ZoneReport, Vec<u8>)>);

impl Image {
    /// Bytes of the zone in the image.
    #[must_use]
    pub fn zone_bytes(&self, zone: ZoneId) -> &[u8] {
        &self.0[zone.0 as usize].1
    }
}

/// The part of a command that the device carries out when its answer is due.
#[derive(Debug)]
enum Operation {
    Refuse(DeviceError),
    Read { lba: Lba, blocks: Blocks, buffer: Buffer },
    Write { zone: ZoneId, lba: Lba, blocks: Blocks, data: Vec<Payload> },
    Manage { zone: ZoneId, action: ZoneAction },
    Report { first: ZoneId, count: u32 },
    Restore { zone: ZoneId, written: Blocks },
    Flush { covers: u64 },
}

impl RamDevice {
    /// Creates an empty device.
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
            takes_no_writes: false,
            is_gone: false,
        }
    }

    /// Fault: flips one bit of a block silently.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// Fault: reads of the block fail with `Media` until the block is written again or its zone is reset.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.medium.make_unreadable(lba);
    }

    /// Fault: the zone's next write to complete fails with `Media`, and none of its blocks land.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.failing_writes.insert(zone);
    }

    /// Fault: from now on every write fails with `DeviceReadOnly`, or no longer.
    pub fn take_no_writes(&mut self, is_on: bool) {
        self.takes_no_writes = is_on;
    }

    /// Fault: the zone becomes read-only. Its data stay readable, and its writes in flight fail.
    pub fn make_read_only(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::ReadOnly, DeviceError::ZoneReadOnly);
    }

    /// Fault: the zone goes offline. Its data and space are lost, and its writes in flight fail.
    pub fn take_offline(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::Offline, DeviceError::ZoneOffline);
    }

    /// Fault: the device answers `DeviceGone` to every command, also to those in flight.
    pub fn kill(&mut self) {
        self.is_gone = true;
    }

    /// Bytes of a zone, up to the last block that was ever written.
    #[must_use]
    pub fn zone_bytes(&self, zone: ZoneId) -> Vec<u8> {
        self.medium.zone_bytes(zone).to_vec()
    }

    /// Fault: silently replaces the bytes of a zone. The state of the zone does not change.
    pub fn replace_zone_bytes(&mut self, zone: ZoneId, bytes: Vec<u8>) {
        self.medium.replace_zone_bytes(zone, bytes);
    }

    /// Image of all zones. Requires: no command is in flight.
    #[must_use]
    pub fn image(&self) -> Image {
        assert!(self.in_flight.is_empty(), "what is in flight is in no image");
        let zones = self.geometry().zones();
        let of_zone = |zone| (self.table.look(zone), self.zone_bytes(zone));
        Image(zones.map(of_zone).collect())
    }

    /// Silently reverts the device to an image. Requires: no command is in flight.
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

    /// Checks a command; a write takes its blocks and opens its zone.
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
        let RamOptions { latency, latency_spread, slow_reads, .. } = self.options;
        let due = now + latency + Nanos(self.rng.below(latency_spread.0 + 1));
        match operation {
            Operation::Write { zone, .. } => {
                let last = self.writes_due.entry(*zone).or_default();
                *last = due.max(*last);
                *last
            }
            Operation::Read { .. } if slow_reads != Nanos(0) && self.rng.one_in(32) => {
                due + Nanos(self.rng.below(slow_reads.0))
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
                // A reset may have emptied the zone since the submission: then the read fails.
                self.table.check_read(lba, blocks)?;
                let bytes = zonal_base::index(blocks.bytes().0);
                self.medium.read(lba, &mut buffer.bytes_mut()[..bytes])?;
                Ok(Answer::Read(buffer))
            }
            Operation::Write { zone, .. }
                if self.takes_no_writes || self.failing_writes.remove(&zone) =>
            {
                self.table.abort_writes(zone);
                self.refuse_writes_in_flight(zone, DeviceError::InvalidWrite);
                Err(match self.takes_no_writes {
                    true => DeviceError::DeviceReadOnly,
                    false => DeviceError::Media,
                })
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
