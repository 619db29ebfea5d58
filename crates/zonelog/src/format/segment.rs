//! Segment header: describes the records that follow it in the same write.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, ZoneId};

use super::manifest::{MANIFEST_BYTES, Manifest};
use super::{FRAME_BYTES, Malformed, OpenFrame, Reader, close_frame, frame, open_frame, record};
use crate::{Descriptor, Identity};

const MAGIC: [u8; 4] = *b"ZSEG";

// 0 magic, 4 version, 6 header_blocks, 7 zero, 8 log, 24 shard, 26 shard_count, 28 zone,
// 32 zone_sequence, 40 segment, 44 record_count, 46 payload_blocks, 48 descriptor_crc, 52 previous,
// 56 session, 60 crc, 64 manifest, 1088 descriptors

/// Bytes in front of the descriptors.
pub(crate) const FRONT_BYTES: usize = FRAME_BYTES + MANIFEST_BYTES;

/// Most header blocks of one segment: 20 KiB describe 256 records of 4 KiB and nearly as many small
/// ones.
pub(crate) const HEADER_BLOCKS_MAX: u8 = 5;

/// A segment header, without its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identity of the log that wrote the segment.
    pub identity: Identity,
    /// Zone of the segment.
    pub zone: ZoneId,
    /// Sequence number of the zone's fill: grows over the life of the log.
    pub zone_sequence: u64,
    /// Number of the segment in the zone, from 0.
    pub segment: u32,
    /// Blocks of the header, descriptors included.
    pub header_blocks: u8,
    /// Blocks of data behind the header.
    pub payload_blocks: u16,
    /// Number of descriptors in the header.
    pub record_count: u16,
    /// CRC-32C of the header's blocks behind its first 64 bytes.
    pub descriptor_crc: u32,
    /// `crc` of the previous header in the zone; 0 in the first. The chain prevents that a segment
    /// from an earlier or lost history of the zone is taken for the next one.
    pub previous: u32,
    /// Random number of the opening of the log: distinguishes the headers of two histories even
    /// when they describe the same records.
    pub session: u32,
    /// CRC-32C of the first 60 bytes.
    pub crc: u32,
}

impl Header {
    /// Blocks from this header to the next.
    #[must_use]
    pub const fn blocks(&self) -> Blocks {
        Blocks(self.header_blocks as u64 + self.payload_blocks as u64)
    }

    /// Blocks of a header with this many bytes of descriptors.
    pub(crate) const fn blocks_for(descriptor_bytes: usize) -> u64 {
        (FRONT_BYTES + descriptor_bytes).div_ceil(BLOCK_BYTES) as u64
    }

    /// Encodes the header with its manifest and descriptors into `out`, which must be exactly the
    /// header's blocks. Computes both checksums and returns the header's own.
    pub(crate) fn encode(
        &self,
        (manifest, descriptors): (&Manifest, &[u8]),
        checksum: Checksum,
        out: &mut [u8],
    ) -> u32 {
        assert!(out.len() == usize::from(self.header_blocks) * BLOCK_BYTES);
        let (front, rest) = out.split_at_mut(FRAME_BYTES);
        let (first, described) = rest.split_at_mut(MANIFEST_BYTES);
        first.copy_from_slice(&manifest.encode());
        described[..descriptors.len()].copy_from_slice(descriptors);
        described[descriptors.len()..].fill(0);
        let mut frame = frame(MAGIC, &self.identity);
        frame[6] = self.header_blocks;
        frame[28..32].copy_from_slice(&self.zone.0.to_le_bytes());
        frame[32..40].copy_from_slice(&self.zone_sequence.to_le_bytes());
        frame[40..44].copy_from_slice(&self.segment.to_le_bytes());
        frame[44..46].copy_from_slice(&self.record_count.to_le_bytes());
        frame[46..48].copy_from_slice(&self.payload_blocks.to_le_bytes());
        frame[48..52].copy_from_slice(&checksum.of(0, rest).to_le_bytes());
        frame[52..56].copy_from_slice(&self.previous.to_le_bytes());
        frame[56..60].copy_from_slice(&self.session.to_le_bytes());
        let crc = close_frame(&mut frame, checksum);
        front.copy_from_slice(&frame);
        crc
    }

    /// Decodes the first 64 bytes: enough to identify the zone and to know how many blocks to read.
    pub(crate) fn peek(block: &[u8], checksum: Checksum) -> Result<Self, Malformed> {
        let frame = block.first_chunk().ok_or(Malformed::Fields)?;
        let OpenFrame { identity, small, mut fields, crc } = open_frame(frame, MAGIC, checksum)?;
        let header_blocks = small[0];
        if header_blocks == 0 || HEADER_BLOCKS_MAX < header_blocks {
            return Err(Malformed::Fields);
        }
        Ok(Self {
            identity,
            header_blocks,
            zone: ZoneId(fields.u32()),
            zone_sequence: fields.u64(),
            segment: fields.u32(),
            record_count: fields.u16(),
            payload_blocks: fields.u16(),
            descriptor_crc: fields.u32(),
            previous: fields.u32(),
            session: fields.u32(),
            crc,
        })
    }

    /// Decodes a whole header with its manifest and descriptors.
    pub(crate) fn decode(
        bytes: &[u8],
        checksum: Checksum,
    ) -> Result<(Self, Manifest, Vec<Descriptor>), Malformed> {
        let header = Self::peek(bytes, checksum)?;
        let len = usize::from(header.header_blocks) * BLOCK_BYTES;
        let rest = bytes.get(FRAME_BYTES..len).ok_or(Malformed::Fields)?;
        if header.descriptor_crc != checksum.of(0, rest) {
            return Err(Malformed::Checksum);
        }
        let (manifest, described) = rest.split_first_chunk().ok_or(Malformed::Fields)?;
        let mut from = Reader::new(described);
        let records: Result<Vec<_>, _> =
            (0..header.record_count).map(|_| record::decode(&mut from)).collect();
        Ok((header, Manifest::decode(manifest), records?))
    }
}
