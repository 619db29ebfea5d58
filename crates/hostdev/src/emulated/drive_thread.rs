//! Thread of a modelled drive: owns the model and advances it in real time.
//!
//! 1. A command carries the time of its submission. The thread passes it to the model when the
//!    model has room.
//! 2. The thread returns each completion to the shard that submitted the command. A flush that the
//!    model has completed first goes to the backing file's disk, on a thread of its own, while the
//!    drive continues.
//! 3. Fault injection (`fault_file`) acts on completions: it holds, delays or fails them.
//! 4. When idle the thread sleeps until a command comes or the model's next event is due.
//!
//! The thread ends when the drive and its last shard are dropped.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use zonal_base::{Nanos, Ticket};
use zonal_device::{Answer, Command, Completion, DeviceError, ZonedDevice};
use zonal_emulator::{ConventionalDrive, Model, OnReset, ZonedDrive};

use super::fault_file::{FaultFile, FaultMode};
use super::medium::FileMedium;
use crate::health::Health;
use crate::mailbox::Mailbox;

/// Seed of the model's random numbers.
const SEED: u64 = 1;

/// A command on its way to the drive. Each shard has at most as many as its queue is deep, which
/// bounds the channel.
pub(super) struct QueuedCommand {
    pub(super) at: Nanos,
    pub(super) ticket: Ticket,
    pub(super) command: Command,
    pub(super) line: Arc<CompletionSender>,
}

/// Channel and clock of the drive's thread.
#[derive(Clone, Debug)]
pub(super) struct DriveChannel {
    pub(super) asked: Sender<QueuedCommand>,
    clock: Clock,
}

impl DriveChannel {
    pub(super) fn now(&self) -> Nanos {
        self.clock.now()
    }
}

/// Nanoseconds since the drive was started.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Completion queue of a shard. It holds at most as many completions as the shard has commands in
/// flight.
pub(super) type CompletionSender = Mailbox<(Ticket, Completion)>;

/// Drive model in its thread, and the commands of all shards.
pub(super) struct DriveThread<D> {
    drive: D,
    clock: Clock,
    /// Latest time passed to the model.
    told: Nanos,
    asked: Receiver<QueuedCommand>,
    /// Commands for which the model had no room, oldest first.
    waiting: VecDeque<QueuedCommand>,
    /// Commands in flight, by the model's ticket.
    in_flight: HashMap<Ticket, InFlight>,
    next_ticket: u64,
    flushes: Sender<InFlight>,
    trouble: FaultFile,
    /// Completions that a fault delays, and the earliest time of each.
    held: VecDeque<(Nanos, InFlight, Completion)>,
}

/// Interval at which the thread checks whether held completions can go: 10 ms.
const HELD_LOOK: Duration = Duration::from_millis(10);

/// A command in the model, and the shard that waits for it.
struct InFlight {
    line: Arc<CompletionSender>,
    ticket: Ticket,
    is_flush: bool,
}

impl DriveThread<()> {
    /// Starts the drive's threads. They run until the last `DriveChannel` is dropped. `disk` is the backing
    /// file that a flush makes durable.
    pub(super) fn start(
        (model, medium): (Model, FileMedium),
        disk: (File, Health),
        trouble: FaultFile,
    ) -> io::Result<DriveChannel> {
        let (sender, asked) = channel();
        let (flushes, to_flush) = channel();
        let clock = Clock(Instant::now());
        Builder::new().name("zonal-drive-sync".into()).spawn(move || sync(&to_flush, &disk))?;
        Builder::new().name("zonal-drive".into()).spawn(move || {
            // By default the kernel wakes a sleeping thread up to 50 us late, to combine wakeups.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            match model {
                Model::Zoned(profile) => {
                    let kept = medium.kept().to_vec();
                    let drive = ZonedDrive::powered_on(*profile, SEED, Box::new(medium), &kept);
                    DriveThread::new(drive, clock, (asked, flushes), trouble).run();
                }
                Model::Conventional(profile) => {
                    let (on_reset, medium) = (OnReset::Nothing, Box::new(medium));
                    let drive = ConventionalDrive::new(*profile, on_reset, SEED, medium);
                    DriveThread::new(drive, clock, (asked, flushes), trouble).run();
                }
            }
        })?;
        Ok(DriveChannel { asked: sender, clock })
    }
}

impl<D: ZonedDevice> DriveThread<D> {
    fn new(
        drive: D,
        clock: Clock,
        (asked, flushes): (Receiver<QueuedCommand>, Sender<InFlight>),
        trouble: FaultFile,
    ) -> Self {
        Self {
            drive,
            clock,
            told: Nanos(0),
            asked,
            waiting: VecDeque::new(),
            in_flight: HashMap::new(),
            next_ticket: 0,
            flushes,
            trouble,
            held: VecDeque::new(),
        }
    }

