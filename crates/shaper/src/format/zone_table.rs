//! Zone table format: the expected content of each zone, in parts of one block each, on the
//! capacity tier.
//!
//! Reset and retired zones are not in the table. So recovery can tell an empty zone, or one that a
//! crash cut short, from a zone that lost its content, holds an old copy, or holds another zone's
//! content.

use zonal_base::{BLOCK_BYTES, low_u32};

use super::{u16_at, u32_at, u64_at};

/// Version of the parts. Readers refuse any other.
const VERSION: u16 = 3;

const FRONT_BYTES: usize = 64;
const CLAIM_BYTES: usize = 16;

/// Flag in the end of a claim.
const GAP: u32 = 1 << 31;

/// Maximum number of zones in one part.
pub(crate) const CLAIMS_MAX: usize = (BLOCK_BYTES - FRONT_BYTES) / CLAIM_BYTES;

/// Expected content of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneClaim {
    /// Number of the zone's first segment, which identifies this use of the zone. 0: its content is
    /// not expected.
    pub(crate) incarnation: u64,
    /// End of its last flushed segment, in blocks. 0: none was flushed, and the zone may hold
    /// anything.
    pub(crate) end: u32,
    /// Checksum of that segment's header. It covers all earlier headers of the zone.
    pub(crate) sum: u32,
    /// True if headers in a row were lost before the table was made. What they described was not
    /// flushed, or the devices were salvaged.
    pub(crate) has_gap: bool,
}

/// A part of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneTablePart {
    /// Version counter: each zone table that is written has a higher one.
    pub(crate) epoch: u64,
    /// Segments with this number and above were made after the table.
    pub(crate) next_number: u64,
    /// True in the table that a graceful end writes as the last thing.
    pub(crate) is_last: bool,
    /// Zone number of the first claim.
    pub(crate) first: u32,
    pub(crate) claims: alloc::vec::Vec<ZoneClaim>,
}

impl ZoneTablePart {
    /// Encodes the part into a block.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        assert!(self.claims.len() <= CLAIMS_MAX && out.len() == BLOCK_BYTES);
        out.fill(0);
        out[..2].copy_from_slice(&VERSION.to_le_bytes());
        out[2] = u8::from(self.is_last);
        out[4..8].copy_from_slice(&low_u32(self.claims.len()).to_le_bytes());
        out[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        out[16..24].copy_from_slice(&self.next_number.to_le_bytes());
        out[24..28].copy_from_slice(&self.first.to_le_bytes());
        let places = out[FRONT_BYTES..].chunks_exact_mut(CLAIM_BYTES);
        for (claim, out) in self.claims.iter().zip(places) {
            out[..8].copy_from_slice(&claim.incarnation.to_le_bytes());
            let gap = if claim.has_gap { GAP } else { 0 };
            out[8..12].copy_from_slice(&(claim.end | gap).to_le_bytes());
            out[12..].copy_from_slice(&claim.sum.to_le_bytes());
        }
    }

    /// Decodes a block; `None` if it is invalid.
    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let count = usize::try_from(u32_at(block, 4)).ok()?;
        if u16_at(block, 0) != VERSION || CLAIMS_MAX < count {
            return None;
        }
        let claims = block[FRONT_BYTES..].chunks_exact(CLAIM_BYTES).take(count);
        let claims = claims.map(|claim| ZoneClaim {
            incarnation: u64_at(claim, 0),
            end: u32_at(claim, 8) & !GAP,
            sum: u32_at(claim, 12),
            has_gap: u32_at(claim, 8) & GAP != 0,
        });
        Some(Self {
            epoch: u64_at(block, 8),
            next_number: u64_at(block, 16),
            is_last: block[2] != 0,
            first: u32_at(block, 24),
            claims: claims.collect(),
        })
    }
}
