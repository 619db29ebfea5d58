//! Device reads of one read: from memory or flash, with a bounded read-ahead.

use bytes::Bytes;
use core::ops::Range;

use zonal_base::{Payload, index, low_u32, prefetch_cacheline};
use zonal_zonelog::{Key, Log, LogRead};

use super::Read;
use crate::index::{EntryRef, IndexEntry};
use crate::pins::RetentionClass;

/// Device read-ahead of one read, in pieces: the next pieces are read while one is delivered.
const READ_AHEAD: usize = 4;

/// A device read in flight.
pub(super) struct PendingRead {
    number: u64,
    reading: LogRead,
    spot: EntryRef,
}

impl Read<'_> {
    /// True when the piece is in memory. Prefetches the cache lines that the read will need.
    pub(super) fn is_held(&self, key: Key) -> bool {
        let memory = self.inner.memory.borrow();
        let Some((data, spot)) = memory.look_at(key, self.head) else { return false };
        prefetch_cacheline(data.as_bytes().get(..1).unwrap_or_default());
        spot.iter().for_each(|spot| self.inner.holdings.prefetch_read(spot));
        true
    }

    /// True when the piece is on flash. Starts its device read if a buffer is free.
    pub(super) fn start_first(&mut self, number: u64, key: Key) -> bool {
        let Some(found) = self.inner.holdings.find(key) else { return false };
        if !self.range.is_empty() {
            self.current = self.start_ahead(number, self.range.start, found);
        }
        true
    }

    pub(super) fn read_memory(&self, number: u64, key: Key, wanted: &Range<u64>) -> Option<Bytes> {
        let mut memory = self.inner.memory.borrow_mut();
        let (data, spot) = memory.read(key, self.head)?;
        // The policy counts a DRAM hit as a read, so that the flash copy does not look cold.
        let retention = self.keeping.retention;
        self.inner.holdings.note_read_elsewhere((key, spot), retention, self.inner.now());
        drop(memory);
        if RetentionClass::Usual < retention {
            self.inner.promote(key, self.head, retention);
        }
        let start = number * self.piece;
        let wanted = index(wanted.start - start)..index(wanted.end - start);
        Some(data.cut(wanted).into_bytes())
    }

    pub(super) async fn read_flash(
        &mut self,
        number: u64,
        key: Key,
        wanted: &Range<u64>,
    ) -> Option<Bytes> {
        if !self.is_under_way(number) {
            self.current = Some(self.start_now(number, key, wanted).await?);
        }
        self.read_ahead(number);
        let PendingRead { reading, spot, .. } = self.current.as_mut()?;
        let (outcome, spot) = (reading.done().await, *spot);
        self.current = None;
        match outcome {
            Ok(payload) => {
                self.inner.holdings.note_read(&spot, self.keeping.retention, self.inner.now());
                self.inner.count(|stats| stats.served_flash_bytes += payload.len() as u64);
                self.keep_in_memory(key, spot, &payload);
                Some(payload.into_bytes())
            }
            Err(error) => {
                // Late or damaged: this read takes the piece from the origin. A late one stays on
                // flash, and is pinned as the reader asks.
                self.inner.note_unread(key, spot.extent, error);
                self.inner.holdings.set_retention(key, self.keeping.retention, self.inner.now());
                None
            }
        }
    }

    /// Waits for a buffer and starts the device read of a piece. `None`: not on flash.
    async fn start_now(&self, number: u64, key: Key, wanted: &Range<u64>) -> Option<PendingRead> {
        let found = self.inner.holdings.find(key)?;
        let within = self.within(number, wanted, &found)?;
        let buffer = self.inner.buffer(Log::read_blocks(found.extent, &within)).await;
        // Reclaim may have emptied the zone while the read waited for a buffer.
        if self.inner.holdings.find(key)?.extent != found.extent {
            return None;
        }
        let (place, spot) = ((key, found.extent), found.spot());
        let reading = self.inner.log.start_read(place, found.checks, &within, buffer);
        Some(PendingRead { number, reading, spot })
    }

    /// Copies a whole piece into the hot set if the hot set admits it.
    fn keep_in_memory(&self, key: Key, spot: EntryRef, payload: &Payload) {
        let len = spot.extent.len;
        if payload.len() != len as usize {
            return;
        }
        let mut memory = self.inner.memory.borrow_mut();
        if memory.wants(key, zonal_base::Bytes(len.into())) {
            memory.keep((key, spot), self.head, payload);
        }
    }

    /// Starts device reads of the next pieces, as far as they are on flash and memory is not short.
    fn read_ahead(&mut self, number: u64) {
        let piece = self.piece;
        let mut next = self.ahead.back().map_or(number, |ahead| ahead.number) + 1;
        while self.ahead.len() < READ_AHEAD && next * piece < self.range.end {
            let key = self.version.piece(next);
            if self.inner.memory.borrow().has(key, self.head) {
                next += 1;
                continue;
            }
            let found = self.inner.holdings.find(key);
            let found = found.filter(|_| !self.inner.is_memory_short(piece));
            let ahead = found.and_then(|found| self.start_ahead(next, next * piece, found));
            let Some(ahead) = ahead else { return };
            self.ahead.push_back(ahead);
            next += 1;
        }
    }

    /// Starts the device read of piece `number` from `at` on, if a buffer is free.
    fn start_ahead(&self, number: u64, at: u64, found: IndexEntry) -> Option<PendingRead> {
        let within = self.within(number, &self.wanted(number, at), &found)?;
        let blocks = Log::read_blocks(found.extent, &within);
        let buffer = self.inner.ports.buffers.try_take(blocks)?;
        let (place, spot) = ((self.version.piece(number), found.extent), found.spot());
        let reading = self.inner.log.start_read(place, found.checks, &within, buffer);
        Some(PendingRead { number, reading, spot })
    }

    /// True when the device read of the piece is in flight; that read becomes the current one.
    /// Reads of pieces that were passed are dropped.
    pub(super) fn is_under_way(&mut self, number: u64) -> bool {
        if self.current.as_ref().is_some_and(|current| current.number == number) {
            return true;
        }
        while self.ahead.pop_front_if(|ahead| ahead.number < number).is_some() {}
        self.current = self.ahead.pop_front_if(|ahead| ahead.number == number);
        self.current.is_some()
    }

    /// Converts `wanted` to a range of the record. `None`: the record's length is not the piece's.
    fn within(&self, number: u64, wanted: &Range<u64>, found: &IndexEntry) -> Option<Range<u32>> {
        let start = number * self.piece;
        let len = self.head.size.min(start + self.piece) - start;
        let narrow = |n: u64| low_u32(index(n));
        let is_piece = u64::from(found.extent.len) == len;
        is_piece.then(|| narrow(wanted.start - start)..narrow(wanted.end - start))
    }
}
