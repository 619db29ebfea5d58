//! Giving a zone back.
//!
//! 1. [`Log::begin_reclaim`]: the zone is chosen; no new pin is taken once its owner has forgotten
//!    what lies there (the owner's index is what leads to pins).
//! 2. The owner drops what it does not want and appends the rest to the rewrite stream.
//! 3. [`Reclaim::finish`]: wait for the last pin; write again the tombstones that an older zone still
//!    needs; reset; on a conventional device, mark the zone as empty.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Blocks, ZoneId};
use zonal_device::{Action, Command, DeviceError, Kind as DeviceKind};

use crate::format::mark::Mark;
use crate::log::Inner;
use crate::open::FirstBlock;
use crate::planted::Planted;
use crate::scan::Scanner;
use crate::state::Zone;
use crate::{AppendError, Descriptor, Key, Log, ZoneFacts, ZoneUse};

/// Times that the tombstones of a zone are written before the zone is given up. Each failed write costs the
/// rewrite stream a zone.
const TRIES: u32 = 3;

/// A zone on its way to being empty.
#[must_use = "a zone that is not finished stays unused"]
pub struct Reclaim {
    log: Log,
    zone: ZoneId,
}

impl Log {
    /// True when reclaim should work until [`Log::has_enough_empty_zones`].
    #[must_use]
    pub fn wants_reclaim(&self) -> bool {
        self.empty_zones() < self.inner.settings.low_zones
    }

    /// True at the high watermark.
    #[must_use]
    pub fn has_enough_empty_zones(&self) -> bool {
        self.inner.settings.high_zones <= self.empty_zones()
    }

    /// Waits until something changed that may make reclaim necessary or possible.
    pub async fn reclaim_wanted(&self) {
        self.inner.reclaim_wanted.wait().await;
    }

    /// Zones that can be reclaimed, in `ZoneId` order.
    #[must_use]
    pub fn candidates(&self) -> Vec<ZoneFacts> {
        let state = self.inner.state.borrow();
        let zones = (0..).map(ZoneId).zip(&state.zones);
        let can_go = |(id, zone): &(ZoneId, &Zone)| {
            zone.usage == ZoneUse::Sealed
                && zone.unpublished == 0
                && state.can_keep_tombstones(&self.inner, *id)
        };
        let facts = |(id, zone): (ZoneId, &Zone)| ZoneFacts {
            zone: id,
            sequence: zone.sequence,
            record_count: zone.record_count,
            record_bytes: zone.record_bytes,
        };
        zones.filter(can_go).map(facts).collect()
    }

    /// Zones that were filled since the last call.
    #[must_use]
    pub fn take_sealed(&self) -> Vec<ZoneId> {
        core::mem::take(&mut self.inner.state.borrow_mut().newly_sealed)
    }

    /// Chooses a zone. Requires: it is one of [`Log::candidates`].
    pub fn begin_reclaim(&self, zone: ZoneId) -> Reclaim {
        let mut state = self.inner.state.borrow_mut();
        let entry = state.zone_mut(zone);
        assert!(entry.usage == ZoneUse::Sealed && entry.unpublished == 0);
        entry.usage = ZoneUse::Reclaiming;
        drop(state);
        Reclaim { log: self.clone(), zone }
    }

    fn empty_zones(&self) -> u32 {
        zonal_base::low_u32(self.inner.state.borrow().empty.len())
    }
}

impl Reclaim {
    /// All records of the zone, wanted or not, as the zone itself lists them.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn records(&self) -> Result<Vec<Descriptor>, DeviceError> {
        let inner = &self.log.inner;
        let scanner = Scanner { ports: &inner.ports, geometry: &inner.geometry };
        let report = scanner.report_of(self.zone).await?;
        match scanner.first_blocks(&[report]).await?[..] {
            [FirstBlock::Segment(first)] => Ok(scanner.scan(report, first).await?.records),
            _ => Ok(Vec::new()),
        }
    }

    /// Empties the zone. Requires: its owner leads nobody there any more.
    ///
    /// # Errors
    /// When the device refused: the zone is retired, or, when the device is gone, so is everything.
    pub async fn finish(self) -> Result<(), DeviceError> {
        let Self { log, zone } = self;
        log.inner.unpinned(zone).await;
        let kept = log.keep_tombstones(zone).await;
        let outcome = match kept {
            Ok(()) => log.inner.reset(zone).await,
            // Without its tombstones the zone must stay as it is.
            Err(AppendError::Lost(error)) => Err(error),
            Err(AppendError::Full | AppendError::Gone) => Err(DeviceError::DeviceGone),
        };
        log.inner.end_reclaim(zone, outcome);
        outcome
    }
}

