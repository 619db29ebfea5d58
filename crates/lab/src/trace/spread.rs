//! Numbers that may be neighbours, or multiples of something, spread over 64 bits.

use std::hash::{BuildHasherDefault, Hasher};

/// The finish of MurmurHash3: equal numbers stay equal, different ones different.
pub(super) const fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let number = (number ^ number >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    number ^ number >> 33
}

/// A map by numbers. Nobody chooses them to do harm: traces are files of one's own.
pub(super) type NumberMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Spread>>;

/// Hashes one number.
#[derive(Default)]
pub(super) struct Spread(u64);

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
