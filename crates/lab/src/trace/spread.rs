//! Hashing of object ids: spreads neighbours and multiples over 64 bits.

use std::hash::{BuildHasherDefault, Hasher};

/// MurmurHash3 finalizer, a bijection: equal ids stay equal, different ids stay different.
pub(crate) const fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let number = (number ^ number >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    number ^ number >> 33
}

/// Number of bits in a [`name`].
pub(super) const NAME_BITS: u32 = 48;

/// Object name: a 48-bit hash of the id. Ids below 2^32 never collide. Larger ids collide with one
/// of a million objects about once in 300 million requests.
#[expect(clippy::cast_possible_truncation, reason = "what is cut off is 0")]
pub(super) const fn name(id: u64) -> u64 {
    if id >> u32::BITS != 0 {
        return spread(id) >> (u64::BITS - NAME_BITS);
    }
    let upper = spread_short(id as u32) as u64;
    upper << (NAME_BITS - u32::BITS) | upper & 0xFFFF
}

/// The MurmurHash3 finalizer for 32 bits.
const fn spread_short(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85EB_CA6B);
    let number = (number ^ number >> 13).wrapping_mul(0xC2B2_AE35);
    number ^ number >> 16
}

/// Hash map keyed by ids. It needs no protection against crafted keys: users replay their own
/// traces.
pub(crate) type NumberMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Spread>>;

/// Hasher of a single number.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = spread(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
