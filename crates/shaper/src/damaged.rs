//! Damaged blocks: those that do not fit their checksums, or cannot be read.

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, index};

use crate::format::{Key, SEED};
use crate::layout::PhysAddr;
use crate::map::MapEntry;
use crate::shaper::Inner;
use crate::{ExportId, Tier};

/// A block that does not fit its checksum or cannot be read, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// The export.
    pub export: ExportId,
    /// Block of the export.
    pub block: Lba,
    /// Tier of the device.
    pub tier: Tier,
    /// Block of the device.
    pub lba: Lba,
}

impl Inner {
    /// True if block `n` of the buffer is what the map entry of `key` stands for. Blocks of exports
    /// that are not verified always are.
    pub(crate) fn is_intact(&self, key: Key, entry: MapEntry, (buffer, n): (&Buffer, u64)) -> bool {
        if !self.exports[usize::from(key.export().0)].is_verified {
            return true;
        }
        let begin = index(Blocks(n).bytes().0);
        let is_intact =
            buffer.checksum(self.checksum(), &SEED, begin..begin + BLOCK_BYTES) == entry.check;
        if !is_intact {
            self.note_corrupt(key, entry.spot);
        }
        is_intact
    }

    /// Records a corrupt block, for the log and the counters.
    pub(crate) fn note_corrupt(&self, key: Key, spot: PhysAddr) {
        let block = self.place_of(key, spot);
        let mut state = self.state.borrow_mut();
        state.stats.checksum_errors += 1;
        state.last_corrupt = Some(block);
        drop(state);
        self.work.notify_all();
    }

    /// Names a block and the place where it lies.
    pub(crate) fn place_of(&self, key: Key, spot: PhysAddr) -> DamagedBlock {
        let (zone, at) = self.layout.locate(spot);
        DamagedBlock {
            export: key.export(),
            block: Lba(key.number()),
            tier: self.layout.tier_of(zone),
            lba: self.layout.lba(zone, at),
        }
    }
}
