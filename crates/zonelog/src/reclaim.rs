//! Zone reclaim (garbage collection): picks a victim, rewrites its tombstones, waits for readers, and resets the
//! zone.
//!
//! 1. [`Log::begin_reclaim`]: the zone is chosen, and tombstones in it that an older record needs are
//!    written again. If that fails the zone stays as it was: nobody has forgotten anything yet.
//! 2. The owner appends what it wants to keep to the rewrite stream and forgets all that lies in the zone
//!    (its index is what leads to pins).
//! 3. [`Reclaim::finish`]: wait for the last pin; write again the tombstones that are needed because of what
//!    the owner kept; flush; reset; on a conventional device, mark the zone as empty.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Blocks, ZoneId};
use zonal_device::{Action, Command, DeviceError, DeviceKind, ZoneState};

use crate::format::mark::Mark;
use crate::log::Inner;
use crate::open::FirstBlock;
use crate::planted::Planted;
use crate::scan::Scanner;
use crate::state::Zone;
use crate::{AppendError, Descriptor, Key, Log, ZoneFacts, ZoneUse};

/// Times that the tombstones of a zone are written before another zone is chosen. Each failed write costs the
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

    /// Begins to empty a zone. Requires: it is one of [`Log::candidates`].
    ///
    /// # Errors
    /// When tombstones that stand in the zone could not be written again. It stays as it was, to be emptied
    /// another time.
    pub async fn begin_reclaim(&self, zone: ZoneId) -> Result<Reclaim, AppendError> {
        {
            let mut state = self.inner.state.borrow_mut();
            let entry = state.zone_mut(zone);
            assert!(entry.usage == ZoneUse::Sealed && entry.unpublished == 0);
            entry.usage = ZoneUse::Reclaiming;
        }
        match self.keep_tombstones(zone).await {
            Ok(()) => Ok(Reclaim { log: self.clone(), zone }),
            Err(error) => {
                self.inner.put_back(zone);
                Err(error)
            }
        }
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
    /// When the device refused: the zone is retired, or, when the device is gone, so is everything. When a
    /// tombstone could not be written, the zone can be emptied another time.
    pub async fn finish(self) -> Result<(), DeviceError> {
        let Self { log, zone } = self;
        log.inner.unpinned(zone).await;
        if let Err(error) = log.keep_tombstones(zone).await {
            log.inner.state.borrow_mut().newly_sealed.push(zone);
            log.inner.put_back(zone);
            return Err(match error {
                AppendError::Lost(error) => error,
                AppendError::Full => DeviceError::ZoneFull,
                AppendError::Gone => DeviceError::DeviceGone,
            });
        }
        let outcome = log.inner.reset(zone).await;
        if outcome.is_err() && log.inner.is_offline(zone).await {
            // No way leads out of that state but formatting: what lies there is never found again.
            log.inner.state.borrow_mut().zone_mut(zone).generation_min = u64::MAX;
        }
        log.inner.end_reclaim(zone, outcome);
        outcome
    }
}

impl Log {
    async fn keep_tombstones(&self, zone: ZoneId) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            let needed = self.inner.needed_tombstones(zone);
            if needed.is_empty() {
                return Ok(());
            }
            outcome = self.bury_again(needed).await;
        }
        outcome
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

    fn needed_tombstones(&self, zone: ZoneId) -> Vec<(Key, u64)> {
        match self.settings.has(Planted::TombstoneLost) {
            true => Vec::new(),
            false => self.state.borrow().needed_tombstones(self, zone).collect(),
        }
    }

    pub(crate) async fn reset(&self, zone: ZoneId) -> Result<(), DeviceError> {
        // What was written again must not be lost with the zone that it came from. That may have been before
        // the log was opened, and a tombstone may have given way to a newer one that nobody waited for: so
        // there is no telling whether a flush is due, and one for each zone is not much.
        self.ports.device.call(Command::Flush).await?;
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

    async fn is_offline(&self, zone: ZoneId) -> bool {
        let scanner = Scanner { ports: &self.ports, geometry: &self.geometry };
        let report = scanner.report_of(zone).await;
        report.is_ok_and(|report| report.state == ZoneState::Offline)
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

    /// The zone is not emptied now.
    fn put_back(&self, zone: ZoneId) {
        self.state.borrow_mut().zone_mut(zone).usage = ZoneUse::Sealed;
        self.note_change_of_use();
    }

    fn end_reclaim(&self, zone: ZoneId, outcome: Result<(), DeviceError>) {
        let mut state = self.state.borrow_mut();
        match outcome {
            Ok(()) => state.note_empty(zone),
            Err(error) => {
                state.is_gone |= error == DeviceError::DeviceGone;
                state.retire(zone);
            }
        }
        self.ports.generations.note_oldest(state.generation_min());
        drop(state);
        self.note_change_of_use();
    }

    /// A zone is used for something else than before: those who wait look again.
    pub(crate) fn note_change_of_use(&self) {
        self.room.grew();
        self.reclaim_wanted.notify_all();
    }
}
