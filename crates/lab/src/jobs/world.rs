//! Event loop of the benchmark: runs tasks and drive models in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::Nanos;
use zonal_device::{Command, Completion, ZonedDevice};
use zonal_emulator::{BlockCommand, ConventionalDrive};
use zonal_runtime::{Executor, Port};
use zonal_shaper::Shaper;
use zonal_watch::Watched;

/// Limit of tasks: those of the jobs, and of the device.
const TASKS_MAX: usize = 4096;

const POLLS_PER_TURN: usize = 1024;

/// Executor, clock and drives of a simulation.
pub(super) struct JobWorld {
    pub(super) executor: Executor,
    pub(super) now: Nanos,
    drives: Vec<Box<dyn Turned>>,
    watched: Watched,
    /// Block device that the watcher sees.
    shown: Option<Shaper>,
}

/// A drive with its port.
trait Turned {
    /// Submits commands and delivers completions. True when there were any.
    fn turn(&mut self, now: Nanos) -> bool;
    fn next_event(&self) -> Option<Nanos>;
}

/// A drive that is used through zones.
struct Zoned<D>(Rc<RefCell<D>>, Port<Command, Completion>);

/// A drive that is written in place.
struct InPlace(Rc<RefCell<ConventionalDrive>>, Port<BlockCommand, Completion>);

impl JobWorld {
    pub(super) fn new() -> Self {
        Self {
            executor: Executor::new(TASKS_MAX),
            now: Nanos(0),
            drives: Vec::new(),
            watched: Watched::default(),
            shown: None,
        }
    }

    /// Shows a block device to a watcher from now on.
    pub(super) fn show(&mut self, shaper: &Shaper, watched: &Watched) {
        watched.started(self.now, shaper.into());
        (self.watched, self.shown) = (watched.clone(), Some(shaper.clone()));
    }

    pub(super) fn add_zoned<D: ZonedDevice + 'static>(
        &mut self,
        drive: &Rc<RefCell<D>>,
        port: Port<Command, Completion>,
    ) {
        self.drives.push(Box::new(Zoned(drive.clone(), port)));
    }

    pub(super) fn add_in_place(
        &mut self,
        drive: &Rc<RefCell<ConventionalDrive>>,
        port: Port<BlockCommand, Completion>,
    ) {
        self.drives.push(Box::new(InPlace(drive.clone(), port)));
    }

    /// Shows the block device for the last time.
    pub(super) fn show_end(&self) {
        self.watched.ended(self.now, self.shown.as_ref());
    }

    /// Tells the watcher what begins.
    pub(super) fn note(&self, what: &str) {
        self.watched.note(self.now, format_args!("{what}"));
    }

    /// Runs iterations until `done`, or until no event is left.
    pub(super) fn run(&mut self, done: impl Fn() -> bool) {
        loop {
            let mut moved = 0 < self.executor.run(POLLS_PER_TURN);
            for drive in &mut self.drives {
                moved |= drive.turn(self.now);
            }
            if done() {
                return;
            }
            if moved {
                continue;
            }
            self.watched.moment(self.now, self.shown.as_ref());
            let events = self.drives.iter().filter_map(|drive| drive.next_event());
            let Some(next) = events.chain(self.executor.next_deadline()).min() else { return };
            self.now = self.now.max(next);
            self.executor.advance(self.now);
        }
    }
}

impl<D: ZonedDevice> Turned for Zoned<D> {
    fn turn(&mut self, now: Nanos) -> bool {
        let Self(drive, port) = self;
        let mut drive = drive.borrow_mut();
        carry(port, &mut *drive, now, |drive, ticket, command| drive.submit(now, ticket, command))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.borrow().next_event()
    }
}

impl Turned for InPlace {
    fn turn(&mut self, now: Nanos) -> bool {
        let Self(drive, port) = self;
        let mut drive = drive.borrow_mut();
        carry(port, &mut *drive, now, |drive, ticket, command| {
            drive.submit_block(now, ticket, command)
        })
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.borrow().next_event()
    }
}

fn carry<D: ZonedDevice, C>(
    port: &Port<C, Completion>,
    drive: &mut D,
    now: Nanos,
    submit: impl Fn(&mut D, zonal_base::Ticket, C) -> Result<(), C>,
) -> bool {
    let mut moved = false;
    while let Some((ticket, command)) = port.take() {
        if let Err(command) = submit(drive, ticket, command) {
            port.put_back(ticket, command);
            break;
        }
        moved = true;
    }
    while let Some((ticket, completion)) = drive.poll(now) {
        moved = true;
        port.complete(ticket, completion);
    }
    moved
}
