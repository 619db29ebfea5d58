//! Zoned drive of one shard: zone commands go to the manager, transfers to the engine.
//!
//! 1. The zone table checks each command first: a command that the drive would refuse stays here.
//! 2. Each zone has one write in flight, or any number of zone appends; later writes wait in its
//!    lane. So nothing depends on the order in which the kernel and the drive execute commands.
//! 3. After a failed write, a failed read or a zone command the kernel reports the zone, and the
//!    zone table adopts the report. A read-only or offline zone does not affect other zones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Ticket, ZoneId, index};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneReport, ZoneState, ZoneTable,
    ZonedDevice, whole_blocks,
};

use super::diagnosis;
use super::layout::KernelZone;
use super::manager::{AnswerSender, ManagerChannel, ZoneReply, ZoneRequest};
use super::passthrough::{Passthrough, Placement, WrittenAt};
use super::zone_write_queue::{Write, ZoneWriteQueue};
use crate::EngineKind;
use crate::drive::position;
use crate::engine::{Engine, Finished};
use crate::health::{Direction, Health};
use crate::in_flight::{Flushes, InFlight};
use crate::transfer::{Memory, Transfer};

/// One shard's zones of a zoned drive, driven by one thread.
pub(crate) struct ZonedBlockDevice {
    table: ZoneTable,
    /// First block of the share on the drive.
    start: Lba,
    /// Drive number of the first zone of this shard: each shard has a part of the zones.
    first: ZoneId,
    engine: Engine,
    /// Queue for writes by passthrough. `None`: writes go through the engine.
    passthrough: Option<Passthrough>,
    queue_depth: u32,
    /// Commands that were submitted and whose completions were not polled.
    unanswered_count: u32,
    in_flight: InFlight<Pending>,
    /// Zones with writes or commands in flight.
    lanes: BTreeMap<ZoneId, ZoneWriteQueue>,
    flushes: Flushes,
    way: ManagerChannel,
    line: Arc<AnswerSender>,
    /// Reports of the owner in flight.
    reports_under_way: u32,
    /// Zones with activity since the oldest report in flight: the report may be out of date.
    touched: BTreeSet<ZoneId>,
    /// Completions that wait for `poll`.
    ready: VecDeque<(Ticket, Completion)>,
    /// The engine or the passthrough queue has transfers that the kernel has not received.
    has_unflushed: bool,
    health: Health,
}

#[derive(Clone, Copy)]
enum Pending {
    Read { ticket: Ticket, zone: ZoneId },
    Write(ZoneId),
    Flush,
}

impl ZonedBlockDevice {
    /// Requires: `reports` are the reports of the share's zones, in order.
    pub(super) fn new(
        (geometry, start): (Geometry, Lba),
        reports: &[ZoneReport],
        (engine, passthrough): (Engine, Option<Passthrough>),
        (queue_depth, way, health): (u32, ManagerChannel, Health),
        first: ZoneId,
    ) -> io::Result<Self> {
        let wake = engine.as_fd().try_clone_to_owned()?;
        Ok(Self {
            table: ZoneTable::from_reports(geometry, reports),
            start,
            first,
            engine,
            passthrough,
            queue_depth,
            unanswered_count: 0,
            in_flight: InFlight::new(queue_depth),
            lanes: BTreeMap::new(),
            flushes: Flushes::default(),
            way,
            line: Arc::new(AnswerSender::raising(wake)),
            reports_under_way: 0,
            touched: BTreeSet::new(),
            ready: VecDeque::with_capacity(queue_depth as usize),
            has_unflushed: false,
            health,
        })
    }

    pub(crate) fn flush_submissions(&mut self) {
        self.has_unflushed = false;
        self.engine.flush_submissions();
        if let Some(passthrough) = &mut self.passthrough {
            passthrough.flush_submissions();
        }
    }

    pub(crate) const fn engine(&self) -> EngineKind {
        self.engine.kind()
    }

