//! The zones of one device: their states, write pointers and the limits that they share.
//!
//! The one place where zone semantics live. A device asks the table before it touches its medium and
//! tells it what came of it; the table owns no data and no time.
//!
//! A write has two moments. When it *begins* it is checked, takes its blocks and opens its zone, so
//! that the next write may follow at once. When it *ends* its blocks can be read. Writes of one zone
//! end in the order in which they began; if one fails, all that began after it have failed too.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, ZoneId};

use crate::{Action, DeviceError, DeviceKind, Geometry, ZoneReport, ZoneState};

/// What a device knows about its zones.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    geometry: Geometry,
    zones: Vec<Zone>,
    open_count: u32,
    active_count: u32,
    /// The implicitly opened zones, oldest first: kept only where `max_open_zones` bounds it.
    implicitly_opened: VecDeque<ZoneId>,
}

#[derive(Clone, Debug)]
struct Zone {
    state: ZoneState,
    /// Blocks whose writes have ended.
    written: Blocks,
    /// Blocks whose writes have begun: where the next write must be.
    begun: Blocks,
    writes_in_flight: u32,
    /// A write failed since the zone was last reported or reset.
    unreported_failure: bool,
    /// Nobody has said yet how much of an `Empty` zone holds old bytes (conventional only).
    may_hold_old_bytes: bool,
}

