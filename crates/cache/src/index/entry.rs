//! One entry: 11 bytes, and 4 for each granule of the record.
//!
//! ```text
//! bits  0..42  hash of the key
//!          42  1: starts on a block of its own; 0: packed
//!      43..45  kind
//!      45..47  the policy's mark
//!          47  1: forgotten
//! whole:  48..68  block in the zone      68..88  length - 1
//! packed: 48..76  16-byte unit in the zone  76..88  length - 1
//! then 32 bits for each granule: its check
//! ```

use zonal_base::{BLOCK_BYTES, ZoneId, mix64};
use zonal_policy::Mark;
use zonal_zonelog::{Checks, Extent, GRANULES_MAX, Key, Kind, Record, granule_count};

use super::{Found, Spot};

const FIXED_BYTES: usize = 11;

/// No entry is shorter.
pub(crate) const ENTRY_BYTES_MIN: u32 = zonal_base::low_u32(FIXED_BYTES);

/// The longest entry.
pub(crate) const ENTRY_BYTES_MAX: usize = FIXED_BYTES + 4 * GRANULES_MAX;

const HASH_BITS: u32 = 42;
const WHOLE: u64 = 1 << 42;
const KIND_AT: u32 = 43;
const MARK_AT: u32 = 45;
const FORGOTTEN: u64 = 1 << 47;

const UNITS_PER_BLOCK: u32 = 256;
const _: () = assert!(UNITS_PER_BLOCK as usize * Extent::UNIT == BLOCK_BYTES);

/// The bits by which the index knows a key.
pub(crate) fn hash(key: Key) -> u64 {
    let [low, high] = halves(key.0);
    mix64(high ^ mix64(low)) >> (64 - HASH_BITS)
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits are 64 bits each")]
const fn halves(n: u128) -> [u64; 2] {
    [n as u64, (n >> 64) as u64]
}

pub(crate) fn encode(hash: u64, found: &Found, out: &mut [u8; ENTRY_BYTES_MAX]) -> usize {
    let Extent { offset, len, .. } = found.extent;
    assert!(0 < len && found.kind.0 < 4);
    let mut word = hash | u64::from(found.kind.0) << KIND_AT | u64::from(found.mark.0) << MARK_AT;
    let place = if Record::is_packed(len) {
        u64::from(offset) | u64::from(len - 1) << 28
    } else {
        word |= WHOLE;
        u64::from(offset / UNITS_PER_BLOCK) | u64::from(len - 1) << 20
    };
    out[..6].copy_from_slice(&word.to_le_bytes()[..6]);
    out[6..11].copy_from_slice(&place.to_le_bytes()[..5]);
    let checks = found.checks.as_slice();
    for (at, check) in (FIXED_BYTES..).step_by(4).zip(checks) {
        out[at..at + 4].copy_from_slice(&check.to_le_bytes());
    }
    FIXED_BYTES + 4 * checks.len()
}

pub(crate) fn decode_hash(bytes: &[u8]) -> u64 {
    word(bytes) & ((1 << HASH_BITS) - 1)
}

pub(crate) fn is_forgotten(bytes: &[u8]) -> bool {
    word(bytes) & FORGOTTEN != 0
}

pub(crate) fn forget(bytes: &mut [u8]) {
    let forgotten = word(bytes) | FORGOTTEN;
    bytes[..6].copy_from_slice(&forgotten.to_le_bytes()[..6]);
}

pub(crate) fn mark(bytes: &[u8]) -> Mark {
    Mark((bytes[5] >> (MARK_AT - 40)) & Mark::MAX.0)
}

pub(crate) fn set_mark(bytes: &mut [u8], mark: Mark) {
    let others = bytes[5] & !(Mark::MAX.0 << (MARK_AT - 40));
    bytes[5] = others | mark.0 << (MARK_AT - 40);
}

/// Bytes from this entry to the next.
pub(crate) fn size(bytes: &[u8]) -> usize {
    FIXED_BYTES + 4 * granule_count(place(bytes).1)
}

/// An entry that stands at `at` in its arena.
pub(crate) fn decode(place: (ZoneId, u32), bytes: &[u8]) -> Found {
    let (Spot { extent, at }, kind, mark) = glance(place, bytes);
    let checks = bytes[FIXED_BYTES..FIXED_BYTES + 4 * granule_count(extent.len)].chunks_exact(4);
    let checks: Checks =
        checks.map(|check| u32::from_le_bytes([check[0], check[1], check[2], check[3]])).collect();
    Found { extent, kind, checks, mark, at }
}

/// The same without its checks.
pub(crate) fn glance((zone, at): (ZoneId, u32), bytes: &[u8]) -> (Spot, Kind, Mark) {
    let (offset, len) = place(bytes);
    let kind = Kind(((word(bytes) >> KIND_AT) & 3) as u8);
    (Spot { extent: Extent { zone, offset, len }, at }, kind, mark(bytes))
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..6].copy_from_slice(&bytes[..6]);
    u64::from_le_bytes(word)
}

/// Offset in units, and length.
fn place(bytes: &[u8]) -> (u32, u32) {
    let mut place = [0; 8];
    place[..5].copy_from_slice(&bytes[6..11]);
    let place = u64::from_le_bytes(place);
    let field = |at: u32, bits: u32| (place >> at) & ((1 << bits) - 1);
    let narrow = |n: u64| zonal_base::low_u32(zonal_base::index(n));
    if word(bytes) & WHOLE == 0 {
        (narrow(field(0, 28)), narrow(field(28, 12)) + 1)
    } else {
        (narrow(field(0, 20)) * UNITS_PER_BLOCK, narrow(field(20, 20)) + 1)
    }
}
