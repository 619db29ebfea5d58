//! Power-on of a zoned drive with the zones and data of an earlier run.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::Blocks;
use zonal_device::{ZoneReport, ZoneState, ZoneTable};

use super::ZonedDrive;
use crate::payload::{Medium, ZoneImage};
use crate::profile::Profile;

impl ZonedDrive {
    /// Creates a drive that was off: no zone is open, and each zone is in the state that `kept` gives. All data of
    /// its write buffer reached the flash long ago.
    ///
    /// Requires: as for [`ZonedDrive::new`]; one entry for each zone, no more of them partly written than may be
    /// active; `medium` holds the data that they describe.
    #[must_use]
    pub fn powered_on(
        profile: Profile,
        seed: u64,
        medium: Box<dyn Medium>,
        kept: &[ZoneImage],
    ) -> Self {
        let mut drive = Self::new(profile, seed, medium);
        let capacity = drive.geometry.zone_capacity;
        let mut reports = Vec::with_capacity(kept.len());
        for (zone, kept) in drive.geometry.zones().zip(kept) {
            let written = if kept.is_finished { capacity } else { kept.data };
            let state = state_at_power_on(written, capacity);
            reports.push(ZoneReport { zone, state, written });
            let facts = &mut drive.zones[zone.0 as usize];
            (facts.data, facts.was_finished) = (kept.data, kept.is_finished);
            facts.durable = written;
        }
        drive.table = ZoneTable::from_reports(drive.geometry, &reports);
        drive
    }
}

/// State of a writable zone after power-on: no zone is open.
pub(crate) fn state_at_power_on(written: Blocks, capacity: Blocks) -> ZoneState {
    match written {
        Blocks(0) => ZoneState::Empty,
        _ if written == capacity => ZoneState::Full,
        _ => ZoneState::Closed,
    }
}
