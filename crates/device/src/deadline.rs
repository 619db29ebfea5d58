//! I/O deadlines: a wrapper that times out reads, counts faults, and reports when the host should isolate the device.
//!
//! 1. A read that the device does not answer within a given time is answered with [`DeviceError::TimedOut`]. The
//!    wrapper drops the device's later answer. Writes are never given up: their result decides which data are on
//!    flash.
//! 2. The wrapper counts answers, failures and late commands by periods of that time. From these counts follows when
//!    the host should isolate the device ([`DeviceFault`]).
//! 3. Once the device is [abandoned](DeadlineDevice::isolate), every command is answered with [`DeviceError::DeviceGone`] at
//!    once.
//!
//! No command has a timer of its own. The wrapper checks all commands in flight together, eight times per read
//! deadline, and only while there are any.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{Nanos, Ticket, index};

use crate::latency::CommandKind;
use crate::{Command, CommandLatencies, Completion, DeviceError, Geometry, ZonedDevice};

/// Checks of the commands in flight per read deadline: a read is given up at most an eighth of the deadline too late.
const LOOKS: u64 = 8;

/// Silence limit, in read deadlines: how long a read may be in flight while the device answers no command at all.
const SILENCE_MAX: u64 = 4;

/// Time limit of a write or a flush, in read deadlines. A drive may fall behind with writes for seconds, and only
/// removals wait for writes.
const WRITES_MAX: u64 = 10;

/// Periods in the history, each as long as the read deadline.
const PERIODS: usize = 20;

/// Periods of the history with a late command at which the device counts as slow. One pause of a drive falls into two
/// periods.
const LATE_PERIODS_MAX: usize = 4;

/// Failures in the history at which the device counts as failing, ...
const FAILURES_MAX: u64 = 16;

/// ... when at least one answer in this many is a failure. A drive with some bad blocks is worth keeping.
const FAILURES_PART: u64 = 10;

/// Fault verdict: the reason for which the host should isolate the device. The worst one is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFault {
    /// The device takes no writes; it can be read.
    ReadOnly,
    /// Too many commands of the device fail with media errors.
    Failing,
    /// The device is late again and again.
    Slow,
    /// The device answers no command.
    Silent,
    /// The device itself answered that it is gone.
    Gone,
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "it takes no writes",
            Self::Failing => "too many commands fail",
            Self::Slow => "it takes too long, time and again",
            Self::Silent => "it answers nothing",
            Self::Gone => "it is gone",
        })
    }
}

/// Counters of commands that were given up. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutCounters {
    /// Reads that were answered with `TimedOut`.
    pub reads_timed_out: u64,
}

/// A device with a deadline for reads and a verdict on its faults.
pub struct DeadlineDevice<D> {
    device: D,
    /// Read deadline. `None`: reads have no deadline, and no fault is counted.
    patience: Option<Nanos>,
    /// Commands in flight, by the ticket that the device knows.
    slots: Vec<Slot>,
    free: Vec<Ticket>,
    /// Commands that the device has not answered, given up or not.
    under_way: usize,
    next_check: Option<Nanos>,
    /// Completions that this wrapper made instead of the device.
    ready: VecDeque<(Ticket, Completion)>,
    judge: FaultHistory,
    waits: TimeoutCounters,
    latencies: Arc<CommandLatencies>,
    is_isolated: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    owner: Owner,
    since: Nanos,
    kind: CommandKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// The host submitted the command under this ticket and has no answer yet.
    Waits(Ticket),
    /// The host already has a `TimedOut` or `DeviceGone`: drop the device's answer.
    GaveUp,
}

impl<D: ZonedDevice> DeadlineDevice<D> {
    /// Wraps a device without a deadline. [`DeadlineDevice::set_read_timeout`] sets one.
    pub fn new(device: D) -> Self {
        Self {
            device,
            patience: None,
            slots: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            next_check: None,
            ready: VecDeque::new(),
            judge: FaultHistory::new(),
            waits: TimeoutCounters { reads_timed_out: 0 },
            latencies: Arc::default(),
            is_isolated: false,
        }
    }

