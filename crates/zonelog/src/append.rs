//! Append path: admission to the backlog, choice of a zone, placement in a segment, and the wait
//! for its write.
//!
//! 1. Wait until the backlog has room, and reserve it. Rewrites and tombstones never wait for the
//!    backlog.
//! 2. Find a segment of the stream that takes the record; seal full segments, open zones as needed.
//! 3. Wait until the segment is on flash. The caller then publishes the extent and drops the
//!    [`UnpublishedRecord`].

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_device::DeviceError;

use crate::format::checks::checks;
use crate::format::record::RECORD_BYTES_MAX;
use crate::log::Inner;
use crate::segment::WriteOutcome;
use crate::state::{State, Tombstone};
use crate::{Checks, Descriptor, Extent, Key, Kind, Log, Record, Stream};

/// Urgency of a write: when the segment that holds the record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// When the segment is full, or after the linger time.
    Linger,
    /// As soon as the zone has no write in flight: a caller waits for it.
    Now,
    /// Like `Now`, followed by a device flush: an acknowledged record survives a power cut.
    Durable,
}

/// Failure of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The write failed and the record is lost. The log continues in another zone.
    Lost(DeviceError),
    /// Rewrites only: no zone has room for them. Drop the record; reclaim continues.
    Full,
    /// The device does not answer, or the log cannot empty any zone. No later append will succeed.
    Gone,
}

/// A record on flash that its owner has not published yet. Reclaim skips its zone until this is
/// dropped.
pub struct UnpublishedRecord {
    pending: PublicationGuard,
    zone: ZoneId,
}

/// Drop guard for the zone's count of unpublished records: the count stays right even when the
/// appending task is cancelled.
struct PublicationGuard {
    inner: Rc<Inner>,
    zone: ZoneId,
    fate: Rc<WriteOutcome>,
    slot: usize,
}

impl UnpublishedRecord {
    /// Location of the record's payload.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let descriptor = self.descriptor();
        Extent { zone: self.zone, offset: descriptor.offset, len: descriptor.len }
    }

    /// Full descriptor of the record: generation, checksums, location.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        self.pending.fate.descriptor(self.pending.slot)
    }
}

/// Reservation of backlog bytes. The segment takes the reservation over when it has the record.
struct BacklogPermit {
    inner: Rc<Inner>,
    bytes: u64,
}

impl BacklogPermit {
    fn pass_on(mut self) {
        self.bytes = 0;
    }
}

impl Drop for BacklogPermit {
    fn drop(&mut self) {
        if 0 < self.bytes {
            self.inner.state.borrow_mut().backlog_bytes -= self.bytes;
            self.inner.room.in_backlog.notify_one();
        }
    }
}

impl PublicationGuard {
    async fn on_flash(self) -> Result<UnpublishedRecord, AppendError> {
        self.fate.decided().await.map_err(AppendError::from)?;
        Ok(UnpublishedRecord { zone: self.zone, pending: self })
    }
}

impl Drop for PublicationGuard {
    fn drop(&mut self) {
        let mut state = self.inner.state.borrow_mut();
        let zone = state.zone_mut(self.zone);
        zone.unpublished -= 1;
        if zone.unpublished == 0 {
            drop(state);
            self.inner.unpinned.notify_all();
            self.inner.reclaim_wanted.notify_all();
        }
    }
}

impl Log {
    /// Appends a record and waits until it is on flash.
    ///
    /// Requires: the record is no longer than a segment, its kind is not [`Kind::TOMBSTONE`].
    ///
    /// # Errors
    /// When the record is not known to be on flash. It may be there all the same, if only the
    /// answer or the flush failed, and the next recovery finds it then. An owner that has stored
    /// something else meanwhile must give that a higher generation, or remove the key.
    pub async fn append(
        &self,
        stream: Stream,
        record: Record,
        urgency: Urgency,
    ) -> Result<UnpublishedRecord, AppendError> {
        assert!(record.kind != Kind::TOMBSTONE && 0 < record.len);
        self.append_any(stream, record, urgency).await
    }

    /// Removes a key: appends a tombstone and returns its generation. No older record of `key` is
    /// found again after that.
    ///
    /// # Errors
    /// When the tombstone could not be written and flushed: a crash may undo the removal.
    pub async fn remove(&self, key: Key) -> Result<u64, AppendError> {
        self.write_tombstone((key, None), Urgency::Durable).await
    }

