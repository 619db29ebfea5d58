//! The host's loop over two ports, or one port of one device, in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Blocks, Lba, Nanos, PoolClass, ZoneId, mix64};
use zonal_device::{Command, Completion, DeviceError, Geometry, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_shaper::Ports;

use super::history::Fault;
use crate::CHECKSUM;
use crate::drive::{self, Drive};
use crate::trace::Trace;
use crate::violation::{Kind, Wrong};

/// One life of the process.
pub(super) struct World {
    pub(super) executor: Executor,
    pub(super) ports: Ports,
    devices: Vec<Port<Command, Completion>>,
    pub(super) now: Rc<Cell<Nanos>>,
    pub(super) faults: Rc<RefCell<Vec<(usize, Fault)>>>,
    pub(super) suffered: Suffered,
    is_gone: [bool; 2],
    pub(super) history: u64,
    trace: Trace,
}

/// What went wrong: whoever was broken cannot be held to everything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Suffered {
    /// Commands may fail that the engine did nothing wrong about.
    pub(super) refusals: bool,
    /// Blocks may be errors.
    pub(super) unreadable: bool,
    /// Zones were worn out: there may be too few.
    pub(super) worn: bool,
    /// A device went away in this life.
    pub(super) gone: bool,
}

/// Polls of tasks in one turn.
const POLLS_MAX: usize = 1000;

/// Turns without time moving on: more has a task that wakes itself for ever.
const TURNS_AT_ONE_INSTANT_MAX: u32 = 100_000;

/// Tasks of one world.
const TASKS_MAX: usize = 1024;

impl World {
    pub(super) fn new(
        now: Rc<Cell<Nanos>>,
        device_count: usize,
        (history, trace): (u64, Trace),
    ) -> Self {
        let executor = Executor::new(TASKS_MAX);
        executor.advance(now.get());
        let devices: Vec<_> = (0..device_count).map(|_| Port::new()).collect();
        let classes = [
            PoolClass { blocks: Blocks(1), count: 24 },
            PoolClass { blocks: Blocks(256), count: 10 },
        ];
        let ports = Ports {
            buffer: devices[0].clone(),
            capacity: devices[device_count - 1].clone(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::new(executor.spawner(), &classes),
            checksum: CHECKSUM,
        };
        Self {
            executor,
            ports,
            devices,
            now,
            faults: Rc::default(),
            suffered: Suffered::default(),
            is_gone: [false; 2],
            history,
            trace,
        }
    }

    /// Turns until `done`, or `patience` is over, or nothing is left that could happen. True when it was done.
    pub(super) fn run(
        &mut self,
        drives: &mut [Drive],
        patience: Nanos,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, Wrong> {
        let until = self.now.get() + patience;
        let mut turns = 0;
        loop {
            let moved = self.turn(drives)?;
            if done() {
                return Ok(true);
            }
            if moved {
                turns += 1;
                if TURNS_AT_ONE_INSTANT_MAX < turns {
                    let what = "time stands still: a task wakes itself for ever";
                    return Err(Kind::Stuck.wrong(what.into()));
                }
                continue;
            }
            turns = 0;
            let devices = drives.iter().filter_map(ZonedDevice::next_event);
            let Some(next) = devices.chain(self.executor.next_deadline()).min() else {
                return Ok(false);
            };
            self.now.set(self.now.get().max(next).min(until));
            if until <= next {
                return Ok(false);
            }
            self.executor.advance(self.now.get());
        }
    }

    fn turn(&mut self, drives: &mut [Drive]) -> Result<bool, Wrong> {
        let now = self.now.get();
        let mut moved = 0 < self.executor.run(POLLS_MAX);
        for (device, fault) in self.faults.take() {
            self.inflict(device, &mut drives[device], fault);
        }
        for (number, drive) in drives.iter_mut().enumerate() {
            let port = self.devices[number].clone();
            while let Some((ticket, command)) = port.take() {
                moved = true;
                if self.is_gone[number] {
                    port.complete(ticket, Err(DeviceError::DeviceGone));
                    continue;
                }
                self.trace.command(now, (ticket, &command), drive.geometry());
                if let Err(command) = drive.submit(now, ticket, command) {
                    port.put_back(ticket, command);
                    break;
                }
            }
            while let Some((ticket, completion)) = drive.poll(now) {
                moved = true;
                let completion = match self.is_gone[number] {
                    true => Err(DeviceError::DeviceGone),
                    false => completion,
                };
                self.trace.completion(now, ticket, &completion);
                self.history =
                    mix64(self.history ^ now.0 ^ ticket.0 << 1 ^ u64::from(completion.is_ok()));
                self.judge(&completion)?;
                port.complete(ticket, completion);
            }
        }
        Ok(moved)
    }

    fn inflict(&mut self, number: usize, drive: &mut Drive, fault: Fault) {
        if self.is_gone[number] {
            return;
        }
        self.trace.note(self.now.get(), "fate", format_args!("device {number}: {fault:?}"));
        let geometry = *drive.geometry();
        match fault {
            Fault::FailNextWrite(zone) => {
                drive.inflict(drive::Fault::FailNextWrite(zone), false);
            }
            Fault::ReadOnly(zone) => {
                drive.inflict(drive::Fault::ReadOnly(zone), false);
                self.suffered.worn = true;
            }
            Fault::Unreadable(zone, block) => {
                drive.inflict(drive::Fault::Unreadable(lba(&geometry, zone, block)), false);
                self.suffered.unreadable = true;
            }
            Fault::Gone => {
                self.is_gone[number] = true;
                self.suffered.gone = true;
            }
        }
        self.suffered.refusals = true;
    }

    /// What a device never says to an engine that keeps the rules.
    fn judge(&self, completion: &Completion) -> Result<(), Wrong> {
        let Err(error) = completion else { return Ok(()) };
        let is_fault = matches!(
            error,
            DeviceError::ZoneReadOnly
                | DeviceError::ZoneOffline
                | DeviceError::Media
                | DeviceError::TimedOut
                | DeviceError::DeviceGone
        );
        if is_fault || self.suffered.refusals {
            return Ok(());
        }
        Err(Kind::IllegalCommand.wrong(error.to_string()))
    }
}

fn lba(geometry: &Geometry, zone: ZoneId, block: u64) -> Lba {
    geometry.zone_start(zone) + Blocks(block)
}
