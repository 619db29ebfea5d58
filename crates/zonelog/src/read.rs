//! Read path: reads the granules of a range, verifies their checksums, and pins the zone meanwhile.
//!
//! 1. Pin the zone: it is not reset while the device reads from it.
//! 2. Read the granules that the range touches, and nothing else.
//! 3. Unpin; check every granule; hand out the range.

use alloc::rc::{Rc, Weak};
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Checksum, Payload, ZoneId, index, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::format::checks::{GRANULE_BYTES, seed};
use crate::log::Inner;
use crate::planted::Planted;
use crate::{Checks, Extent, Key, Log, Record};

/// Why a record cannot be had. To a cache both are a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The device failed.
    Device(DeviceError),
    /// The bytes are not those that were written under this key.
    Check,
}

/// Keeps a zone from being reset while the device reads from it, and no longer: whoever wanted the bytes may be
/// waiting for a client's socket.
struct Pin {
    /// Weak: the device's port may hold the pin of a read that was given up, and the log holds the port.
    inner: Weak<Inner>,
    zone: ZoneId,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut state = inner.state.borrow_mut();
        let zone = state.zone_mut(self.zone);
        zone.pins -= 1;
        if zone.pins == 0 && zone.usage == crate::ZoneUse::Reclaiming {
            drop(state);
            inner.unpinned.notify_all();
        }
    }
}

/// A read that the device works on. See [`Log::start_read`]. Dropped, it goes on without its reader, and
/// its zone stays pinned until the device has answered, or nobody waits for its answer any more.
#[must_use = "a read that is not awaited is read for nothing"]
pub struct Reading {
    inner: Rc<Inner>,
    under_way: Call<Command, Completion>,
    key: Key,
    checks: Checks,
    span: Span,
}

/// The granules that a range of a record touches.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    first_granule: usize,
    /// From the start of the record: whole granules, the last one cut at the record's end.
    begin: usize,
    end: usize,
    /// Where `begin` lies in the buffer.
    skip: usize,
    pub(crate) blocks: Blocks,
    range: (usize, usize),
}

impl Span {
    /// Requires: the range is not empty and lies within the record.
    pub(crate) fn of(extent: Extent, range: &Range<u32>) -> Self {
        assert!(range.start < range.end && range.end <= extent.len);
        let (start, stop) = (range.start as usize, range.end as usize);
        let first_granule = start / GRANULE_BYTES;
        let begin = first_granule * GRANULE_BYTES;
        let end = stop.next_multiple_of(GRANULE_BYTES).min(extent.len as usize);
        let at = index(extent.byte_offset()) + begin;
        let skip = at % BLOCK_BYTES;
        let blocks = Blocks((skip + end - begin).div_ceil(BLOCK_BYTES) as u64);
        Self { first_granule, begin, end, skip, blocks, range: (start, stop) }
    }

    /// Its first block, from the start of the zone.
    pub(crate) fn start(&self, extent: Extent) -> Blocks {
        Blocks(((index(extent.byte_offset()) + self.begin) / BLOCK_BYTES) as u64)
    }

    /// True when every granule that was read is the one that was written.
    pub(crate) fn fits(
        &self,
        read: &Buffer,
        (checksum, key): (Checksum, Key),
        checks: &Checks,
    ) -> bool {
        let Some(checks) = checks.as_slice().get(self.first_granule..) else { return false };
        let end = self.skip + self.end - self.begin;
        let (mut from, mut granule, mut checks) = (self.skip, self.first_granule, checks.iter());
        while from < end {
            let part = from..end.min(from + GRANULE_BYTES);
            let check = read.checksum(checksum, &seed(key, granule), part);
            if checks.next() != Some(&check) {
                return false;
            }
            (from, granule) = (from + GRANULE_BYTES, granule + 1);
        }
        true
    }
}

