//! Test rig of the conformance suite: submits commands to a device, waits for completions and compares data.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use zonal_base::{
    BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Pool, PoolClass, Ticket, ZoneId, index,
};

use crate::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneAction, ZoneReport, ZoneState,
    ZonedDevice,
};

/// Maximum number of waits in a row without an answer. The caller's `wait` is bounded in time, so this limit bounds
/// how long a lost command can hang the suite.
const WAITS_MAX: u32 = 100;

/// Largest transfer of the suite, in blocks: 256 KiB, so that few transfers fill a zone.
pub(super) const TRANSFER_MAX: Blocks = Blocks(64);

pub(super) type Check<D> = fn(&mut Rig<'_, D>);

pub(super) struct Rig<'a, D> {
    promise: &'static str,
    pub(super) device: D,
    wait: &'a mut dyn FnMut(&mut D),
    pool: Pool,
    now: Nanos,
    next_ticket: u64,
    /// Completions that arrived while the rig waited for another command.
    answered: BTreeMap<Ticket, Completion>,
}

impl<'a, D: ZonedDevice> Rig<'a, D> {
    pub(super) fn new(promise: &'static str, device: D, wait: &'a mut dyn FnMut(&mut D)) -> Self {
        let geometry = device.geometry();
        assert!(4 <= geometry.zone_count && Blocks(8) <= geometry.zone_capacity, "too small");
        // Enough buffers for the checks that keep many transfers in flight.
        let classes = [PoolClass { blocks: TRANSFER_MAX, count: 64 }];
        let pool = Pool::new(&classes, Box::new(|| ()));
        let answered = BTreeMap::new();
        Self { promise, device, wait, pool, now: Nanos(0), next_ticket: 0, answered }
    }

    pub(super) fn geometry(&self) -> Geometry {
        *self.device.geometry()
    }

    /// Address of block `at` of a zone.
    pub(super) fn lba(&self, zone: u32, at: u64) -> Lba {
        self.device.geometry().zone_start(ZoneId(zone)) + Blocks(at)
    }

    /// Test data: every word encodes its address and a version.
    pub(super) fn pattern(&self, lba: Lba, blocks: Blocks, version: u8) -> Payload {
        let mut buffer = self.pool.take(blocks).expect("checks keep few transfers in flight");
        let len = index(blocks.bytes().0);
        for (n, block) in (0..).zip(buffer.bytes_mut()[..len].chunks_exact_mut(BLOCK_BYTES)) {
            fill(block, lba + Blocks(n), version);
        }
        buffer.freeze(len)
    }

    pub(super) fn read_command(&self, lba: Lba, blocks: Blocks) -> Command {
        let mut buffer = self.pool.take(TRANSFER_MAX).expect("checks keep few transfers in flight");
        buffer.bytes_mut().fill(0xEE);
        Command::Read { lba, blocks, buffer }
    }

    pub(super) fn write_command(&self, lba: Lba, blocks: Blocks) -> Command {
        Command::Write { lba, data: alloc::vec![self.pattern(lba, blocks, 0)] }
    }

    /// Submits a command; `None` when the queue is full.
    pub(super) fn try_submit(&mut self, command: Command) -> Option<Ticket> {
        let ticket = Ticket(self.next_ticket);
        self.device.submit(self.now, ticket, command).ok()?;
        self.next_ticket += 1;
        Some(ticket)
    }

    pub(super) fn submit(&mut self, command: Command) -> Ticket {
        let ticket = self.try_submit(command);
        ticket.unwrap_or_else(|| panic!("{}: the queue is full too early", self.promise))
    }

    /// Waits for one completion, and keeps the others for later.
    pub(super) fn answer_of(&mut self, ticket: Ticket) -> Completion {
        let mut waits = 0;
        loop {
            if let Some(completion) = self.answered.remove(&ticket) {
                return completion;
            }
            if self.take_answer() {
                waits = 0;
                continue;
            }
            assert!(waits < WAITS_MAX, "{}: {ticket:?} is never answered", self.promise);
            waits += 1;
            match self.device.next_event() {
                Some(due) => self.now = self.now.max(due),
                None => (self.wait)(&mut self.device),
            }
        }
    }

