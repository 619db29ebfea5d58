//! Fault model of the drives: each fault, the data that must survive it, and the data that may be lost.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | power cut, protected buffer | answered writes, write pointers, states | any suffix of writes in flight |
//! | power cut, volatile buffer | writes answered before the last answered flush | any later suffix of each zone |
//! | unreadable block | every other block | the block, until it is written again or its zone is reset |
//! | block unreadable while the drive is on | every other block | the same, and no longer than until the power is cut |
//! | flipped bit | the success status of the read | the block's content, silently |
//! | write error | the earlier data of the zone | the write, and those behind it in the zone |
//! | drive takes no writes | all data | the writes, and those behind them in their zones |
//! | zone read-only | its data | its space, and its writes in flight |
//! | zone offline | other zones | its data and its space |
//! | lost command | everything; its effect never happens | its answer: the host's I/O timeout must end the wait |
//! | slow die | everything | time |
//! | limits lower than reported | all data | opens and writes beyond the true limit, with `TooManyZones` |
//! | drive gone | unspecified: the drive answers nothing about its data | every answer from now on |
//!
//! The ZN540 has a protected buffer. After a power cut no zone is open. The write pointer goes back with a lost suffix.
//!
//! A conventional drive has a protected buffer. A power cut leaves any blocks of its writes in flight, not a prefix.
//! The zones are a convention of the host, and a power cut takes their state. A reset makes no block readable again.
//! Zones are not retired, and have no limits.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, Rng, ZoneId, index};
use zonal_device::{DeviceError, Geometry, ZoneReport, ZoneState, ZoneTable};

use crate::arbiter::Arbiter;
use crate::buffer::WriteBuffer;
use crate::payload::Medium;
use crate::zoned::{Operation, ZonedDrive, state_at_power_on};

/// Injected faults that have not happened yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    failing_writes: BTreeSet<ZoneId>,
    losses: u32,
    pub(crate) takes_no_writes: bool,
    pub(crate) is_gone: bool,
}

impl Faults {
    pub(crate) fn fail_next_write(&mut self, zone: ZoneId) {
        self.failing_writes.insert(zone);
    }

    pub(crate) fn lose_next_command(&mut self) {
        self.losses += 1;
    }

    /// How a write of the zone that completes now fails.
    pub(crate) fn write_error(&mut self, zone: ZoneId) -> Option<DeviceError> {
        if self.takes_no_writes {
            return Some(DeviceError::DeviceReadOnly);
        }
        let fails = !self.failing_writes.is_empty() && self.failing_writes.remove(&zone);
        fails.then_some(DeviceError::Media)
    }

    pub(crate) fn takes_loss(&mut self) -> bool {
        let is_lost = 0 < self.losses;
        self.losses -= u32::from(is_lost);
        is_lost
    }
}

