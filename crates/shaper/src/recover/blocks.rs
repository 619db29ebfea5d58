//! Single blocks that recovery reads: the export table, trim bitmaps, and blocks that may be torn.

use core::cmp::Reverse;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index, low_u32};
use zonal_device::{Answer, DeviceError};

use super::{ExportTable, MetadataBlock, ScanState};
use crate::format::{Entry, Key, SEED, decode_table};
use crate::layout::{PhysAddr, Zone};
use crate::{OpenError, Tier};

/// Versions of one table to be kept in mind: the newest two of both copies.
const COPIES_MAX: usize = 4;

impl ScanState<'_> {
    /// Reads the export table. `None` if no copy is whole.
    pub(super) async fn table(&self) -> Result<Option<ExportTable>, OpenError> {
        let Some((sequence, block)) = self.newest_whole(Key::TABLE).await? else { return Ok(None) };
        let Some((exports, retired)) = decode_table(&block.bytes()[..BLOCK_BYTES]) else {
            return Ok(None);
        };
        drop(block);
        let mut is_twice = true;
        for (key, tier) in [(Key::TABLE, Tier::Capacity), (Key::TABLE.copy(), Tier::Buffer)] {
            let copies = self.tables.get(&Key::TABLE).into_iter().flatten();
            let mut copies = copies.filter(|(of, block)| *of == key && block.sequence == sequence);
            is_twice &= match copies.next() {
                Some((_, block)) => {
                    self.scanner.layout.tier_of(self.scanner.layout.locate(block.spot).0) == tier
                        && self.read_metadata_block(*block).await?.is_some()
                }
                None => false,
            };
        }
        Ok(Some(ExportTable { exports, retired, is_twice }))
    }

    /// Takes a copy of the export table or of a part of the zone table, flushed or not: a whole one
    /// proves itself by its checksum.
    pub(super) fn note_table(&mut self, entry: Entry, spot: PhysAddr, number: u64) {
        let Entry { key, sequence, check } = entry;
        let copies = self.tables.entry(key.first_copy()).or_default();
        copies.push((key, MetadataBlock { sequence, number, spot, check }));
        copies.sort_unstable_by_key(|(_, block)| Reverse((block.sequence, block.number)));
        copies.truncate(COPIES_MAX);
    }

    /// The newest version of a table of which a copy is whole, with its sequence.
    pub(super) async fn newest_whole(&self, key: Key) -> Result<Option<(u64, Buffer)>, OpenError> {
        for (_, block) in self.tables.get(&key).into_iter().flatten() {
            if let Some(buffer) = self.read_metadata_block(*block).await? {
                return Ok(Some((block.sequence, buffer)));
            }
        }
        Ok(None)
    }

    pub(super) async fn read_metadata_block(
        &self,
        block: MetadataBlock,
    ) -> Result<Option<Buffer>, OpenError> {
        let (zone, at) = self.scanner.layout.locate(block.spot);
        let Some(buffer) = self.read(zone, low_u32(index(at.0)), 1).await? else { return Ok(None) };
        let sum = buffer.checksum(self.scanner.ports.checksum, &SEED, 0..BLOCK_BYTES);
        Ok((sum == block.check).then_some(buffer))
    }

    /// Reads blocks; `None` when the device cannot read them.
    pub(super) async fn read(
        &self,
        zone: Zone,
        at: u32,
        blocks: u32,
    ) -> Result<Option<Buffer>, OpenError> {
        let call = self.scanner.read(zone, at, u64::from(blocks)).await;
        let bytes = Blocks(u64::from(blocks)).bytes().0;
        self.scanner.recovery.borrow_mut().verified_bytes += bytes;
        match call.await {
            Ok(Answer::Read(buffer)) => Ok(Some(buffer)),
            Err(error @ DeviceError::DeviceGone) => {
                Err(OpenError::Device(self.scanner.layout.tier_of(zone), error))
            }
            _ => Ok(None),
        }
    }
}