impl Log {
    /// Blocks that a read of `range` of a record needs: what the buffer for [`Log::start_read`] must hold.
    #[must_use]
    pub fn read_blocks(extent: Extent, range: &Range<u32>) -> Blocks {
        Span::of(extent, range).blocks
    }

    /// Asks the device for `range` of the record at `extent`; await the result with [`Reading::done`].
    ///
    /// Requires: `range` is not empty and lies within the record; `checks` are the record's; the
    /// buffer holds [`Log::read_blocks`].
    pub fn start_read(
        &self,
        (key, extent): (Key, Extent),
        checks: Checks,
        range: &Range<u32>,
        buffer: Buffer,
    ) -> Reading {
        let span = Span::of(extent, range);
        let lba = self.inner.geometry.zone_start(extent.zone) + span.start(extent);
        let mut state = self.inner.state.borrow_mut();
        state.zone_mut(extent.zone).pins += 1;
        state.stats.device_read_bytes += span.blocks.bytes().0;
        drop(state);
        let inner = self.inner.clone();
        let pin = Pin { inner: Rc::downgrade(&inner), zone: extent.zone };
        let read = Command::Read { lba, blocks: span.blocks, buffer };
        let under_way = inner.ports.device.call_holding(read, pin);
        Reading { inner, under_way, key, checks, span }
    }
}

impl Reading {
    /// The bytes of the range, checked. Requires: nobody had them yet.
    ///
    /// # Errors
    /// When the device failed or a granule's check does not fit.
    pub async fn done(&mut self) -> Result<Payload, ReadError> {
        let answer = (&mut self.under_way).await;
        let (buffer, span) = (self.checked(answer)?, self.span);
        let [start, stop] = [span.range.0, span.range.1].map(|at| span.skip + at - span.begin);
        Ok(buffer.freeze(stop).cut(start..stop))
    }

    /// The record as [`Record::data`] wants it, checked: it can be written again without a copy.
    ///
    /// Requires: the range was the whole record, and nobody had it yet.
    ///
    /// # Errors
    /// As for [`Reading::done`].
    pub async fn done_as_data(&mut self) -> Result<Payload, ReadError> {
        let answer = (&mut self.under_way).await;
        let (mut buffer, span) = (self.checked(answer)?, self.span);
        let len = span.range.1;
        assert!(span.range.0 == 0 && span.begin == 0 && span.end == len);
        if Record::is_packed(low_u32(len)) {
            return Ok(buffer.freeze(span.skip + len).cut(span.skip..span.skip + len));
        }
        let whole = index(span.blocks.bytes().0);
        buffer.bytes_mut()[len..whole].fill(0);
        Ok(buffer.freeze(whole))
    }

    fn checked(&self, answer: Completion) -> Result<Buffer, ReadError> {
        let Self { inner, key, checks, span, .. } = self;
        let buffer = match answer {
            Ok(Answer::Read(buffer)) => buffer,
            Ok(_) => return Err(inner.note_read_error(DeviceError::InvalidField)),
            Err(error) => return Err(inner.note_read_error(error)),
        };
        let checked = match inner.settings.has(Planted::CheckShort) {
            true => Span { end: span.end.min(span.begin + GRANULE_BYTES), ..*span },
            false => *span,
        };
        let fits = checked.fits(&buffer, (inner.ports.checksum, *key), checks);
        if !fits && !inner.settings.has(Planted::CheckIgnored) {
            inner.state.borrow_mut().stats.check_errors += 1;
            return Err(ReadError::Check);
        }
        Ok(buffer)
    }
}

impl Inner {
    fn note_read_error(&self, error: DeviceError) -> ReadError {
        // Whoever gave it up counts it.
        let is_late = error == DeviceError::TimedOut;
        let mut state = self.state.borrow_mut();
        state.stats.read_errors += u64::from(!is_late);
        state.is_gone |= error == DeviceError::DeviceGone;
        drop(state);
        if error == DeviceError::DeviceGone {
            self.note_change_of_use();
        }
        ReadError::Device(error)
    }
}