impl ZonedDrive {
    /// Fault: reads of the block fail until it is written again or its zone is reset.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.unreadable.insert(lba);
    }

    /// Fault: reads of the block fail until it is written again, its zone is reset or the power is cut.
    pub fn make_unreadable_while_on(&mut self, lba: Lba) {
        self.unreadable.insert_while_on(lba);
    }

    /// Fault: flips one bit of a block silently.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// Fault: the zone's next write to complete fails, and none of its blocks land.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.faults.fail_next_write(zone);
    }

    /// Fault: from now on every write fails with `DeviceReadOnly`, or no longer.
    pub fn take_no_writes(&mut self, is_on: bool) {
        self.faults.takes_no_writes = is_on;
    }

    /// Fault: the zone becomes read-only. Its data stay readable, and its writes in flight fail.
    pub fn make_read_only(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::ReadOnly, DeviceError::ZoneReadOnly);
    }

    /// Fault: the zone goes offline. Its data and space are lost, and its writes in flight fail.
    pub fn take_offline(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::Offline, DeviceError::ZoneOffline);
    }

    fn retire(&mut self, zone: ZoneId, to: ZoneState, error: DeviceError) {
        self.table.retire(zone, to);
        self.refuse_writes_in_flight(zone, error);
    }

    /// Fault: the drive accepts the next command, but never carries it out and never answers. The command's place in
    /// the queue and its buffers are gone until the power is cut.
    pub fn lose_next_command(&mut self) {
        self.faults.lose_next_command();
    }

    /// Fault: multiplies the time of every read of the die by `times`.
    pub fn slow_down_die(&mut self, die: u32, times: u64) {
        self.timing.nand.slow_down(die, times);
    }

    /// Fault: the drive enforces lower zone limits than it reports.
    ///
    /// Requires: no command in flight.
    pub fn lower_limits(&mut self, max_open_zones: u32, max_active_zones: u32) {
        assert!(self.in_flight.len() == 0);
        let geometry = Geometry {
            max_open_zones: Some(max_open_zones),
            max_active_zones: Some(max_active_zones),
            ..self.geometry
        };
        self.table = ZoneTable::from_reports(geometry, &self.reports());
    }

    /// Fault: the drive answers `DeviceGone` to every command, also to those in flight.
    pub fn kill(&mut self) {
        self.faults.is_gone = true;
    }

    /// Fault: power cut and restart. Commands in flight are never answered.
    pub fn cut_power(&mut self, rng: &mut Rng) {
        let landed = self.tear_writes_in_flight(rng);
        self.unreadable.switch_off();
        let limits = *self.table.geometry();
        let mut reports = self.reports();
        for (zone, blocks) in landed {
            let report = &mut reports[zone.0 as usize];
            report.written += blocks;
            self.zones[zone.0 as usize].land(blocks);
        }
        if !self.profile.buffer.power_loss_protected {
            self.take_back(rng, &mut reports);
        }
        for report in &mut reports {
            if report.state.is_active() {
                report.state = state_at_power_on(report.written, limits.zone_capacity);
            }
        }
        self.table = ZoneTable::from_reports(limits, &reports);
        self.restart_buffer(rng);
    }

    /// Tears the commands in flight: of each zone's writes any prefix of blocks has landed, and a reset or a finish
    /// has happened or has not.
    fn tear_writes_in_flight(&mut self, rng: &mut Rng) -> BTreeMap<ZoneId, Blocks> {
        let mut writes: BTreeMap<Lba, (ZoneId, Blocks, Vec<Payload>)> = BTreeMap::new();
        for work in self.in_flight.take_all() {
            match work.operation {
                Operation::Write { zone, lba, blocks, data } => {
                    writes.insert(lba, (zone, blocks, data));
                }
                operation @ (Operation::Manage { .. } | Operation::Reset { .. })
                    if rng.one_in(2) =>
                {
                    let _ = self.carry_out(operation);
                }
                _ => (),
            }
        }
        let (mut landed, mut torn) = (BTreeMap::new(), BTreeSet::new());
        for (lba, (zone, blocks, data)) in writes {
            if torn.contains(&zone) {
                continue;
            }
            let prefix = Blocks(rng.below(blocks.0 + 1));
            write_prefix(self.medium.as_mut(), lba, &data, prefix);
            *landed.entry(zone).or_insert(Blocks(0)) += prefix;
            if prefix < blocks {
                torn.insert(zone);
            }
        }
        landed
    }

    /// Volatile buffer: each zone loses any suffix written since the last flush.
    fn take_back(&mut self, rng: &mut Rng, reports: &mut [ZoneReport]) {
        for report in reports {
            let facts = &mut self.zones[report.zone.0 as usize];
            if facts.was_finished()
                || matches!(report.state, ZoneState::ReadOnly | ZoneState::Offline)
            {
                continue;
            }
            let volatile = report.written.0.saturating_sub(facts.durable.0);
            let lost = Blocks(rng.below(volatile + 1));
            // A full zone stays full, and its lost blocks read as zeros.
            self.medium.truncate(report.zone, report.written - lost);
            if report.state != ZoneState::Full {
                report.written = report.written - lost;
                facts.lose(lost);
            }
        }
    }

    fn restart_buffer(&mut self, rng: &mut Rng) {
        let zone_count = self.geometry.zone_count;
        self.buffer = WriteBuffer::new(&self.profile.buffer, zone_count, rng.next_u64());
        self.timing.restart();
        self.arbiter = Arbiter::new(self.profile.controller.passed_writes);
        self.forget_writes_in_flight();
    }

    fn reports(&self) -> Vec<ZoneReport> {
        self.geometry.zones().map(|zone| self.table.look(zone)).collect()
    }
}

fn write_prefix(medium: &mut dyn Medium, lba: Lba, data: &[Payload], prefix: Blocks) {
    let (mut at, mut left) = (lba, index(prefix.bytes().0));
    for piece in data {
        let len = piece.len().min(left);
        if len == 0 {
            return;
        }
        // A write that the medium refuses is lost in the power cut.
        let _ = medium.write(at, core::slice::from_ref(&piece.slice(0..len)));
        at = at + Blocks((len / BLOCK_BYTES) as u64);
        left -= len;
    }
}

#[cfg(test)]
mod tests;
