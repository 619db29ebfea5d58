//! The host's loop in virtual time: when nothing is left to do now, now becomes the next thing that happens.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::{Blocks, Lba, Nanos, PoolClass, ZoneId, mix64};
use zonal_cache::{Fetch, Fetched, Ports};
use zonal_device::ram::RamDevice;
use zonal_device::{Command, Completion, DeviceError, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};

use crate::CHECKSUM;
use crate::origin::Origin;

/// Something that goes wrong with the device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    FlipBit(Lba, u32),
    Unreadable(Lba),
    FailNextWrite(ZoneId),
    Offline(ZoneId),
    Gone,
}

impl Fault {
    /// True when writes fail that the engine did nothing wrong about.
    pub(crate) const fn fails_writes(self) -> bool {
        matches!(self, Self::FailNextWrite(_) | Self::Offline(_) | Self::Gone)
    }
}

/// One life of the process: from its start to its end or crash.
pub(crate) struct World {
    pub(crate) executor: Executor,
    pub(crate) ports: Ports,
    pub(crate) now: Nanos,
    pub(crate) faults: Rc<RefCell<Vec<Fault>>>,
    pub(crate) history: u64,
    pub(crate) writes_may_fail: bool,
}

/// Polls of tasks in one turn.
const POLLS_MAX: usize = 1000;

/// Turns without time moving on: a history that needs more has a task that wakes itself for ever.
const TURNS_AT_ONE_INSTANT_MAX: u32 = 100_000;

/// Tasks of one world.
const TASKS_MAX: usize = 4096;

impl World {
    pub(crate) fn new(now: Nanos, piece: Blocks, history: u64) -> Self {
        let executor = Executor::new(TASKS_MAX);
        executor.advance(now);
        let classes = [
            PoolClass { blocks: Blocks(2), count: 24 },
            PoolClass { blocks: piece.max(Blocks(4)), count: 24 },
        ];
        let ports = Ports {
            device: Port::<Command, Completion>::new(),
            origin: Port::<Fetch, Fetched>::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::new(executor.spawner(), &classes),
            checksum: CHECKSUM,
        };
        let faults = Rc::default();
        Self { executor, ports, now, faults, history, writes_may_fail: false }
    }

    /// Turns until `done`, or `until`, or nothing is left that could happen. True when it was done.
    pub(crate) fn run(
        &mut self,
        device: &mut RamDevice,
        origin: &mut Origin,
        until: Nanos,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, String> {
        let mut turns = 0;
        loop {
            let moved = self.turn(device, origin)?;
            if done() {
                return Ok(true);
            }
            if moved {
                turns += 1;
                if TURNS_AT_ONE_INSTANT_MAX < turns {
                    return Err("time stands still: a task wakes itself for ever".into());
                }
                continue;
            }
            turns = 0;
            let events = [self.executor.next_deadline(), device.next_event(), origin.next_event()];
            let Some(next) = events.into_iter().flatten().min() else { return Ok(false) };
            if until <= next {
                self.now = until;
                return Ok(false);
            }
            self.now = self.now.max(next);
            self.executor.advance(self.now);
        }
    }

    fn turn(&mut self, device: &mut RamDevice, origin: &mut Origin) -> Result<bool, String> {
        let mut moved = 0 < self.executor.run(POLLS_MAX);
        for fault in self.faults.take() {
            self.inflict(device, fault);
        }
        while let Some((ticket, command)) = self.ports.device.take() {
            if let Err(command) = device.submit(self.now, ticket, command) {
                self.ports.device.put_back(ticket, command);
                break;
            }
            moved = true;
        }
        while let Some((ticket, fetch)) = self.ports.origin.take() {
            origin.start(self.now, ticket, fetch);
            moved = true;
        }
        while let Some((ticket, completion)) = device.poll(self.now) {
            self.note(ticket.0, completion.is_ok());
            self.judge(&completion)?;
            self.ports.device.complete(ticket, completion);
            moved = true;
        }
        while let Some((ticket, fetched)) = origin.poll(self.now) {
            self.note(ticket.0, matches!(fetched, Fetched::Failed(_)));
            self.ports.origin.complete(ticket, fetched);
            moved = true;
        }
        Ok(moved)
    }

    fn inflict(&mut self, device: &mut RamDevice, fault: Fault) {
        self.writes_may_fail |= fault.fails_writes();
        match fault {
            Fault::FlipBit(lba, bit) => device.flip_bit(lba, bit),
            Fault::Unreadable(lba) => device.make_unreadable(lba),
            Fault::FailNextWrite(zone) => device.fail_next_write(zone),
            Fault::Offline(zone) => device.take_offline(zone),
            Fault::Gone => device.kill(),
        }
    }

    /// The history so far, as one number.
    fn note(&mut self, ticket: u64, outcome: bool) {
        self.history = mix64(self.history ^ self.now.0 ^ ticket << 1 ^ u64::from(outcome));
    }

    /// What a device never says to an engine that keeps the rules.
    fn judge(&self, completion: &Completion) -> Result<(), String> {
        let Err(error) = completion else { return Ok(()) };
        let is_illegal = match error {
            DeviceError::InvalidField
            | DeviceError::ReadPastWritePointer
            | DeviceError::TooManyZones
            | DeviceError::Unsupported => !self.writes_may_fail,
            DeviceError::InvalidWrite | DeviceError::InvalidTransition | DeviceError::ZoneFull => {
                !self.writes_may_fail
            }
            _ => false,
        };
        if is_illegal { Err(format!("an illegal command: {error}")) } else { Ok(()) }
    }
}
