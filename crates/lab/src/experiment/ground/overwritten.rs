//! Medium of a drive under preconditioning: drops those writes, because no read returns them.

use std::cell::Cell;
use std::rc::Rc;

use zonal_base::{Blocks, Buffer, Lba, Payload, ZoneId};
use zonal_device::DeviceError;
use zonal_emulator::Medium;

/// Keeps writes only once the switch is set.
#[derive(Debug)]
pub(super) struct Overwritten {
    medium: Box<dyn Medium>,
    is_kept: Rc<Cell<bool>>,
}

impl Overwritten {
    /// A medium that drops writes, and its switch.
    pub(super) fn new(medium: Box<dyn Medium>) -> (Self, Rc<Cell<bool>>) {
        let is_kept = Rc::new(Cell::new(false));
        (Self { medium, is_kept: is_kept.clone() }, is_kept)
    }
}

impl Medium for Overwritten {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        if self.is_kept.get() { self.medium.write(lba, data) } else { Ok(()) }
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        self.medium.read(lba, blocks, out)
    }

    fn prefetch(&self, lba: Lba) {
        self.medium.prefetch(lba);
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        self.medium.truncate(zone, written);
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.medium.flip_bit(lba, bit);
    }

    fn keeps_bytes(&self) -> bool {
        self.medium.keeps_bytes()
    }
}
