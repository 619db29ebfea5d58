//! Whole records: reads them from the log, and builds them for an append.

use bytes::Bytes;
use zonal_base::{Blocks, Buffer, Payload, ZoneId, index, low_u32};
use zonal_device::DeviceError;
use zonal_zonelog::{
    Extent, Key, Log, LogRead, ReadError as LogReadError, Record, Stream, ZoneListing,
};

use crate::cache::Inner;
use crate::index::IndexEntry;

/// Why a record was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The device did not answer in time. The record is still there.
    Late,
    /// The record is damaged or was removed: the index has it no more.
    Gone,
}

/// Attempts to read a record that reclaim must keep. Each takes a read deadline, and together they
/// take longer than it takes a host to isolate a silent or slow device. So a pinned record is lost
/// only if its block alone is slow.
pub(crate) const LATE_TRIES: u32 = 6;

impl Inner {
    /// Reads a whole record.
    pub(crate) async fn read_whole(&self, key: Key, found: IndexEntry) -> Result<Payload, Unread> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take(blocks).await;
        let payload = self.start_whole(key, found, buffer)?.done().await;
        payload.map_err(|error| self.note_unread(key, extent, error))
    }

    /// Like [`Inner::read_whole`], for a rewrite. Takes a reserved buffer: reclaim must not wait
    /// for readers that wait for reclaim.
    pub(crate) async fn read_to_rewrite(
        &self,
        key: Key,
        found: IndexEntry,
    ) -> Result<Payload, Unread> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take_reserved(blocks).await;
        let data = self.start_whole(key, found, buffer)?.done_as_data().await;
        data.map_err(|error| self.note_unread(key, extent, error))
    }

    /// Blocks of a buffer for the whole record. A record that is larger than all buffers is from a
    /// time of larger chunks. It is removed from the index, because no read requests it any more.
    pub(crate) fn blocks_of_whole(&self, key: Key, extent: Extent) -> Result<Blocks, Unread> {
        let blocks = Log::read_blocks(extent, &(0..extent.len));
        if blocks <= self.ports.buffers.pool().largest() {
            return Ok(blocks);
        }
        self.holdings.forget_at(key, extent);
        Err(Unread::Gone)
    }

    /// Starts the read, unless reclaim has emptied the record's zone during the wait for a buffer.
    pub(crate) fn start_whole(
        &self,
        key: Key,
        found: IndexEntry,
        buffer: Buffer,
    ) -> Result<LogRead, Unread> {
        if self.holdings.find(key).is_none_or(|now| now.extent != found.extent) {
            return Err(Unread::Gone);
        }
        let place = (key, found.extent);
        Ok(self.log.start_read(place, found.checks, &(0..found.extent.len), buffer))
    }

    /// Handles a failed read. A late record stays in the index, with its pin: its data are intact,
    /// and another read may succeed. A damaged one is removed.
    pub(crate) fn note_unread(&self, key: Key, extent: Extent, error: LogReadError) -> Unread {
        if error == LogReadError::Device(DeviceError::TimedOut) {
            return Unread::Late;
        }
        self.count(|stats| stats.damaged += 1);
        self.holdings.forget_at(key, extent);
        Unread::Gone
    }

    /// What a zone lists. Asks again when the device is late.
    pub(crate) async fn list_zone(&self, zone: ZoneId) -> Result<ZoneListing, DeviceError> {
        let mut tries = 1..LATE_TRIES;
        loop {
            match self.log.list_zone(zone).await {
                Err(DeviceError::TimedOut) if tries.next().is_some() => {}
                listing => return listing,
            }
        }
    }

    /// Copies a record into the log's layout: packed records as they are, longer ones in whole
    /// blocks.
    pub(crate) async fn record_data(&self, stream: Stream, bytes: &[u8]) -> (Payload, u32) {
        let len = low_u32(bytes.len());
        if Record::is_packed(len) {
            return (Bytes::copy_from_slice(bytes).into(), len);
        }
        let blocks = zonal_base::Bytes(bytes.len() as u64).blocks_ceil();
        let mut buffer = match stream {
            Stream::Fill => self.ports.buffers.take(blocks).await,
            Stream::Rewrite => self.ports.buffers.take_reserved(blocks).await,
        };
        let whole = index(blocks.bytes().0);
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.bytes_mut()[bytes.len()..whole].fill(0);
        (buffer.freeze(whole), len)
    }
}
