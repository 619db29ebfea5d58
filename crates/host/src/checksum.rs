//! CRC-32C, computed with the processor's instructions.

use crc_fast::{CrcAlgorithm, Digest};
use zonal_base::Checksum;

/// Length from which the wide folding of `crc-fast` outweighs its set-up, in bytes.
const WIDE_FROM_BYTES: usize = 512;

/// CRC-32C. Short inputs (keys, headers) take the CRC instruction; granules take carry-less
/// multiplication over wide registers, which is two to three times as fast (28 against 11 GB/s from
/// memory on the machine of `docs/results/first-slice.md`).
pub const CHECKSUM: Checksum = Checksum(|crc, bytes| {
    if bytes.len() < WIDE_FROM_BYTES {
        return crc32c::crc32c_append(crc, bytes);
    }
    // The digest expects the CRC register, which is the complement of the value.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a CRC of 32 bits")
});

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Rng;

    #[test]
    fn both_ways_give_the_published_values_and_each_other() {
        assert_eq!(CHECKSUM.of(0, b"123456789"), 0xE306_9283, "the check value of CRC-32C");
        assert_eq!(CHECKSUM.of(0, &[0; 32]), 0x8A91_36AA, "RFC 3720, B.4");
        let mut rng = Rng::new(3);
        let bytes: Vec<u8> = (0..70_000).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        for len in [511, 512, 513, 4096, 32768, 70_000] {
            let whole = crc32c::crc32c(&bytes[..len]);
            assert_eq!(CHECKSUM.of(0, &bytes[..len]), whole, "{len} bytes");
            let split = CHECKSUM.of(CHECKSUM.of(0, &bytes[..len / 3]), &bytes[len / 3..len]);
            assert_eq!(split, whole, "{len} bytes in two parts");
        }
    }
}
