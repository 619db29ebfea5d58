//! Block contents of an emulated drive: stored as bytes, as compact tags, or not at all.
//!
//! A drive model does not depend on the data written to it. [`Memory`] keeps the bytes. [`Tags`] keeps bytes as
//! bytes, and tagged data as the tags that stand for them. So it holds terabytes in megabytes, and still returns data
//! whose checksum is valid. [`DiscardMedium`] keeps nothing.
//!
//! To keep the bytes elsewhere, for example in a file, implement [`Medium`].

mod tags;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

pub use tags::Tags;

/// Storage medium of a drive: reads and writes the block contents. It has no time and no zone states: the drive has
/// already checked those.
pub trait Medium: fmt::Debug {
    /// Writes the pieces one after the other. Requires: whole blocks, within a zone.
    ///
    /// # Errors
    /// When the medium has not taken all pieces. The contents of these blocks are then undefined.
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError>;

    /// Reads blocks of one zone into the start of `out`, as far as the medium keeps them.
    ///
    /// # Errors
    /// [`DeviceError::Media`] when a block cannot be read.
    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError>;

    /// Hint that a block will be read soon. The medium may prefetch its metadata from main memory into the CPU cache.
    fn prefetch(&self, _lba: Lba) {}

    /// Cuts a zone back to its first `written` blocks.
    fn truncate(&mut self, zone: ZoneId, written: Blocks);

    /// Marks the zone as finished until it is truncated: for a medium that outlives its drive ([`ZoneImage`]).
    fn finish(&mut self, _zone: ZoneId) {}

    /// Fault: flips one bit of a block silently, if the block is kept.
    fn flip_bit(&mut self, lba: Lba, bit: u32);

    /// False when the medium keeps no data: then the drive does not call [`Medium::read`].
    fn keeps_bytes(&self) -> bool {
        true
    }
}

/// Persistent state of a zone while its drive is off: enough to restart the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneImage {
    /// Blocks written since the last reset; the padding of a finish does not count.
    pub data: Blocks,
    /// True when the host has finished the zone.
    pub is_finished: bool,
}

/// Medium that keeps nothing. A read leaves the buffer as it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardMedium;

impl Medium for DiscardMedium {
    fn write(&mut self, _: Lba, _: &[Payload]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn read(&mut self, _: Lba, _: Blocks, _: &mut Buffer) -> Result<(), DeviceError> {
        Ok(())
    }

    fn truncate(&mut self, _: ZoneId, _: Blocks) {}

    fn flip_bit(&mut self, _: Lba, _: u32) {}

    fn keeps_bytes(&self) -> bool {
        false
    }
}

/// Medium that keeps all bytes in memory; each zone grows as it is written.
#[derive(Clone, Debug)]
pub struct Memory {
    geometry: Geometry,
    zones: Vec<Vec<u8>>,
}

impl Memory {
    /// Creates the medium of an empty drive.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { geometry: *geometry, zones: alloc::vec![Vec::new(); geometry.zone_count as usize] }
    }

    fn locate(&self, lba: Lba) -> (usize, usize) {
        let at = self.geometry.offset_in_zone(lba).bytes().0;
        (self.geometry.zone_of(lba).0 as usize, index(at))
    }

    /// Returns `len` bytes from `lba` on, and extends the zone with zeros if needed.
    fn bytes_mut(&mut self, lba: Lba, len: usize) -> &mut [u8] {
        let (zone, at) = self.locate(lba);
        let bytes = &mut self.zones[zone];
        if bytes.len() < at + len {
            bytes.resize(at + len, 0);
        }
        &mut bytes[at..at + len]
    }
}

impl Medium for Memory {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        let mut at = lba;
        for piece in data {
            self.bytes_mut(at, piece.len()).copy_from_slice(piece.as_bytes());
            at = at + Blocks((piece.len() / BLOCK_BYTES) as u64);
        }
        Ok(())
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let (zone, at) = self.locate(lba);
        let out = &mut out.bytes_mut()[..index(blocks.bytes().0)];
        let kept = self.zones[zone].get(at..).unwrap_or_default();
        let kept = &kept[..kept.len().min(out.len())];
        let (front, rest) = out.split_at_mut(kept.len());
        front.copy_from_slice(kept);
        rest.fill(0);
        Ok(())
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        let bytes = &mut self.zones[zone.0 as usize];
        bytes.truncate(index(written.bytes().0));
        bytes.shrink_to_fit();
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let bit = bit as usize % (BLOCK_BYTES * 8);
        self.bytes_mut(lba, BLOCK_BYTES)[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Fault: blocks that cannot be read until they are written again or their zone is reset. Some of them become
/// readable when the power is cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unreadable {
    blocks: BTreeSet<Lba>,
    while_on: BTreeSet<Lba>,
}

impl Unreadable {
    pub(crate) fn insert(&mut self, lba: Lba) {
        self.blocks.insert(lba);
    }

    pub(crate) fn insert_while_on(&mut self, lba: Lba) {
        self.while_on.insert(lba);
    }

    /// Power cut: blocks that were unreadable only while the drive was on become readable.
    pub(crate) fn switch_off(&mut self) {
        self.while_on.clear();
    }

    pub(crate) fn contains_any(&self, lba: Lba, blocks: Blocks) -> bool {
        [&self.blocks, &self.while_on]
            .iter()
            .any(|bad| !bad.is_empty() && bad.range(lba..lba + blocks).next().is_some())
    }

    pub(crate) fn forget(&mut self, lba: Lba, blocks: Blocks) {
        for bad in [&mut self.blocks, &mut self.while_on] {
            if !bad.is_empty() {
                bad.retain(|bad| *bad < lba || lba + blocks <= *bad);
            }
        }
    }
}

#[cfg(test)]
mod tests;