    fn take_answer(&mut self) -> bool {
        let Some((ticket, completion)) = self.device.poll(self.now) else { return false };
        assert!(ticket.0 < self.next_ticket, "{}: {ticket:?} was never given", self.promise);
        let twice = self.answered.insert(ticket, completion);
        assert!(twice.is_none(), "{}: {ticket:?} is answered twice", self.promise);
        true
    }

    pub(super) fn call(&mut self, command: Command) -> Completion {
        let ticket = self.submit(command);
        self.answer_of(ticket)
    }

    /// Writes the test pattern of version 0.
    pub(super) fn write(&mut self, lba: Lba, blocks: u64) -> Result<Lba, DeviceError> {
        let command = self.write_command(lba, Blocks(blocks));
        self.call(command).map(|answer| self.written(answer))
    }

    pub(super) fn written(&self, answer: Answer) -> Lba {
        match answer {
            Answer::Written(lba) => lba,
            other => panic!("{}: a write was answered with {other:?}", self.promise),
        }
    }

    /// Writes a zone from block `at` up to its capacity.
    pub(super) fn fill(&mut self, zone: u32, mut at: u64) {
        let capacity = self.geometry().zone_capacity.0;
        while at < capacity {
            let blocks = TRANSFER_MAX.0.min(capacity - at);
            let lba = self.lba(zone, at);
            assert_eq!(self.write(lba, blocks), Ok(lba), "{}", self.promise);
            at += blocks;
        }
    }

    pub(super) fn read(&mut self, lba: Lba, blocks: u64) -> Result<Vec<u8>, DeviceError> {
        let command = self.read_command(lba, Blocks(blocks));
        self.call(command).map(|answer| self.bytes(answer, Blocks(blocks)))
    }

    pub(super) fn bytes(&self, answer: Answer, blocks: Blocks) -> Vec<u8> {
        match answer {
            Answer::Read(buffer) => buffer.bytes()[..index(blocks.bytes().0)].to_vec(),
            other => panic!("{}: a read was answered with {other:?}", self.promise),
        }
    }

    /// Reads blocks and compares them with the test pattern of a version.
    pub(super) fn expect_pattern(&mut self, lba: Lba, blocks: u64, version: u8) {
        let expected = self.pattern(lba, Blocks(blocks), version);
        let read = self.read(lba, blocks);
        let is_equal = read.as_deref() == Ok(expected.as_bytes());
        assert!(is_equal, "{}: {blocks} blocks at {lba} are not as written", self.promise);
    }

    pub(super) fn expect_unwritten(&mut self, lba: Lba) {
        let refused = Some(DeviceError::ReadPastWritePointer);
        assert_eq!(self.read(lba, 1).err(), refused, "{}: a read of {lba}", self.promise);
    }

    pub(super) fn expect_refused_write(&mut self, lba: Lba, blocks: u64, error: DeviceError) {
        let refused = self.write(lba, blocks);
        assert_eq!(refused, Err(error), "{}: a write of {blocks} at {lba}", self.promise);
    }

    pub(super) fn manage(&mut self, zone: u32, action: ZoneAction) -> Result<(), DeviceError> {
        match self.call(Command::Manage { zone: ZoneId(zone), action })? {
            Answer::Done => Ok(()),
            other => panic!("{}: {action:?} was answered with {other:?}", self.promise),
        }
    }

    pub(super) fn report(
        &mut self,
        first: u32,
        count: u32,
    ) -> Result<Vec<ZoneReport>, DeviceError> {
        match self.call(Command::Report { first: ZoneId(first), count })? {
            Answer::Report(zones) => Ok(zones),
            other => panic!("{}: a report was answered with {other:?}", self.promise),
        }
    }

    pub(super) fn expect_zone(&mut self, zone: u32, state: ZoneState, written: u64) {
        let expected = ZoneReport { zone: ZoneId(zone), state, written: Blocks(written) };
        assert_eq!(self.report(zone, 1), Ok(alloc::vec![expected]), "{}", self.promise);
    }
}

fn fill(block: &mut [u8], lba: Lba, version: u8) {
    for (at, word) in (0u64..).zip(block.chunks_exact_mut(8)) {
        let value = zonal_base::mix64(lba.0 << 16 ^ at << 8 ^ u64::from(version));
        word.copy_from_slice(&value.to_le_bytes());
    }
}
