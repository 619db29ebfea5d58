//! Event loop of the simulated host of a block device: one or two device ports, in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Blocks, Lba, Nanos, PoolClass, ZoneId, mix64};
use zonal_device::{
    Command, Completion, DeadlineDevice, DeviceError, DeviceFault, Geometry, ZonedDevice,
};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_shaper::{Ports, Shaper};

use super::history::Fault;
use crate::CHECKSUM;
use crate::drive::{self, Drive};
use crate::trace::Trace;
use crate::violation::{ViolationKind, Wrong};

/// One life of the process.
pub(super) struct World {
    pub(super) executor: Executor,
    pub(super) ports: Ports,
    devices: Vec<Port<Command, Completion>>,
    is_gone: [bool; 2],
    /// Engine that watchers see.
    pub(super) shown: Option<Shaper>,
    pub(super) now: Rc<Cell<Nanos>>,
    pub(super) faults: Rc<RefCell<Vec<(usize, Fault)>>>,
    pub(super) suffered: Suffered,
    pub(super) history: u64,
    trace: Trace,
}

/// Faults so far: they weaken the checks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Suffered {
    /// Commands of a correct engine may fail.
    pub(super) refusals: bool,
    /// Blocks may be unreadable.
    pub(super) unreadable: bool,
    /// Zones were worn out, so there may be too few.
    pub(super) worn: bool,
    /// A zone is offline that no start has salvaged around yet.
    pub(super) offline: bool,
    /// Number of flipped bits.
    pub(super) flips: u32,
    /// Bits were flipped since the last start: recovery takes blocks with a wrong checksum for
    /// torn.
    pub(super) flipped: bool,
    /// A device was damaged at rest.
    pub(super) damaged: bool,
    /// By device: it takes no writes.
    pub(super) full: [bool; 2],
    /// A device was lost in this life.
    pub(super) gone: bool,
}

/// Largest number of task polls per turn.
const POLLS_MAX: usize = 1000;

/// Largest number of turns without progress of virtual time; more means that a task wakes itself
/// for ever.
const TURNS_AT_ONE_INSTANT_MAX: u32 = 100_000;

/// Largest number of tasks of a life.
const TASKS_MAX: usize = 1024;

/// Read timeout of the host. A device that is late too often, or silent for long, is isolated.
const READ_PATIENCE: Nanos = Nanos::secs(10);

