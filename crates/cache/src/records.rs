//! Whole records: reads them from the log, and builds them for an append.

use bytes::Bytes;
use zonal_base::{Blocks, Buffer, Payload, index, low_u32};
use zonal_device::DeviceError;
use zonal_zonelog::{Extent, Key, Log, ReadError as LogReadError, Reading, Record, Stream};

use crate::cache::Inner;
use crate::index::IndexEntry;

impl Inner {
    /// A whole record; `None` when it cannot be had, and then it is forgotten.
    pub(crate) async fn read_whole(&self, key: Key, found: IndexEntry) -> Option<Payload> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take(blocks).await;
        let payload = self.start_whole(key, found, buffer)?.done().await;
        payload.map_err(|error| self.forget_damaged(key, extent, error)).ok()
    }

    /// As [`Inner::read_whole`], for a record that is written again: reclaim must not wait for those who
    /// wait for reclaim.
    pub(crate) async fn read_to_rewrite(&self, key: Key, found: IndexEntry) -> Option<Payload> {
        let extent = found.extent;
        let blocks = self.blocks_of_whole(key, extent)?;
        let buffer = self.ports.buffers.take_reserved(blocks).await;
        let data = self.start_whole(key, found, buffer)?.done_as_data().await;
        data.map_err(|error| self.forget_damaged(key, extent, error)).ok()
    }

    /// What reading it takes. `None` for one that is larger than all buffers, from a time when chunks were larger: it is
    /// forgotten, for nobody asks for it any more.
    fn blocks_of_whole(&self, key: Key, extent: Extent) -> Option<Blocks> {
        let blocks = Log::read_blocks(extent, &(0..extent.len));
        if blocks <= self.ports.buffers.pool().largest() {
            return Some(blocks);
        }
        self.holdings.forget_at(key, extent);
        None
    }

    /// `None` when the record is no longer there: its zone may have been emptied while we waited for memory.
    fn start_whole(&self, key: Key, found: IndexEntry, buffer: Buffer) -> Option<Reading> {
        if self.holdings.find(key)?.extent != found.extent {
            return None;
        }
        let place = (key, found.extent);
        Some(self.log.start_read(place, found.checks, &(0..found.extent.len), buffer))
    }

    pub(crate) fn forget_damaged(&self, key: Key, extent: Extent, error: LogReadError) {
        let is_late = error == LogReadError::Device(DeviceError::TimedOut);
        // A head that was not read in time is still what a newer one has to replace: once it is forgotten, no
        // tombstone is written for it, and it may be found again.
        if is_late && self.holdings.is_head(key) {
            return;
        }
        self.count(|stats| stats.damaged += u64::from(!is_late));
        self.holdings.forget_at(key, extent);
    }

    /// The bytes of a record as the log wants them: short ones as they are, longer ones in whole blocks.
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
