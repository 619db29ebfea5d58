//! Compact medium: keeps tagged data as tags and other data as bytes with duplicates removed.

mod pieces;
mod text;

use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

use super::Medium;
use pieces::{PieceContents, Pieces};
use text::Text;

/// Medium that keeps tags instead of tagged data, at 20 bytes for a whole piece: the tag of its first block. Of other
/// pieces it keeps the bytes, without the zeros at their end. Bytes that a long piece has in common with others of
/// its zone are kept once. So a log that repeats at the end of a zone all its earlier entries costs half.
#[derive(Clone, Debug)]
pub struct Tags {
    geometry: Geometry,
    zones: Vec<Pieces>,
}

/// Minimum size of a piece for deduplication within its zone, in bytes: more than any header has.
const SHARED_MIN: usize = 32 * 1024;

/// Maximum ratio of the zone's bytes to the bytes of the piece for deduplication. The comparison takes time in
/// proportion to the bytes of the zone. A list of the zone's contents is at least this fraction of the zone, and one
/// segment of small records is not.
const SHARED_MAX: usize = 16;

impl Tags {
    /// Creates the medium of an empty drive.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        let zones = alloc::vec![Pieces::default(); geometry.zone_count as usize];
        Self { geometry: *geometry, zones }
    }

    fn locate(&self, lba: Lba) -> (usize, u32) {
        let at = self.geometry.offset_in_zone(lba).0;
        (self.geometry.zone_of(lba).0 as usize, zonal_base::low_u32(index(at)))
    }
}

/// Chooses the stored form of a piece that is written to a zone.
fn held(data: &Payload, zone: &Pieces) -> PieceContents {
    let bytes = || {
        let bytes = data.as_bytes();
        let held = || zone.texts().map(Text::len).sum::<usize>();
        match SHARED_MIN <= bytes.len() && held() <= SHARED_MAX * bytes.len() {
            true => Text::sharing(bytes, zone.texts()),
            false => Text::new(bytes),
        }
    };
    data.tag().map_or_else(|| PieceContents::Text(bytes()), PieceContents::Tag)
}

/// Copies stored blocks of a zone into a read buffer, from block `blocks.start` of the buffer on.
fn give(held: PieceContents, blocks: Range<usize>, out: &mut Buffer) {
    let bytes = |out: &mut Buffer, text: &Text| {
        let bytes = blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES;
        text.copy_to(&mut out.bytes_mut()[bytes]);
    };
    match held {
        PieceContents::Tag(tag) => out.set_tags(blocks, tag),
        PieceContents::Text(text) => bytes(out, &text),
        PieceContents::Nothing => bytes(out, &Text::default()),
    }
}

impl Medium for Tags {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        let (zone, mut at) = self.locate(lba);
        let zone = &mut self.zones[zone];
        for data in data {
            let end = at + zonal_base::low_u32(data.len() / BLOCK_BYTES);
            let held = held(data, zone);
            zone.write(at..end, held);
            at = end;
        }
        Ok(())
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let (zone, origin) = self.locate(lba);
        let wanted = origin..origin + zonal_base::low_u32(index(blocks.0));
        self.zones[zone].read(wanted, |part, held| {
            let [from, to] = [part.start, part.end].map(|block| (block - origin) as usize);
            give(held, from..to, out);
        });
        Ok(())
    }

    fn prefetch(&self, lba: Lba) {
        let (zone, at) = self.locate(lba);
        self.zones[zone].prefetch(at);
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        self.zones[zone.0 as usize].truncate(zonal_base::low_u32(index(written.0)));
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let (zone, at) = self.locate(lba);
        let zone = &mut self.zones[zone];
        let mut kept = PieceContents::Nothing;
        zone.read(at..at + 1, |_, held| kept = held);
        let flipped = match kept {
            PieceContents::Nothing => return,
            PieceContents::Tag(mut tag) => {
                tag.source ^= 1 << (bit % u64::BITS);
                PieceContents::Tag(tag)
            }
            PieceContents::Text(text) => {
                let mut block = alloc::vec![0; BLOCK_BYTES];
                text.copy_to(&mut block);
                block[bit as usize / 8 % BLOCK_BYTES] ^= 1 << (bit % 8);
                PieceContents::Text(Text::new(&block))
            }
        };
        zone.write(at..at + 1, flipped);
    }
}
