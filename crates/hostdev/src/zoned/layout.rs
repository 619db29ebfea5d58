//! Zone layout: the kernel's zone report, as a device of equal zones.
//!
//! 1. The device reaches from the first to the last sequential zone of the most common length and
//!    capacity.
//! 2. Zones between them that differ (conventional zones, other lengths, other capacities) are
//!    never used: the device reports them as offline.

use std::collections::BTreeMap;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, ZoneId, index, low_u32};
use zonal_device::{DeviceKind, Geometry, ZoneReport, ZoneState};

use super::Queue;
use super::ioctl::{RawZone, SECTOR_BYTES};

const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES as u64 / SECTOR_BYTES;

/// Maximum position in sectors: Linux counts positions in bytes, as signed integers of 64 bits.
const SECTORS_MAX: u64 = i64::MAX as u64 / SECTOR_BYTES;

/// Write rule of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// Conventional zone: writes at any block.
    Anywhere,
    /// Sequential write required: writes at the write pointer only.
    InOrder,
    /// Sequential write preferred (host-aware), or a zone type that this program does not know.
    Other,
}

/// Position and geometry of the usable zones on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneLayout {
    pub(crate) geometry: Geometry,
    /// First block of the first zone.
    pub(crate) base: Lba,
}

/// Zones of a drive, counted by state and by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Usable zones by state: empty, implicitly opened, explicitly opened, closed, full, read-only,
    /// offline.
    pub by_state: [u32; ZoneState::ALL.len()],
    /// Conventional zones: never used.
    pub conventional: u32,
    /// Other zones that are never used: of an uncommon length or capacity, or of an unknown type.
    pub odd: u32,
}

impl ZoneLayout {
    /// # Errors
    /// When no device of equal zones can be made of the drive's zones. The text says why, and what
    /// the user should do.
    pub(super) fn of(zones: &[RawZone], queue: &Queue) -> Result<Self, String> {
        let in_order = || zones.iter().filter(|zone| writing(zone) == Writing::InOrder);
        let mut shapes: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        for zone in in_order() {
            *shapes.entry((zone.len, zone.capacity)).or_default() += 1;
        }
        let most = shapes.into_iter().max_by_key(|(_, count)| *count);
        let Some(((len, capacity), _)) = most else {
            return Err(
                "has no sequential-write zones: name another drive, or write block:/dev/NAME"
                    .into(),
            );
        };
        let is_like = |zone: &&RawZone| (zone.len, zone.capacity) == (len, capacity);
        let contradiction = || "reports inconsistent zones".to_owned();
        let (first, last) = (in_order().find(is_like), in_order().rfind(is_like));
        let (first, last) = first.zip(last).ok_or_else(contradiction)?;
        let in_blocks = |sectors: u64| {
            let is_whole = sectors.is_multiple_of(SECTORS_PER_BLOCK);
            is_whole.then_some(Blocks(sectors / SECTORS_PER_BLOCK))
        };
        let (Some(zone_size), Some(zone_capacity), Some(base)) =
            (in_blocks(len), in_blocks(capacity), in_blocks(first.start))
        else {
            return Err(format!(
                "has zones of {len} sectors with {capacity} writable, which is not a multiple of \
                 {BLOCK_BYTES} bytes: format the drive with blocks of {BLOCK_BYTES} bytes"
            ));
        };
        let is_sound = Blocks(0) < zone_capacity
            && zone_capacity <= zone_size
            && last.start.checked_add(len).is_some_and(|end| end <= SECTORS_MAX);
        let before = is_sound.then(|| last.start.saturating_sub(first.start) / len);
        let zone_count = before.and_then(|before| u32::try_from(before + 1).ok());
        let zone_count = zone_count.ok_or_else(contradiction)?;
        let geometry = Geometry {
            kind: DeviceKind::Zoned,
            zone_count,
            zone_size,
            zone_capacity,
            max_open_zones: queue.max_open_zones,
            max_active_zones: queue.max_active_zones,
        };
        Ok(Self { geometry, base: Lba(base.0) })
    }

    /// Start of a zone, in sectors.
    pub(super) const fn sector(&self, zone: ZoneId) -> u64 {
        (self.base.0 + self.geometry.zone_start(zone).0) * SECTORS_PER_BLOCK
    }

    /// Length of a zone, in sectors.
    pub(super) const fn sectors(&self) -> u64 {
        self.geometry.zone_size.0 * SECTORS_PER_BLOCK
    }

    /// Converts a zone of the kernel's report. `None` when the zone is not on the device.
    pub(super) fn read(&self, raw: &RawZone) -> Option<KernelZone> {
        let from = raw.start.checked_sub(self.sector(ZoneId(0)))?;
        let number = from / self.sectors();
        let is_ours =
            from.is_multiple_of(self.sectors()) && number < u64::from(self.geometry.zone_count);
        is_ours.then(|| {
            let zone = ZoneId(low_u32(index(number)));
            match self.is_usable(raw) {
                true => self.state(zone, raw),
                false => KernelZone { zone, state: ZoneState::Offline, written: Some(Blocks(0)) },
            }
        })
    }

    fn is_usable(&self, raw: &RawZone) -> bool {
        let capacity = self.geometry.zone_capacity.0 * SECTORS_PER_BLOCK;
        writing(raw) == Writing::InOrder && (raw.len, raw.capacity) == (self.sectors(), capacity)
    }

    fn state(&self, zone: ZoneId, raw: &RawZone) -> KernelZone {
        let capacity = self.geometry.zone_capacity;
        let at = raw.write_pointer.checked_sub(raw.start).map(|at| Blocks(at / SECTORS_PER_BLOCK));
        let at = at.filter(|at| *at <= capacity);
        let (state, written) = match raw.condition {
            1 => (ZoneState::Empty, Some(Blocks(0))),
            2 => (ZoneState::ImplicitlyOpened, at),
            3 => (ZoneState::ExplicitlyOpened, at),
            4 => (ZoneState::Closed, at),
            // The write pointer of a read-only zone is undefined.
            0xD => (ZoneState::ReadOnly, None),
            0xE => (ZoneState::Full, Some(capacity)),
            // Offline, or a condition that this program does not know.
            _ => (ZoneState::Offline, Some(Blocks(0))),
        };
        KernelZone { zone, state, written }
    }

    /// Counts all zones of the drive.
    pub(super) fn count(&self, zones: &[RawZone]) -> Census {
        let mut census = Census::default();
        for raw in zones {
            match self.read(raw).filter(|_| self.is_usable(raw)) {
                Some(told) => {
                    let at = ZoneState::ALL.iter().position(|state| *state == told.state);
                    census.by_state[at.unwrap_or_default()] += 1;
                }
                None if writing(raw) == Writing::Anywhere => census.conventional += 1,
                None => census.odd += 1,
            }
        }
        census
    }
}

/// State of one zone, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelZone {
    pub(super) zone: ZoneId,
    pub(super) state: ZoneState,
    /// Written blocks. `None`: the write pointer is undefined.
    pub(super) written: Option<Blocks>,
}

impl KernelZone {
    /// Converts to a report. `otherwise` is the number of written blocks where the write pointer is
    /// undefined.
    pub(super) fn report(self, otherwise: Blocks) -> ZoneReport {
        let Self { zone, state, written } = self;
        ZoneReport { zone, state, written: written.unwrap_or(otherwise) }
    }
}

const fn writing(zone: &RawZone) -> Writing {
    match zone.kind {
        1 => Writing::Anywhere,
        2 => Writing::InOrder,
        _ => Writing::Other,
    }
}

#[cfg(test)]
mod tests;
