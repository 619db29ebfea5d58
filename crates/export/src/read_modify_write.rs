//! Byte-granular access to a volume: read-modify-write of partial blocks.
//!
//! 1. A read fetches whole blocks and returns the requested part.
//! 2. A write of whole blocks is passed on unchanged. For any other write, the first and the last
//!    block are read, merged with the new data, and written together with the rest in one request.
//!    So it is as atomic in a crash as any other write.
//! 3. A trim clears the whole blocks in its range, and writes zeros to the partial blocks at both
//!    ends.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use zonal_base::{BLOCK_BYTES, Blocks, Lba, index};

use crate::memory::aligned;
use crate::range_locks::{LockMode, RangeLocks};
use crate::volume::{Extent, Piece, Volume, VolumeError, WriteAck};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A volume with the range locks of its running writes.
#[derive(Debug)]
pub(crate) struct ByteVolume<V> {
    volume: V,
    locks: RangeLocks,
}

/// The blocks that a byte range touches.
fn touched(bytes: &Range<u64>) -> Range<Lba> {
    Lba(bytes.start / BLOCK)..Lba(bytes.end.div_ceil(BLOCK))
}

/// The blocks that lie completely within a byte range.
fn within(bytes: &Range<u64>) -> Range<Lba> {
    let start = bytes.start.div_ceil(BLOCK);
    Lba(start)..Lba((bytes.end / BLOCK).max(start))
}

fn count(blocks: &Range<Lba>) -> Blocks {
    blocks.end - blocks.start
}

const fn start_of(lba: Lba) -> u64 {
    lba.0 * BLOCK
}

/// All methods require: the byte range lies within the volume.
impl<V: Volume> ByteVolume<V> {
    pub(crate) fn new(volume: V) -> Self {
        Self { volume, locks: RangeLocks::default() }
    }

    /// The underlying volume.
    pub(crate) const fn volume(&self) -> &V {
        &self.volume
    }

    pub(crate) async fn read(&self, bytes: Range<u64>) -> Result<Vec<Piece>, VolumeError> {
        let blocks = touched(&bytes);
        if count(&blocks) == Blocks(0) {
            return Ok(Vec::new());
        }
        let mut pieces = self.volume.read(blocks.start, count(&blocks)).await?;
        cut_back(&mut pieces, start_of(blocks.end) - bytes.end);
        cut_front(&mut pieces, bytes.start - start_of(blocks.start));
        Ok(pieces)
    }

    pub(crate) async fn write(
        &self,
        offset: u64,
        data: Bytes,
        ack: WriteAck,
    ) -> Result<(), VolumeError> {
        let bytes = offset..offset + data.len() as u64;
        let blocks = touched(&bytes);
        if data.is_empty() {
            return Ok(());
        }
        if blocks == within(&bytes) {
            let _lock = self.locks.acquire(blocks.clone(), LockMode::Shared).await;
            return self.volume.write(blocks.start, data, ack).await;
        }
        let _lock = self.locks.acquire(blocks.clone(), LockMode::Exclusive).await;
        let whole = self.completed(&bytes, &blocks, &data).await?;
        self.volume.write(blocks.start, whole, ack).await
    }

    /// Merges the data with the old contents of its first and last block.
    async fn completed(
        &self,
        bytes: &Range<u64>,
        blocks: &Range<Lba>,
        data: &[u8],
    ) -> Result<Bytes, VolumeError> {
        let mut whole = aligned(index(count(blocks).bytes().0));
        append(&mut whole, self.read(start_of(blocks.start)..bytes.start).await?);
        whole.extend_from_slice(data);
        append(&mut whole, self.read(bytes.end..start_of(blocks.end)).await?);
        Ok(whole.freeze())
    }

    pub(crate) async fn clear(&self, bytes: Range<u64>, ack: WriteAck) -> Result<(), VolumeError> {
        let blocks = within(&bytes);
        let (front, back) = match count(&blocks) {
            // No whole block: parts of two blocks at most.
            Blocks(0) => (bytes, 0..0),
            _ => (bytes.start..start_of(blocks.start), start_of(blocks.end)..bytes.end),
        };
        for part in [front, back].into_iter().filter(|part| !part.is_empty()) {
            let zeros = BytesMut::zeroed(index(part.end - part.start)).freeze();
            self.write(part.start, zeros, ack).await?;
        }
        if count(&blocks) == Blocks(0) {
            return Ok(());
        }
        let _lock = self.locks.acquire(blocks.clone(), LockMode::Shared).await;
        self.volume.clear(blocks.start, count(&blocks), ack).await
    }

    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        self.volume.flush().await
    }

    /// Requires: the range is not empty.
    pub(crate) async fn status(
        &self,
        bytes: Range<u64>,
        extents_max: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let blocks = touched(&bytes);
        let mut extents = self.volume.status(blocks.start, count(&blocks), extents_max).await?;
        let mut at = start_of(blocks.start);
        for extent in &mut extents {
            let end = at + extent.length.0;
            extent.length.0 = end.min(bytes.end) - at.max(bytes.start);
            at = end;
        }
        Ok(extents)
    }
}

fn append(to: &mut BytesMut, pieces: Vec<Piece>) {
    for piece in pieces {
        match piece {
            Piece::Data(data) => to.extend_from_slice(&data),
            Piece::Zeros(bytes) => to.resize(to.len() + index(bytes), 0),
        }
    }
}

/// Removes this many bytes at the front: less than a block.
fn cut_front(pieces: &mut Vec<Piece>, mut bytes: u64) {
    let whole = pieces.iter().take_while(|piece| {
        let is_gone = piece.len() <= bytes;
        bytes -= if is_gone { piece.len() } else { 0 };
        is_gone
    });
    let whole = whole.count();
    pieces.drain(..whole);
    if let Some(first) = pieces.first_mut().filter(|_| 0 < bytes) {
        let end = first.len();
        *first = first.clone().cut(bytes..end);
    }
}

/// Removes this many bytes at the end: less than a block.
fn cut_back(pieces: &mut Vec<Piece>, mut bytes: u64) {
    while let Some(last) = pieces.pop_if(|last| last.len() <= bytes) {
        bytes -= last.len();
    }
    if let Some(last) = pieces.last_mut().filter(|_| 0 < bytes) {
        let end = last.len() - bytes;
        *last = last.clone().cut(0..end);
    }
}
