//! Event loop of the simulated host: when no task is ready, virtual time moves to the next event.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use zonal_base::{Blocks, Nanos, PoolClass, Rng, Ticket, mix64};
use zonal_cache::{Cache, Fetch, Fetched, Ports, PrefetchSlots};
use zonal_device::ram::Crash;
use zonal_device::{Command, Completion, DeadlineDevice, DeviceError, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_zonelog::Generations;

use crate::CHECKSUM;
use crate::drive::{Drive, Fault};
use crate::origin::FaultyOrigin;
use crate::trace::Trace;
use crate::violation::{ViolationKind, Wrong};

/// One life of the process: from its start to its end or crash.
pub(crate) struct World {
    pub(crate) executor: Executor,
    pub(crate) ports: Ports,
    pub(crate) now: Nanos,
    /// Virtual time, shared with the panic handler.
    shown_now: Rc<Cell<Nanos>>,
    /// Faults to inject now.
    pub(crate) faults: Rc<RefCell<Vec<Fault>>>,
    /// Faults so far.
    pub(crate) suffered: Suffered,
    pub(crate) history: u64,
    rng: Rng,
    /// Commands in flight, with the time of their submission.
    in_flight: BTreeMap<Ticket, Nanos>,
    /// Reads in flight.
    reads: BTreeSet<Ticket>,
    /// Reads whose answer is still to come too late.
    late_reads: u32,
    is_gone: bool,
    /// Engine that watchers see.
    pub(crate) shown: Option<Cache>,
    /// The device is isolated. The shard's next life may use it again.
    pub(crate) is_isolated: Rc<Cell<bool>>,
    trace: Trace,
}

/// The device and the origin, which outlive the process.
pub(crate) struct Outside<'a> {
    pub(crate) device: DeadlineDevice<&'a mut Drive>,
    pub(crate) origin: &'a mut FaultyOrigin,
}

/// Faults of the device: they weaken the checks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Suffered {
    pub(crate) anything: bool,
    /// Commands of a correct engine may fail.
    pub(crate) refusals: bool,
    /// Acknowledged and flushed records may be lost.
    pub(crate) lost_records: bool,
}

impl Suffered {
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            anything: self.anything || other.anything,
            refusals: self.refusals || other.refusals,
            lost_records: self.lost_records || other.lost_records,
        }
    }

    fn note(&mut self, fault: Fault) {
        self.anything = true;
        self.refusals |= fault.refuses();
        self.lost_records |= fault.loses_records();
    }
}

/// Largest number of task polls per turn.
const POLLS_MAX: usize = 1000;

/// Largest number of turns without progress of virtual time. A history that exceeds it has a task
/// that wakes itself for ever.
const TURNS_AT_ONE_INSTANT_MAX: u32 = 100_000;

/// Largest number of tasks of a life.
const TASKS_MAX: usize = 4096;

/// Command timeout: the host resets the controller and does without the device until the next life.
/// Linux has the same default for NVMe.
const COMMAND_TIMEOUT: Nanos = Nanos::secs(30);

