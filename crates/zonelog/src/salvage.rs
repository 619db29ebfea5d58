//! Salvage: recovers tombstones from the part of a zone that no header leads to.
//!
//! Behind an unreadable block no chain tells valid headers from headers of an earlier fill or of a
//! lost history. A removed record must not come back, so recovery takes no records from there. It
//! takes the tombstones: one too many costs a miss, one too few brings a removed object back.

use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, ZoneId};
use zonal_device::DeviceError;

use crate::format::segment::Header;
use crate::log::FOOTER_PIECE;
use crate::scan::Scanner;
use crate::{Descriptor, Identity, Kind};

impl Scanner<'_> {
    /// Returns the tombstones of every readable header in these blocks of a zone.
    pub(crate) async fn tombstones(
        &self,
        zone: ZoneId,
        identity: Identity,
        blocks: Range<Blocks>,
    ) -> Result<Vec<Descriptor>, DeviceError> {
        let mut tombstones = Vec::new();
        let (mut at, mut piece) = (blocks.start, FOOTER_PIECE);
        while at < blocks.end {
            piece = piece.min(blocks.end - at);
            let Some(bytes) = self.read(zone, at, piece).await? else {
                // Halves the read until it isolates the unreadable block, then skips that block.
                at += Blocks(u64::from(piece == Blocks(1)));
                piece = Blocks((piece.0 / 2).max(1));
                continue;
            };
            for (n, block) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
                let header = Header::peek(block, self.ports.checksum).ok();
                let ours =
                    header.filter(|header| (header.identity, header.zone) == (identity, zone));
                if let Some(header) = ours {
                    tombstones.extend(self.tombstones_of(&header, at + Blocks(n)).await?);
                }
            }
            (at, piece) = (at + piece, FOOTER_PIECE);
        }
        Ok(tombstones)
    }

    async fn tombstones_of(
        &self,
        header: &Header,
        at: Blocks,
    ) -> Result<Vec<Descriptor>, DeviceError> {
        let len = Blocks(header.header_blocks.into());
        if self.geometry.zone_capacity < at + len {
            return Ok(Vec::new());
        }
        let bytes = self.read(header.zone, at, len).await?;
        let decoded = bytes.and_then(|bytes| Header::decode(&bytes, self.ports.checksum).ok());
        let records = decoded.map(|(_, _, records)| records).unwrap_or_default();
        Ok(records.into_iter().filter(|record| record.kind == Kind::TOMBSTONE).collect())
    }
}