    fn run(mut self) {
        while let Some(asked) = self.sleep() {
            self.waiting.extend(asked);
            loop {
                match self.asked.try_recv() {
                    Ok(asked) => self.waiting.push_back(asked),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            // Submit commands first, at the time of their submission: a poll advances the model's
            // time to now.
            self.submit();
            self.answer();
            self.submit();
        }
    }

    /// Sleeps until a command comes or an event is due. `None` when all senders are dropped.
    fn sleep(&self) -> Option<Option<QueuedCommand>> {
        let due = self.drive.next_event().map(|due| due.since(self.clock.now()).duration());
        let look = (!self.held.is_empty()).then_some(HELD_LOOK);
        let Some(wait) = due.into_iter().chain(look).min() else {
            return self.asked.recv().ok().map(Some);
        };
        match self.asked.recv_timeout(wait) {
            Ok(asked) => Some(Some(asked)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn answer(&mut self) {
        self.told = self.told.max(self.clock.now());
        while let Some((ticket, completion)) = self.drive.poll(self.told) {
            let done = self.in_flight.remove(&ticket).expect("the model answers what it was given");
            match self.trouble.mode() {
                FaultMode::Well | FaultMode::Full if self.held.is_empty() => {
                    self.hand_back(done, completion)
                }
                FaultMode::Well | FaultMode::Full | FaultMode::Hangs => {
                    self.held.push_back((self.told, done, completion))
                }
                FaultMode::Slow(by) => self.held.push_back((self.told + by, done, completion)),
                FaultMode::Gone => self.hand_back(done, Err(DeviceError::DeviceGone)),
                FaultMode::FailsReads => {
                    let is_read = matches!(completion, Ok(Answer::Read(_)));
                    let failed = if is_read { Err(DeviceError::Media) } else { completion };
                    self.hand_back(done, failed);
                }
                FaultMode::BreaksContract => self.break_contract(done, completion),
            }
        }
        self.hand_back_held();
    }

    fn break_contract(&self, done: InFlight, mut completion: Completion) {
        match &mut completion {
            Ok(Answer::Written(lba)) => done.line.put((done.ticket, Ok(Answer::Written(*lba)))),
            Ok(Answer::Report(zones)) => {
                let none_is_so_high = self.drive.geometry().zone_count * 2;
                zones.iter_mut().for_each(|report| report.zone.0 += none_is_so_high);
            }
            _ => (),
        }
        self.hand_back(done, completion);
    }

    fn hand_back_held(&mut self) {
        while let Some((due, ..)) = self.held.front()
            && *due <= self.told
            && self.trouble.mode() != FaultMode::Hangs
            && let Some((_, done, completion)) = self.held.pop_front()
        {
            self.hand_back(done, completion);
        }
    }

    fn hand_back(&self, done: InFlight, completion: Completion) {
        match (done.is_flush, &completion) {
            (true, Ok(_)) => drop(self.flushes.send(done)),
            _ => done.line.put((done.ticket, completion)),
        }
    }

    fn submit(&mut self) {
        while let Some(asked) = self.waiting.pop_front() {
            let QueuedCommand { at, ticket, command, line } = asked;
            // The model's time never goes back: a command that comes late starts at the model's
            // time.
            self.told = self.told.max(at);
            let own = Ticket(self.next_ticket);
            let is_flush = matches!(command, Command::Flush);
            if let Err(command) = self.drive.submit(self.told, own, command) {
                return self.waiting.push_front(QueuedCommand { at, ticket, command, line });
            }
            self.next_ticket += 1;
            self.in_flight.insert(own, InFlight { line, ticket, is_flush });
        }
    }
}

impl<D> Drop for DriveThread<D> {
    /// Completes all remaining commands with `DeviceGone`, so that no shard waits for ever.
    fn drop(&mut self) {
        let gone = || Err(DeviceError::DeviceGone);
        let held = self.held.drain(..).map(|(_, done, _)| done);
        for InFlight { line, ticket, .. } in
            self.in_flight.drain().map(|(_, done)| done).chain(held)
        {
            line.put((ticket, gone()));
        }
        for QueuedCommand { line, ticket, .. } in self.waiting.drain(..) {
            line.put((ticket, gone()));
        }
    }
}

/// Flush thread: one `fdatasync` serves all flushes that wait.
fn sync(flushes: &Receiver<InFlight>, (file, health): &(File, Health)) {
    while let Ok(first) = flushes.recv() {
        let waiting: Vec<InFlight> = std::iter::once(first).chain(flushes.try_iter()).collect();
        let outcome = health.classify_flush(rustix::fs::fdatasync(file));
        for InFlight { line, ticket, .. } in waiting {
            line.put((ticket, outcome.map(|()| Answer::Done)));
        }
    }
}

#[cfg(test)]
mod tests;
