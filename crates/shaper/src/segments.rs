//! Segments of a zone in a running block device: for moves and scrubs, which read zones in order.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Buffer, index};
use zonal_device::Completion;

use crate::BlockError;
use crate::format::Header;
use crate::layout::Zone;
use crate::shaper::Inner;
use crate::state::Detour;

/// The data read, and the whole segments in them, each with the position of its header in the zone.
pub(crate) type Piece = (Buffer, Vec<(u32, Header)>);

impl Inner {
    /// Parses the whole segments of a read. `None` if there is none, or the read failed.
    pub(crate) fn piece(
        &self,
        zone: Zone,
        (at, blocks): (u32, u32),
        answer: Completion,
    ) -> Result<Option<Piece>, BlockError> {
        let Some(buffer) = self.answered_own(zone, answer)? else { return Ok(None) };
        let (mut segments, mut next) = (Vec::new(), at);
        while next < at + blocks {
            next = self.behind_gap(zone, next);
            if at + blocks <= next {
                break;
            }
            let offset = index(u64::from(next - at)) * BLOCK_BYTES;
            let Some(header) = self.header(zone, next, &buffer.bytes()[offset..]) else { break };
            let end = next + header.segment_blocks();
            if at + blocks < end {
                break;
            }
            segments.push((next, header));
            next = end;
        }
        Ok((!segments.is_empty()).then_some((buffer, segments)))
    }

    /// Decodes a header, and checks that it belongs to this position.
    pub(crate) fn header(&self, zone: Zone, at: u32, bytes: &[u8]) -> Option<Header> {
        if let Some(rebuilt) = self.rebuilt(zone, at) {
            return Some(rebuilt);
        }
        let (header, _) = Header::decode(&bytes[..BLOCK_BYTES], self.checksum()).ok()?;
        let is_young = self.state.borrow().zone(zone).number <= header.number;
        let is_it = header.identity == self.identity && (header.zone, header.at) == (zone, at);
        (is_it && is_young).then_some(header)
    }

    /// The header that recovery rebuilt for this position.
    pub(crate) fn rebuilt(&self, zone: Zone, at: u32) -> Option<Header> {
        match self.state.borrow().zone(zone).detours.get(&at) {
            Some(Detour::Rebuilt(header)) => Some(header.clone()),
            Some(Detour::Skip(_)) | None => None,
        }
    }

    /// The next position at which a header counts.
    pub(crate) fn behind_gap(&self, zone: Zone, at: u32) -> u32 {
        match self.state.borrow().zone(zone).detours.get(&at) {
            Some(Detour::Skip(to)) => *to,
            Some(Detour::Rebuilt(_)) | None => at,
        }
    }
}
