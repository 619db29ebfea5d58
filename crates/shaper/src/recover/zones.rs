//! Zone states after recovery: each zone is continued, closed, or empty.

use zonal_base::{Blocks, index, low_u32};
use zonal_device::{Command, DeviceError, DeviceKind, ZoneAction, ZoneReport, ZoneState};

use super::ScanState;
use crate::layout::Zone;
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{OpenError, Tier};

impl ScanState<'_> {
    /// Partly filled capacity zone that can be continued, or `None`.
    pub(super) fn half_full(&self, zone: Zone, report: &ZoneReport) -> Option<OpenZone> {
        let layout = self.scanner.layout;
        let at = index(u64::from(zone.0));
        let tier = layout.tier_of(zone);
        let is_in_order = match layout.place(tier).geometry.kind {
            // The write pointer must be where the last segment ended.
            DeviceKind::Zoned => {
                report.state.is_active() && report.written.0 == u64::from(self.ends[at])
            }
            DeviceKind::Conventional => true,
        };
        let open = OpenZone::resume(zone, self.ends[at], self.sums[at]);
        let has_room = u64::from(self.ends[at]) + 1 < layout.zone_capacity(zone).0;
        let is_begun = !self.segments[at].is_empty();
        let is_sound = !self.unsound.contains(&zone);
        (tier == Tier::Capacity && is_in_order && has_room && is_begun && is_sound).then_some(open)
    }

    pub(super) async fn resume(
        &mut self,
        state: &mut State,
        open: OpenZone,
    ) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let at = index(u64::from(open.zone.0));
        state.set_usage(layout, open.zone, ZoneUse::Open);
        let found = (self.segments[at][0].number, open.at, self.sums[at]);
        state.adopt_zone(layout, open.zone, found);
        state.zone_mut(open.zone).detours = self.detours.remove(&open.zone).unwrap_or_default();
        if layout.capacity.geometry.kind == DeviceKind::Zoned {
            return Ok(());
        }
        let (zone, written) = (layout.zone_id(open.zone), Blocks(u64::from(open.at)));
        let restored = self.scanner.call(Tier::Capacity, Command::Restore { zone, written }).await;
        restored.map(drop).map_err(|error| OpenError::Device(Tier::Capacity, error))
    }

    /// Sets the use of a zone, and finishes it on its device if it is not empty.
    pub(super) async fn close(
        &mut self,
        state: &mut State,
        zone: Zone,
        report: &ZoneReport,
    ) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let at = index(u64::from(zone.0));
        let tier = layout.tier_of(zone);
        let geometry = &layout.place(tier).geometry;
        // A retired zone stays retired whatever its device reports: later starts may rely on it.
        if state.retired.contains(&zone) {
            state.set_usage(layout, zone, ZoneUse::Retired);
            return Ok(());
        }
        let is_zoned = geometry.kind == DeviceKind::Zoned;
        // A mark begins a zone of the map, or a formatted one: its content does not outlive the
        // process.
        if self.marked.contains(&zone) && report.state != ZoneState::ReadOnly && is_zoned {
            return self.manage(zone, ZoneAction::Reset).await;
        }
        if self.segments[at].is_empty() && (!is_zoned || report.written.0 == 0) {
            // An open zone without data, left by a write that did not arrive, holds an active-zone
            // slot.
            return match is_zoned && report.state.is_active() {
                true => self.manage(zone, ZoneAction::Reset).await,
                false => Ok(()),
            };
        }
        let number = self.segments[at].first().map_or(0, |begin| begin.number);
        state.set_usage(layout, zone, ZoneUse::Sealed);
        let written = low_u32(index(geometry.zone_capacity.0)).min(self.ends[at]);
        state.adopt_zone(layout, zone, (number, written, self.sums[at]));
        state.zone_mut(zone).trimmed = core::mem::take(&mut self.trimmed[at]);
        state.zone_mut(zone).detours = self.detours.remove(&zone).unwrap_or_default();
        match (is_zoned, report.state.is_active()) {
            (true, false) => Ok(()),
            (true, true) => self.manage(zone, ZoneAction::Finish).await,
            (false, _) => {
                let (zone, written) = (layout.zone_id(zone), geometry.zone_capacity);
                let restored = self.scanner.call(tier, Command::Restore { zone, written }).await;
                restored.map(drop).map_err(|error| OpenError::Device(tier, error))
            }
        }
    }

    async fn manage(&self, zone: Zone, action: ZoneAction) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let tier = layout.tier_of(zone);
        let command = Command::Manage { zone: layout.zone_id(zone), action };
        match self.scanner.call(tier, command).await {
            Err(error @ DeviceError::DeviceGone) => Err(OpenError::Device(tier, error)),
            // The zone keeps its active-zone slot until it is reset.
            _ => Ok(()),
        }
    }
}
