//! Storage for the node's roster (membership and placement map) on each device. The cache treats it
//! as opaque bytes.
//!
//! 1. A roster is written like a removal: once stored, it survives a crash.
//! 2. Reclaim rewrites it when its zone is emptied. If that fails, the roster is missing at the
//!    next start, and the host treats the device as out of date.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_runtime::Buffers;
use zonal_zonelog::{Checks, Extent, Key, Kind, Log, Record, Recovered, Stream, Urgency};

use crate::Cache;
use crate::cache::Inner;
use crate::head::HEAD_BYTES_MAX;

/// Record kind of rosters. They are not in the index.
pub(crate) const ROSTER: Kind = Kind(6);

/// Key of all rosters: the newest counts. A record of another kind has this key only by accident.
const KEY: Key = Key(u128::from_be_bytes(*b"zonal the roster"));

/// Longest roster in bytes: limited by the smallest buffers of a node.
pub const ROSTER_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// Newest roster found when the log was opened: generation, location, checksums.
#[derive(Default)]
pub(crate) struct FoundRoster(Option<(u64, Extent, Checks)>);

impl FoundRoster {
    /// Requires: the record is a [`ROSTER`].
    pub(crate) fn note(&mut self, record: &Recovered<'_>) {
        let generation = record.descriptor.generation;
        if self.0.as_ref().is_none_or(|(known, ..)| *known < generation) {
            self.0 = Some((generation, record.extent(), record.descriptor.checks.clone()));
        }
    }

    /// Reads the roster. `None` when there is none or it cannot be read.
    pub(crate) async fn read(self, log: &Log, buffers: &Buffers) -> Option<KeptRoster> {
        let (generation, extent, checks) = self.0?;
        let whole = 0..extent.len;
        let buffer = buffers.take(Log::read_blocks(extent, &whole)).await;
        let bytes = log.start_read((KEY, extent), checks, &whole, buffer).done().await.ok()?;
        Some(KeptRoster { bytes: bytes.as_bytes().into(), zone: extent.zone, generation })
    }
}

/// The current roster and its location on flash.
#[derive(Clone)]
pub(crate) struct KeptRoster {
    bytes: Rc<[u8]>,
    zone: ZoneId,
    generation: u64,
}

/// The roster could not be written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterLost;

impl Cache {
    /// The roster that was found at the start or stored since.
    #[must_use]
    pub fn roster(&self) -> Option<Vec<u8>> {
        self.inner.roster.borrow().as_ref().map(|kept| kept.bytes.to_vec())
    }

    /// Stores a roster, replacing the previous one. When this returns, the roster is on flash and
    /// flushed.
    ///
    /// Requires: the roster is not empty, and no longer than [`ROSTER_BYTES_MAX`].
    ///
    /// # Errors
    /// When the roster may be missing after a crash.
    pub async fn keep_roster(&self, roster: &[u8]) -> Result<(), RosterLost> {
        assert!(!roster.is_empty() && roster.len() <= ROSTER_BYTES_MAX);
        let inner = &self.inner;
        let generation = inner.log.next_generation();
        inner.write_roster(Stream::Fill, roster.into(), generation).await
    }
}

impl Inner {
    /// Rewrites the roster if it is in a zone that reclaim empties.
    pub(crate) async fn keep_roster_of(&self, zone: ZoneId) {
        let kept = self.roster.borrow().clone().filter(|kept| kept.zone == zone);
        if let Some(KeptRoster { bytes, generation, .. }) = kept {
            // A failure needs no handling here: the next start finds the roster missing.
            let _ = self.write_roster(Stream::Rewrite, bytes, generation).await;
        }
    }

    async fn write_roster(
        &self,
        stream: Stream,
        bytes: Rc<[u8]>,
        generation: u64,
    ) -> Result<(), RosterLost> {
        let (data, len) = self.record_data(stream, &bytes).await;
        let record = Record { key: KEY, kind: ROSTER, len, data, generation: Some(generation) };
        let placed = self.log.append(stream, record, Urgency::Durable).await;
        let extent = placed.map_err(|_| RosterLost)?.extent();
        self.note_placed(stream, extent);
        let zone = extent.zone;
        let mut roster = self.roster.borrow_mut();
        // A newer roster may have been written first.
        if roster.as_ref().is_none_or(|kept| kept.generation <= generation) {
            *roster = Some(KeptRoster { bytes, zone, generation });
        }
        Ok(())
    }
}