    fn begin(&mut self, ticket: Ticket, command: Command) -> Result<(), DeviceError> {
        if self.health.is_gone() {
            return Err(DeviceError::DeviceGone);
        }
        match command {
            Command::Read { lba, blocks, buffer } => {
                if buffer.blocks() < blocks {
                    return Err(DeviceError::InvalidField);
                }
                self.table.check_read(lba, blocks)?;
                let zone = self.table.geometry().zone_of(lba);
                let offset = position(self.start, lba);
                let transfer = Transfer::read(buffer, offset, index(blocks.bytes().0));
                self.start_transfer(Pending::Read { ticket, zone }, transfer);
                Ok(())
            }
            Command::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                let zone = self.table.begin_write(lba, blocks)?;
                let write = Write { ticket, lba, blocks, order: Placement::Write };
                self.queue_write(zone, write, data);
                Ok(())
            }
            Command::Append { zone, data } => {
                let blocks = whole_blocks(&data)?;
                let lba = self.table.begin_append(zone, blocks)?;
                let order = self.order_of_append(blocks);
                self.queue_write(zone, Write { ticket, lba, blocks, order }, data);
                Ok(())
            }
            Command::Flush => {
                self.flushes.ask(ticket);
                self.start_flush();
                Ok(())
            }
            Command::Manage { zone, action } => {
                self.table.manage(zone, action)?;
                self.touch(zone);
                self.lanes.entry(zone).or_default().commands += 1;
                self.ask(ZoneRequest::Manage { ticket, zone: self.on_drive(zone), action })
            }
            Command::Report { first, count } => {
                let zone_count = self.table.geometry().zone_count;
                if zone_count <= first.0 || count == 0 {
                    return Err(DeviceError::InvalidField);
                }
                let count = count.min(zone_count - first.0);
                self.reports_under_way += 1;
                self.touched.extend(self.lanes.keys());
                self.ask(ZoneRequest::Report { ticket, first: self.on_drive(first), count })
            }
            Command::Restore { .. } => Err(DeviceError::Unsupported),
        }
    }

    /// An append that passthrough does not take as one command becomes a write.
    fn order_of_append(&self, blocks: Blocks) -> Placement {
        match &self.passthrough {
            Some(passthrough) if blocks.bytes().0 <= passthrough.bytes_max() as u64 => {
                Placement::Append
            }
            _ => Placement::Write,
        }
    }

    const fn on_drive(&self, zone: ZoneId) -> ZoneId {
        ZoneId(self.first.0 + zone.0)
    }

    const fn in_share(&self, zone: ZoneId) -> ZoneId {
        ZoneId(zone.0 - self.first.0)
    }

    fn ask(&self, question: ZoneRequest) -> Result<(), DeviceError> {
        match self.way.ask(question, &self.line) {
            true => Ok(()),
            false => Err(self.health.lose(Errno::NODEV)),
        }
    }

    /// Notes activity in a zone while reports are in flight.
    fn touch(&mut self, zone: ZoneId) {
        if 0 < self.reports_under_way {
            self.touched.insert(zone);
        }
    }

    fn queue_write(&mut self, zone: ZoneId, write: Write, data: Vec<Payload>) {
        self.touch(zone);
        self.lanes.entry(zone).or_default().wait(write, data);
        self.go_on(zone);
    }

    /// Starts the zone's next writes, if they may begin. Removes the lane of an idle zone.
    fn go_on(&mut self, zone: ZoneId) {
        let Some(lane) = self.lanes.get_mut(&zone) else { return };
        while let Some((write, data)) = lane.next() {
            let slot = self.in_flight.begin(Pending::Write(zone));
            lane.begin(slot, write);
            let at = match write.order {
                Placement::Write => write.lba,
                Placement::Append => self.table.geometry().zone_start(zone),
            };
            let transfer = Transfer::write(data, position(self.start, at));
            match &mut self.passthrough {
                Some(passthrough) => passthrough.start(slot, write.order, transfer),
                None => self.engine.start(slot, transfer),
            }
            self.has_unflushed = true;
        }
        if lane.is_over() {
            self.lanes.remove(&zone);
        }
    }

    fn start_flush(&mut self) {
        if self.flushes.next() {
            self.start_transfer(Pending::Flush, Transfer::sync());
        }
    }

    fn start_transfer(&mut self, pending: Pending, transfer: Transfer) {
        let slot = self.in_flight.begin(pending);
        self.engine.start(slot, transfer);
        self.has_unflushed = true;
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { slot, transfer, outcome } = finished;
        match self.in_flight.end(slot) {
            Pending::Read { ticket, zone } => self.finish_read(ticket, zone, transfer, outcome),
            Pending::Write(zone) => self.finish_write(zone, slot, outcome.map(|()| None)),
            Pending::Flush => {
                let outcome = self.health.classify_flush(outcome);
                for ticket in self.flushes.end() {
                    self.ready.push_back((ticket, outcome.map(|()| Answer::Done)));
                }
                self.start_flush();
            }
        }
    }

    fn finish_read(
        &mut self,
        ticket: Ticket,
        zone: ZoneId,
        transfer: Transfer,
        outcome: Result<(), Errno>,
    ) {
        let judged = match outcome {
            Ok(()) => self.health.classify(Direction::Read, Ok(())),
            Err(errno) => {
                // The zone may be offline, which must not count as a fault of the whole drive.
                let zone = self.on_drive(zone);
                let asked = self.ask(ZoneRequest::FailedRead { ticket, zone, errno });
                match asked {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
        };
        let Memory::Read(buffer) = transfer.memory else {
            unreachable!("a read comes back as a read")
        };
        self.ready.push_back((ticket, judged.map(|()| Answer::Read(buffer))));
    }

    fn finish_placed(&mut self, placed: WrittenAt) {
        let WrittenAt { slot, outcome } = placed;
        let Pending::Write(zone) = self.in_flight.end(slot) else {
            unreachable!("only writes go past the engine")
        };
        let start = position(self.start, Lba(0));
        let lba = |at: u64| Lba(at.wrapping_sub(start) / BLOCK_BYTES as u64);
        self.finish_write(zone, slot, outcome.map(|at| Some(lba(at))));
    }

    /// Handles a write that came back, with its position on the drive if the drive reported it.
    fn finish_write(&mut self, zone: ZoneId, slot: u32, outcome: Result<Option<Lba>, Errno>) {
        let lane = self.lanes.get_mut(&zone).expect("a zone with a write on its way has a lane");
        match outcome {
            Ok(lba) => lane.land(slot, lba),
            Err(errno) => lane.fail(slot, errno),
        }
        let start = self.table.geometry().zone_start(zone);
        while let Some(write) = lane.landed_at(start + self.table.look(zone).written) {
            let Write { ticket, lba, blocks, .. } = write;
            self.table.end_write(zone, blocks);
            let judged = self.health.classify(Direction::Write, Ok(()));
            self.ready.push_back((ticket, judged.map(|()| Answer::Written(lba))));
        }
        let lost = lane.lost();
        if lane.has_failed() {
            self.table.require_report(zone);
        }
        match lost {
            Some(errno) => {
                let question = ZoneRequest::FailedWrite { zone: self.on_drive(zone), errno };
                if let Err(error) = self.ask(question) {
                    self.fail_writes(zone, error);
                }
            }
            None => self.go_on(zone),
        }
    }

    /// Fails the zone's failed writes and all later ones.
    fn fail_writes(&mut self, zone: ZoneId, error: DeviceError) {
        self.table.abort_writes(zone);
        let Some(lane) = self.lanes.get_mut(&zone) else { return };
        let behind = match error {
            DeviceError::DeviceGone | DeviceError::DeviceReadOnly => error,
            _ => DeviceError::InvalidWrite,
        };
        let errors = std::iter::once(error).chain(std::iter::repeat(behind));
        let failed = lane.give_up().into_iter().zip(errors);
        self.ready.extend(failed.map(|(write, error)| (write.ticket, Err(error))));
        self.go_on(zone);
    }

    fn hear(&mut self, reply: ZoneReply) {
        let ZoneReply { question, outcome, zones } = reply;
        match question {
            ZoneRequest::Report { ticket, first, count } => {
                self.reports_under_way -= 1;
                let answer = self.hear_report((self.in_share(first), count), zones);
                if self.reports_under_way == 0 {
                    self.touched.clear();
                }
                self.ready.push_back((ticket, answer));
            }
            ZoneRequest::Manage { ticket, zone, .. } => {
                let judged = self.hear_managed(self.in_share(zone), outcome, zones);
                self.ready.push_back((ticket, judged.map(|()| Answer::Done)));
            }
            ZoneRequest::FailedWrite { zone, errno } => {
                let zone = self.in_share(zone);
                let before = self.table.look(zone).written;
                let stands = self.stands(zone, zones);
                let error = self.classify(errno, before, stands.as_ref());
                self.fail_writes(zone, error);
                if let Some(report) = stands {
                    self.table.correct(report);
                }
            }
            ZoneRequest::FailedRead { ticket, zone, errno } => {
                let zone = self.in_share(zone);
                let stands = self.stands(zone, zones);
                let is_offline = stands.is_some_and(|report| report.state == ZoneState::Offline);
                if let Some(report) = stands.filter(|_| is_offline && self.is_idle(zone)) {
                    self.table.correct(report);
                }
                let error = match is_offline {
                    true => DeviceError::ZoneOffline,
                    false => self.failed(Direction::Read, errno),
                };
                self.ready.push_back((ticket, Err(error)));
            }
        }
    }

    fn hear_report(
        &mut self,
        (first, count): (ZoneId, u32),
        zones: Result<Vec<KernelZone>, Errno>,
    ) -> Completion {
        for told in zones.map_err(|errno| self.failed(Direction::Read, errno))? {
            let zone = self.in_share(told.zone);
            if self.is_idle(zone) && !self.touched.contains(&zone) {
                self.table.correct(self.report_of(told));
            }
        }
        self.table.report(first, count).map(Answer::Report)
    }

    fn hear_managed(
        &mut self,
        zone: ZoneId,
        outcome: Result<(), Errno>,
        zones: Result<Vec<KernelZone>, Errno>,
    ) -> Result<(), DeviceError> {
        let lane = self.lanes.get_mut(&zone).expect("a zone with a command has a lane");
        lane.commands -= 1;
        let is_last = lane.commands == 0;
        let has_waiting = lane.has_waiting();
        let before = self.table.look(zone).written;
        let stands = self.stands(zone, zones);
        let judged = outcome.map_err(|errno| self.classify(errno, before, stands.as_ref()));
        if judged.is_err() && is_last && has_waiting {
            // The waiting writes relied on the state that the command should have brought.
            self.fail_writes(zone, DeviceError::InvalidWrite);
        }
        if let Some(report) = stands.filter(|_| is_last && !self.table.is_written_to(zone)) {
            self.table.correct(report);
        }
        self.go_on(zone);
        judged
    }

    /// True when the zone has no writes and no commands.
    fn is_idle(&self, zone: ZoneId) -> bool {
        !self.lanes.contains_key(&zone)
    }

    /// The zone in the kernel's report, or `None` if the report failed.
    fn stands(&self, zone: ZoneId, zones: Result<Vec<KernelZone>, Errno>) -> Option<ZoneReport> {
        let told = zones.ok()?.into_iter().find(|told| self.in_share(told.zone) == zone)?;
        Some(self.report_of(told))
    }

    /// Report that the table adopts. The drive decides which implicitly opened zones it closes to
    /// make room for others, for all shares together. A share keeps its own belief here, which
    /// follows its part of the limit.
    fn report_of(&self, told: KernelZone) -> ZoneReport {
        let believed = self.table.look(self.in_share(told.zone));
        let report = told.report(believed.written);
        let may_be_either =
            |state| matches!(state, ZoneState::ImplicitlyOpened | ZoneState::Closed);
        let state = match may_be_either(believed.state) && may_be_either(report.state) {
            true => believed.state,
            false => report.state,
        };
        ZoneReport { zone: believed.zone, state, ..report }
    }

    /// Diagnoses a failed write or zone command. `before`: blocks written before it.
    fn classify(&mut self, errno: Errno, before: Blocks, now: Option<&ZoneReport>) -> DeviceError {
        diagnosis::of(errno, before, now).unwrap_or_else(|| self.failed(Direction::Write, errno))
    }

    fn failed(&mut self, direction: Direction, errno: Errno) -> DeviceError {
        self.health.classify(direction, Err(errno)).err().unwrap_or(DeviceError::Media)
    }
}

impl ZonedDevice for ZonedBlockDevice {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    fn submit(&mut self, _now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.unanswered_count == self.queue_depth {
            return Err(command);
        }
        self.unanswered_count += 1;
        if let Err(error) = self.begin(ticket, command) {
            self.ready.push_back((ticket, Err(error)));
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> Option<(Ticket, Completion)> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                self.unanswered_count -= 1;
                return Some(answer);
            }
            if let Some(reply) = self.line.take() {
                self.hear(reply);
            } else if let Some(finished) = self.engine.next_finished() {
                self.finish(finished);
            } else if let Some(placed) =
                self.passthrough.as_mut().and_then(Passthrough::next_finished)
            {
                self.finish_placed(placed);
            } else {
                // Start the transfers that these completions queued: the host may submit nothing
                // more.
                if self.has_unflushed {
                    self.flush_submissions();
                }
                return None;
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let is_refused = self.passthrough.as_ref().is_some_and(Passthrough::is_refused);
        let has_work = !self.ready.is_empty() || self.engine.is_refused() || is_refused;
        has_work.then_some(Nanos(0))
    }
}

impl AsFd for ZonedBlockDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.engine.as_fd()
    }
}
