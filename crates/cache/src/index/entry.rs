//! Index entry: 10 bytes, plus 4 for each granule of the record.
//!
//! ```text
//! bits  0..34  hash of the key, without the tag
//!          34  1: starts on a block of its own; 0: packed
//!      35..37  kind
//!      37..39  the policy's mark
//!          39  1: removed
//! whole:  40..60  block in the zone      60..80  length - 1
//! packed: 40..68  16-byte unit in the zone  68..80  length - 1
//! then 32 bits for each granule: its checksum
//! ```

use zonal_base::{BLOCK_BYTES, ZoneId, mix64};
use zonal_policy::PolicyTag;
use zonal_zonelog::{Checks, Extent, GRANULES_MAX, Key, Kind, Record, granule_count};

use super::{EntryPosition, EntryRef, IndexEntry};

const FIXED_BYTES: usize = 10;

/// Shortest entry in bytes.
pub(crate) const ENTRY_BYTES_MIN: u32 = zonal_base::low_u32(FIXED_BYTES);

/// Longest entry in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = FIXED_BYTES + 4 * GRANULES_MAX;

const HASH_BITS: u32 = 42;

/// Hash bits in the entry. The other 8 bits are the tag, which is in the slot of the table.
const REST_BITS: u32 = 34;
const WHOLE: u64 = 1 << 34;
const KIND_AT: u32 = 35;
const MARK_AT: u32 = 37;
const FORGOTTEN: u64 = 1 << 39;
const _: () = assert!(HASH_BITS - REST_BITS == u8::BITS);

const UNITS_PER_BLOCK: u32 = 256;
const _: () = assert!(UNITS_PER_BLOCK as usize * Extent::UNIT == BLOCK_BYTES);

/// 42-bit hash by which the index knows a key.
pub(crate) fn hash(key: Key) -> u64 {
    let [low, high] = halves(key.0);
    mix64(high ^ mix64(low)) >> (64 - HASH_BITS)
}

/// Tag: the hash bits in the table's slot.
#[expect(clippy::cast_possible_truncation, reason = "asserted to be so many")]
pub(crate) const fn tag(hash: u64) -> u8 {
    (hash >> REST_BITS) as u8
}

/// Rest: the hash bits in the entry.
pub(crate) const fn rest(hash: u64) -> u64 {
    hash & ((1 << REST_BITS) - 1)
}

/// Combines tag and rest to the hash.
pub(crate) const fn whole_hash(tag: u8, rest: u64) -> u64 {
    (tag as u64) << REST_BITS | rest
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits are 64 bits each")]
const fn halves(n: u128) -> [u64; 2] {
    [n as u64, (n >> 64) as u64]
}

pub(crate) fn encode(hash: u64, found: &IndexEntry, out: &mut [u8; ENTRY_BYTES_MAX]) -> usize {
    let Extent { offset, len, .. } = found.extent;
    assert!(0 < len && found.kind.0 < 4);
    let more = u64::from(found.kind.0) << KIND_AT | u64::from(found.mark.0) << MARK_AT;
    let mut word = rest(hash) | more;
    let place = if Record::is_packed(len) {
        u64::from(offset) | u64::from(len - 1) << 28
    } else {
        word |= WHOLE;
        u64::from(offset / UNITS_PER_BLOCK) | u64::from(len - 1) << 20
    };
    out[..5].copy_from_slice(&word.to_le_bytes()[..5]);
    out[5..10].copy_from_slice(&place.to_le_bytes()[..5]);
    let checks = found.checks.as_slice();
    for (at, check) in (FIXED_BYTES..).step_by(4).zip(checks) {
        out[at..at + 4].copy_from_slice(&check.to_le_bytes());
    }
    FIXED_BYTES + 4 * checks.len()
}

pub(crate) fn decode_rest(bytes: &[u8]) -> u64 {
    rest(word(bytes))
}

pub(crate) fn is_forgotten(bytes: &[u8]) -> bool {
    word(bytes) & FORGOTTEN != 0
}

pub(crate) fn forget(bytes: &mut [u8]) {
    let forgotten = word(bytes) | FORGOTTEN;
    bytes[..5].copy_from_slice(&forgotten.to_le_bytes()[..5]);
}

pub(crate) fn kind(bytes: &[u8]) -> Kind {
    Kind(((word(bytes) >> KIND_AT) & 3) as u8)
}

pub(crate) fn set_kind(bytes: &mut [u8], kind: Kind) {
    let others = bytes[4] & !(3 << (KIND_AT - 32));
    bytes[4] = others | kind.0 << (KIND_AT - 32);
}

pub(crate) fn mark(bytes: &[u8]) -> PolicyTag {
    PolicyTag((bytes[4] >> (MARK_AT - 32)) & PolicyTag::MAX.0)
}

pub(crate) fn set_mark(bytes: &mut [u8], mark: PolicyTag) {
    let others = bytes[4] & !(PolicyTag::MAX.0 << (MARK_AT - 32));
    bytes[4] = others | mark.0 << (MARK_AT - 32);
}

/// Length of the record in bytes.
pub(crate) fn record_len(bytes: &[u8]) -> u32 {
    place(bytes).1
}

/// Length of the entry in bytes.
pub(crate) fn size(bytes: &[u8]) -> usize {
    FIXED_BYTES + 4 * granule_count(place(bytes).1)
}

/// Decodes an entry with its checksums.
pub(super) fn decode(place: (ZoneId, EntryPosition), bytes: &[u8]) -> IndexEntry {
    let (EntryRef { extent, stand }, kind, mark) = glance(place, bytes);
    let checks = bytes[FIXED_BYTES..FIXED_BYTES + 4 * granule_count(extent.len)].chunks_exact(4);
    let checks: Checks =
        checks.map(|check| u32::from_le_bytes([check[0], check[1], check[2], check[3]])).collect();
    IndexEntry { extent, kind, checks, mark, stand }
}

/// Decodes an entry without its checksums.
pub(super) fn glance(
    (zone, stand): (ZoneId, EntryPosition),
    bytes: &[u8],
) -> (EntryRef, Kind, PolicyTag) {
    let (offset, len) = place(bytes);
    (EntryRef { extent: Extent { zone, offset, len }, stand }, kind(bytes), mark(bytes))
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..5].copy_from_slice(&bytes[..5]);
    u64::from_le_bytes(word)
}

/// Decodes the offset in units of [`Extent::UNIT`], and the length in bytes.
fn place(bytes: &[u8]) -> (u32, u32) {
    let mut place = [0; 8];
    place[..5].copy_from_slice(&bytes[5..10]);
    let place = u64::from_le_bytes(place);
    let field = |at: u32, bits: u32| (place >> at) & ((1 << bits) - 1);
    let narrow = |n: u64| zonal_base::low_u32(zonal_base::index(n));
    if word(bytes) & WHOLE == 0 {
        (narrow(field(0, 28)), narrow(field(28, 12)) + 1)
    } else {
        (narrow(field(0, 20)) * UNITS_PER_BLOCK, narrow(field(20, 20)) + 1)
    }
}
