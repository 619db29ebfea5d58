//! Compact medium: stores only the start of mostly zero blocks, so that a drive of real size fits
//! into a test's memory.

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};
use zonal_emulator::Medium;

/// Bytes kept of a client block; the rest is zeros.
const SHORT: usize = 16;

/// Medium of an emulated drive that keeps real bytes.
#[derive(Debug)]
pub(crate) struct Compact {
    geometry: Geometry,
    zones: Vec<Vec<Held>>,
}

#[derive(Debug)]
enum Held {
    Short([u8; SHORT]),
    /// A header or a map page, kept in full.
    Whole(Box<[u8]>),
}

impl Compact {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let zones = (0..geometry.zone_count).map(|_| Vec::new()).collect();
        Self { geometry: *geometry, zones }
    }

    fn locate(&mut self, lba: Lba) -> (&mut Vec<Held>, usize) {
        let zone = self.geometry.zone_of(lba);
        let at = index(self.geometry.offset_in_zone(lba).0);
        (&mut self.zones[index(u64::from(zone.0))], at)
    }
}

impl Held {
    fn of(block: &[u8]) -> Self {
        let (front, rest) = block.split_at(SHORT);
        match rest.iter().all(|byte| *byte == 0) {
            true => Self::Short(*front.first_chunk().expect("it was split there")),
            false => Self::Whole(block.into()),
        }
    }
}

impl Medium for Compact {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        let (zone, mut at) = self.locate(lba);
        for block in data.iter().flat_map(|piece| piece.as_bytes().chunks(BLOCK_BYTES)) {
            let held = Held::of(block);
            if at < zone.len() {
                zone[at] = held;
            } else {
                zone.resize_with(at, || Held::Short([0; SHORT]));
                zone.push(held);
            }
            at += 1;
        }
        Ok(())
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let (zone, at) = self.locate(lba);
        let out = out.bytes_mut()[..index(blocks.bytes().0)].chunks_mut(BLOCK_BYTES);
        for (n, out) in out.enumerate() {
            match zone.get(at + n) {
                Some(Held::Whole(block)) => out.copy_from_slice(block),
                Some(Held::Short(front)) => {
                    out[..SHORT].copy_from_slice(front);
                    out[SHORT..].fill(0);
                }
                None => out.fill(0),
            }
        }
        Ok(())
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        self.zones[index(u64::from(zone.0))].truncate(index(written.0));
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let (zone, at) = self.locate(lba);
        let mut block = vec![0; BLOCK_BYTES];
        match zone.get(at) {
            Some(Held::Whole(whole)) => block.copy_from_slice(whole),
            Some(Held::Short(front)) => block[..SHORT].copy_from_slice(front),
            None => return,
        }
        block[bit as usize / 8 % BLOCK_BYTES] ^= 1 << (bit % 8);
        zone[at] = Held::of(&block);
    }
}
