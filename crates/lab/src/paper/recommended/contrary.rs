//! Antipattern drive: sends the engine's commands to a zoned drive against a paper's advice.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Ticket, ZoneId};
use zonal_device::{Answer, Command, Completion, DeviceError, Geometry, ZoneAction, ZonedDevice};
use zonal_emulator::ZonedDrive;

/// How commands reach the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// As the engine sends them.
    AsItIs,
    /// Every write becomes a zone append.
    Appends,
    /// Every write becomes requests of one block, as fast as the drive takes them.
    SmallRequests,
    /// Zones are finished when half of each is written.
    HalfZones,
    /// No other command is in flight during a zone reset.
    QuietResets,
}

/// The drive. Its completions are those that the engine expects.
pub(super) struct Contrary {
    drive: ZonedDrive,
    way: Way,
    geometry: Geometry,
    /// Last ticket of the wrapper's own commands, above the engine's tickets.
    own: u64,
    /// Requests that the drive has not accepted yet.
    waiting: VecDeque<(Ticket, Command)>,
    /// Write that each request belongs to.
    parts: BTreeMap<Ticket, Ticket>,
    writes: BTreeMap<Ticket, Write>,
    /// Writes that fill a zone, with the zone.
    ends: BTreeMap<Ticket, ZoneId>,
    in_flight: usize,
    reset: Reset,
}

/// A write that was split.
struct Write {
    lba: Lba,
    left: usize,
    failed: Option<DeviceError>,
}

/// State of a reset that runs alone.
enum Reset {
    None,
    /// Waits until no command is in flight.
    Waiting(Ticket, Command),
    UnderWay(Ticket),
}

/// First ticket of the wrapper's own commands.
const OWN: u64 = 1 << 63;

impl Contrary {
    /// Uses this many zones of the drive.
    pub(super) fn new(drive: ZonedDrive, zones: u32, way: Way) -> Self {
        let mut geometry = *drive.geometry();
        assert!(zones <= geometry.zone_count);
        geometry.zone_count = zones;
        if way == Way::HalfZones {
            geometry.zone_capacity = Blocks(geometry.zone_capacity.0 / 2);
        }
        Self {
            drive,
            way,
            geometry,
            own: OWN,
            waiting: VecDeque::new(),
            parts: BTreeMap::new(),
            writes: BTreeMap::new(),
            ends: BTreeMap::new(),
            in_flight: 0,
            reset: Reset::None,
        }
    }

    fn own_ticket(&mut self) -> Ticket {
        self.own += 1;
        Ticket(self.own)
    }

    /// Submits waiting requests until the drive refuses one.
    fn pump(&mut self, now: Nanos) {
        while let Some((ticket, command)) = self.waiting.pop_front() {
            if let Err(command) = self.drive.submit(now, ticket, command) {
                self.waiting.push_front((ticket, command));
                return;
            }
        }
    }

    fn cut(&mut self, ticket: Ticket, lba: Lba, data: &[Payload]) {
        let blocks: Vec<Payload> = data.iter().flat_map(blocks).collect();
        self.writes.insert(ticket, Write { lba, left: blocks.len(), failed: None });
        for (at, block) in blocks.into_iter().enumerate() {
            let part = self.own_ticket();
            self.parts.insert(part, ticket);
            let command = Command::Write { lba: Lba(lba.0 + at as u64), data: vec![block] };
            self.waiting.push_back((part, command));
        }
    }

    /// Completion of the whole write, after its last part.
    fn gathered(&mut self, whole: Ticket, completion: &Completion) -> Option<(Ticket, Completion)> {
        let write = self.writes.get_mut(&whole)?;
        write.left -= 1;
        if let Err(error) = completion {
            write.failed.get_or_insert(*error);
        }
        if 0 < write.left {
            return None;
        }
        let Write { lba, failed, .. } = self.writes.remove(&whole)?;
        Some((whole, failed.map_or(Ok(Answer::Written(lba)), Err)))
    }
}

fn blocks(data: &Payload) -> impl Iterator<Item = Payload> + use<'_> {
    let starts = (0..data.len()).step_by(BLOCK_BYTES);
    starts.map(|start| data.slice(start..start + BLOCK_BYTES))
}

