//! Data of a modelled drive in its backing file.

use std::fs::File;

use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::DeviceError;
use zonal_emulator::{Medium, ZoneImage};

use super::backing::{BackingLayout, read_all, write_all};
use super::fault_file::{FaultFile, FaultMode};
use crate::health::{Direction, Health};

/// Backing file as the medium of the model. I/O goes through the page cache: otherwise a model of a
/// drive that is faster than the disk below could not keep the drive's times. Only a flush makes
/// writes durable on the disk.
#[derive(Debug)]
pub(super) struct FileMedium {
    file: File,
    layout: BackingLayout,
    /// State of the zones, as in the file's zone table.
    kept: Vec<ZoneImage>,
    health: Health,
    trouble: FaultFile,
}

impl FileMedium {
    pub(super) const fn new(
        file: File,
        layout: BackingLayout,
        kept: Vec<ZoneImage>,
        health: Health,
        trouble: FaultFile,
    ) -> Self {
        Self { file, layout, kept, health, trouble }
    }

    pub(super) fn kept(&self) -> &[ZoneImage] {
        &self.kept
    }

    /// Blocks of a zone with data in the file. The rest of the zone reads as zeros, whatever the
    /// file has there.
    fn data(&self, zone: ZoneId) -> Blocks {
        match self.layout.keeps_zones() {
            true => self.kept[zone.0 as usize].data,
            false => self.layout.geometry().zone_capacity,
        }
    }

    fn try_write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), Errno> {
        if self.trouble.mode() == FaultMode::Full {
            return Err(Errno::NOSPC);
        }
        let mut at = self.layout.position(lba);
        for piece in data {
            write_all(&self.file, piece.as_bytes(), at)?;
            at += piece.len() as u64;
        }
        let geometry = self.layout.geometry();
        let (zone, begin) = (geometry.zone_of(lba), geometry.offset_in_zone(lba));
        let end = begin + Blocks((at - self.layout.position(lba)) / BLOCK_BYTES as u64);
        self.keep(zone, ZoneImage { data: end, is_finished: false })
    }

    /// Writes the table entry of a zone. A write calls this after its data, because the process may
    /// end in between.
    fn keep(&mut self, zone: ZoneId, kept: ZoneImage) -> Result<(), Errno> {
        if !self.layout.keeps_zones() {
            return Ok(());
        }
        self.layout.keep(&self.file, zone, kept)?;
        self.kept[zone.0 as usize] = kept;
        Ok(())
    }

    /// Writes the table entry, or marks the device as lost. Zone management returns no error of the
    /// medium, so that the loss shows in later reads and writes.
    fn keep_or_lose(&mut self, zone: ZoneId, kept: ZoneImage) {
        let outcome = self.keep(zone, kept);
        if let Err(errno) = outcome {
            self.health.lose(errno);
        }
    }
}

impl Medium for FileMedium {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        let outcome = self.try_write(lba, data);
        self.health.classify(Direction::Write, outcome)
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let geometry = self.layout.geometry();
        let (zone, begin) = (geometry.zone_of(lba), geometry.offset_in_zone(lba));
        let there = Blocks(self.data(zone).0.saturating_sub(begin.0)).min(blocks);
        let out = &mut out.bytes_mut()[..index(blocks.bytes().0)];
        let (front, rest) = out.split_at_mut(index(there.bytes().0));
        rest.fill(0);
        let outcome = read_all(&self.file, front, self.layout.position(lba));
        self.health.classify(Direction::Read, outcome)
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        let data = written.min(self.data(zone));
        self.keep_or_lose(zone, ZoneImage { data, is_finished: false });
    }

    fn finish(&mut self, zone: ZoneId) {
        let data = self.data(zone);
        self.keep_or_lose(zone, ZoneImage { data, is_finished: true });
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let bit = bit as usize % (BLOCK_BYTES * 8);
        let (at, mut byte) = (self.layout.position(lba) + (bit / 8) as u64, [0]);
        let flipped = read_all(&self.file, &mut byte, at)
            .and_then(|()| write_all(&self.file, &[byte[0] ^ 1 << (bit % 8)], at));
        // Errors are ignored: a bit that did not flip is a fault that was not injected.
        let _ = flipped;
    }
}
