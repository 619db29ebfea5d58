//! What can go wrong with a drive.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | power cut, protected buffer (ZN540) | all that was answered; write pointers, states | writes in flight, from any block on; what was open is closed |
//! | power cut, volatile buffer | all that was answered before the last answered flush | of each zone any suffix written since; the write pointer goes back with it |
//! | unreadable block | every other block | the block, until it is written again or its zone is reset |
//! | block unreadable while the drive is on | every other block | the same, and no longer than until the power is cut |
//! | flipped bit | the drive's word that all is well | the block's content, silently |
//! | write error | what the zone held before | the write, and those behind it in the zone |
//! | zone read-only | its data | its space, and its writes in flight |
//! | zone offline | other zones | its data and its space |
//! | lost command | everything; its effect never happens | its answer: the host's time-out must end the wait |
//! | slow die | everything | time |
//! | limits lower than reported | what is there | opens and writes beyond the true limit, with `TooManyZones` |
//! | drive gone | nothing is said of what is on it | every answer from now on |
//!
//! A drive without zones has a protected buffer. A power cut leaves any blocks of its writes in flight, not a prefix, and takes the
//! agreement about zones, which is the host's; a reset makes no block readable; zones are not retired, and have no limits.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, Rng, ZoneId, index};
use zonal_device::{DeviceError, Geometry, ZoneReport, ZoneState, ZoneTable};

use crate::buffer::WriteBuffer;
use crate::intake::Intake;
use crate::payload::Medium;
use crate::zoned::{Operation, ZonedDrive, state_when_switched_on};

/// What was asked to go wrong and has not yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    failing_writes: BTreeSet<ZoneId>,
    losses: u32,
    pub(crate) is_gone: bool,
}

impl Faults {
    pub(crate) fn fail_next_write(&mut self, zone: ZoneId) {
        self.failing_writes.insert(zone);
    }

    pub(crate) fn lose_next_command(&mut self) {
        self.losses += 1;
    }

    pub(crate) fn takes_write_error(&mut self, zone: ZoneId) -> bool {
        !self.failing_writes.is_empty() && self.failing_writes.remove(&zone)
    }

    pub(crate) fn takes_loss(&mut self) -> bool {
        let is_lost = 0 < self.losses;
        self.losses -= u32::from(is_lost);
        is_lost
    }
}

impl ZonedDrive {
    /// Reads of the block fail until it is written again or its zone is reset.
    pub fn make_unreadable(&mut self, lba: Lba) {
        self.unreadable.insert(lba);
    }

    /// Reads of the block fail until it is written again, its zone is reset or the power is cut.
    pub fn make_unreadable_while_on(&mut self, lba: Lba) {
        self.unreadable.insert_while_on(lba);
    }

    /// Silently turns one bit of a block over.
    pub fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    /// The next write of the zone to be answered fails, and nothing of it lands.
    pub fn fail_next_write(&mut self, zone: ZoneId) {
        self.faults.fail_next_write(zone);
    }

    /// The zone keeps its data and takes no more; its writes in flight fail.
    pub fn make_read_only(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::ReadOnly, DeviceError::ZoneReadOnly);
    }

    /// The zone's data and space are gone; its writes in flight fail.
    pub fn take_offline(&mut self, zone: ZoneId) {
        self.retire(zone, ZoneState::Offline, DeviceError::ZoneOffline);
    }

    fn retire(&mut self, zone: ZoneId, to: ZoneState, error: DeviceError) {
        self.table.retire(zone, to);
        self.refuse_writes_in_flight(zone, error);
    }

    /// The next command is taken and never answered, nor carried out. Its place in the queue
    /// and its buffers are gone until the power is cut.
    pub fn lose_next_command(&mut self) {
        self.faults.lose_next_command();
    }

    /// Reads of the die take so many times as long.
    pub fn slow_down_die(&mut self, die: u32, times: u64) {
        self.timing.nand.slow_down(die, times);
    }

    /// From now on the drive refuses zones beyond these limits, and goes on to report the old ones.
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

    /// The drive answers `DeviceGone` to everything, also to what is in flight.
    pub fn kill(&mut self) {
        self.faults.is_gone = true;
    }

    /// The power goes and comes back. What was in flight is never answered.
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
                report.state = state_when_switched_on(report.written, limits.zone_capacity);
            }
        }
        self.table = ZoneTable::from_reports(limits, &reports);
        self.restart_buffer(rng);
    }

    /// Of the writes of a zone any prefix of blocks has landed; a reset or a finish has happened or has not.
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

    /// Of each zone any suffix since the last flush is gone.
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
            // A full zone stays full, and reads as zeros where its data are gone.
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
        self.intake = Intake::new(self.profile.controller.passed_writes);
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
        // What the medium refuses is gone with the power.
        let _ = medium.write(at, core::slice::from_ref(&piece.slice(0..len)));
        at = at + Blocks((len / BLOCK_BYTES) as u64);
        left -= len;
    }
}

#[cfg(test)]
mod tests;