    /// Sets the read deadline and starts counting faults.
    pub fn set_read_timeout(&mut self, now: Nanos, patience: Nanos) {
        assert!(LOOKS <= patience.0, "a time to wait");
        self.patience = Some(patience);
        self.judge.begin(now);
        if 0 < self.under_way {
            self.next_check = Some(now + Nanos(patience.0 / LOOKS));
        }
    }

    /// The reason to isolate the device, once there is one.
    pub const fn trouble(&self) -> Option<DeviceFault> {
        self.judge.trouble
    }

    /// Counters of commands that were given up.
    pub const fn waits(&self) -> TimeoutCounters {
        self.waits
    }

    /// Latencies of the commands that the device has answered, late answers included.
    pub const fn latencies(&self) -> &Arc<CommandLatencies> {
        &self.latencies
    }

    /// Commands that the device has not answered. While there are any, the device may still carry them out.
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// Time of the next check of the commands in flight: the caller has to call `poll` then.
    pub const fn next_check(&self) -> Option<Nanos> {
        self.next_check
    }

    /// The wrapped device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The wrapped device.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Isolates the device: answers every command in flight, and every later one, with [`DeviceError::DeviceGone`].
    pub fn isolate(&mut self) {
        self.is_isolated = true;
        self.next_check = None;
        for slot in &mut self.slots {
            if let Owner::Waits(ticket) = slot.owner {
                slot.owner = Owner::GaveUp;
                self.ready.push_back((ticket, Err(DeviceError::DeviceGone)));
            }
        }
    }

    /// True when the device is isolated and receives no more commands.
    pub const fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    fn enter(&mut self, now: Nanos, ticket: Ticket, kind: CommandKind) -> Ticket {
        let own = self.free.pop().unwrap_or_else(|| {
            let slot = Slot { owner: Owner::Nobody, since: now, kind };
            self.slots.push(slot);
            Ticket(self.slots.len() as u64 - 1)
        });
        self.slots[index(own.0)] = Slot { owner: Owner::Waits(ticket), since: now, kind };
        self.under_way += 1;
        if self.next_check.is_none()
            && let Some(patience) = self.patience
        {
            self.next_check = Some(now + Nanos(patience.0 / LOOKS));
        }
        own
    }

    fn leave(&mut self, own: Ticket) -> Slot {
        self.under_way -= 1;
        self.free.push(own);
        let slot = &mut self.slots[index(own.0)];
        let left = *slot;
        slot.owner = Owner::Nobody;
        // A second answer has no buffer to fill.
        assert!(left.owner != Owner::Nobody, "a device answers a command once");
        left
    }

    /// Times out late reads, notes late writes, and checks for silence.
    fn look(&mut self, now: Nanos, patience: Nanos) {
        let [writes_max, silence_max] = [WRITES_MAX, SILENCE_MAX].map(|n| Nanos(patience.0 * n));
        for slot in self.slots.iter_mut().filter(|slot| slot.owner != Owner::Nobody) {
            let waited = now.since(slot.since);
            let is_read = slot.kind == CommandKind::Read;
            if is_read && silence_max <= waited {
                self.judge.look_for_silence(now, silence_max);
            }
            let Owner::Waits(ticket) = slot.owner else { continue };
            if is_read && patience <= waited {
                slot.owner = Owner::GaveUp;
                self.ready.push_back((ticket, Err(DeviceError::TimedOut)));
                self.waits.reads_timed_out += 1;
                self.judge.note_late(now, patience);
            } else if writes_max <= waited {
                self.judge.note_late(now, patience);
            }
        }
        let is_busy = 0 < self.under_way;
        self.next_check = is_busy.then(|| now + Nanos(patience.0 / LOOKS));
    }
}