/// A device as the host uses it.
pub(super) type HostedDevice<'a> = DeadlineDevice<&'a mut Drive>;

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
            shown: None,
            history,
            trace,
        }
    }

    /// Runs until `done`, until `patience` is over, or until no event is left. True if `done`.
    pub(super) fn run(
        &mut self,
        devices: &mut [HostedDevice<'_>],
        patience: Nanos,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, Wrong> {
        let until = self.now.get() + patience;
        let mut turns = 0;
        loop {
            let moved = self.turn(devices)?;
            if done() {
                return Ok(true);
            }
            if moved {
                turns += 1;
                if TURNS_AT_ONE_INSTANT_MAX < turns {
                    let what = "time stands still: a task wakes itself for ever";
                    return Err(ViolationKind::Stuck.wrong(what.into()));
                }
                continue;
            }
            turns = 0;
            self.trace.watched.moment(self.now.get(), self.shown.as_ref());
            let events = devices.iter().filter_map(ZonedDevice::next_event);
            let Some(next) = events.chain(self.executor.next_deadline()).min() else {
                return Ok(false);
            };
            self.now.set(self.now.get().max(next).min(until));
            if until <= next {
                return Ok(false);
            }
            self.executor.advance(self.now.get());
        }
    }

    /// The devices are open: read timeouts apply from now on.
    pub(super) fn serve(&self, devices: &mut [HostedDevice<'_>]) {
        for device in devices {
            device.set_read_timeout(self.now.get(), READ_PATIENCE);
        }
    }

    fn turn(&mut self, devices: &mut [HostedDevice<'_>]) -> Result<bool, Wrong> {
        let now = self.now.get();
        let mut moved = 0 < self.executor.run(POLLS_MAX);
        for (device, fault) in self.faults.take() {
            self.inflict(device, &mut devices[device], fault);
        }
        for (number, drive) in devices.iter_mut().enumerate() {
            let port = self.devices[number].clone();
            while let Some((ticket, command)) = port.take() {
                self.trace.command(now, (ticket, &command), drive.geometry());
                if let Err(command) = drive.submit(now, ticket, command) {
                    self.trace.note(now, "device", format_args!("#{} comes later", ticket.0));
                    port.put_back(ticket, command);
                    break;
                }
                moved = true;
            }
            while let Some((ticket, completion)) = drive.poll(now) {
                moved = true;
                self.trace.completion(now, ticket, &completion);
                self.history =
                    mix64(self.history ^ now.0 ^ ticket.0 << 1 ^ u64::from(completion.is_ok()));
                self.judge(&completion)?;
                port.complete(ticket, completion);
            }
            moved |= self.look_for_trouble(number, drive)?;
        }
        Ok(moved)
    }

    /// Isolates a device that hangs. A device with errors stays in use.
    fn look_for_trouble(
        &mut self,
        number: usize,
        device: &mut HostedDevice<'_>,
    ) -> Result<bool, Wrong> {
        let hangs = matches!(
            device.trouble(),
            Some(DeviceFault::Silent | DeviceFault::Slow | DeviceFault::Gone)
        );
        if self.is_gone[number] || !hangs {
            return Ok(false);
        }
        if !device.device().has_lost {
            return Err(ViolationKind::Unreadable.wrong("a healthy device was given up".into()));
        }
        self.trace.tell(self.now.get(), "host", format_args!("does without device {number}"));
        self.lose(number, device);
        Ok(true)
    }

    fn lose(&mut self, number: usize, device: &mut HostedDevice<'_>) {
        self.is_gone[number] = true;
        self.suffered.gone = true;
        device.isolate();
    }

    fn inflict(&mut self, number: usize, device: &mut HostedDevice<'_>, fault: Fault) {
        if self.is_gone[number] {
            return;
        }
        self.trace.tell(self.now.get(), "fate", format_args!("device {number}: {fault}"));
        let geometry = *device.geometry();
        let drive = device.device_mut();
        match fault {
            Fault::FailNextWrite(zone) => {
                drive.inflict(drive::Fault::FailNextWrite(zone), false);
            }
            Fault::TakesNoWrites(is_on) => {
                drive.inflict(drive::Fault::TakesNoWrites(is_on), false);
                self.suffered.full[number] = is_on;
            }
            Fault::ReadOnly(zone) => {
                drive.inflict(drive::Fault::ReadOnly(zone), false);
                self.suffered.worn = true;
            }
            Fault::Unreadable(zone, block) => {
                drive.inflict(drive::Fault::Unreadable(lba(&geometry, zone, block)), false);
                self.suffered.unreadable = true;
            }
            Fault::Offline(zone) => {
                drive.inflict(drive::Fault::Offline(zone), false);
                self.suffered.worn = true;
                self.suffered.offline = true;
            }
            Fault::FlipBit(zone, block, bit) => {
                drive.inflict(drive::Fault::FlipBit(lba(&geometry, zone, block), bit), false);
                self.suffered.flips += 1;
                self.suffered.flipped = true;
            }
            Fault::LoseCommand => {
                drive.inflict(drive::Fault::LoseCommand, false);
                // Until the host notices, tasks that need the device wait.
                self.suffered.gone = true;
            }
            Fault::Gone => self.lose(number, device),
        }
        self.suffered.refusals = true;
    }

    /// Checks for errors that a device never returns to a correct engine.
    fn judge(&self, completion: &Completion) -> Result<(), Wrong> {
        let Err(error) = completion else { return Ok(()) };
        let is_fault = matches!(
            error,
            DeviceError::ZoneReadOnly
                | DeviceError::ZoneOffline
                | DeviceError::Media
                | DeviceError::TimedOut
                | DeviceError::DeviceReadOnly
                | DeviceError::DeviceGone
        );
        if is_fault || self.suffered.refusals {
            return Ok(());
        }
        Err(ViolationKind::IllegalCommand.wrong(error.to_string()))
    }
}

fn lba(geometry: &Geometry, zone: ZoneId, block: u64) -> Lba {
    geometry.zone_start(zone) + Blocks(block)
}
