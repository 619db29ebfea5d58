//! Zone mark: one block at the start of an empty zone on a conventional device, which has no zone
//! state of its own.
//!
//! A conventional device keeps old bytes after a reset. The mark overwrites the first header of the
//! zone's last fill. A zone without a first header has no content, whatever follows it. The first
//! segment of the next fill overwrites the mark.

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, ZoneId};

use super::{FRAME_BYTES, Malformed, OpenFrame, close_frame, frame, open_frame};
use crate::Identity;

const MAGIC: [u8; 4] = *b"ZMRK";

// 0 magic, 4 version, 6 zeros, 8 log, 24 shard, 26 shard_count, 28 zone, 32 zone_sequence,
// 40 zone_count, 44 zeros, 48 zone_capacity, 56 zeros, 60 crc, 64 zeros

/// Contents of the mark of an empty zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneMark {
    /// Identity of the log that owns the zone.
    pub identity: Identity,
    /// Zone of the mark.
    pub zone: ZoneId,
    /// Highest sequence number that the log had assigned to any zone: numbers are never reused.
    pub zone_sequence: u64,
    /// Zones of the shard.
    pub zone_count: u32,
    /// Capacity of each zone, in blocks.
    pub zone_capacity: Blocks,
}

impl ZoneMark {
    /// Encodes the mark into a whole block.
    pub(crate) fn encode(&self, checksum: Checksum, out: &mut [u8]) {
        assert!(out.len() == BLOCK_BYTES);
        let mut frame = frame(MAGIC, &self.identity);
        frame[28..32].copy_from_slice(&self.zone.0.to_le_bytes());
        frame[32..40].copy_from_slice(&self.zone_sequence.to_le_bytes());
        frame[40..44].copy_from_slice(&self.zone_count.to_le_bytes());
        frame[48..56].copy_from_slice(&self.zone_capacity.0.to_le_bytes());
        close_frame(&mut frame, checksum);
        out.fill(0);
        out[..FRAME_BYTES].copy_from_slice(&frame);
    }

    /// Decodes a mark.
    pub(crate) fn decode(block: &[u8], checksum: Checksum) -> Result<Self, Malformed> {
        let frame = block.first_chunk().ok_or(Malformed::Fields)?;
        let OpenFrame { identity, mut fields, .. } = open_frame(frame, MAGIC, checksum)?;
        let (zone, zone_sequence) = (ZoneId(fields.u32()), fields.u64());
        let zone_count = fields.u32();
        let _zeros: [u8; 4] = fields.array();
        let zone_capacity = Blocks(fields.u64());
        Ok(Self { identity, zone, zone_sequence, zone_count, zone_capacity })
    }
}
