//! What a crash leaves of a RAM device.
//!
//! - A *process* crash keeps what was answered. Of a write in flight any prefix may have landed, of
//!   whole blocks; on a conventional device any subset. A reset or finish in flight has happened or
//!   has not.
//! - A *power cut* may in addition take back what was answered after the last flush: from each zone
//!   of a zoned device any suffix, and the write pointer goes back with it; from a conventional
//!   device any subset of blocks, which then hold what they held before.
//! - Afterwards a conventional device reports every zone `Empty`: its resets never reached the medium,
//!   and nobody but its owner knows the write pointers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, Rng, ZoneId};

use super::{Operation, RamDevice};
use crate::{DeviceKind, ZoneReport, ZoneState, ZoneTable};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process ended between two instructions.
    Process,
    /// The device lost its power.
    Power,
}

impl RamDevice {
    /// Crashes. What was in flight is never answered; the device can be used again at once.
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
        // In the order of their answers, which for the writes of a zone is the order of the zone.
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
        // Zones that are not full first: they keep their place among the active ones.
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
            // A full zone whose end was lost becomes active again if the limit allows. If not, it
            // stays full, and reads as zeros where its data are gone.
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

    /// A block that was written several times since the flush may hold any of those versions: going
    /// back in time, the first version that is kept decides.
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

/// A drive that comes up has nothing open.
fn state_after_power_cut(written: Blocks) -> ZoneState {
    if written == Blocks(0) { ZoneState::Empty } else { ZoneState::Closed }
}

fn blocks_of(data: &[Payload]) -> impl Iterator<Item = &[u8]> {
    data.iter().flat_map(|piece| piece.as_bytes().chunks_exact(BLOCK_BYTES))
}