impl ZoneTable {
    /// A device that was just made or, if it is conventional, just started: every zone is `Empty`.
    ///
    /// Requires: a geometry with zones, and a capacity within their size.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        assert!(0 < geometry.zone_count);
        assert!(Blocks(0) < geometry.zone_capacity && geometry.zone_capacity <= geometry.zone_size);
        let zone = Zone {
            state: ZoneState::Empty,
            written: Blocks(0),
            begun: Blocks(0),
            writes_in_flight: 0,
            unreported_failure: false,
            may_hold_old_bytes: geometry.kind == DeviceKind::Conventional,
        };
        let zones = alloc::vec![zone; geometry.zone_count as usize];
        let implicitly_opened = VecDeque::new();
        Self { geometry, zones, open_count: 0, active_count: 0, implicitly_opened }
    }

    /// A zoned device that says about each of its zones where it stands.
    ///
    /// Requires: one report per zone, in order.
    #[must_use]
    pub fn from_reports(geometry: Geometry, reports: &[ZoneReport]) -> Self {
        let mut table = Self::new(geometry);
        assert_eq!(reports.len(), table.zones.len());
        for report in reports {
            let zone = table.zone_mut(report.zone);
            (zone.written, zone.begun) = (report.written, report.written);
            table.enter(report.zone, report.state);
        }
        table
    }

    /// What the zones are part of.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The zone as [`ZoneTable::report`] would show it, without that effect.
    ///
    /// Requires: the zone is on the device.
    #[must_use]
    pub fn look(&self, zone: ZoneId) -> ZoneReport {
        let Zone { state, written, .. } = *self.zone(zone);
        ZoneReport { zone, state, written }
    }

    /// Checks a read.
    ///
    /// # Errors
    /// When the blocks are not on the device, not in one zone, or cannot be read.
    pub fn check_read(&self, lba: Lba, blocks: Blocks) -> Result<(), DeviceError> {
        let (zone, at) = self.locate(lba, blocks)?;
        let zone = self.zone(zone);
        if !zone.state.is_readable() {
            return Err(DeviceError::ZoneOffline);
        }
        let readable =
            if zone.may_hold_old_bytes { self.geometry.zone_capacity } else { zone.written };
        if readable < at + blocks {
            return Err(DeviceError::ReadPastWritePointer);
        }
        Ok(())
    }

    /// Begins a write at `lba`: its blocks are taken and its zone is open from now on.
    ///
    /// # Errors
    /// When the write must not reach the medium. Nothing moved, and the zone takes no writes until
    /// it is reported or reset.
    pub fn begin_write(&mut self, lba: Lba, blocks: Blocks) -> Result<ZoneId, DeviceError> {
        let (zone, at) = self.locate(lba, blocks)?;
        self.begin(zone, at, blocks)?;
        Ok(zone)
    }

    /// Begins an append: a write wherever the zone's write pointer is.
    ///
    /// # Errors
    /// As for [`ZoneTable::begin_write`].
    pub fn begin_append(&mut self, zone: ZoneId, blocks: Blocks) -> Result<Lba, DeviceError> {
        if self.geometry.zone_count <= zone.0 || blocks == Blocks(0) {
            return Err(DeviceError::InvalidField);
        }
        let at = self.zone(zone).begun;
        self.begin(zone, at, blocks)?;
        Ok(self.geometry.zone_start(zone) + at)
    }

    /// The oldest write in flight in the zone, of so many blocks, is on the medium.
    pub fn end_write(&mut self, zone: ZoneId, blocks: Blocks) {
        let capacity = self.geometry.zone_capacity;
        let known = self.zone_mut(zone);
        assert!(0 < known.writes_in_flight && known.written + blocks <= known.begun);
        known.writes_in_flight -= 1;
        known.written += blocks;
        if known.written == capacity {
            self.enter(zone, ZoneState::Full);
        }
    }

    /// The oldest write in flight in the zone failed on the medium and with it all after it: the
    /// write pointer is where the last good one ended, and the zone takes no writes until it is
    /// reported or reset. Requires: none of them can reach the medium any more.
    pub fn abort_writes(&mut self, zone: ZoneId) {
        let known = self.zone_mut(zone);
        known.begun = known.written;
        known.writes_in_flight = 0;
        known.unreported_failure = true;
    }

    /// A write failed, or will: the zone takes no further ones until it is reported or reset.
    pub fn distrust(&mut self, zone: ZoneId) {
        self.zone_mut(zone).unreported_failure = true;
    }

    /// Opens, closes, finishes or resets a zone.
    ///
    /// # Errors
    /// When the zone's state, a limit, or a write in flight forbids it. Nothing changed.
    pub fn manage(&mut self, zone: ZoneId, action: Action) -> Result<(), DeviceError> {
        if matches!(action, Action::Write | Action::WriteToCapacity) {
            return Err(DeviceError::Unsupported);
        }
        if self.geometry.zone_count <= zone.0 {
            return Err(DeviceError::InvalidField);
        }
        let Zone { state, writes_in_flight, .. } = *self.zone(zone);
        let to = state.after(action).map_err(|_| DeviceError::InvalidTransition)?;
        if 0 < writes_in_flight {
            return Err(DeviceError::InvalidTransition);
        }
        self.make_room(state, to)?;
        let filled = match action {
            Action::Finish => Some(self.geometry.zone_capacity),
            Action::Reset => Some(Blocks(0)),
            _ => None,
        };
        let known = self.zone_mut(zone);
        if let Some(written) = filled {
            (known.written, known.begun) = (written, written);
            known.unreported_failure = false;
        }
        known.may_hold_old_bytes = false;
        self.enter(zone, to);
        Ok(())
    }

    /// The zones from `first` on, at most `count`. They take writes again.
    ///
    /// # Errors
    /// When there is no such zone.
    pub fn report(&mut self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>, DeviceError> {
        if self.geometry.zone_count <= first.0 || count == 0 {
            return Err(DeviceError::InvalidField);
        }
        let end = first.0.saturating_add(count).min(self.geometry.zone_count);
        let report = |zone| {
            self.zone_mut(zone).unreported_failure = false;
            self.look(zone)
        };
        Ok((first.0..end).map(ZoneId).map(report).collect())
    }

    /// The owner found where the write pointer of an `Empty` zone of a conventional device is.
    ///
    /// # Errors
    /// When the device is zoned, the zone not empty, the number impossible or a limit reached.
    pub fn restore(&mut self, zone: ZoneId, written: Blocks) -> Result<(), DeviceError> {
        if self.geometry.kind == DeviceKind::Zoned {
            return Err(DeviceError::Unsupported);
        }
        let capacity = self.geometry.zone_capacity;
        if self.geometry.zone_count <= zone.0 || capacity < written {
            return Err(DeviceError::InvalidField);
        }
        if self.zone(zone).state != ZoneState::Empty {
            return Err(DeviceError::InvalidTransition);
        }
        let to = match written {
            Blocks(0) => ZoneState::Empty,
            _ if written == capacity => ZoneState::Full,
            _ => ZoneState::Closed,
        };
        self.make_room(ZoneState::Empty, to)?;
        let known = self.zone_mut(zone);
        (known.written, known.begun) = (written, written);
        known.may_hold_old_bytes = false;
        self.enter(zone, to);
        Ok(())
    }

    /// The device says where the zone stands, whatever was believed. It does not make it take writes again:
    /// see [`ZoneTable::report`].
    ///
    /// Requires: no write is in flight in the zone.
    pub fn correct(&mut self, report: ZoneReport) {
        let written = report.written.min(self.geometry.zone_capacity);
        let known = self.zone_mut(report.zone);
        assert_eq!(
            known.writes_in_flight, 0,
            "nobody knows where a zone stands that is written to"
        );
        (known.written, known.begun) = (written, written);
        known.may_hold_old_bytes = false;
        self.enter(report.zone, report.state);
    }

    /// Writes have begun in the zone that have not ended.
    ///
    /// Requires: the zone is on the device.
    #[must_use]
    pub fn is_written_to(&self, zone: ZoneId) -> bool {
        0 < self.zone(zone).writes_in_flight
    }

    /// The medium took the zone away: `ReadOnly` or `Offline`. Its writes in flight have failed.
    pub fn retire(&mut self, zone: ZoneId, to: ZoneState) {
        assert!(matches!(to, ZoneState::ReadOnly | ZoneState::Offline));
        self.abort_writes(zone);
        self.enter(zone, to);
    }

    fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.0 as usize]
    }

    fn zone_mut(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[zone.0 as usize]
    }

    /// The zone that holds all the blocks, and where in it they begin.
    fn locate(&self, lba: Lba, blocks: Blocks) -> Result<(ZoneId, Blocks), DeviceError> {
        let size = self.geometry.zone_size;
        let is_on_device = lba.0 / size.0 < u64::from(self.geometry.zone_count);
        if blocks == Blocks(0) || size < blocks || !is_on_device {
            return Err(DeviceError::InvalidField);
        }
        let at = self.geometry.offset_in_zone(lba);
        if size < at + blocks {
            return Err(DeviceError::InvalidField);
        }
        Ok((self.geometry.zone_of(lba), at))
    }

    fn begin(&mut self, zone: ZoneId, at: Blocks, blocks: Blocks) -> Result<(), DeviceError> {
        let begun = self.try_begin(zone, at, blocks);
        if begun.is_err() {
            self.distrust(zone);
        }
        begun
    }

    fn try_begin(&mut self, zone: ZoneId, at: Blocks, blocks: Blocks) -> Result<(), DeviceError> {
        let capacity = self.geometry.zone_capacity;
        let known = self.zone(zone);
        match known.state {
            ZoneState::ReadOnly => return Err(DeviceError::ZoneReadOnly),
            ZoneState::Offline => return Err(DeviceError::ZoneOffline),
            _ if known.unreported_failure => return Err(DeviceError::InvalidWrite),
            _ if known.begun == capacity => return Err(DeviceError::ZoneFull),
            _ if known.begun != at => return Err(DeviceError::InvalidWrite),
            _ if capacity - at < blocks => return Err(DeviceError::ZoneFull),
            _ => (),
        }
        // The last block makes the zone full only when it is on the medium: see `end_write`.
        let from = known.state;
        let to = from.after(Action::Write).map_err(|_| DeviceError::InvalidTransition)?;
        self.make_room(from, to)?;
        self.enter(zone, to);
        let known = self.zone_mut(zone);
        known.begun += blocks;
        known.writes_in_flight += 1;
        known.may_hold_old_bytes = false;
        Ok(())
    }

    /// Makes sure that a zone may go from one state to another. An implicitly opened zone is closed
    /// when another needs its place, the oldest first.
    fn make_room(&mut self, from: ZoneState, to: ZoneState) -> Result<(), DeviceError> {
        let Geometry { max_open_zones, max_active_zones, .. } = self.geometry;
        let is_full = |count, max: Option<u32>| max.is_some_and(|max| max <= count);
        if to.is_active() && !from.is_active() && is_full(self.active_count, max_active_zones) {
            return Err(DeviceError::TooManyZones);
        }
        if to.is_open() && !from.is_open() && is_full(self.open_count, max_open_zones) {
            let oldest = *self.implicitly_opened.front().ok_or(DeviceError::TooManyZones)?;
            self.enter(oldest, ZoneState::Closed);
        }
        Ok(())
    }

    fn enter(&mut self, zone: ZoneId, to: ZoneState) {
        let from = core::mem::replace(&mut self.zone_mut(zone).state, to);
        self.open_count = self.open_count - u32::from(from.is_open()) + u32::from(to.is_open());
        self.active_count =
            self.active_count - u32::from(from.is_active()) + u32::from(to.is_active());
        if from == to || self.geometry.max_open_zones.is_none() {
            return;
        }
        if from == ZoneState::ImplicitlyOpened {
            self.implicitly_opened.retain(|opened| *opened != zone);
        }
        if to == ZoneState::ImplicitlyOpened {
            self.implicitly_opened.push_back(zone);
        }
    }
}

/// The blocks in the pieces of a write.
///
/// # Errors
/// When there are none, or a piece is not whole blocks at a block-aligned address: real devices read
/// them where they lie.
pub fn whole_blocks(data: &[Payload]) -> Result<Blocks, DeviceError> {
    let mut bytes = 0;
    for piece in data {
        let piece = piece.as_bytes();
        let is_aligned = piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        if piece.is_empty() || !piece.len().is_multiple_of(BLOCK_BYTES) || !is_aligned {
            return Err(DeviceError::InvalidField);
        }
        bytes += piece.len();
    }
    match bytes {
        0 => Err(DeviceError::InvalidField),
        _ => Ok(Blocks((bytes / BLOCK_BYTES) as u64)),
    }
}

#[cfg(test)]
mod tests;
