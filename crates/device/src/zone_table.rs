//! Zone table: the state and write pointer of every zone, and the open and active zone limits of the device.
//!
//! All zone semantics are in this module. A device asks the table before it accesses its medium, and reports the
//! result to the table afterwards. The table owns no data and no time.
//!
//! A write has two moments. At its *begin* the table checks it, takes its blocks and opens its zone, so that the next
//! write may follow at once. At its *end* its blocks can be read. Writes of one zone end in the order in which they
//! began. If one fails, all writes that began after it have failed too.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Payload, ZoneId};

use crate::{DeviceError, DeviceKind, Geometry, ZoneAction, ZoneReport, ZoneState};

/// Zone states and write pointers of one device.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    geometry: Geometry,
    zones: Vec<Zone>,
    open_count: u32,
    active_count: u32,
    /// Implicitly opened zones, oldest first. Maintained only where `max_open_zones` bounds the list.
    implicitly_opened: VecDeque<ZoneId>,
}

#[derive(Clone, Debug)]
struct Zone {
    state: ZoneState,
    /// Blocks whose writes have ended. They can be read.
    written: Blocks,
    /// Blocks whose writes have begun: the offset at which the next write must start.
    begun: Blocks,
    writes_in_flight: u32,
    /// A write failed since the last report or reset of the zone.
    unreported_failure: bool,
    /// Conventional devices only: the `Empty` zone may hold bytes of an earlier run, and its owner has not restored
    /// the write pointer yet.
    may_hold_old_bytes: bool,
}

impl ZoneTable {
    /// Creates the table of a new device or of a conventional device that just started: every zone is `Empty`.
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

    /// Creates the table from the report of a zoned device.
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

    /// Geometry of the device.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the report of a zone without making the zone writable again, as [`ZoneTable::report`] would.
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

    /// Begins a write at `lba`: takes its blocks and opens its zone.
    ///
    /// # Errors
    /// When the write must not reach the medium. The write pointer did not move, and the zone takes no writes until
    /// it is reported or reset.
    pub fn begin_write(&mut self, lba: Lba, blocks: Blocks) -> Result<ZoneId, DeviceError> {
        let (zone, at) = self.locate(lba, blocks)?;
        self.begin(zone, at, blocks)?;
        Ok(zone)
    }

    /// Begins an append: a write at the zone's write pointer. Returns the address of the write pointer.
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

    /// Ends the oldest write in flight in the zone: its `blocks` are on the medium and can be read.
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

    /// Fails the oldest write in flight in the zone, and with it all writes after it. The write pointer goes back to
    /// the end of the last good write. The zone takes no writes until it is reported or reset. Requires: none of the
    /// failed writes can reach the medium any more.
    pub fn abort_writes(&mut self, zone: ZoneId) {
        let known = self.zone_mut(zone);
        known.begun = known.written;
        known.writes_in_flight = 0;
        known.unreported_failure = true;
    }

    /// Marks the zone after a write that failed or will fail: the zone takes no more writes until it is reported or
    /// reset.
    pub fn require_report(&mut self, zone: ZoneId) {
        self.zone_mut(zone).unreported_failure = true;
    }

    /// Opens, closes, finishes or resets a zone.
    ///
    /// # Errors
    /// When the zone's state, a limit, or a write in flight forbids the action. Nothing changed.
    pub fn manage(&mut self, zone: ZoneId, action: ZoneAction) -> Result<(), DeviceError> {
        if matches!(action, ZoneAction::Write | ZoneAction::WriteToCapacity) {
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
            ZoneAction::Finish => Some(self.geometry.zone_capacity),
            ZoneAction::Reset => Some(Blocks(0)),
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

    /// Reports the zones from `first` on, at most `count`. The reported zones take writes again.
    ///
    /// # Errors
    /// When there is no such zone, or `count` is 0.
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

    /// Restores the write pointer of an `Empty` zone of a conventional device, as found by its owner.
    ///
    /// # Errors
    /// When the device is zoned, the zone is not empty, the number is impossible or a limit is reached.
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

    /// Replaces the state and write pointer of a zone by those that the device reports. A zone with a failed write
    /// still refuses writes: only [`ZoneTable::report`] or a reset makes it writable again.
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

    /// True while writes are in flight in the zone.
    ///
    /// Requires: the zone is on the device.
    #[must_use]
    pub fn is_written_to(&self, zone: ZoneId) -> bool {
        0 < self.zone(zone).writes_in_flight
    }

    /// Retires a zone: it becomes `ReadOnly` or `Offline`, and its writes in flight have failed.
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

    /// Returns the zone that holds all the blocks, and the offset of the first block in that zone.
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
            self.require_report(zone);
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
        // The zone becomes full only when its last block is on the medium: see `end_write`.
        let from = known.state;
        let to = from.after(ZoneAction::Write).map_err(|_| DeviceError::InvalidTransition)?;
        self.make_room(from, to)?;
        self.enter(zone, to);
        let known = self.zone_mut(zone);
        known.begun += blocks;
        known.writes_in_flight += 1;
        known.may_hold_old_bytes = false;
        Ok(())
    }

    /// Checks the active and open limits for a transition. At the open limit, closes the oldest implicitly opened
    /// zone to make room.
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

/// Number of blocks in the pieces of a write.
///
/// # Errors
/// When there are no pieces, or a piece is not whole blocks at a block-aligned address: real devices read the pieces
/// in place.
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
