//! Bytes where bytes were written, tags where tags were.

mod pieces;
mod text;

use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

use super::Medium;
use pieces::{PieceContents, Pieces};
use text::Text;

/// Keeps what it is given: of pieces that hold tags the first one, in 20 bytes; of others the bytes, without the
/// zeros at their end. What a long piece has in common with others of its zone is kept once: a log that lists at
/// the end of a zone what it has listed all along costs half.
#[derive(Clone, Debug)]
pub struct Tags {
    geometry: Geometry,
    zones: Vec<Pieces>,
}

/// Bytes of a piece that is compared with what the zone holds: more than any header has.
const SHARED_MIN: usize = 32 * 1024;

/// To compare takes as long as the zone holds bytes. So that is done while it holds no more than so many times those of the piece:
/// a list of what the zone holds is at least such a part of it, and one segment of small records is not.
const SHARED_MAX: usize = 16;

impl Tags {
    /// Of a drive that was never written.
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

/// What is kept of a piece that is written to a zone.
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

/// Gives blocks of a zone to a reader, from block `at` of the buffer on.
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
