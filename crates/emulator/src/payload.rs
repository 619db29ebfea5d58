//! What the blocks hold: all of it, names for most of it, or nothing at all.
//!
//! A model of a drive does not care what is written to it. [`Memory`] keeps the bytes. [`Tags`] keeps what
//! it is given: bytes, or the tags that stand for them, and so holds terabytes in megabytes and gives back what a
//! checksum over it accepts. [`Forgetful`] keeps nothing.
//!
//! Whoever wants the bytes elsewhere (in a file, say) implements [`Medium`].

mod tags;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

pub use tags::Tags;

/// Where the bytes of a drive lie. It has no time and no zones' states: the drive checked those.
pub trait Medium: fmt::Debug {
    /// Writes the pieces one after the other. Requires: whole blocks, within a zone.
    ///
    /// # Errors
    /// When it has not taken them all: what of them is there then is of no account.
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError>;

    /// Reads blocks of one zone to the start of `out`, what is kept of them.
    ///
    /// # Errors
    /// [`DeviceError::Media`] when a block cannot be read.
    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError>;

    /// A block will be read soon. What leads to it may be fetched from far memory meanwhile.
    fn prefetch(&self, _lba: Lba) {}

    /// Only the first blocks of the zone hold something from now on.
    fn truncate(&mut self, zone: ZoneId, written: Blocks);

    /// The zone takes no more until it is truncated: for a medium that outlives its drive ([`ZoneImage`]).
    fn finish(&mut self, _zone: ZoneId) {}

    /// Silently turns one bit of a block over, if it is kept.
    fn flip_bit(&mut self, lba: Lba, bit: u32);

    /// False when it keeps nothing, whatever is written: then nobody needs to ask it.
    fn keeps_bytes(&self) -> bool {
        true
    }
}

/// What is left of a zone while its drive is off: enough to go on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneImage {
    /// Blocks that were written since the last reset; the padding of a finish does not count.
    pub data: Blocks,
    /// It was finished.
    pub is_finished: bool,
}

/// Keeps nothing. What is read back is whatever the buffer held before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl Medium for Forgetful {
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

/// Keeps everything in memory, a zone at a time as far as it is written.
#[derive(Clone, Debug)]
pub struct Memory {
    geometry: Geometry,
    zones: Vec<Vec<u8>>,
}

impl Memory {
    /// Of a drive that was never written.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { geometry: *geometry, zones: alloc::vec![Vec::new(); geometry.zone_count as usize] }
    }

    fn locate(&self, lba: Lba) -> (usize, usize) {
        let at = self.geometry.offset_in_zone(lba).bytes().0;
        (self.geometry.zone_of(lba).0 as usize, index(at))
    }

    /// The bytes from `lba` on, so many, made if they were not there.
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

/// Blocks that cannot be read until they are written again or their zone is reset; some of them no longer than until the
/// power is cut.
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

    /// The power is cut.
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
