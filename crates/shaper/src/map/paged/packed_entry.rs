//! Packed list entry of the paged map: six bytes for one block.

use super::MAP_PAGE_BLOCKS;
use crate::layout::PhysAddr;

/// One list entry in six bytes: number in the page and flags, and the two halves of the address.
#[derive(Clone, Copy)]
pub(super) struct PackedEntry(pub(super) [u16; 3]);

pub(super) const NUMBER_MASK: u16 = (1 << 10) - 1;
/// Flag: the page on flash does not hold this entry yet.
pub(super) const CHANGED: u16 = 1 << 10;
/// Flag: the page's own entry is known to be dead, and its bit is cleared.
pub(super) const RELEASED: u16 = 1 << 11;
/// Use count of the entry, 0 to 7. Eviction decrements it in each round, and evicts unchanged
/// entries at 0.
pub(super) const WANTED: u16 = 1 << 12;
pub(super) const WANTED_MASK: u16 = 7 * WANTED;

const _: () = assert!(MAP_PAGE_BLOCKS == NUMBER_MASK as u64 + 1);

impl PackedEntry {
    pub(super) fn new(number: u16, flags: u16, spot: PhysAddr) -> Self {
        let [a, b, c, d] = spot.0.to_le_bytes();
        Self([number | flags, u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])])
    }

    pub(super) const fn number(self) -> u16 {
        self.0[0] & NUMBER_MASK
    }

    pub(super) const fn has(self, flag: u16) -> bool {
        self.0[0] & flag != 0
    }

    pub(super) const fn want(&mut self) {
        if self.0[0] & WANTED_MASK != WANTED_MASK {
            self.0[0] += WANTED;
        }
    }

    pub(super) const fn spot(self) -> PhysAddr {
        PhysAddr(self.0[1] as u32 | (self.0[2] as u32) << 16)
    }
}
