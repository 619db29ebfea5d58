//! Crash model of the RAM device: the data and zone states that survive a process crash or a power cut.
//!
//! - A *process* crash keeps every answered command. Of a write in flight any prefix of whole blocks may have landed;
//!   on a conventional device any subset of blocks. A reset or finish in flight has happened or has not.
//! - A *power cut* may also lose commands that were answered after the last flush. Each zone of a zoned device may
//!   lose any suffix, and its write pointer goes back with it. A conventional device may lose any subset of blocks,
//!   which then hold their previous bytes.
//! - Afterwards a conventional device reports every zone `Empty`. Its resets never reached the medium, and only its
//!   owner knows the write pointers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, Rng, ZoneId};

use super::{Operation, RamDevice};
use crate::{DeviceKind, ZoneReport, ZoneState, ZoneTable};

/// Kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Process crash: the process ended between two instructions.
    Process,
    /// Power cut: the device lost its power.
    Power,
}

impl RamDevice {
    /// Crashes the device. Commands in flight are never answered. The device can be used again at once.
    pub fn crash(&mut self, rng: &mut Rng, crash: Crash) {
        self.writes_due.clear();
        self.table = match self.table.geometry().kind {
            DeviceKind::Zoned => self.crash_zoned(rng, crash),
            DeviceKind::Conventional => self.crash_conventional(rng, crash),
        };
    }

    fn crash_zoned(&mut self, rng: &mut Rng, crash: Crash) -> ZoneTable {
        let geometry = *self.table.geometry();
        let mut torn = BTreeSet::new();
        let mut landed: BTreeMap<ZoneId, Blocks> = BTreeMap::new();
        // Commands are taken in the order of their answers: for the writes of one zone that is the order of the
        // blocks.
        for (_, operation) in core::mem::take(&mut self.in_flight).into_values() {
            match operation {
                Operation::Write { zone, lba, blocks, data } if !torn.contains(&zone) => {
                    let prefix = Blocks(rng.below(blocks.0 + 1));
                    self.medium.write(lba, blocks_of(&data).take(zonal_base::index(prefix.0)));
                    *landed.entry(zone).or_default() += prefix;
                    if prefix < blocks {
                        torn.insert(zone);
                    }
                }
                operation @ Operation::Manage { .. } if rng.one_in(2) => {
                    let _ = self.carry_out(operation);
                }
                _ => (),
            }
        }
        let mut reports: Vec<_> = geometry.zones().map(|zone| self.table.look(zone)).collect();
        for (zone, landed) in landed {
            let report = &mut reports[zone.0 as usize];
            report.written += landed;
            if report.written == geometry.zone_capacity {
                report.state = ZoneState::Full;
            }
        }
        if crash == Crash::Power {
            self.take_back_suffixes(rng, &mut reports);
        }
        ZoneTable::from_reports(geometry, &reports)
    }

    fn take_back_suffixes(&mut self, rng: &mut Rng, reports: &mut [ZoneReport]) {
        let geometry = *self.table.geometry();
        let mut unflushed: BTreeMap<ZoneId, u64> = BTreeMap::new();
        for block in self.medium.take_unflushed() {
            *unflushed.entry(geometry.zone_of(block.lba)).or_default() += 1;
        }
        // Zones that are not full come first: they keep their place among the active zones.
        for report in reports.iter_mut().filter(|report| report.state != ZoneState::Full) {
            let lost = unflushed.remove(&report.zone).map_or(0, |blocks| rng.below(blocks + 1));
            report.written = report.written - Blocks(lost);
            self.medium.truncate(report.zone, report.written);
            if report.state.is_active() {
                report.state = state_after_power_cut(report.written);
            }
        }
        let mut active = reports.iter().filter(|report| report.state.is_active()).count();
        for (zone, blocks) in unflushed {
            let report = &mut reports[zone.0 as usize];
            let lost = Blocks(rng.below(blocks + 1));
            self.medium.truncate(zone, report.written - lost);
            // A full zone that lost its end becomes active again if the limit allows it. If not, the zone stays full,
            // and its lost blocks read as zeros.
            let has_room = geometry.max_active_zones.is_none_or(|max| active < max as usize);
            if Blocks(0) < lost && has_room {
                report.written = report.written - lost;
                report.state = state_after_power_cut(report.written);
                active += usize::from(report.state.is_active());
            }
        }
    }

    fn crash_conventional(&mut self, rng: &mut Rng, crash: Crash) -> ZoneTable {
        for (_, operation) in core::mem::take(&mut self.in_flight).into_values() {
            let Operation::Write { lba, data, .. } = operation else { continue };
            for (n, block) in (0..).zip(blocks_of(&data)) {
                if rng.one_in(2) {
                    self.medium.write(lba + Blocks(n), core::iter::once(block));
                }
            }
        }
        if crash == Crash::Power {
            self.take_back_blocks(rng);
        }
        let old = &self.table;
        let mut table = ZoneTable::new(*old.geometry());
        for zone in old.geometry().zones() {
            let state = old.look(zone).state;
            if matches!(state, ZoneState::ReadOnly | ZoneState::Offline) {
                table.retire(zone, state);
            }
        }
        table
    }

    /// Reverts a random subset of the unflushed blocks. A block that was written several times since the flush may
    /// end as any of those versions: the newest version that is kept decides.
    fn take_back_blocks(&mut self, rng: &mut Rng) {
        let mut decided: BTreeSet<Lba> = BTreeSet::new();
        for block in self.medium.take_unflushed().into_iter().rev() {
            if decided.contains(&block.lba) {
                continue;
            }
            match block.previous {
                Some(previous) if rng.one_in(2) => self.medium.put(block.lba, &previous),
                _ => {
                    decided.insert(block.lba);
                }
            }
        }
    }
}

/// State of an active zone after a power cut: no zone of a drive is open when it starts.
fn state_after_power_cut(written: Blocks) -> ZoneState {
    if written == Blocks(0) { ZoneState::Empty } else { ZoneState::Closed }
}

fn blocks_of(data: &[Payload]) -> impl Iterator<Item = &[u8]> {
    data.iter().flat_map(|piece| piece.as_bytes().chunks_exact(BLOCK_BYTES))
}
