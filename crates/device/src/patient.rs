//! A device that is not waited for any longer than it is worth.
//!
//! 1. A read that is not answered within a stated time is answered with [`DeviceError::TimedOut`]; what the device
//!    says to it later is dropped. Writes are not given up: how they end decides what lies on flash.
//! 2. Answers, failures and reads that were given up are counted by periods of that time. From these follows when
//!    the device is better done without ([`Trouble`]).
//! 3. Once it is [abandoned](Patient::abandon), every command is answered with [`DeviceError::DeviceGone`] at once.
//!
//! Nothing here sets a timer for a command: all of them are looked at together, eight times in the time that a read
//! may take, and only while there are any.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{Nanos, Ticket, index};

use crate::{Command, Completion, DeviceError, Geometry, ZonedDevice};

/// Looks at what is under way, in the time that a read may take: one is given up at most an eighth too late.
const LOOKS: u64 = 8;

/// So many times as long as it may take, a read may be under way while the device answers nothing at all.
const SILENCE_MAX: u64 = 4;

/// So many times as long as a read may take, a write or a flush may. A drive may fall behind with writes for seconds,
/// and nobody waits for them but removals.
const WRITES_MAX: u64 = 10;

/// Periods that are looked back at, each as long as a read may take.
const PERIODS: usize = 20;

/// Of these, so many in which a command took too long are too many. One pause of a drive falls into two of them.
const LATE_PERIODS_MAX: usize = 4;

/// In these periods, so many failures are too many, ...
const FAILURES_MAX: u64 = 16;

/// ... when they are more than one in so many answers. A drive with some bad blocks is worth keeping.
const FAILURES_PART: u64 = 10;

/// Why a device is better done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It answers nothing.
    Silent,
    /// It takes too long, time and again.
    Slow,
    /// Too many commands fail.
    Failing,
    /// It says itself that it is gone.
    Gone,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "it answers nothing",
            Self::Slow => "it takes too long, time and again",
            Self::Failing => "too many commands fail",
            Self::Gone => "it is gone",
        })
    }
}

/// What was given up, and why. They grow only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Reads that were given up.
    pub reads_timed_out: u64,
}

/// A device whose reads take no longer than they may.
pub struct Patient<D> {
    device: D,
    /// How long a read may take; `None`: as long as it likes, and nothing is held against the device.
    patience: Option<Nanos>,
    /// By the device's ticket.
    slots: Vec<Slot>,
    free: Vec<Ticket>,
    /// Those that wait for an answer of the device, given up or not.
    under_way: usize,
    look_at: Option<Nanos>,
    /// Answers that are not the device's.
    ready: VecDeque<(Ticket, Completion)>,
    judge: Judge,
    waits: Waits,
    is_abandoned: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    owner: Owner,
    since: Nanos,
    is_read: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// Under this ticket it was submitted.
    Waits(Ticket),
    /// It was told that there will be no answer.
    GaveUp,
}

impl<D: ZonedDevice> Patient<D> {
    /// Waits for everything as long as it takes, until it is told otherwise.
    pub const fn new(device: D) -> Self {
        Self {
            device,
            patience: None,
            slots: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            look_at: None,
            ready: VecDeque::new(),
            judge: Judge::new(),
            waits: Waits { reads_timed_out: 0 },
            is_abandoned: false,
        }
    }

    /// From now on reads take no longer than that, and the device is judged.
    pub fn be_patient(&mut self, now: Nanos, patience: Nanos) {
        assert!(LOOKS <= patience.0, "a time to wait");
        self.patience = Some(patience);
        self.judge.begin(now);
        if 0 < self.under_way {
            self.look_at = Some(now + Nanos(patience.0 / LOOKS));
        }
    }

    /// Why the device is better done without, once it is.
    pub const fn trouble(&self) -> Option<Trouble> {
        self.judge.trouble
    }

    /// What was given up.
    pub const fn waits(&self) -> Waits {
        self.waits
    }