    /// Replaces older records: appends a tombstone of a generation that was assigned before that of
    /// the new record. The tombstone is not flushed: until it is on flash, a crash may lose it
    /// together with the new record.
    ///
    /// # Errors
    /// When the write of the tombstone failed.
    pub async fn supersede(&self, key: Key, generation: u64) -> Result<u64, AppendError> {
        self.write_tombstone((key, Some(generation)), Urgency::Linger).await
    }

    /// Assigns the next generation, for a record that is decided now and appended later.
    #[must_use]
    pub fn next_generation(&self) -> u64 {
        self.inner.ports.generations.next()
    }

    async fn write_tombstone(
        &self,
        (key, generation): (Key, Option<u64>),
        urgency: Urgency,
    ) -> Result<u64, AppendError> {
        let record = tombstone(key, generation);
        let placed = self.append_any(Stream::Fill, record, urgency).await?;
        Ok(self.inner.note_tombstone(&placed))
    }

    /// Rewrites tombstones of a zone that is to be reset.
    ///
    /// # Errors
    /// The last failure of a tombstone that is not on flash. Tombstones that are on flash are
    /// registered.
    pub(crate) async fn rewrite_tombstones(
        &self,
        tombstones: Vec<(Key, u64)>,
    ) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        let mut pending = Vec::with_capacity(tombstones.len());
        for (key, generation) in tombstones {
            let record = tombstone(key, Some(generation));
            match self.wait_for_zone(Stream::Rewrite, &record).await {
                Ok(zone) => {
                    pending.push(self.inner.place(zone, record, Checks::NONE, Urgency::Linger));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.seal(Stream::Rewrite);
        for pending in pending {
            match pending.on_flash().await {
                Ok(placed) => drop(self.inner.note_tombstone(&placed)),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Starts the write of the stream's open segment.
    pub fn seal(&self, stream: Stream) {
        let mut state = self.inner.state.borrow_mut();
        let current = state.current[usize::from(stream.id())];
        let sealed = current.filter(|zone| state.seal_open_segment(*zone));
        drop(state);
        if let Some(zone) = sealed {
            self.inner.kick(zone);
        }
    }

    /// Starts the write of all open segments.
    pub fn seal_all(&self) {
        Stream::ALL.into_iter().for_each(|stream| self.seal(stream));
    }

    /// Flushes the device's volatile write cache: all records that were on flash survive a power
    /// cut. The result is ignored, because the next command reveals a failed device.
    pub async fn flush(&self) {
        let _ = self.inner.flush().await;
    }

    /// Generation of the key's tombstone, if there is one: all records of `key` below it are
    /// removed.
    #[must_use]
    pub fn tombstone(&self, key: Key) -> Option<u64> {
        self.inner.state.borrow().tombstones.get(&key).map(|tombstone| tombstone.generation)
    }

    /// Calls `tell` with every key that has a tombstone.
    pub fn each_tombstone(&self, tell: impl FnMut(Key)) {
        self.inner.state.borrow().tombstones.keys().copied().for_each(tell);
    }

    async fn append_any(
        &self,
        stream: Stream,
        record: Record,
        urgency: Urgency,
    ) -> Result<UnpublishedRecord, AppendError> {
        assert!(record.len <= RECORD_BYTES_MAX && record.len <= self.segment_bytes());
        let checks = checks(self.inner.ports.checksum, record.key, record.len, &record.data);
        let held = self.enter_backlog(stream, record.len).await?;
        let zone = self.wait_for_zone(stream, &record).await?;
        let pending = self.inner.place(zone, record, checks, urgency);
        held.pass_on();
        pending.on_flash().await
    }

    /// Waits until the backlog has room for `len` bytes, and reserves them.
    async fn enter_backlog(&self, stream: Stream, len: u32) -> Result<BacklogPermit, AppendError> {
        if stream == Stream::Fill && 0 < len {
            let look = || {
                let is_gone = self.is_gone().then_some(Err(AppendError::Gone));
                self.has_room(len).then_some(Ok(())).or(is_gone)
            };
            self.inner.room.in_backlog.wait_fifo(look).await?;
        }
        let bytes = u64::from(len);
        self.inner.state.borrow_mut().backlog_bytes += bytes;
        Ok(BacklogPermit { inner: self.inner.clone(), bytes })
    }

    async fn wait_for_zone(&self, stream: Stream, record: &Record) -> Result<ZoneId, AppendError> {
        let mut counted = false;
        let look = || {
            if self.is_gone() {
                return Some(Err(AppendError::Gone));
            }
            if let Some(zone) = self.inner.writer_for(stream, record) {
                return Some(Ok(zone));
            }
            let refused = self.inner.note_wait(stream, record, &mut counted).err();
            self.inner.reclaim_wanted.notify_all();
            refused.map(Err)
        };
        self.inner.room.in_zones(stream, record.kind).wait_fifo(look).await
    }

    fn segment_bytes(&self) -> u32 {
        u32::try_from(self.inner.settings.segment_bytes.0).unwrap_or(u32::MAX)
    }
}

impl Inner {
    /// Returns the zone of `stream` whose open segment takes the record. Seals segments and opens
    /// zones as needed.
    fn writer_for(self: &Rc<Self>, stream: Stream, record: &Record) -> Option<ZoneId> {
        let mut state = self.state.borrow_mut();
        let (len, limit) = (record.len, state.limit(self, stream, record.kind));
        let current = state.current[usize::from(stream.id())];
        if let Some(zone) = current.filter(|zone| state.open_segment_takes(self, *zone, len, limit))
        {
            return Some(zone);
        }
        let sealed = current.filter(|zone| state.seal_open_segment(*zone));
        let chosen = state.choose_writer(self, stream, len, limit);
        state.current[usize::from(stream.id())] = chosen;
        let finishing = match limit == self.geometry.zone_capacity {
            true => state.retire_full_writers(stream, len, limit),
            // The rest of the zone is reserved for tombstones.
            false => Vec::new(),
        };
        drop(state);
        for zone in sealed.into_iter().chain(finishing) {
            self.kick(zone);
        }
        let zone = chosen?;
        self.open_segment(zone);
        Some(zone)
    }

    /// Decides whether an append without a zone waits. A rewrite fails instead of waiting for an
    /// empty zone, which only reclaim could make. Every append fails when no zone can be emptied
    /// any more.
    fn note_wait(
        &self,
        stream: Stream,
        record: &Record,
        counted: &mut bool,
    ) -> Result<(), AppendError> {
        let mut state = self.state.borrow_mut();
        if stream == Stream::Rewrite && state.rewrites_are_stuck(self, record) {
            state.stats.rewrites_refused += 1;
            return Err(AppendError::Full);
        }
        if state.is_stuck(self) {
            state.is_gone = true;
            drop(state);
            self.room.wake();
            return Err(AppendError::Gone);
        }
        if !*counted && state.empty.len() <= 1 {
            *counted = true;
            state.stats.foreground_waits += 1;
        }
        Ok(())
    }

    /// Registers a tombstone that is on flash. Returns its generation.
    fn note_tombstone(self: &Rc<Self>, placed: &UnpublishedRecord) -> u64 {
        let Descriptor { key, generation, .. } = *placed.descriptor();
        let mut state = self.state.borrow_mut();
        state.stats.tombstones += 1;
        state.note_tombstone(key, Tombstone { generation, zone: placed.zone });
        drop(state);
        self.list_soon(placed.zone);
        generation
    }

    fn place(
        self: &Rc<Self>,
        zone: ZoneId,
        record: Record,
        checks: Checks,
        urgency: Urgency,
    ) -> PublicationGuard {
        let mut state = self.state.borrow_mut();
        let generation = record.generation.unwrap_or_else(|| self.ports.generations.next());
        let (key, kind, len) = (record.key, record.kind, record.len);
        let entry = state.zone_mut(zone);
        entry.unpublished += 1;
        entry.note_record(kind, generation, len);
        let State { writers, stats, .. } = &mut *state;
        let writer = writers.get_mut(&zone).expect("chosen just now");
        match writer.stream {
            Stream::Fill => stats.appended_bytes += u64::from(len),
            Stream::Rewrite => stats.rewritten_bytes += u64::from(len),
        }
        let segment = writer.open.as_mut().expect("opened just now");
        let descriptor = Descriptor { key, generation, kind, offset: 0, len, checks };
        let slot = segment.push(descriptor, record.data);
        let fate = segment.fate.clone();
        segment.hurry(urgency);
        drop(state);
        // Group commit: while a write is in flight, urgent appends gather in the next segment and
        // share its flush.
        if urgency != Urgency::Linger {
            self.kick(zone);
        }
        PublicationGuard { inner: self.clone(), zone, fate, slot }
    }
}

impl From<DeviceError> for AppendError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::DeviceGone => Self::Gone,
            other => Self::Lost(other),
        }
    }
}

fn tombstone(key: Key, generation: Option<u64>) -> Record {
    let data = zonal_base::Payload::default();
    Record { key, kind: Kind::TOMBSTONE, len: 0, data, generation }
}
