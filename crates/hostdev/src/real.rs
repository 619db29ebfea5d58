//! File or block device of one shard: commands in, transfers to the engine, completions out.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use zonal_base::{Blocks, Lba, Nanos, Payload, Ticket, ZoneId, index};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneTable, ZonedDevice, whole_blocks,
};

use crate::EngineKind;
use crate::drive::position;
use crate::engine::{Engine, Finished};
use crate::health::{Direction, Health};
use crate::in_flight::{Flushes, InFlight};
use crate::transfer::{Memory, Transfer};
use crate::write_order::WriteOrder;

/// One shard's zones of a file or block device, driven by one thread.
///
/// Zone management only changes the zone table. A flush is an `fdatasync`; flushes that come while
/// one is running share the next.
pub(crate) struct RealDevice {
    table: ZoneTable,
    /// First block of the share on the device.
    start: Lba,
    engine: Engine,
    queue_depth: u32,
    /// Commands that were submitted and whose completions were not polled.
    unanswered_count: u32,
    in_flight: InFlight<Pending>,
    order: WriteOrder,
    flushes: Flushes,
    /// Completions that wait for `poll`.
    ready: VecDeque<(Ticket, Completion)>,
    health: Health,
    ignores_zones: bool,
}

#[derive(Clone, Copy)]
enum Pending {
    Read {
        ticket: Ticket,
    },
    /// A write that ignores zones: no zone table, no write order.
    Anywhere {
        ticket: Ticket,
        lba: Lba,
    },
    Write(Write),
    Flush,
}

#[derive(Clone, Copy)]
struct Write {
    ticket: Ticket,
    zone: ZoneId,
    lba: Lba,
}

impl RealDevice {
    pub(crate) fn new(
        (geometry, start): (Geometry, Lba),
        engine: Engine,
        queue_depth: u32,
        health: Health,
    ) -> Self {
        Self {
            table: ZoneTable::new(geometry),
            start,
            engine,
            queue_depth,
            unanswered_count: 0,
            in_flight: InFlight::new(queue_depth),
            order: WriteOrder::default(),
            flushes: Flushes::default(),
            ready: VecDeque::with_capacity(queue_depth as usize),
            health,
            ignores_zones: false,
        }
    }

    /// See [`crate::HostDevice::ignore_zones`].
    pub(crate) const fn ignore_zones(&mut self) {
        self.ignores_zones = true;
    }

    pub(crate) fn flush_submissions(&mut self) {
        self.engine.flush_submissions();
    }

    pub(crate) const fn engine(&self) -> EngineKind {
        self.engine.kind()
    }

