//! Tests of the conformance suite: a check catches each device with a planted bug.

extern crate std;

use std::panic::catch_unwind;

use zonal_base::{Blocks, Nanos, Ticket};

use super::run_all;
use crate::ram::{RamDevice, RamOptions};
use crate::{
    Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneAction, ZonedDevice,
};

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 5,
    zone_size: Blocks(16),
    zone_capacity: Blocks(12),
    max_open_zones: Some(2),
    max_active_zones: Some(3),
};

/// Bug that the test plants in a RAM device.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// A write that must fail is answered as written.
    SwallowsWriteErrors,
    /// A zone takes writes right after a failed one, without a report.
    ForgivesFailedWrites,
    /// Reads return data with one bit flipped.
    FlipsBits,
    /// Reads return old bytes past the write pointer.
    ReadsPastWritePointer,
    /// A write lands at the write pointer, whatever its address.
    IgnoresAddresses,
    /// Resets do nothing.
    IgnoresResets,
    /// Finishes do nothing.
    IgnoresFinishes,
    /// Opens do nothing.
    IgnoresOpens,
    /// The geometry has zone limits, but the device does not enforce them.
    HasNoLimits,
    /// A report covers only part of the requested zones.
    ReportsHalf,
    /// One command is never answered.
    LosesAnswers,
    /// One command is answered twice.
    AnswersTwice,
    /// One answer carries the ticket of the command before.
    MixesTicketsUp,
    /// The queue accepts commands without a bound.
    NeverFull,
}

const BUGS: [Bug; 14] = [
    Bug::SwallowsWriteErrors,
    Bug::ForgivesFailedWrites,
    Bug::FlipsBits,
    Bug::ReadsPastWritePointer,
    Bug::IgnoresAddresses,
    Bug::IgnoresResets,
    Bug::IgnoresFinishes,
    Bug::IgnoresOpens,
    Bug::HasNoLimits,
    Bug::ReportsHalf,
    Bug::LosesAnswers,
    Bug::AnswersTwice,
    Bug::MixesTicketsUp,
    Bug::NeverFull,
];

struct Buggy {
    inner: RamDevice,
    bug: Bug,
    answers: u64,
    twice: Option<Ticket>,
}

impl Buggy {
    fn new(bug: Bug) -> Self {
        let unlimited = Geometry { max_open_zones: None, max_active_zones: None, ..GEOMETRY };
        let geometry = if matches!(bug, Bug::HasNoLimits) { unlimited } else { GEOMETRY };
        let depth = if matches!(bug, Bug::NeverFull) { 1 << 20 } else { 16 };
        let options = RamOptions { queue_depth: depth, ..RamOptions::default() };
        Self { inner: RamDevice::new(geometry, options), bug, answers: 0, twice: None }
    }

    fn spoil_command(&mut self, command: Command) -> Command {
        let nothing = Command::Flush;
        match (self.bug, command) {
            (Bug::IgnoresAddresses, Command::Write { lba, data }) => {
                let zone = GEOMETRY.zone_of(lba);
                let is_later = GEOMETRY.offset_in_zone(lba) != Blocks(0);
                if is_later { Command::Append { zone, data } } else { Command::Write { lba, data } }
            }
            (Bug::IgnoresResets, Command::Manage { action: ZoneAction::Reset, .. })
            | (Bug::IgnoresFinishes, Command::Manage { action: ZoneAction::Finish, .. })
            | (Bug::IgnoresOpens, Command::Manage { action: ZoneAction::Open, .. }) => nothing,
            (Bug::ReportsHalf, Command::Report { first, count }) => {
                Command::Report { first, count: count.div_ceil(2).min(2) }
            }
            (_, command) => command,
        }
    }

    fn spoil_answer(&mut self, completion: Completion) -> Completion {
        match (self.bug, completion) {
            (Bug::SwallowsWriteErrors, Err(DeviceError::InvalidWrite)) => {
                Ok(Answer::Written(zonal_base::Lba(0)))
            }
            (Bug::FlipsBits, Ok(Answer::Read(mut buffer))) => {
                buffer.bytes_mut()[77] ^= 4;
                Ok(Answer::Read(buffer))
            }
            (_, completion) => completion,
        }
    }
}

impl ZonedDevice for Buggy {
    fn geometry(&self) -> &Geometry {
        &GEOMETRY
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if let (Bug::ReadsPastWritePointer, Command::Read { lba, blocks, buffer }) =
            (self.bug, &command)
            && *blocks <= buffer.blocks()
            && lba.0 / GEOMETRY.zone_size.0 < u64::from(GEOMETRY.zone_count)
            && GEOMETRY.offset_in_zone(*lba) + *blocks <= GEOMETRY.zone_capacity
        {
            let zone = GEOMETRY.zone_of(*lba);
            let finish = Command::Manage { zone, action: ZoneAction::Finish };
            let _ = self.inner.submit(now, Ticket(u64::MAX), finish);
        }
        let command = self.spoil_command(command);
        self.inner.submit(now, ticket, command)
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        if let Some(ticket) = self.twice.take() {
            return Some((ticket, Ok(Answer::Done)));
        }
        let (ticket, completion) = self.inner.poll(now)?;
        if ticket == Ticket(u64::MAX) {
            return self.poll(now);
        }
        self.answers += 1;
        let is_chosen = self.answers == 7;
        match self.bug {
            Bug::LosesAnswers if is_chosen => return self.poll(now),
            Bug::AnswersTwice if is_chosen => self.twice = Some(ticket),
            Bug::MixesTicketsUp if is_chosen => {
                return Some((Ticket(ticket.0 - 1), completion));
            }
            Bug::ForgivesFailedWrites if completion.is_err() => {
                let report = Command::Report { first: zonal_base::ZoneId(0), count: u32::MAX };
                let _ = self.inner.submit(now, Ticket(u64::MAX), report);
            }
            _ => (),
        }
        Some((ticket, self.spoil_answer(completion)))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inner.next_event()
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in BUGS {
        let found = catch_unwind(|| run_all(|| Buggy::new(bug), |_| ())).is_err();
        assert!(found, "{bug:?} was not noticed");
    }
}
