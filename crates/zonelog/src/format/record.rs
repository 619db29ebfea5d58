//! Record descriptor: 36 bytes plus 4 for each granule, in segment headers and footers.

use alloc::vec::Vec;

use super::checks::granule_count;
use super::{Malformed, Reader};
use crate::{Descriptor, Key, Kind};

// 0 key, 16 generation, 24 offset, 28 length, 32 kind, 33 three zeros, 36 checks
const FIXED_BYTES: usize = 16 + 8 + 4 + 4 + 1 + 3;

/// Longest record: 1 MiB, the largest segment payload. A decoder rejects longer records.
pub(crate) const RECORD_BYTES_MAX: u32 = 1 << 20;

/// Bytes of the descriptor of a record of `len` bytes.
pub(crate) const fn descriptor_bytes(len: u32) -> usize {
    FIXED_BYTES + 4 * granule_count(len)
}

pub(crate) fn encode(record: &Descriptor, out: &mut Vec<u8>) {
    assert!(
        record.checks.as_slice().len() == granule_count(record.len)
            && record.len <= RECORD_BYTES_MAX
    );
    out.extend_from_slice(&record.key.0.to_le_bytes());
    out.extend_from_slice(&record.generation.to_le_bytes());
    out.extend_from_slice(&record.offset.to_le_bytes());
    out.extend_from_slice(&record.len.to_le_bytes());
    out.extend_from_slice(&[record.kind.0, 0, 0, 0]);
    for check in record.checks.as_slice() {
        out.extend_from_slice(&check.to_le_bytes());
    }
}

pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Descriptor, Malformed> {
    let key = Key(from.u128());
    let generation = from.u64();
    let (offset, len) = (from.u32(), from.u32());
    let kind = Kind(from.u8());
    let _zeros: [u8; 3] = from.array();
    if RECORD_BYTES_MAX < len {
        return Err(Malformed::Fields);
    }
    let checks = (0..granule_count(len)).map(|_| from.u32()).collect();
    if from.is_short() {
        return Err(Malformed::Fields);
    }
    Ok(Descriptor { key, generation, kind, offset, len, checks })
}
