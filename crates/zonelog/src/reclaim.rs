//! Zone reclaim (garbage collection): picks a victim, rewrites its tombstones, waits for readers,
//! and resets the zone.
//!
//! 1. [`Log::begin_reclaim`] takes the victim and rewrites its tombstones that older records still
//!    need. If that fails, the zone is unchanged, and the owner has forgotten nothing yet.
//! 2. The owner appends the records that it keeps to the rewrite stream, and removes every record
//!    of the zone from its index. New pins come only through the index.
//! 3. [`Reclaim::finish`] waits for the last pin, rewrites the tombstones that are needed because
//!    of the kept records, flushes, and resets. On a conventional device it also marks the zone as
//!    empty.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Blocks, ZoneId};
use zonal_device::{Command, DeviceError, DeviceKind, ZoneAction, ZoneState};

use crate::events::ZoneChange;
use crate::format::mark::ZoneMark;
use crate::log::Inner;
use crate::mutation::Mutation;
use crate::open::FirstBlock;
use crate::scan::Scanner;
use crate::state::Zone;
use crate::{AppendError, Descriptor, Key, Log, ZoneFacts, ZoneUse};

/// Attempts to rewrite the tombstones of a zone before reclaim tries another zone. Each failed
/// write costs the rewrite stream a zone.
const TRIES: u32 = 3;

/// A zone that is being reclaimed. The caller must [`finish`](Reclaim::finish) it.
#[must_use = "a zone that is not finished stays unused"]
pub struct Reclaim {
    log: Log,
    zone: ZoneId,
}

impl Log {
    /// True below the low watermark: reclaim should run until [`Log::has_enough_empty_zones`].
    #[must_use]
    pub fn wants_reclaim(&self) -> bool {
        self.empty_zones() < self.inner.settings.low_zones
    }

    /// True at the high watermark.
    #[must_use]
    pub fn has_enough_empty_zones(&self) -> bool {
        self.inner.settings.high_zones <= self.empty_zones()
    }

    /// Waits for an event that may make reclaim necessary or possible.
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

    /// Zones that were sealed since the last call.
    #[must_use]
    pub fn take_sealed(&self) -> Vec<ZoneId> {
        core::mem::take(&mut self.inner.state.borrow_mut().newly_sealed)
    }

    /// Starts the reclaim of a zone. Requires: it is one of [`Log::candidates`].
    ///
    /// # Errors
    /// When the needed tombstones of the zone could not be rewritten. The zone is unchanged and can
    /// be reclaimed later.
    pub async fn begin_reclaim(&self, zone: ZoneId) -> Result<Reclaim, AppendError> {
        {
            let mut state = self.inner.state.borrow_mut();
            let entry = state.zone_mut(zone);
            assert!(entry.usage == ZoneUse::Sealed && entry.unpublished == 0);
            entry.usage = ZoneUse::Reclaiming;
            state.fills.leave(zone, self.inner.ports.checksum);
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
    /// All records of the zone, live or not, as its footer or headers list them.
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

    /// Resets the zone. Requires: the owner's index holds no record of the zone any more.
    ///
    /// # Errors
    /// When the device refused the reset: the zone is retired. When the device is gone, the whole
    /// log is gone. When a tombstone could not be written, the zone can be reclaimed later.
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
            // An offline zone never becomes readable again, except by formatting. No record in it
            // needs a tombstone any more.
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
            outcome = self.rewrite_tombstones(needed).await;
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
        0 < zone.unpublished || (0 < zone.pins && !self.settings.has(Mutation::PinIgnored))
    }

    fn needed_tombstones(&self, zone: ZoneId) -> Vec<(Key, u64)> {
        match self.settings.has(Mutation::TombstoneLost) {
            true => Vec::new(),
            false => self.state.borrow().needed_tombstones(self, zone).collect(),
        }
    }

    pub(crate) async fn reset(self: &Rc<Self>, zone: ZoneId) -> Result<(), DeviceError> {
        let is_expected = self.state.borrow().fills.is_expected(zone);
        if is_expected && !self.settings.has(Mutation::ResetExpected) {
            self.write_manifest().await;
        }
        // Rewritten records must be durable before the reset of the zone that they came from. They
        // may have been written before the log was opened. A needed tombstone may also have been
        // replaced by a newer one that was not flushed. The log does not track whether a flush is
        // due, and one flush per zone costs little.
        self.flush().await?;
        let reset = || Command::Manage { zone, action: ZoneAction::Reset };
        self.ports.device.call(reset()).await?;
        if self.geometry.kind == DeviceKind::Conventional {
            // The old bytes are still there. The mark overwrites the first header. It must be
            // durable before the log drops any tombstone because this zone is empty.
            self.write_mark(zone).await?;
            self.flush().await?;
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
        let mark = ZoneMark {
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

    /// Makes a zone reclaimable again.
    fn put_back(&self, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        state.zone_mut(zone).usage = ZoneUse::Sealed;
        state.fills.stay(zone);
        drop(state);
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
        let change = if outcome.is_ok() { ZoneChange::Reset } else { ZoneChange::Retired };
        state.note(self.ports.clock.now(), zone, change);
        self.ports.generations.note_oldest(state.generation_min());
        drop(state);
        self.note_change_of_use();
    }

    /// Wakes waiting appends and the reclaimer after a zone changed its use.
    pub(crate) fn note_change_of_use(&self) {
        self.room.wake();
        self.reclaim_wanted.notify_all();
    }
}
