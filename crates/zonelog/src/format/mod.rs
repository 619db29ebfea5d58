//! On-flash format of the log, byte by byte (`docs/formats/zonelog.md`). All numbers are
//! little-endian.

use zonal_base::Checksum;

use crate::Identity;

pub(crate) mod checks;
pub(crate) mod footer;
pub(crate) mod manifest;
pub(crate) mod mark;
pub(crate) mod record;
pub(crate) mod segment;

/// Format version in every header: of this layout, and of the records that the cache stores. Readers
/// refuse any other.
pub(crate) const VERSION: u16 = 3;

/// Decoding failure. It is never reported as a device error: the log decides what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Another magic number: not this kind of block.
    Magic,
    /// A valid Zonal block of another format version.
    Version(u16),
    /// A checksum does not match: the block is damaged, torn, or mixed with older data.
    Checksum,
    /// Fields out of range, or a block that is too short.
    Fields,
}

/// Reads little-endian fields in order. Past the end it returns zeros, and `is_short` is true.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    short: bool,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, short: false }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.bytes.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.bytes = rest;
                *field
            }
            None => {
                self.short = true;
                [0; N]
            }
        }
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(crate) fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.array())
    }

    pub(crate) const fn is_short(&self) -> bool {
        self.short
    }
}

/// Common frame of mark, segment header and trailer: 64 bytes with the magic at 0, the version at
/// 4, the identity at 8, and at 60 the checksum of the bytes before it. All future versions must
/// keep this layout, so that a damaged block is never taken for a block of another version.
pub(crate) const FRAME_BYTES: usize = 64;
const CRC_AT: usize = 60;

pub(crate) type Frame = [u8; FRAME_BYTES];

/// Returns a frame with the common fields. The type's own fields (bytes 6 and 7, and 28 to 60) are
/// zero.
pub(crate) fn frame(magic: [u8; 4], identity: &Identity) -> Frame {
    let mut frame = [0; FRAME_BYTES];
    frame[..4].copy_from_slice(&magic);
    frame[4..6].copy_from_slice(&VERSION.to_le_bytes());
    frame[8..24].copy_from_slice(&identity.log);
    frame[24..26].copy_from_slice(&identity.shard.to_le_bytes());
    frame[26..28].copy_from_slice(&identity.shard_count.to_le_bytes());
    frame
}

/// Writes the frame's checksum and returns it.
pub(crate) fn close_frame(frame: &mut Frame, checksum: Checksum) -> u32 {
    let crc = checksum.of(0, &frame[..CRC_AT]);
    frame[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Contents of a valid frame.
pub(crate) struct OpenFrame<'a> {
    pub(crate) identity: Identity,
    /// Bytes 6 and 7.
    pub(crate) small: [u8; 2],
    /// Bytes 28 to 60.
    pub(crate) fields: Reader<'a>,
    pub(crate) crc: u32,
}

/// Verifies a frame and returns its contents.
pub(crate) fn open_frame(
    frame: &Frame,
    magic: [u8; 4],
    checksum: Checksum,
) -> Result<OpenFrame<'_>, Malformed> {
    let mut fields = Reader::new(frame);
    if fields.array() != magic {
        return Err(Malformed::Magic);
    }
    let version = fields.u16();
    let small = fields.array();
    let (log, shard, shard_count) = (fields.array(), fields.u16(), fields.u16());
    let identity = Identity { log, shard, shard_count };
    let crc = Reader::new(&frame[CRC_AT..]).u32();
    if crc != checksum.of(0, &frame[..CRC_AT]) {
        return Err(Malformed::Checksum);
    }
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    Ok(OpenFrame { identity, small, fields, crc })
}

#[cfg(test)]
mod tests;