impl ZonedDevice for Contrary {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        let command = match (self.way, command) {
            (Way::Appends, Command::Write { lba, data }) => {
                Command::Append { zone: self.geometry.zone_of(lba), data }
            }
            (Way::SmallRequests, Command::Write { lba, data }) => {
                self.cut(ticket, lba, &data);
                self.pump(now);
                return Ok(());
            }
            (Way::HalfZones, Command::Write { lba, data }) => {
                let blocks: usize = data.iter().map(|piece| piece.len() / BLOCK_BYTES).sum();
                let end = self.geometry.offset_in_zone(lba).0 + blocks as u64;
                if end == self.geometry.zone_capacity.0 {
                    self.ends.insert(ticket, self.geometry.zone_of(lba));
                }
                Command::Write { lba, data }
            }
            (Way::QuietResets, command) => return self.submit_alone(now, ticket, command),
            (_, command) => command,
        };
        self.drive.submit(now, ticket, command)
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.pump(now);
        while let Some((ticket, completion)) = self.drive.poll(now) {
            if let Some(whole) = self.parts.remove(&ticket) {
                let gathered = self.gathered(whole, &completion);
                if gathered.is_some() {
                    return gathered;
                }
                continue;
            }
            if let Some(zone) = self.ends.remove(&ticket) {
                let own = self.own_ticket();
                self.waiting.push_back((own, Command::Manage { zone, action: ZoneAction::Finish }));
                self.pump(now);
            }
            if OWN < ticket.0 {
                continue;
            }
            self.rest(now, ticket);
            return Some((ticket, completion));
        }
        None
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event()
    }
}

impl Contrary {
    fn submit_alone(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        command: Command,
    ) -> Result<(), Command> {
        if !matches!(self.reset, Reset::None) {
            return Err(command);
        }
        if matches!(command, Command::Manage { action: ZoneAction::Reset, .. }) {
            if 0 < self.in_flight {
                self.reset = Reset::Waiting(ticket, command);
                return Ok(());
            }
            self.reset = Reset::UnderWay(ticket);
        }
        self.drive.submit(now, ticket, command)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Counts a completion. A waiting reset may start, or a finished reset lets other commands in.
    fn rest(&mut self, now: Nanos, answered: Ticket) {
        if self.way != Way::QuietResets {
            return;
        }
        self.in_flight -= 1;
        match std::mem::replace(&mut self.reset, Reset::None) {
            Reset::Waiting(ticket, command) if self.in_flight == 0 => {
                let submitted = self.drive.submit(now, ticket, command);
                submitted.expect("a drive with nothing under way takes a command");
                (self.in_flight, self.reset) = (1, Reset::UnderWay(ticket));
            }
            Reset::UnderWay(ticket) if ticket == answered => {}
            other => self.reset = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use zonal_emulator::{DiscardMedium, Profile};

    use super::*;
    use crate::tagged::tagged;

    fn drive(way: Way) -> Contrary {
        let mut profile = Profile::zn540();
        profile.geometry.zone_count = 4;
        let zone = Blocks(128);
        (profile.geometry.zone_size, profile.geometry.zone_capacity) = (zone, zone);
        Contrary::new(ZonedDrive::new(profile, 1, Box::new(DiscardMedium)), 3, way)
    }

    /// Completions of all commands in flight, and the time of the last one.
    fn answers(drive: &mut Contrary, mut now: Nanos) -> (Vec<Ticket>, Nanos) {
        let mut tickets = Vec::new();
        loop {
            while let Some((ticket, completion)) = drive.poll(now) {
                completion.expect("the drive takes it");
                tickets.push(ticket);
            }
            match drive.next_event() {
                Some(next) => now = now.max(next),
                None => return (tickets, now),
            }
        }
    }

    fn write(drive: &mut Contrary, ticket: u64, at: u64, blocks: u64) {
        let command = Command::Write { lba: Lba(at), data: vec![tagged(Blocks(blocks))] };
        drive.submit(Nanos(0), Ticket(ticket), command).expect("the queue is long");
    }

    #[test]
    fn writes_are_answered_as_they_were_asked_whichever_way_they_go() {
        for way in [Way::AsItIs, Way::Appends, Way::SmallRequests, Way::HalfZones, Way::QuietResets]
        {
            let mut drive = drive(way);
            write(&mut drive, 1, 0, 32);
            write(&mut drive, 2, 32, 32);
            assert_eq!(answers(&mut drive, Nanos(0)).0, [Ticket(1), Ticket(2)], "{way:?}");
        }
    }

    #[test]
    fn a_block_at_a_time_takes_longer_and_half_a_zone_is_finished() {
        let took = |way| {
            let mut drive = drive(way);
            write(&mut drive, 1, 0, 64);
            answers(&mut drive, Nanos(0)).1
        };
        assert!(took(Way::AsItIs) < took(Way::SmallRequests));
        // The finish writes the other half.
        assert!(took(Way::AsItIs) < took(Way::HalfZones));
    }

    #[test]
    fn a_reset_is_alone() {
        let mut drive = drive(Way::QuietResets);
        write(&mut drive, 1, 128, 64);
        let reset = || Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset };
        drive.submit(Nanos(0), Ticket(2), reset()).expect("it waits");
        assert!(drive.submit(Nanos(0), Ticket(3), reset()).is_err());
        assert_eq!(answers(&mut drive, Nanos(0)).0, [Ticket(1), Ticket(2)]);
        drive.submit(Nanos(0), Ticket(4), reset()).expect("nothing is under way");
    }
}
