//! The checksum that the host hands in.

/// CRC-32C (Castagnoli), continued from a previous value; start with 0.
///
/// The core is `no_std` and cannot ask the processor what it offers, so whoever builds the engine
/// hands in the fastest function it has. All of them must compute the same polynomial: the value is
/// written to flash.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(pub fn(crc: u32, bytes: &[u8]) -> u32);

impl Checksum {
    /// The checksum of `bytes`, continued from `crc`.
    #[must_use]
    pub fn of(self, crc: u32, bytes: &[u8]) -> u32 {
        (self.0)(crc, bytes)
    }
}
