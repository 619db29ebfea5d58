//! Manifest: the zones that the log has in use, in each segment header and footer.
//!
//! A zone tells nothing of its own loss: a zone that reads as zeros, that holds what lies in another
//! zone, or that holds an older state of itself, looks like a valid zone or an empty one. So each
//! header names what recovery must find in all zones. Of all manifests the one with the highest
//! number counts.

use alloc::vec::Vec;

use zonal_base::{Checksum, ZoneId};

use super::Reader;

/// Bytes of a manifest.
pub(crate) const MANIFEST_BYTES: usize = 1024;

/// Most fills that a manifest lists.
pub(crate) const LISTED_MAX: usize = (MANIFEST_BYTES - FIXED_BYTES) / FILL_BYTES;

// 0 number, 8 suspect_below, 16 full_sum, 24 full_count, 28 listed, 30 omitted, 32 fills, then zeros
const FIXED_BYTES: usize = 32;

// 0 zone, 4 zone_sequence, 12 first_crc, 16 segments
const FILL_BYTES: usize = 20;

/// One filling of a zone, and how much of it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    /// The zone.
    pub(crate) zone: ZoneId,
    /// Sequence number of the fill.
    pub(crate) sequence: u64,
    /// `crc` of the header in the zone's first block; 0 while no segment is durable.
    pub(crate) first_crc: u32,
    /// Segments that a flush has made durable.
    pub(crate) segments: u32,
}

/// Sum over full zones: their number, and the wrapping sum of the checksums of their fills. Zones
/// are added and removed in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FullZones {
    /// Number of zones.
    pub(crate) count: u32,
    /// Sum of the CRC-32C of each encoded fill.
    pub(crate) sum: u64,
}

/// The zones in use when a header was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Grows with each manifest of the log.
    pub(crate) number: u64,
    /// Records of a lower generation may have been removed by a tombstone that is lost.
    pub(crate) suspect_below: u64,
    /// Zones with a durable footer that are not listed.
    pub(crate) full: FullZones,
    /// All other zones in use. A zone with 0 segments may hold anything: it was opened lately, or it
    /// is about to be reset.
    pub(crate) listed: Vec<Fill>,
    /// Zones that found no place in the list. `full` does not have them either.
    pub(crate) omitted: u16,
}

impl Fill {
    fn encode(&self) -> [u8; FILL_BYTES] {
        let mut out = [0; FILL_BYTES];
        out[..4].copy_from_slice(&self.zone.0.to_le_bytes());
        out[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        out[12..16].copy_from_slice(&self.first_crc.to_le_bytes());
        out[16..].copy_from_slice(&self.segments.to_le_bytes());
        out
    }
}

impl FullZones {
    pub(crate) fn add(&mut self, fill: &Fill, checksum: Checksum) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(checksum.of(0, &fill.encode()).into());
    }

    pub(crate) fn remove(&mut self, fill: &Fill, checksum: Checksum) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(checksum.of(0, &fill.encode()).into());
    }
}

impl Manifest {
    /// Encodes the manifest. Requires: it lists at most [`LISTED_MAX`] fills.
    pub(crate) fn encode(&self) -> [u8; MANIFEST_BYTES] {
        assert!(self.listed.len() <= LISTED_MAX);
        let mut out = [0; MANIFEST_BYTES];
        let (fixed, fills) = out.split_at_mut(FIXED_BYTES);
        fixed[..8].copy_from_slice(&self.number.to_le_bytes());
        fixed[8..16].copy_from_slice(&self.suspect_below.to_le_bytes());
        fixed[16..24].copy_from_slice(&self.full.sum.to_le_bytes());
        fixed[24..28].copy_from_slice(&self.full.count.to_le_bytes());
        let listed = u16::try_from(self.listed.len()).expect("at most LISTED_MAX");
        fixed[28..30].copy_from_slice(&listed.to_le_bytes());
        fixed[30..].copy_from_slice(&self.omitted.to_le_bytes());
        for (fill, out) in self.listed.iter().zip(fills.chunks_exact_mut(FILL_BYTES)) {
            out.copy_from_slice(&fill.encode());
        }
        out
    }

    /// Decodes a manifest whose bytes were verified. A list that is too long ends at its limit.
    pub(crate) fn decode(bytes: &[u8; MANIFEST_BYTES]) -> Self {
        let mut from = Reader::new(bytes);
        let (number, suspect_below, sum) = (from.u64(), from.u64(), from.u64());
        let (count, listed, omitted) = (from.u32(), from.u16(), from.u16());
        let listed = (0..usize::from(listed).min(LISTED_MAX)).map(|_| Fill {
            zone: ZoneId(from.u32()),
            sequence: from.u64(),
            first_crc: from.u32(),
            segments: from.u32(),
        });
        let listed = listed.collect();
        Self { number, suspect_below, full: FullZones { count, sum }, listed, omitted }
    }
}