impl<D: ZonedDevice> ZonedDevice for DeadlineDevice<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.is_isolated {
            self.ready.push_back((ticket, Err(DeviceError::DeviceGone)));
            return Ok(());
        }
        let own = self.enter(now, ticket, CommandKind::of(&command));
        self.device.submit(now, own, command).inspect_err(|_| {
            self.leave(own);
        })
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        loop {
            let Some((own, completion)) = self.device.poll(now) else { break };
            if let Some(patience) = self.patience {
                self.judge.note_answer(now, patience, &completion);
            }
            let Slot { owner, since, kind } = self.leave(own);
            if completion.is_ok() {
                self.latencies.record(kind, now.since(since));
            }
            // The host has already had the answer of a command that was given up. Dropping this one frees its buffer.
            if let Owner::Waits(ticket) = owner {
                return Some((ticket, completion));
            }
        }
        if let (Some(patience), Some(at)) = (self.patience, self.next_check)
            && at <= now
        {
            self.look(now, patience);
        }
        self.ready.pop_front()
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = (!self.ready.is_empty()).then_some(Nanos(0));
        [ready, self.next_check, self.device.next_event()].into_iter().flatten().min()
    }
}

/// Fault history of the device over the last periods, and the verdict that follows from it.
struct FaultHistory {
    periods: [Period; PERIODS],
    /// Index of the current period.
    current: usize,
    ends_at: Nanos,
    /// Time of the last answer of the device.
    heard_at: Nanos,
    trouble: Option<DeviceFault>,
}

#[derive(Clone, Copy)]
struct Period {
    answers: u64,
    failures: u64,
    is_late: bool,
}

impl Period {
    const EMPTY: Self = Self { answers: 0, failures: 0, is_late: false };
}

impl FaultHistory {
    const fn new() -> Self {
        Self {
            periods: [Period::EMPTY; PERIODS],
            current: 0,
            ends_at: Nanos(0),
            heard_at: Nanos(0),
            trouble: None,
        }
    }

    fn begin(&mut self, now: Nanos) {
        *self = Self::new();
        self.heard_at = now;
    }

    /// Advances to the current period and returns it.
    fn period(&mut self, now: Nanos, patience: Nanos) -> &mut Period {
        let mut skipped = 0;
        while self.ends_at <= now && skipped < PERIODS {
            skipped += 1;
            self.current = (self.current + 1) % PERIODS;
            self.periods[self.current] = Period::EMPTY;
            self.ends_at += patience;
        }
        if self.ends_at <= now {
            self.ends_at = now + patience;
        }
        &mut self.periods[self.current]
    }

    fn note_answer(&mut self, now: Nanos, patience: Nanos, completion: &Completion) {
        self.heard_at = now;
        let period = self.period(now, patience);
        period.answers += 1;
        match completion {
            Err(DeviceError::Media) => {
                period.failures += 1;
                self.judge_failures();
            }
            Err(DeviceError::DeviceReadOnly) => self.note(DeviceFault::ReadOnly),
            Err(DeviceError::DeviceGone) => self.note(DeviceFault::Gone),
            _ => (),
        }
    }

    fn judge_failures(&mut self) {
        let sum = |of: fn(&Period) -> u64| self.periods.iter().map(of).sum::<u64>();
        let (answers, failures) = (sum(|period| period.answers), sum(|period| period.failures));
        if FAILURES_MAX <= failures && answers <= failures * FAILURES_PART {
            self.note(DeviceFault::Failing);
        }
    }

    /// Keeps the worst fault.
    fn note(&mut self, fault: DeviceFault) {
        self.trouble = self.trouble.max(Some(fault));
    }

    fn note_late(&mut self, now: Nanos, patience: Nanos) {
        self.period(now, patience).is_late = true;
        let late = self.periods.iter().filter(|period| period.is_late).count();
        if LATE_PERIODS_MAX <= late {
            self.note(DeviceFault::Slow);
        }
    }

    /// Requires: a read has been in flight for at least `most`.
    fn look_for_silence(&mut self, now: Nanos, most: Nanos) {
        if most <= now.since(self.heard_at) {
            self.note(DeviceFault::Silent);
        }
    }
}

#[cfg(test)]
mod tests;
