//! Zone footer: the list of all records at the end of a full zone, so that recovery reads only the
//! footer and the first block.
//!
//! A manifest and the descriptors of all records end right in front of the trailer, which is the
//! last 64 bytes of the zone's last block.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, ZoneId};

use super::manifest::{MANIFEST_BYTES, Manifest};
use super::segment::Header;
use super::{FRAME_BYTES, Malformed, OpenFrame, Reader, close_frame, frame, open_frame, record};
use crate::{Descriptor, Identity};

const MAGIC: [u8; 4] = *b"ZFTR";

// 0 magic, 4 version, 6 zeros, 8 log, 24 shard, 26 shard_count, 28 zone, 32 zone_sequence,
// 40 record_count, 44 descriptor_bytes, 48 descriptor_crc, 52 segment_count, 56 first_crc, 60 crc
pub(crate) const TRAILER_BYTES: usize = FRAME_BYTES;

/// The last 64 bytes of a full zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Identity of the log that wrote the zone.
    pub identity: Identity,
    /// Zone of the footer.
    pub zone: ZoneId,
    /// Sequence number of the zone's fill.
    pub zone_sequence: u64,
    /// Records in the zone.
    pub record_count: u32,
    /// Bytes of descriptors in front of the trailer.
    pub descriptor_bytes: u32,
    /// CRC-32C of the manifest and the descriptors.
    pub descriptor_crc: u32,
    /// Segments in the zone.
    pub segment_count: u32,
    /// `crc` of the header in the zone's first block. It prevents that the footer of an earlier or
    /// lost history of the zone is taken for the present one.
    pub first_crc: u32,
}

impl Trailer {
    /// Blocks of a footer with this many bytes of descriptors.
    pub(crate) const fn blocks_for(descriptor_bytes: usize) -> Blocks {
        Blocks((MANIFEST_BYTES + descriptor_bytes + TRAILER_BYTES).div_ceil(BLOCK_BYTES) as u64)
    }

    /// True when this trailer belongs to the fill of the zone that began with `first`.
    pub(crate) fn ends(&self, zone: ZoneId, first: &Header) -> bool {
        (self.identity, self.zone, self.zone_sequence, self.first_crc)
            == (first.identity, zone, first.zone_sequence, first.crc)
    }

    pub(crate) fn encode(&self, checksum: Checksum) -> [u8; TRAILER_BYTES] {
        let mut frame = frame(MAGIC, &self.identity);
        frame[28..32].copy_from_slice(&self.zone.0.to_le_bytes());
        frame[32..40].copy_from_slice(&self.zone_sequence.to_le_bytes());
        frame[40..44].copy_from_slice(&self.record_count.to_le_bytes());
        frame[44..48].copy_from_slice(&self.descriptor_bytes.to_le_bytes());
        frame[48..52].copy_from_slice(&self.descriptor_crc.to_le_bytes());
        frame[52..56].copy_from_slice(&self.segment_count.to_le_bytes());
        frame[56..60].copy_from_slice(&self.first_crc.to_le_bytes());
        close_frame(&mut frame, checksum);
        frame
    }

    /// Decodes the trailer at the end of a zone's last block.
    pub(crate) fn decode(last_block: &[u8], checksum: Checksum) -> Result<Self, Malformed> {
        let frame = last_block.last_chunk().ok_or(Malformed::Fields)?;
        let OpenFrame { identity, mut fields, .. } = open_frame(frame, MAGIC, checksum)?;
        Ok(Self {
            identity,
            zone: ZoneId(fields.u32()),
            zone_sequence: fields.u64(),
            record_count: fields.u32(),
            descriptor_bytes: fields.u32(),
            descriptor_crc: fields.u32(),
            segment_count: fields.u32(),
            first_crc: fields.u32(),
        })
    }

    /// Bytes of the manifest and the descriptors in front of the trailer.
    pub(crate) const fn contents_len(&self) -> usize {
        MANIFEST_BYTES + self.descriptor_bytes as usize
    }

    /// Decodes the manifest and the descriptors in front of the trailer.
    pub(crate) fn contents(
        &self,
        bytes: &[u8],
        checksum: Checksum,
    ) -> Result<(Manifest, Vec<Descriptor>), Malformed> {
        if checksum.of(0, bytes) != self.descriptor_crc {
            return Err(Malformed::Checksum);
        }
        let (manifest, described) = bytes.split_first_chunk().ok_or(Malformed::Fields)?;
        let mut from = Reader::new(described);
        let records: Result<Vec<_>, _> =
            (0..self.record_count).map(|_| record::decode(&mut from)).collect();
        Ok((Manifest::decode(manifest), records?))
    }
}