impl Log {
    async fn keep_tombstones(&self, zone: ZoneId) -> Result<(), AppendError> {
        let keys = core::mem::take(&mut self.inner.state.borrow_mut().zone_mut(zone).tombstones);
        let needed = |key| Some((key, self.inner.still_needed(key, zone)?));
        let mut left: Vec<(Key, u64)> = keys.into_iter().filter_map(needed).collect();
        for _ in 0..TRIES {
            if left.is_empty() {
                return Ok(());
            }
            left = self.bury_again(left).await?;
        }
        Err(AppendError::Lost(DeviceError::Media))
    }
}

impl Inner {
    async fn unpinned(&self, zone: ZoneId) {
        while self.is_held(zone) {
            self.unpinned.wait().await;
        }
    }

    fn is_held(&self, zone: ZoneId) -> bool {
        let state = self.state.borrow();
        let zone = state.zone(zone);
        0 < zone.unpublished || (0 < zone.pins && !self.settings.has(Planted::PinIgnored))
    }

    /// The generation of the tombstone that stands in `zone` for `key`, if some older record may still
    /// lie elsewhere. Forgets the tombstone otherwise.
    fn still_needed(&self, key: Key, zone: ZoneId) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        let tombstone = *state.tombstones.get(&key).filter(|tombstone| tombstone.zone == zone)?;
        let is_needed = state.older_record_exists(tombstone.generation, zone)
            || self.ports.generations.older_record_exists_elsewhere(tombstone.generation);
        if is_needed && !self.settings.has(Planted::TombstoneLost) {
            return Some(tombstone.generation);
        }
        state.tombstones.remove(&key);
        None
    }

    async fn reset(&self, zone: ZoneId) -> Result<(), DeviceError> {
        // What was written again must not be lost with the zone that it came from.
        if core::mem::take(&mut self.state.borrow_mut().has_unflushed_rewrites) {
            self.ports.device.call(Command::Flush).await?;
        }
        let reset = || Command::Manage { zone, action: Action::Reset };
        self.ports.device.call(reset()).await?;
        if self.geometry.kind == DeviceKind::Conventional {
            // The old bytes are still there. The mark takes the place of the first header, and is on
            // flash before any tombstone can be dropped because this zone is empty.
            self.write_mark(zone).await?;
            self.ports.device.call(Command::Flush).await?;
            self.ports.device.call(reset()).await?;
        }
        self.state.borrow_mut().stats.zones_reset += 1;
        Ok(())
    }

    pub(crate) async fn write_mark(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let mark = Mark {
            identity: self.identity,
            zone,
            zone_sequence: self.state.borrow().next_sequence - 1,
            zone_count: self.geometry.zone_count,
            zone_capacity: self.geometry.zone_capacity,
        };
        let mut block = self.fronts.take(Blocks(1)).await;
        mark.encode(self.ports.checksum, &mut block.bytes_mut()[..zonal_base::BLOCK_BYTES]);
        self.write(zone, Blocks(0), vec![block.freeze(zonal_base::BLOCK_BYTES)]).await
    }

    fn end_reclaim(&self, zone: ZoneId, outcome: Result<(), DeviceError>) {
        let mut state = self.state.borrow_mut();
        match outcome {
            Ok(()) => {
                let Zone { sequence, pins, .. } = *state.zone(zone);
                *state.zone_mut(zone) = Zone { sequence, pins, ..Zone::empty() };
                state.empty.push_back(zone);
                self.ports.generations.note_oldest(state.generation_min());
            }
            Err(error) => {
                state.is_gone |= error == DeviceError::DeviceGone;
                state.retire(zone);
            }
        }
        drop(state);
        self.room.grew();
        self.reclaim_wanted.notify_all();
    }
}