    /// Commands that the device has not answered. While there are any, what they do may still come.
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// When what is under way is to be looked at next: `poll` has to be called then.
    pub const fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// The device itself.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device itself.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Answers everything that is under way, and everything that comes, with [`DeviceError::DeviceGone`].
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        self.look_at = None;
        for slot in &mut self.slots {
            if let Owner::Waits(ticket) = slot.owner {
                slot.owner = Owner::GaveUp;
                self.ready.push_back((ticket, Err(DeviceError::DeviceGone)));
            }
        }
    }

    /// True when nothing is asked of the device any more.
    pub const fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn enter(&mut self, now: Nanos, ticket: Ticket, is_read: bool) -> Ticket {
        let own = self.free.pop().unwrap_or_else(|| {
            let slot = Slot { owner: Owner::Nobody, since: now, is_read };
            self.slots.push(slot);
            Ticket(self.slots.len() as u64 - 1)
        });
        self.slots[index(own.0)] = Slot { owner: Owner::Waits(ticket), since: now, is_read };
        self.under_way += 1;
        if self.look_at.is_none()
            && let Some(patience) = self.patience
        {
            self.look_at = Some(now + Nanos(patience.0 / LOOKS));
        }
        own
    }

    fn leave(&mut self, own: Ticket) -> Owner {
        self.under_way -= 1;
        self.free.push(own);
        let owner = core::mem::replace(&mut self.slots[index(own.0)].owner, Owner::Nobody);
        // Whose buffer would the second answer have filled?
        assert!(owner != Owner::Nobody, "a device answers a command once");
        owner
    }

    /// Gives up what took too long.
    fn look(&mut self, now: Nanos, patience: Nanos) {
        let [writes_max, silence_max] = [WRITES_MAX, SILENCE_MAX].map(|n| Nanos(patience.0 * n));
        for slot in self.slots.iter_mut().filter(|slot| slot.owner != Owner::Nobody) {
            let waited = now.since(slot.since);
            if slot.is_read && silence_max <= waited {
                self.judge.look_for_silence(now, silence_max);
            }
            let Owner::Waits(ticket) = slot.owner else { continue };
            if slot.is_read && patience <= waited {
                slot.owner = Owner::GaveUp;
                self.ready.push_back((ticket, Err(DeviceError::TimedOut)));
                self.waits.reads_timed_out += 1;
                self.judge.note_late(now, patience);
            } else if writes_max <= waited {
                self.judge.note_late(now, patience);
            }
        }
        let is_busy = 0 < self.under_way;
        self.look_at = is_busy.then(|| now + Nanos(patience.0 / LOOKS));
    }
}

impl<D: ZonedDevice> ZonedDevice for Patient<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.is_abandoned {
            self.ready.push_back((ticket, Err(DeviceError::DeviceGone)));
            return Ok(());
        }
        let own = self.enter(now, ticket, matches!(command, Command::Read { .. }));
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
            // Whoever gave it up does not want the answer any more; its buffer is free again.
            if let Owner::Waits(ticket) = self.leave(own) {
                return Some((ticket, completion));
            }
        }
        if let (Some(patience), Some(at)) = (self.patience, self.look_at)
            && at <= now
        {
            self.look(now, patience);
        }
        self.ready.pop_front()
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = (!self.ready.is_empty()).then_some(Nanos(0));
        [ready, self.look_at, self.device.next_event()].into_iter().flatten().min()
    }
}

/// What a device did in the last periods.
struct Judge {
    periods: [Period; PERIODS],
    /// The period that is now.
    current: usize,
    ends_at: Nanos,
    /// When it answered something last.
    heard_at: Nanos,
    trouble: Option<Trouble>,
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

impl Judge {
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

    /// The period that is now.
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
            Err(DeviceError::DeviceGone) => self.trouble = Some(Trouble::Gone),
            _ => (),
        }
    }

    fn judge_failures(&mut self) {
        let sum = |of: fn(&Period) -> u64| self.periods.iter().map(of).sum::<u64>();
        let (answers, failures) = (sum(|period| period.answers), sum(|period| period.failures));
        if FAILURES_MAX <= failures && answers <= failures * FAILURES_PART {
            self.trouble.get_or_insert(Trouble::Failing);
        }
    }

    fn note_late(&mut self, now: Nanos, patience: Nanos) {
        self.period(now, patience).is_late = true;
        let late = self.periods.iter().filter(|period| period.is_late).count();
        if LATE_PERIODS_MAX <= late {
            self.trouble.get_or_insert(Trouble::Slow);
        }
    }

    /// Requires: a read waits for so long.
    fn look_for_silence(&mut self, now: Nanos, most: Nanos) {
        if most <= now.since(self.heard_at) {
            self.trouble.get_or_insert(Trouble::Silent);
        }
    }
}

#[cfg(test)]
mod tests;