    fn begin(&mut self, ticket: Ticket, command: Command) -> Result<(), DeviceError> {
        if self.health.is_gone() {
            return Err(DeviceError::DeviceGone);
        }
        let answer = match command {
            Command::Read { lba, blocks, buffer } => {
                if buffer.blocks() < blocks {
                    return Err(DeviceError::InvalidField);
                }
                match self.ignores_zones {
                    true => self.check_within(lba, blocks)?,
                    false => self.table.check_read(lba, blocks)?,
                }
                let offset = position(self.start, lba);
                let transfer = Transfer::read(buffer, offset, index(blocks.bytes().0));
                self.start_transfer(Pending::Read { ticket }, transfer);
                return Ok(());
            }
            Command::Write { lba, data } if self.ignores_zones => {
                self.check_within(lba, whole_blocks(&data)?)?;
                let transfer = Transfer::write(data, position(self.start, lba));
                self.start_transfer(Pending::Anywhere { ticket, lba }, transfer);
                return Ok(());
            }
            Command::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                let zone = self.table.begin_write(lba, blocks)?;
                self.start_write(Write { ticket, zone, lba }, blocks, data);
                return Ok(());
            }
            Command::Append { zone, data } => {
                let blocks = whole_blocks(&data)?;
                let lba = self.table.begin_append(zone, blocks)?;
                self.start_write(Write { ticket, zone, lba }, blocks, data);
                return Ok(());
            }
            Command::Flush => {
                self.flushes.ask(ticket);
                self.start_flush();
                return Ok(());
            }
            Command::Manage { zone, action } => {
                self.table.manage(zone, action).map(|()| Answer::Done)?
            }
            Command::Report { first, count } => {
                self.table.report(first, count).map(Answer::Report)?
            }
            Command::Restore { zone, written } => {
                self.table.restore(zone, written).map(|()| Answer::Done)?
            }
        };
        self.ready.push_back((ticket, Ok(answer)));
        Ok(())
    }

    fn check_within(&self, lba: Lba, blocks: Blocks) -> Result<(), DeviceError> {
        let Geometry { zone_count, zone_size, .. } = *self.table.geometry();
        let end = u64::from(zone_count) * zone_size.0;
        let is_within = lba.0.checked_add(blocks.0).is_some_and(|last| last <= end);
        is_within.then_some(()).ok_or(DeviceError::InvalidField)
    }

    fn start_write(&mut self, write: Write, blocks: Blocks, data: Vec<Payload>) {
        let transfer = Transfer::write(data, position(self.start, write.lba));
        let slot = self.start_transfer(Pending::Write(write), transfer);
        self.order.begin(write.zone, slot, blocks);
    }

    fn start_flush(&mut self) {
        if self.flushes.next() {
            self.start_transfer(Pending::Flush, Transfer::sync());
        }
    }

    fn start_transfer(&mut self, pending: Pending, transfer: Transfer) -> u32 {
        let slot = self.in_flight.begin(pending);
        self.engine.start(slot, transfer);
        slot
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { slot, transfer, outcome } = finished;
        match self.in_flight.get(slot) {
            Pending::Read { ticket } => {
                self.in_flight.end(slot);
                let outcome = self.health.classify(Direction::Read, outcome);
                let Memory::Read(buffer) = transfer.memory else {
                    unreachable!("a read comes back as a read")
                };
                self.ready.push_back((ticket, outcome.map(|()| Answer::Read(buffer))));
            }
            Pending::Anywhere { ticket, lba } => {
                self.in_flight.end(slot);
                let outcome = self.health.classify(Direction::Write, outcome);
                self.ready.push_back((ticket, outcome.map(|()| Answer::Written(lba))));
            }
            // The slot stays taken: earlier writes of the zone may have to complete first.
            Pending::Write(write) => self.finish_write(slot, write.zone, outcome),
            Pending::Flush => {
                self.in_flight.end(slot);
                let outcome = self.health.classify_flush(outcome);
                for ticket in self.flushes.end() {
                    self.ready.push_back((ticket, outcome.map(|()| Answer::Done)));
                }
                self.start_flush();
                // The host may have no more commands to submit: hand this flush to the kernel now.
                self.engine.flush_submissions();
            }
        }
    }

    fn finish_write(&mut self, slot: u32, zone: ZoneId, outcome: Result<(), Errno>) {
        let outcome = self.health.classify(Direction::Write, outcome);
        if outcome.is_err() {
            self.table.require_report(zone);
        }
        let released = self.order.end(zone, slot, outcome);
        for (slot, blocks) in released.written {
            self.table.end_write(zone, blocks);
            self.answer_write(slot, Ok(()));
        }
        if !released.failed.is_empty() {
            self.table.abort_writes(zone);
        }
        for (slot, error) in released.failed {
            self.answer_write(slot, Err(error));
        }
    }

    fn answer_write(&mut self, slot: u32, outcome: Result<(), DeviceError>) {
        let Pending::Write(Write { ticket, lba, .. }) = self.in_flight.end(slot) else {
            unreachable!("writes are ordered by slots of writes")
        };
        self.ready.push_back((ticket, outcome.map(|()| Answer::Written(lba))));
    }
}

impl ZonedDevice for RealDevice {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    fn submit(&mut self, _now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.unanswered_count == self.queue_depth {
            return Err(command);
        }
        self.unanswered_count += 1;
        if let Err(error) = self.begin(ticket, command) {
            self.ready.push_back((ticket, Err(error)));
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> Option<(Ticket, Completion)> {
        while self.ready.is_empty() {
            let finished = self.engine.next_finished()?;
            self.finish(finished);
        }
        self.unanswered_count -= 1;
        self.ready.pop_front()
    }

    fn next_event(&self) -> Option<Nanos> {
        let has_work = !self.ready.is_empty() || self.engine.is_refused();
        has_work.then_some(Nanos(0))
    }
}

impl AsFd for RealDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.engine.as_fd()
    }
}
