//! Checksum granules: a read of a small range reads and verifies only the granules that it touches.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Checksum, Payload, SEED_BYTES, Seed};

use super::record::RECORD_BYTES_MAX;
use crate::Key;

/// Bytes under one checksum: 32 KiB. An aligned read of 4 KiB costs at most eight times its size in
/// device bytes, and a 64 KiB chunk costs 8 bytes of memory for checksums. See
/// `docs/decisions/granules.md`.
pub const GRANULE_BYTES: usize = 32 * 1024;

/// Number of granules in a record of `len` bytes.
#[must_use]
pub const fn granule_count(len: u32) -> usize {
    (len as usize).div_ceil(GRANULE_BYTES)
}

/// Granules of the longest record.
pub const GRANULES_MAX: usize = granule_count(RECORD_BYTES_MAX);

/// Checksums stored inline, without heap memory: enough for a chunk of the default size, 256 KiB. A
/// read passes them on about ten times.
const FEW: usize = 8;

/// Granule checksums of one record, by value: they outlive the index entry that they came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Checks(StoredChecks);

#[derive(Clone, PartialEq, Eq)]
enum StoredChecks {
    /// Count, and the values inline; unused ones are 0.
    Few(u8, [u32; FEW]),
    Many(Box<[u32]>),
}

impl Checks {
    /// No checksums: for a record without bytes, such as a tombstone.
    pub const NONE: Self = Self(StoredChecks::Few(0, [0; FEW]));

    /// CRC-32C values, one per granule, in the order of the record.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        match &self.0 {
            StoredChecks::Few(count, values) => &values[..usize::from(*count)],
            StoredChecks::Many(values) => values,
        }
    }
}

impl FromIterator<u32> for Checks {
    fn from_iter<I: IntoIterator<Item = u32>>(checks: I) -> Self {
        let (mut count, mut values) = (0, [0; FEW]);
        let mut checks = checks.into_iter();
        while let Some(check) = checks.next() {
            let Some(place) = values.get_mut(usize::from(count)) else {
                let few = values.into_iter().chain([check]);
                return Self(StoredChecks::Many(few.chain(checks).collect::<Vec<u32>>().into()));
            };
            (*place, count) = (check, count + 1);
        }
        Self(StoredChecks::Few(count, values))
    }
}

impl core::fmt::Debug for Checks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// Prefix of a granule's checksum: the record's key and the granule's number. So intact bytes of
/// another record, or of another granule, do not pass. The checksum continues over the granule's
/// bytes.
pub(crate) fn seed(key: Key, granule: usize) -> Seed {
    let mut seed = [0; SEED_BYTES];
    seed[..16].copy_from_slice(&key.0.to_le_bytes());
    seed[16..].copy_from_slice(&(granule as u64).to_le_bytes());
    seed
}

/// Computes the checksums of a record of `len` bytes.
pub(crate) fn checks(checksum: Checksum, key: Key, len: u32, data: &Payload) -> Checks {
    let granules = (0..len as usize).step_by(GRANULE_BYTES).enumerate();
    let check = |(granule, from): (usize, usize)| {
        let part = from..(from + GRANULE_BYTES).min(len as usize);
        data.checksum(checksum, &seed(key, granule), part)
    };
    granules.map(check).collect()
}
