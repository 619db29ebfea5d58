//! Storage for the node's roster on each device. To the cache it is opaque bytes.
//!
//! 1. It is written like a removal: when it is kept, it survives a crash.
//! 2. When its zone is emptied it is written again. Should that fail it is missing at the next start, and its owner
//!    thinks the worst of the device.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_runtime::Buffers;
use zonal_zonelog::{Checks, Extent, Key, Kind, Log, Record, Recovered, Stream, Urgency};

use crate::Cache;
use crate::cache::Inner;
use crate::head::HEAD_BYTES_MAX;

/// A roster. It does not stand in the index.
pub(crate) const ROSTER: Kind = Kind(6);

/// The key of all of them: the newest counts. No record of another kind has it but for an accident.
const KEY: Key = Key(u128::from_be_bytes(*b"zonal the roster"));

/// The longest roster: what the smallest buffers of a node take.
pub const ROSTER_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// The newest roster that was found when the log was opened.
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

    /// `None` also when it cannot be read.
    pub(crate) async fn read(self, log: &Log, buffers: &Buffers) -> Option<KeptRoster> {
        let (generation, extent, checks) = self.0?;
        let whole = 0..extent.len;
        let buffer = buffers.take(Log::read_blocks(extent, &whole)).await;
        let bytes = log.start_read((KEY, extent), checks, &whole, buffer).done().await.ok()?;
        Some(KeptRoster { bytes: bytes.as_bytes().into(), zone: extent.zone, generation })
    }
}

/// The roster, and where it is.
#[derive(Clone)]
pub(crate) struct KeptRoster {
    bytes: Rc<[u8]>,
    zone: ZoneId,
    generation: u64,
}

/// The roster is not on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterLost;

impl Cache {
    /// The roster that was found at the start, or was kept since.
    #[must_use]
    pub fn roster(&self) -> Option<Vec<u8>> {
        self.inner.roster.borrow().as_ref().map(|kept| kept.bytes.to_vec())
    }

    /// Keeps a roster in the place of the one from before. When it returns, it is on flash and flushed.
    ///
    /// Requires: it is not empty, and no longer than [`ROSTER_BYTES_MAX`].
    ///
    /// # Errors
    /// When it may not be there after a crash.
    pub async fn keep_roster(&self, roster: &[u8]) -> Result<(), RosterLost> {
        assert!(!roster.is_empty() && roster.len() <= ROSTER_BYTES_MAX);
        let inner = &self.inner;
        let generation = inner.log.next_generation();
        inner.write_roster(Stream::Fill, roster.into(), generation).await
    }
}

impl Inner {
    /// Writes the roster again if it stands in a zone that is to be emptied.
    pub(crate) async fn keep_roster_of(&self, zone: ZoneId) {
        let kept = self.roster.borrow().clone().filter(|kept| kept.zone == zone);
        if let Some(KeptRoster { bytes, generation, .. }) = kept {
            // There is nobody who could do anything about it.
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
        let zone = placed.map_err(|_| RosterLost)?.extent().zone;
        let mut roster = self.roster.borrow_mut();
        // A newer one may have been faster.
        if roster.as_ref().is_none_or(|kept| kept.generation <= generation) {
            *roster = Some(KeptRoster { bytes, zone, generation });
        }
        Ok(())
    }
}
