//! Backing file format of a modelled drive (`docs/formats/backing.md`).

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, ZoneId, index, low_u32};
use zonal_device::{DeviceKind, Geometry};
use zonal_emulator::{Model, ZoneImage};

use crate::OpenError;

const MAGIC: [u8; 8] = *b"ZNLDRIVE";

const VERSION: u16 = 1;

/// Header: magic, version, zero, zone count, zone capacity in blocks, model name, checksum.
const HEADER_BYTES: usize = 8 + 2 + 2 + 4 + 4 + NAME_BYTES + 4;
const NAME_BYTES: usize = 16;

/// Position of the zone table in the file, in bytes.
const TABLE: u64 = BLOCK_BYTES as u64;

/// Entry of the zone table: data blocks, finished flag, zone number, checksum.
const ENTRY_BYTES: usize = 4 + 4 + 4 + 4;

/// Alignment of the data area.
const DATA_ALIGNMENT: Bytes = Bytes::mib(1);

/// Layout of a backing file: header, zone table, data of the zones.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackingLayout {
    name: &'static str,
    geometry: Geometry,
}

impl BackingLayout {
    pub(super) fn of(model: &Model) -> Self {
        let name = model.name();
        assert!(name.len() <= NAME_BYTES);
        Self { name, geometry: *model.geometry() }
    }

    pub(super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// True when the drive keeps its zones. Otherwise the host keeps them, and recovers them from
    /// the data.
    pub(super) fn keeps_zones(&self) -> bool {
        self.geometry.kind == DeviceKind::Zoned
    }

    /// Size of the whole file.
    pub(super) const fn size(&self) -> Bytes {
        Bytes(self.data() + self.geometry.writable().0)
    }

    const fn data(&self) -> u64 {
        let end = TABLE + self.geometry.zone_count as u64 * ENTRY_BYTES as u64;
        end.next_multiple_of(DATA_ALIGNMENT.0)
    }

    /// Position of a block in the file, in bytes. Requires: the block lies within the capacity of
    /// its zone.
    pub(super) const fn position(&self, lba: Lba) -> u64 {
        let zone = self.geometry.zone_of(lba).0 as u64;
        let at = zone * self.geometry.zone_capacity.0 + self.geometry.offset_in_zone(lba).0;
        self.data() + Blocks(at).bytes().0
    }

    /// Writes the header: the file belongs to this drive from then on.
    pub(super) fn sign(&self, file: &File) -> Result<(), Errno> {
        write_all(file, &self.header(), 0)
    }

    /// Writes the table entry of a zone.
    pub(super) fn keep(&self, file: &File, zone: ZoneId, kept: ZoneImage) -> Result<(), Errno> {
        write_all(file, &entry(zone, kept), place_of(zone))
    }

    /// Reads the state of all zones. Missing bytes of a truncated file count as never written.
    pub(super) fn read(&self, file: &File, path: &Path) -> Result<Vec<ZoneImage>, OpenError> {
        let io = |errno| OpenError::io("read", path, errno);
        let mut header = [0; HEADER_BYTES];
        read_all(file, &mut header, 0).map_err(io)?;
        let checked = self.check(&header);
        checked.map_err(|why| OpenError::NotThisDrive { path: path.into(), why })?;
        let mut kept = vec![ZoneImage::default(); self.geometry.zone_count as usize];
        if !self.keeps_zones() {
            return Ok(kept);
        }
        let mut table = vec![0; kept.len() * ENTRY_BYTES];
        read_all(file, &mut table, TABLE).map_err(io)?;
        let (entries, _) = table.as_chunks::<ENTRY_BYTES>();
        for ((zone, kept), bytes) in self.geometry.zones().zip(&mut kept).zip(entries) {
            *kept = self.kept(zone, bytes).ok_or_else(|| {
                let zone = zone.0;
                let why = format!(
                    "the state of zone {zone} of the modelled drive is corrupt: delete the file, \
                     which loses its contents"
                );
                OpenError::NotThisDrive { path: path.into(), why }
            })?;
        }
        Ok(kept)
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&self.geometry.zone_count.to_le_bytes());
        header[16..20].copy_from_slice(&narrow(self.geometry.zone_capacity).to_le_bytes());
        header[20..20 + self.name.len()].copy_from_slice(self.name.as_bytes());
        let crc = crc32c::crc32c(&header[..36]);
        header[36..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// # Errors
    /// When the file belongs to another drive or to none. The text says what the user should do.
    fn check(&self, header: &[u8; HEADER_BYTES]) -> Result<(), String> {
        const FOREIGN: &str =
            "is not the backing file of a modelled drive: name another with backing=, or delete it";
        let version = u16::from_le_bytes([header[8], header[9]]);
        if header[..8] != MAGIC {
            return Err(FOREIGN.into());
        }
        if version != VERSION {
            return Err(format!(
                "is the backing file of a modelled drive in format version {version}, which this \
                 program cannot read: use the program that wrote it, or delete the file"
            ));
        }
        if crc32c::crc32c(&header[..36]).to_le_bytes() != header[36..] {
            return Err(FOREIGN.into());
        }
        if *header == self.header() {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&header[20..36]);
        let (name, count) = (name.trim_end_matches('\0'), u32_at(header, 12));
        let capacity = Blocks(u64::from(u32_at(header, 16))).bytes();
        Err(format!(
            "is the backing file of another modelled drive, {name} with {count} zones of \
             {capacity}: use this spec, or name another file with backing="
        ))
    }

    /// Decodes an entry; `None` when it is damaged. An entry that was never written is all zeros.
    fn kept(&self, zone: ZoneId, bytes: &[u8; ENTRY_BYTES]) -> Option<ZoneImage> {
        if *bytes == [0; ENTRY_BYTES] {
            return Some(ZoneImage::default());
        }
        let data = Blocks(u64::from(u32_at(bytes, 0)));
        let kept = ZoneImage { data, is_finished: bytes[4] == 1 };
        let is_whole = *bytes == entry(zone, kept) && data <= self.geometry.zone_capacity;
        is_whole.then_some(kept)
    }
}

const fn place_of(zone: ZoneId) -> u64 {
    TABLE + zone.0 as u64 * ENTRY_BYTES as u64
}

fn entry(zone: ZoneId, kept: ZoneImage) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..4].copy_from_slice(&narrow(kept.data).to_le_bytes());
    entry[4] = u8::from(kept.is_finished);
    entry[8..12].copy_from_slice(&zone.0.to_le_bytes());
    let crc = crc32c::crc32c(&entry[..12]);
    entry[12..].copy_from_slice(&crc.to_le_bytes());
    entry
}

/// Blocks within a zone as 32 bits: a zone has at most 4 GiB.
fn narrow(blocks: Blocks) -> u32 {
    low_u32(index(blocks.0))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

/// Reads bytes from the file. Bytes beyond its end are zeros.
pub(super) fn read_all(file: &File, mut out: &mut [u8], mut at: u64) -> Result<(), Errno> {
    while !out.is_empty() {
        match rustix::io::pread(file, &mut *out, at) {
            Ok(0) => {
                out.fill(0);
                return Ok(());
            }
            Ok(read) => {
                out = &mut out[read..];
                at += read as u64;
            }
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(super) fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