impl World {
    pub(crate) fn new(
        shown_now: Rc<Cell<Nanos>>,
        piece: Blocks,
        (history, chance): (u64, u64),
        trace: Trace,
    ) -> Self {
        let now = shown_now.get();
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
            generations: Generations::default(),
            prefetch_slots: PrefetchSlots::new(usize::MAX),
        };
        Self {
            executor,
            ports,
            now,
            shown_now,
            faults: Rc::default(),
            suffered: Suffered::default(),
            history,
            rng: Rng::new(chance),
            in_flight: BTreeMap::new(),
            reads: BTreeSet::new(),
            late_reads: 0,
            is_gone: false,
            shown: None,
            is_isolated: Rc::default(),
            trace,
        }
    }

    /// Runs until `done`, until `patience` is over, or until no event is left. True if `done`.
    pub(crate) fn run(
        &mut self,
        outside: &mut Outside<'_>,
        patience: Nanos,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, Wrong> {
        let until = self.now + patience;
        let mut turns = 0;
        loop {
            let moved = self.turn(outside)?;
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
            self.trace.watched.moment(self.now, self.shown.as_ref());
            let Some(next) = self.next_event(outside) else { return Ok(false) };
            self.now = self.now.max(next).min(until);
            self.shown_now.set(self.now);
            if until <= next {
                return Ok(false);
            }
            self.executor.advance(self.now);
        }
    }

    fn next_event(&self, outside: &Outside<'_>) -> Option<Nanos> {
        let timeout = self.in_flight.values().min().map(|since| *since + COMMAND_TIMEOUT);
        let (device, origin) = (outside.device.next_event(), outside.origin.next_event());
        let events = [self.executor.next_deadline(), device, origin, timeout];
        events.into_iter().flatten().min()
    }

    fn turn(&mut self, outside: &mut Outside<'_>) -> Result<bool, Wrong> {
        let mut moved = 0 < self.executor.run(POLLS_MAX);
        let faults = self.faults.take();
        for fault in faults {
            self.inflict(&mut outside.device, fault);
        }
        moved |= self.ask_device(&mut outside.device);
        while let Some((ticket, fetch)) = self.ports.origin.take() {
            self.trace.fetch(self.now, ticket, &fetch);
            outside.origin.start(self.now, ticket, fetch);
            moved = true;
        }
        while let Some((ticket, completion)) = outside.device.poll(self.now) {
            self.in_flight.remove(&ticket);
            let is_late = self.reads.remove(&ticket) && 0 < self.late_reads && completion.is_ok();
            self.late_reads -= u32::from(is_late);
            let completion = if is_late { Err(DeviceError::TimedOut) } else { completion };
            self.trace.completion(self.now, ticket, &completion);
            self.note(ticket.0, completion.is_ok());
            self.judge(&completion, outside.device.device().is_worn)?;
            self.ports.device.complete(ticket, completion);
            moved = true;
        }
        while let Some((ticket, fetched)) = outside.origin.poll(self.now) {
            self.trace.fetched(self.now, ticket, &fetched);
            self.note(ticket.0, matches!(fetched, Fetched::Failed(_)));
            self.ports.origin.complete(ticket, fetched);
            moved = true;
        }
        if outside.device.trouble().is_some() && !self.is_gone {
            self.isolate(&mut outside.device);
            moved = true;
        }
        moved |= self.look_for_lost_commands(&mut outside.device)?;
        Ok(moved)
    }

    fn ask_device(&mut self, device: &mut DeadlineDevice<&mut Drive>) -> bool {
        let mut moved = false;
        while let Some((ticket, command)) = self.ports.device.take() {
            moved = true;
            if self.is_gone {
                self.ports.device.complete(ticket, Err(DeviceError::DeviceGone));
                continue;
            }
            self.trace.command(self.now, (ticket, &command), device.geometry());
            let is_read = matches!(command, Command::Read { .. });
            if let Err(command) = device.submit(self.now, ticket, command) {
                self.trace.note(self.now, "device", format_args!("#{} comes later", ticket.0));
                self.ports.device.put_back(ticket, command);
                return false;
            }
            self.in_flight.insert(ticket, self.now);
            if is_read {
                self.reads.insert(ticket);
            }
        }
        moved
    }

    fn inflict(&mut self, device: &mut DeadlineDevice<&mut Drive>, fault: Fault) {
        if self.is_gone {
            return;
        }
        // Late answers lose nothing and weaken no check: the data are intact.
        if let Fault::LateReads(count) = fault {
            self.trace.tell(self.now, "fate", format_args!("{fault}"));
            self.late_reads = self.late_reads.max(count);
            return;
        }
        let is_idle = device.under_way() == 0;
        if !device.device_mut().inflict(fault, is_idle) {
            // The fault is delayed until the device is idle.
            self.faults.borrow_mut().push(fault);
            return;
        }
        self.trace.tell(self.now, "fate", format_args!("{fault}"));
        self.suffered.note(fault);
        if fault == Fault::Gone {
            self.lose_device(device);
        }
    }

    fn look_for_lost_commands(
        &mut self,
        device: &mut DeadlineDevice<&mut Drive>,
    ) -> Result<bool, Wrong> {
        let is_late = |since: &Nanos| *since + COMMAND_TIMEOUT <= self.now;
        if !self.in_flight.values().any(is_late) {
            return Ok(false);
        }
        if !device.device().has_lost {
            return Err(ViolationKind::Stuck.wrong("the device does not answer a command".into()));
        }
        self.trace.tell(self.now, "host", format_args!("resets the device: a command timed out"));
        self.lose_device(device);
        Ok(true)
    }

    /// Resets the device as a power cut does, and fails the commands in flight and all later ones.
    fn lose_device(&mut self, device: &mut DeadlineDevice<&mut Drive>) {
        device.device_mut().crash(self.now, &mut self.rng, Crash::Power);
        self.go_on_without(device);
    }

    /// Fails the commands for the engine only: the device still carries out those in flight.
    pub(crate) fn isolate(&mut self, device: &mut DeadlineDevice<&mut Drive>) {
        self.trace.tell(self.now, "host", format_args!("isolates the device"));
        self.is_isolated.set(true);
        self.go_on_without(device);
    }

    fn go_on_without(&mut self, device: &mut DeadlineDevice<&mut Drive>) {
        self.is_gone = true;
        self.in_flight.clear();
        self.reads.clear();
        device.isolate();
    }

    /// Adds an event to the digest of the history.
    fn note(&mut self, ticket: u64, outcome: bool) {
        self.history = mix64(self.history ^ self.now.0 ^ ticket << 1 ^ u64::from(outcome));
    }

    /// Checks for errors that a device never returns to a correct engine.
    fn judge(&self, completion: &Completion, is_worn: bool) -> Result<(), Wrong> {
        let Err(error) = completion else { return Ok(()) };
        let is_illegal = match error {
            DeviceError::InvalidField
            | DeviceError::ReadPastWritePointer
            | DeviceError::TooManyZones
            | DeviceError::Unsupported
            | DeviceError::InvalidWrite
            | DeviceError::InvalidTransition
            | DeviceError::ZoneFull => !self.suffered.refusals && !is_worn,
            DeviceError::ZoneReadOnly
            | DeviceError::ZoneOffline
            | DeviceError::Media
            | DeviceError::TimedOut
            | DeviceError::DeviceReadOnly
            | DeviceError::DeviceGone => false,
        };
        if is_illegal {
            Err(ViolationKind::IllegalCommand.wrong(error.to_string()))
        } else {
            Ok(())
        }
    }
}
