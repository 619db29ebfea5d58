//! CRC-32C, as a function that the host supplies.

use crate::tag::TAG_BYTES;

/// A checksum covers its seed first. The seed names the place of the bytes, so that a copy of them elsewhere fails.
pub type Seed = [u8; SEED_BYTES];

/// Bytes of a [`Seed`]: a key of 16, and a number of 8.
pub const SEED_BYTES: usize = 24;

/// CRC-32C (Castagnoli): continues from the value `crc`, which is 0 at the start.
///
/// The engine is `no_std` and cannot detect processor features, so the host supplies the fastest function it has. All of
/// them must compute the same polynomial, because the value is written to flash.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(pub fn(crc: u32, bytes: &[u8]) -> u32);

impl Checksum {
    /// The checksum of `bytes`, continued from `crc`.
    #[must_use]
    pub fn of(self, crc: u32, bytes: &[u8]) -> u32 {
        (self.0)(crc, bytes)
    }

    /// The checksum of `seed` and `bytes`. Short input is computed in one call, because a call costs as much as a few bytes.
    #[must_use]
    pub fn behind(self, seed: &Seed, bytes: &[u8]) -> u32 {
        if TAG_BYTES < bytes.len() {
            return self.of(self.of(0, seed), bytes);
        }
        let mut both = [0; SEED_BYTES + TAG_BYTES];
        both[..SEED_BYTES].copy_from_slice(seed);
        both[SEED_BYTES..SEED_BYTES + bytes.len()].copy_from_slice(bytes);
        self.of(0, &both[..SEED_BYTES + bytes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_at_once_or_in_two_parts_it_is_the_same() {
        let sum = Checksum(|crc, bytes| {
            bytes.iter().fold(crc, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte))
        });
        let seed = core::array::from_fn(|at| at.to_le_bytes()[0] + 1);
        for len in 0..40 {
            let bytes = [7; 40];
            let parts = sum.of(sum.of(0, &seed), &bytes[..len]);
            assert_eq!(sum.behind(&seed, &bytes[..len]), parts, "{len} bytes");
        }
    }
}
