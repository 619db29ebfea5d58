//! On-flash format of the log, byte by byte (`docs/formats/zonelog.md`). All numbers are little-endian.

use zonal_base::Checksum;

use crate::Identity;

pub(crate) mod checks;
pub(crate) mod footer;
pub(crate) mod mark;
pub(crate) mod record;
pub(crate) mod segment;

/// The version that this code writes, in every header. Readers refuse any other.
pub(crate) const VERSION: u16 = 1;

/// Why bytes are not what they were taken for. Never a fault of the device: the log decides what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not ours at all.
    Magic,
    /// Ours, of a version that this code does not read.
    Version(u16),
    /// Damaged, torn, or left over.
    Checksum,
    /// The fields contradict each other.
    Fields,
}

/// Reads fields one after the other; past the end it yields zeros and says so at the end.
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

/// What mark, segment header and trailer have in common: 64 bytes with the magic at 0, the version at 4,
/// the identity at 8, and at 60 the checksum of the bytes before it. All versions to come keep that, so
/// that a damaged block is never taken for one of another version.
pub(crate) const FRAME_BYTES: usize = 64;
const CRC_AT: usize = 60;

pub(crate) type Frame = [u8; FRAME_BYTES];

/// A frame with zeros for what is its own: bytes 6 and 7, and 28 to 60.
pub(crate) fn frame(magic: [u8; 4], identity: &Identity) -> Frame {
    let mut frame = [0; FRAME_BYTES];
    frame[..4].copy_from_slice(&magic);
    frame[4..6].copy_from_slice(&VERSION.to_le_bytes());
    frame[8..24].copy_from_slice(&identity.log);
    frame[24..26].copy_from_slice(&identity.shard.to_le_bytes());
    frame[26..28].copy_from_slice(&identity.shard_count.to_le_bytes());
    frame
}

/// Puts the checksum in and says what it is.
pub(crate) fn close_frame(frame: &mut Frame, checksum: Checksum) -> u32 {
    let crc = checksum.of(0, &frame[..CRC_AT]);
    frame[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// What stands in a frame that is not damaged.
pub(crate) struct Opened<'a> {
    pub(crate) identity: Identity,
    /// Bytes 6 and 7.
    pub(crate) small: [u8; 2],
    /// Bytes 28 to 60.
    pub(crate) fields: Reader<'a>,
    pub(crate) crc: u32,
}

/// Looks at a frame.
pub(crate) fn open_frame(
    frame: &Frame,
    magic: [u8; 4],
    checksum: Checksum,
) -> Result<Opened<'_>, Malformed> {
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
    Ok(Opened { identity, small, fields, crc })
}

#[cfg(test)]
mod tests;
