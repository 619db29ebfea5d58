//! Packed list entry of the paged map: six bytes for one block.

use super::MAP_PAGE_BLOCKS;
use crate::layout::Spot;

/// One place of a list: number in the page and flags, and the two halves of the spot. Six bytes.
#[derive(Clone, Copy)]
pub(super) struct PackedEntry(pub(super) [u16; 3]);

pub(super) const NUMBER_MASK: u16 = (1 << 10) - 1;
/// The page does not say this yet.
pub(super) const CHANGED: u16 = 1 << 10;
/// What the page says instead is known to be dead, and has no bit.
pub(super) const RELEASED: u16 = 1 << 11;
/// How often somebody asked for it: each time that room is looked for takes one away, and at none the place may go.
pub(super) const WANTED: u16 = 1 << 12;
pub(super) const WANTED_MASK: u16 = 7 * WANTED;

const _: () = assert!(MAP_PAGE_BLOCKS == NUMBER_MASK as u64 + 1);

impl PackedEntry {
    pub(super) fn new(number: u16, flags: u16, spot: Spot) -> Self {
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

    pub(super) const fn spot(self) -> Spot {
        Spot(self.0[1] as u32 | (self.0[2] as u32) << 16)
    }
}
