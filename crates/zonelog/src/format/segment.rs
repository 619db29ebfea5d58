//! Segment header: describes the data that follows it in the same write.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, ZoneId};

use super::{FRAME_BYTES, Malformed, Opened, Reader, close_frame, frame, open_frame, record};
use crate::{Descriptor, Identity};

const MAGIC: [u8; 4] = *b"ZSEG";

// 0 magic, 4 version, 6 header_blocks, 7 zero, 8 log, 24 shard, 26 shard_count, 28 zone,
// 32 zone_sequence, 40 segment, 44 record_count, 46 payload_blocks, 48 descriptor_crc, 52 previous,
// 56 session, 60 crc, 64 descriptors

/// Header blocks that one segment can have: 20 KiB describe 256 records of 4 KiB and as many small ones.
pub(crate) const HEADER_BLOCKS_MAX: u8 = 5;

/// A segment header, without its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose log.
    pub identity: Identity,
    /// Where it was written.
    pub zone: ZoneId,
    /// Which filling of the zone this is: grows over the life of the log.
    pub zone_sequence: u64,
    /// Place in the zone, from 0.
    pub segment: u32,
    /// Blocks of this header.
    pub header_blocks: u8,
    /// Blocks of data behind it.
    pub payload_blocks: u16,
    /// Records described.
    pub record_count: u16,
    /// Checksum of all that stands in the header's blocks behind its first 64 bytes.
    pub descriptor_crc: u32,
    /// `crc` of the header before this one in the zone; 0 in the first. So a segment that an earlier,
    /// lost history of the zone left behind is never taken for the next.
    pub previous: u32,
    /// Chosen anew whenever the log is opened: tells the headers of two histories apart even when
    /// they describe the same records.
    pub session: u32,
    /// Checksum of the first 60 bytes.
    pub crc: u32,
}

impl Header {
    /// Blocks from this header to the next.
    #[must_use]
    pub const fn blocks(&self) -> Blocks {
        Blocks(self.header_blocks as u64 + self.payload_blocks as u64)
    }

    /// Blocks that a header with so many bytes of descriptors takes.
    pub(crate) const fn blocks_for(descriptor_bytes: usize) -> u64 {
        (FRAME_BYTES + descriptor_bytes).div_ceil(BLOCK_BYTES) as u64
    }

    /// Writes the header and its descriptors into `out`, which is all of its blocks. The two checksums
    /// are computed here; the header's own is returned.
    pub(crate) fn encode(&self, descriptors: &[u8], checksum: Checksum, out: &mut [u8]) -> u32 {
        assert!(out.len() == usize::from(self.header_blocks) * BLOCK_BYTES);
        let (front, rest) = out.split_at_mut(FRAME_BYTES);
        rest[..descriptors.len()].copy_from_slice(descriptors);
        rest[descriptors.len()..].fill(0);
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

    /// What the frame says: enough to know whose zone this is and how many blocks to read.
    pub(crate) fn peek(block: &[u8], checksum: Checksum) -> Result<Self, Malformed> {
        let frame = block.first_chunk().ok_or(Malformed::Fields)?;
        let Opened { identity, small, mut fields, crc } = open_frame(frame, MAGIC, checksum)?;
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

    /// Reads a whole header and its descriptors.
    pub(crate) fn decode(
        bytes: &[u8],
        checksum: Checksum,
    ) -> Result<(Self, Vec<Descriptor>), Malformed> {
        let header = Self::peek(bytes, checksum)?;
        let len = usize::from(header.header_blocks) * BLOCK_BYTES;
        let rest = bytes.get(FRAME_BYTES..len).ok_or(Malformed::Fields)?;
        if header.descriptor_crc != checksum.of(0, rest) {
            return Err(Malformed::Checksum);
        }
        let mut from = Reader::new(rest);
        let records: Result<Vec<_>, _> =
            (0..header.record_count).map(|_| record::decode(&mut from)).collect();
        Ok((header, records?))
    }
}
