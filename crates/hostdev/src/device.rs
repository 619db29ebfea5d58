//! One shard's device: commands in, transfers to the engine, answers out.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use zonal_base::{Blocks, Lba, Nanos, Payload, Pool, Ticket, ZoneId, index};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneTable, ZonedDevice, whole_blocks,
};

use crate::EngineKind;
use crate::drive::position;
use crate::engine::{Engine, Finished};
use crate::health::Health;
use crate::transfer::{Memory, Transfer};
use crate::write_order::WriteOrder;

/// Commands in flight where nobody asks for another number: 256. An NVMe drive gives all it has at 64
/// to 128; the rest lets every task of a shard queue its command without waiting for another's answer.
pub const QUEUE_DEPTH: u32 = 256;

/// The deepest queue that can be asked for: io_uring rings of it take 400 KiB.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 4096;

/// What a shard asks of a drive.
#[derive(Clone)]
pub struct ShardOptions<'a> {
    /// Which shard, from 0.
    pub shard: u32,
    /// Of how many.
    pub shard_count: u32,
    /// Commands that may be in flight; usually [`QUEUE_DEPTH`]. At least 1, at most 4096.
    pub queue_depth: u32,
    /// Where the buffers of all reads come from.
    pub pool: &'a Pool,
}

/// A share of a file or block device, driven by one thread.
///
/// Management commands are bookkeeping here. A flush asks the kernel for an `fdatasync`; flushes that
/// come while one is running share the next.
pub struct HostDevice {
    table: ZoneTable,
    /// Where the share begins on the device.
    start: Lba,
    engine: Engine,
    queue_depth: u32,
    /// Commands that were submitted and not polled.
    unanswered_count: u32,
    /// What the engine works on, by slot.
    pending: Vec<Option<Pending>>,
    free_slots: Vec<u32>,
    order: WriteOrder,
    flushes: Flushes,
    /// Answers that wait to be polled.
    ready: VecDeque<(Ticket, Completion)>,
    health: Health,
    ignores_zones: bool,
}

#[derive(Clone, Copy)]
enum Pending {
    Read {
        ticket: Ticket,
    },
    /// A write that is nobody's business but the drive's.
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

/// One `fdatasync` runs at a time. What was written after it began needs another.
#[derive(Default)]
struct Flushes {
    running: Vec<Ticket>,
    waiting: Vec<Ticket>,
}

impl HostDevice {
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
            pending: vec![None; queue_depth as usize],
            free_slots: (0..queue_depth).rev().collect(),
            order: WriteOrder::default(),
            flushes: Flushes::default(),
            ready: VecDeque::with_capacity(queue_depth as usize),
            health,
            ignores_zones: false,
        }
    }

    /// From now on reads and writes lie anywhere, as the drive itself takes them: zones are not looked at. To
    /// measure a drive, not to keep anything on it.
    pub fn ignore_zones(&mut self) {
        self.ignores_zones = true;
    }

    /// Hands everything that was submitted to the kernel, with one system call.
    pub fn flush_submissions(&mut self) {
        self.engine.flush_submissions();
    }

    /// What drives the device: the system may have refused the one that was asked for.
    #[must_use]
    pub const fn engine(&self) -> EngineKind {
        self.engine.kind()
    }

    /// Sends off what was submitted and sleeps until `poll` may have something, at most `timeout`.
    /// For callers without an event loop.
    pub fn wait(&mut self, timeout: Duration) {
        self.flush_submissions();
        if self.next_event().is_some() {
            return;
        }
        let timeout = Timespec::try_from(timeout).ok();
        let mut wake = [PollFd::new(&self.engine, PollFlags::IN)];
        // Woken too early, by a signal or for want of memory, the caller finds nothing and waits again.
        let _ = rustix::event::poll(&mut wake, timeout.as_ref());
        // Take the signal, so that the next sleep lasts.
        let _ = rustix::io::read(&self.engine, &mut [0; 8]);
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
                self.flushes.waiting.push(ticket);
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
        if self.flushes.running.is_empty() && !self.flushes.waiting.is_empty() {
            self.flushes.running = std::mem::take(&mut self.flushes.waiting);
            self.start_transfer(Pending::Flush, Transfer::sync());
        }
    }

    fn start_transfer(&mut self, pending: Pending, transfer: Transfer) -> u32 {
        let slot = self.free_slots.pop().expect("there is a slot for every command in flight");
        self.pending[slot as usize] = Some(pending);
        self.engine.start(slot, transfer);
        slot
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { slot, transfer, outcome } = finished;
        let pending = self.pending[slot as usize].expect("the engine answers what it was given");
        match pending {
            Pending::Read { ticket } => {
                self.free(slot);
                let outcome = self.health.judge(outcome);
                let Memory::Read(buffer) = transfer.memory else {
                    unreachable!("a read comes back as a read")
                };
                self.ready.push_back((ticket, outcome.map(|()| Answer::Read(buffer))));
            }
            Pending::Anywhere { ticket, lba } => {
                self.free(slot);
                let outcome = self.health.judge(outcome);
                self.ready.push_back((ticket, outcome.map(|()| Answer::Written(lba))));
            }
            // The slot stays taken: other writes of the zone may have to come back first.
            Pending::Write(write) => self.finish_write(slot, write.zone, outcome),
            Pending::Flush => {
                self.free(slot);
                let outcome = self.health.judge_flush(outcome);
                for ticket in std::mem::take(&mut self.flushes.running) {
                    self.ready.push_back((ticket, outcome.map(|()| Answer::Done)));
                }
                self.start_flush();
                // The host may have nothing more to submit: the kernel must be shown this one now.
                self.engine.flush_submissions();
            }
        }
    }

    fn finish_write(&mut self, slot: u32, zone: ZoneId, outcome: Result<(), Errno>) {
        let outcome = self.health.judge(outcome);
        if outcome.is_err() {
            self.table.distrust(zone);
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
        let Some(Pending::Write(Write { ticket, lba, .. })) = self.free(slot) else {
            unreachable!("writes are ordered by slots of writes")
        };
        self.ready.push_back((ticket, outcome.map(|()| Answer::Written(lba))));
    }

    fn free(&mut self, slot: u32) -> Option<Pending> {
        self.free_slots.push(slot);
        self.pending[slot as usize].take()
    }
}

impl ZonedDevice for HostDevice {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    /// Only queues: see [`HostDevice::flush_submissions`].
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

    /// The beginning of time when there is something to do at once; else the descriptor wakes the host.
    fn next_event(&self) -> Option<Nanos> {
        let has_work = !self.ready.is_empty() || self.engine.is_refused();
        has_work.then_some(Nanos(0))
    }
}

impl AsFd for HostDevice {
    /// An eventfd that is raised whenever `poll` may have something that it had not when it last
    /// returned `None`. Who sleeps on edges (`epoll` with EPOLLET, tokio's `AsyncFd`) never reads it;
    /// others read it after waking and before they poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.engine.as_fd()
    }
}
