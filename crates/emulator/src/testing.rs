//! Test rig for drive faults: submits commands to a drive and waits for the completions.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Blocks, Nanos, Payload, Pool, PoolClass, Ticket, index};
use zonal_device::{Command, Completion, ZonedDevice};

/// Size of the largest command, in blocks.
const BUFFER: Blocks = Blocks(16);

pub(crate) struct Rig<D> {
    pub(crate) drive: D,
    pub(crate) now: Nanos,
    pub(crate) pool: Pool,
    next_ticket: u64,
}

impl<D: ZonedDevice> Rig<D> {
    pub(crate) fn of(drive: D) -> Self {
        let classes = [PoolClass { blocks: BUFFER, count: 64 }];
        Self { drive, now: Nanos(0), pool: Pool::new(&classes, Box::new(|| ())), next_ticket: 0 }
    }

    pub(crate) fn submit(&mut self, command: Command) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.drive.submit(self.now, ticket, command).unwrap();
        ticket
    }

    pub(crate) fn drain(&mut self) -> Vec<(Ticket, Completion)> {
        let mut answers = Vec::new();
        while let Some(due) = self.drive.next_event() {
            self.now = self.now.max(due);
            answers.extend(core::iter::from_fn(|| self.drive.poll(self.now)));
        }
        answers
    }

    pub(crate) fn call(&mut self, command: Command) -> Completion {
        let ticket = self.submit(command);
        self.drain().into_iter().find(|answer| answer.0 == ticket).unwrap().1
    }

    /// Blocks filled with one byte value.
    pub(crate) fn data(&self, blocks: u64, byte: u8) -> Vec<Payload> {
        let mut buffer = self.pool.take(BUFFER).unwrap();
        buffer.bytes_mut().fill(byte);
        alloc::vec![buffer.freeze(index(Blocks(blocks).bytes().0))]
    }
}
