//! Read path: reads the granules of a range, verifies their checksums, and pins the zone meanwhile.
//!
//! 1. Pin the zone, so that it is not reset while the device reads from it.
//! 2. Read only the granules that the range touches.
//! 3. Unpin, verify every granule, return the range.

use alloc::rc::{Rc, Weak};
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Checksum, Payload, ZoneId, index, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::format::checks::{GRANULE_BYTES, seed};
use crate::log::Inner;
use crate::mutation::Mutation;
use crate::{Checks, Extent, Key, Log, Record};

/// Read failure. A cache treats both as a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The device failed.
    Device(DeviceError),
    /// A checksum does not match: the bytes are not those that were written under this key.
    Check,
}

/// Zone pin: prevents the reset of a zone while the device reads from it. It ends with the device's
/// answer, because the reader may go on waiting for a client's socket.
pub(crate) struct Pin {
    /// Weak, to avoid a cycle: the log owns the port, and the port may hold the pin of a read that
    /// was given up.
    inner: Weak<Inner>,
    zone: ZoneId,
}

impl Pin {
    pub(crate) fn new(inner: &Rc<Inner>, zone: ZoneId) -> Self {
        inner.state.borrow_mut().zone_mut(zone).pins += 1;
        Self { inner: Rc::downgrade(inner), zone }
    }
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

/// A read in flight, started by [`Log::start_read`]. When this is dropped, the device finishes the
/// read, and the zone stays pinned until the device answers or the host gives the answer up.
#[must_use = "a read that is not awaited is read for nothing"]
pub struct LogRead {
    inner: Rc<Inner>,
    under_way: Call<Command, Completion>,
    key: Key,
    checks: Checks,
    span: Span,
}

/// Granules that a range of a record touches.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    first_granule: usize,
    /// Byte range of the granules in the record. The last granule ends at the record's end.
    begin: usize,
    end: usize,
    /// Offset of `begin` in the buffer, in bytes.
    skip: usize,
    pub(crate) blocks: Blocks,
    range: (usize, usize),
}

impl Span {
    /// Computes the granules that must be read for a range. Requires: the range is not empty and lies
    /// within the record.
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

    /// First block of the span, from the start of the zone.
    pub(crate) fn start(&self, extent: Extent) -> Blocks {
        Blocks(((index(extent.byte_offset()) + self.begin) / BLOCK_BYTES) as u64)
    }

    /// True when every granule of the span matches its checksum.
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
    /// Blocks that the buffer for [`Log::start_read`] must hold to read `range` of a record.
    #[must_use]
    pub fn read_blocks(extent: Extent, range: &Range<u32>) -> Blocks {
        Span::of(extent, range).blocks
    }

    /// Starts to read `range` of the record at `extent`. Await the result with [`LogRead::done`].
    ///
    /// Requires: `range` is not empty and lies within the record; `checks` are the record's; the
    /// buffer holds [`Log::read_blocks`].
    pub fn start_read(
        &self,
        (key, extent): (Key, Extent),
        checks: Checks,
        range: &Range<u32>,
        buffer: Buffer,
    ) -> LogRead {
        let span = Span::of(extent, range);
        let lba = self.inner.geometry.zone_start(extent.zone) + span.start(extent);
        self.inner.state.borrow_mut().stats.device_read_bytes += span.blocks.bytes().0;
        let inner = self.inner.clone();
        let pin = Pin::new(&inner, extent.zone);
        let read = Command::Read { lba, blocks: span.blocks, buffer };
        let under_way = inner.ports.device.call_holding(read, pin);
        LogRead { inner, under_way, key, checks, span }
    }
}

impl LogRead {
    /// Waits for the verified bytes of the range. Requires: this is the first call.
    ///
    /// # Errors
    /// When the device failed or a granule does not match its checksum.
    pub async fn done(&mut self) -> Result<Payload, ReadError> {
        let answer = (&mut self.under_way).await;
        let (buffer, span) = (self.checked(answer)?, self.span);
        let [start, stop] = [span.range.0, span.range.1].map(|at| span.skip + at - span.begin);
        Ok(buffer.freeze(stop).cut(start..stop))
    }

    /// Waits for the verified record in the layout of [`Record::data`], so that it can be rewritten
    /// without a copy.
    ///
    /// Requires: the range was the whole record, and this is the first call.
    ///
    /// # Errors
    /// As for [`LogRead::done`].
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
        let checked = match inner.settings.has(Mutation::CheckShort) {
            true => Span { end: span.end.min(span.begin + GRANULE_BYTES), ..*span },
            false => *span,
        };
        let fits = checked.fits(&buffer, (inner.ports.checksum, *key), checks);
        if !fits && !inner.settings.has(Mutation::CheckIgnored) {
            inner.state.borrow_mut().stats.check_errors += 1;
            return Err(ReadError::Check);
        }
        Ok(buffer)
    }
}

impl Inner {
    fn note_read_error(&self, error: DeviceError) -> ReadError {
        // The device wrapper that gave the read up has counted it.
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
