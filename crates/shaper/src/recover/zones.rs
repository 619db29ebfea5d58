//! Zone states after recovery: each zone is continued, closed, or empty.

use zonal_base::{Blocks, index, low_u32};
use zonal_device::{Command, DeviceError, DeviceKind, ZoneAction, ZoneReport, ZoneState};

use super::ScanState;
use crate::layout::Zone;
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{OpenError, Tier};

impl ScanState<'_> {
    /// Partly filled zone that can be written further, or `None`.
    pub(super) async fn open_zone(
        &self,
        zone: Zone,
        report: &ZoneReport,
    ) -> Result<Option<OpenZone>, OpenError> {
        let layout = self.scanner.layout;
        let at = index(u64::from(zone.0));
        let is_in_order = match self.scanner.is_zoned(zone) {
            // The write pointer must be where the last segment ended.
            true => report.state.is_active() && report.written.0 == u64::from(self.ends[at]),
            false => true,
        };
        let has_room = u64::from(self.ends[at]) < layout.zone_capacity(zone).0;
        let is_sound = !self.unsound.contains(&zone);
        let Some(last) = self.segments[at].last() else { return Ok(None) };
        if !is_in_order || !has_room || !is_sound {
            return Ok(None);
        }
        let echo = self.echo_of(zone, last.at).await?;
        Ok(echo.map(|echo| OpenZone::resume(zone, self.ends[at], (self.sums[at], echo))))
    }

    /// True for a capacity zone with room for more than the header that closes it.
    pub(super) fn is_half_full(&self, open: &OpenZone) -> bool {
        let layout = self.scanner.layout;
        layout.tier_of(open.zone) == Tier::Capacity && 2 < open.room(layout)
    }

    /// End of what was found in a zone, and end and header checksum of its last segment with
    /// entries.
    fn written(&self, zone: Zone) -> (u32, (u32, u32)) {
        let at = index(u64::from(zone.0));
        let last = self.segments[at].iter().rfind(|begin| begin.has_entries);
        (self.ends[at], last.map_or((0, 0), |last| (last.end, last.sum)))
    }

    /// Lets a zone be written further.
    pub(super) async fn resume(
        &mut self,
        state: &mut State,
        open: &OpenZone,
    ) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let tier = layout.tier_of(open.zone);
        let at = index(u64::from(open.zone.0));
        state.set_usage(layout, open.zone, ZoneUse::Open);
        let (written, last) = self.written(open.zone);
        state.adopt_zone(layout, open.zone, (self.segments[at][0].number, written, last));
        state.zone_mut(open.zone).trimmed = core::mem::take(&mut self.trimmed[at]);
        if self.scanner.is_zoned(open.zone) {
            return Ok(());
        }
        let (zone, written) = (layout.zone_id(open.zone), Blocks(u64::from(open.at)));
        let restored = self.scanner.call(tier, Command::Restore { zone, written }).await;
        restored.map(drop).map_err(|error| OpenError::Device(tier, error))
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
        let (written, last) = self.written(zone);
        let written = low_u32(index(geometry.zone_capacity.0)).min(written);
        state.adopt_zone(layout, zone, (number, written, last));
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
