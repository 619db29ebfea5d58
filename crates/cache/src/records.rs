//! Whole records: reads them from the log, and builds them for an append.

use bytes::Bytes;
use zonal_base::{Blocks, Buffer, Payload, index, low_u32};
use zonal_device::DeviceError;
use zonal_zonelog::{Extent, Key, Log, LogRead, ReadError as LogReadError, Record, Stream};

use crate::cache::Inner;
use crate::index::IndexEntry;

impl Inner {
    /// Reads a whole record. `None` when it is unreadable: it is then removed from the index.
    pub(crate) async fn read_whole(&self, key: Key, found: IndexEntry) -> Option<Payload> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take(blocks).await;
        let payload = self.start_whole(key, found, buffer)?.done().await;
        payload.map_err(|error| self.forget_damaged(key, extent, error)).ok()
    }

    /// Like [`Inner::read_whole`], for a rewrite. Takes a reserved buffer: reclaim must not wait
    /// for readers that wait for reclaim.
    pub(crate) async fn read_to_rewrite(&self, key: Key, found: IndexEntry) -> Option<Payload> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take_reserved(blocks).await;
        let data = self.start_whole(key, found, buffer)?.done_as_data().await;
        data.map_err(|error| self.forget_damaged(key, extent, error)).ok()
    }

    /// Blocks of a buffer for the whole record. `None` for a record that is larger than all
    /// buffers, from a time of larger chunks. It is removed from the index, because no read
    /// requests it any more.
    fn blocks_of_whole(&self, key: Key, extent: Extent) -> Option<Blocks> {
        let blocks = Log::read_blocks(extent, &(0..extent.len));
        if blocks <= self.ports.buffers.pool().largest() {
            return Some(blocks);
        }
        self.holdings.forget_at(key, extent);
        None
    }

    /// Starts the read. `None` when the record is gone: reclaim may have emptied its zone during
    /// the wait for a buffer.
    fn start_whole(&self, key: Key, found: IndexEntry, buffer: Buffer) -> Option<LogRead> {
        if self.holdings.find(key)?.extent != found.extent {
            return None;
        }
        let place = (key, found.extent);
        Some(self.log.start_read(place, found.checks, &(0..found.extent.len), buffer))
    }

    pub(crate) fn forget_damaged(&self, key: Key, extent: Extent, error: LogReadError) {
        let is_late = error == LogReadError::Device(DeviceError::TimedOut);
        // A head whose read timed out stays in the index, because a newer head must still replace
        // it. Without the entry no tombstone is written for the old head, and a restart may find it
        // again.
        if is_late && self.holdings.is_head(key) {
            return;
        }
        self.count(|stats| stats.damaged += u64::from(!is_late));
        self.holdings.forget_at(key, extent);
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
