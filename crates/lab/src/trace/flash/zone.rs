//! Zone model: the records of one zone of the simulated flash cache.

use zonal_base::{Bytes, ZoneId, index, low_u32};
use zonal_policy::{ChunkLocation, PolicyTag, ZoneFacts};

use super::super::spread::NAME_BITS;

/// Records of a zone: 11 bytes each, or 7 while every record has length 1.
#[derive(Default)]
pub(super) struct FlashZone {
    names: Vec<Packed>,
    /// Offset of each record. Empty while every record has length 1: the number is the offset then.
    offsets: Vec<u32>,
    /// Policy tag of each record, or `DEAD`.
    states: Vec<u8>,
    written: u64,
    sequence: u64,
}

/// A 48-bit object name.
type Packed = [u8; NAME_BITS as usize / 8];

const DEAD: u8 = 1 << 7;

/// Largest zone capacity that 32-bit offsets can address.
pub(super) const CAPACITY_MAX: u64 = 1 << 32;

impl FlashZone {
    pub(super) fn open(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    pub(super) fn push(&mut self, name: u64, len: u64) -> u32 {
        let number = low_u32(self.names.len());
        let [a, b, c, d, e, f, ..] = name.to_le_bytes();
        self.names.push([a, b, c, d, e, f]);
        if len != 1 && self.offsets.is_empty() {
            self.offsets.extend(0..number);
        }
        if len != 1 || !self.offsets.is_empty() {
            self.offsets.push(low_u32(index(self.written)));
        }
        self.states.push(0);
        self.written += len;
        number
    }

    pub(super) fn seal(&mut self, zone: ZoneId) -> ZoneFacts {
        self.names.shrink_to_fit();
        self.offsets.shrink_to_fit();
        self.states.shrink_to_fit();
        ZoneFacts {
            zone,
            sequence: self.sequence,
            chunk_count: self.count(),
            bytes: Bytes(self.written),
            pinned: Bytes(0),
        }
    }

    pub(super) fn count(&self) -> u32 {
        low_u32(self.names.len())
    }

    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    /// Name of the record's object.
    pub(super) fn name(&self, number: u32) -> u64 {
        let [a, b, c, d, e, f] = self.names[number as usize];
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    pub(super) fn mark(&self, number: u32) -> PolicyTag {
        PolicyTag(self.states[number as usize])
    }

    pub(super) fn set_mark(&mut self, number: u32, mark: PolicyTag) {
        self.states[number as usize] = mark.0;
    }

    pub(super) fn is_dead(&self, number: u32) -> bool {
        self.states[number as usize] == DEAD
    }

    pub(super) fn kill(&mut self, number: u32) {
        self.states[number as usize] = DEAD;
    }

    pub(super) fn place(&self, zone: ZoneId, number: u32) -> ChunkLocation {
        if self.offsets.is_empty() {
            return ChunkLocation { zone, number, offset: Bytes(number.into()), len: Bytes(1) };
        }
        let begin = u64::from(self.offsets[number as usize]);
        let end = self.offsets.get(number as usize + 1).map_or(self.written, |end| u64::from(*end));
        ChunkLocation { zone, number, offset: Bytes(begin), len: Bytes(end - begin) }
    }
}
