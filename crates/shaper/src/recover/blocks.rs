//! Single blocks that recovery reads: the export table, trim bitmaps, and blocks that may be torn.

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index, low_u32};
use zonal_device::{Answer, DeviceError};

use super::{ExportTable, MetadataBlock, ScanState};
use crate::format::{Entry, Key, decode_table};
use crate::layout::Zone;
use crate::{OpenError, Tier};

impl ScanState<'_> {
    /// Reads the export table.
    pub(super) async fn table(&self) -> Result<ExportTable, OpenError> {
        let unreadable = || OpenError::Unreadable(Tier::Capacity);
        let table = *self.metadata.get(&Key::TABLE).ok_or_else(unreadable)?;
        let block = self.read_metadata_block(Key::TABLE, table).await?.ok_or_else(unreadable)?;
        let (exports, retired) =
            decode_table(&block.bytes()[..BLOCK_BYTES]).ok_or_else(unreadable)?;
        Ok(ExportTable { exports, retired })
    }

    pub(super) async fn read_metadata_block(
        &self,
        key: Key,
        block: MetadataBlock,
    ) -> Result<Option<Buffer>, OpenError> {
        let (zone, at) = self.scanner.layout.locate(block.spot);
        let Some(buffer) = self.read(zone, low_u32(index(at.0)), 1).await? else { return Ok(None) };
        let seed = Entry::seed(key, block.sequence);
        let sum = buffer.checksum(self.scanner.ports.checksum, &seed, 0..BLOCK_BYTES);
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
