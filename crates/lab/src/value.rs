//! Values that say what they are: every sector carries its key and its offset.
//!
//! Made by copying a template and stamping it, so that a made-up origin costs little more than the
//! memory it fills; what it does cost is measured on the thread's clock and can be subtracted.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zonal_base::{Rng, index};

use crate::bench::thread_cpu;

/// What carries a stamp: the smallest unit that a device can tear or misplace.
const SECTOR: usize = 512;

/// Key and offset, each in 8 bytes, little-endian.
const STAMP: usize = 16;

/// What follows the stamp in every sector: noise, the same in all.
fn template() -> &'static [u8; SECTOR] {
    static TEMPLATE: OnceLock<[u8; SECTOR]> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let mut bytes = [0; SECTOR];
        fill_noise(&mut bytes);
        bytes
    })
}

/// Fills `bytes` with noise that no device compresses.
pub(crate) fn fill_noise(bytes: &mut [u8]) {
    let mut rng = Rng::new(bytes.len() as u64);
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
}

fn stamp(key: u64, offset: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[..8].copy_from_slice(&key.to_le_bytes());
    stamp[8..].copy_from_slice(&offset.to_le_bytes());
    stamp
}

/// The sector of `key` that begins at `offset`.
fn sector(key: u64, offset: u64) -> [u8; SECTOR] {
    let mut bytes = *template();
    bytes[..STAMP].copy_from_slice(&stamp(key, offset));
    bytes
}

/// A made-up origin, and the CPU time that it took.
#[derive(Debug, Default)]
pub struct Generator {
    cpu_nanos: AtomicU64,
    made_bytes: AtomicU64,
}

impl Generator {
    /// The bytes of a range of a value. Requires: it begins at a multiple of 512.
    #[must_use]
    pub fn make(&self, key: u64, range: Range<u64>) -> Vec<u8> {
        assert!(range.start.is_multiple_of(SECTOR as u64) && range.start <= range.end);
        let before = thread_cpu();
        let len = index(range.end - range.start);
        let mut bytes = Vec::with_capacity(len.next_multiple_of(SECTOR));
        while bytes.len() < len {
            let offset = range.start + bytes.len() as u64;
            bytes.extend_from_slice(&stamp(key, offset));
            bytes.extend_from_slice(&template()[STAMP..]);
        }
        bytes.truncate(len);
        let took = u64::try_from(thread_cpu().saturating_sub(before).as_nanos());
        self.cpu_nanos.fetch_add(took.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.made_bytes.fetch_add(len as u64, Ordering::Relaxed);
        bytes
    }

    /// CPU time of all that was made.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    /// Bytes that were made.
    #[must_use]
    pub fn made_bytes(&self) -> u64 {
        self.made_bytes.load(Ordering::Relaxed)
    }
}

/// Bytes that are not those of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBytes {
    /// Of which key.
    pub key: u64,
    /// Where in the value.
    pub offset: u64,
}

impl fmt::Display for WrongBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong bytes: key {:x} at offset {}", self.key, self.offset)
    }
}

/// Checks one response as it arrives: its stamp always, all of it on demand.
#[derive(Clone, Debug)]
pub struct Check {
    key: u64,
    range: Range<u64>,
    position: u64,
    depth: Depth,
    wrong: Option<WrongBytes>,
}

/// How much of a response is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Stamp,
    All,
}

impl Check {
    /// Looks at the first 16 bytes. Requires: the range begins at a multiple of 512.
    #[must_use]
    pub const fn stamp(key: u64, range: Range<u64>) -> Self {
        let position = range.start;
        Self { key, range, position, depth: Depth::Stamp, wrong: None }
    }

    /// Looks at every byte. Requires: the range begins at a multiple of 512.
    #[must_use]
    pub const fn all(key: u64, range: Range<u64>) -> Self {
        let position = range.start;
        Self { key, range, position, depth: Depth::All, wrong: None }
    }

    /// The next bytes of the response.
    pub fn take(&mut self, bytes: &[u8]) {
        let end = self.position + bytes.len() as u64;
        let looked_at = match self.depth {
            Depth::Stamp => (self.range.start + STAMP as u64).min(end),
            Depth::All => end,
        };
        let mut rest = bytes;
        let mut at = self.position;
        while at < looked_at {
            let start = at - at % SECTOR as u64;
            let from = index(at - start);
            let len = index(looked_at - at).min(SECTOR - from);
            let (part, after) = rest.split_at(len);
            if part != &sector(self.key, start)[from..from + len] {
                self.wrong.get_or_insert(WrongBytes { key: self.key, offset: at });
            }
            rest = after;
            at += len as u64;
        }
        self.position = end;
    }

    /// After the last bytes.
    ///
    /// # Errors
    /// When any byte was wrong, missing, or too many.
    pub fn finish(self) -> Result<(), WrongBytes> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None if self.position != self.range.end => {
                Err(WrongBytes { key: self.key, offset: self.position })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: u64, range: Range<u64>) -> Vec<u8> {
        Generator::default().make(key, range)
    }

    #[track_caller]
    fn check_all(key: u64, range: Range<u64>, bytes: &[u8]) -> Result<(), WrongBytes> {
        let mut check = Check::all(key, range);
        // In pieces of an odd size, as a network delivers them.
        bytes.chunks(777).for_each(|piece| check.take(piece));
        check.finish()
    }

    #[test]
    fn a_range_of_a_value_is_that_part_of_the_whole() {
        let whole = value(9, 0..10_000);
        assert_eq!(value(9, 4096..10_000), whole[4096..]);
        assert_eq!(value(9, 512..600), whole[512..600]);
        assert_eq!(check_all(9, 0..10_000, &whole), Ok(()));
        assert_eq!(check_all(9, 4096..10_000, &whole[4096..]), Ok(()));
    }

    #[test]
    fn another_key_another_offset_and_one_flipped_bit_are_found() {
        let whole = value(9, 0..8192);
        assert!(check_all(8, 0..8192, &whole).is_err());
        assert!(check_all(9, 0..4096, &whole[4096..]).is_err());
        let mut flipped = whole.clone();
        flipped[5000] ^= 1;
        assert_eq!(
            check_all(9, 0..8192, &flipped).map_err(|wrong| wrong.offset / 777),
            Err(5000 / 777)
        );
        let mut stamp = Check::stamp(8, 0..8192);
        stamp.take(&whole);
        assert_eq!(stamp.finish(), Err(WrongBytes { key: 8, offset: 0 }));
    }

    #[test]
    fn a_short_or_long_response_is_found() {
        let whole = value(9, 0..8192);
        assert!(check_all(9, 0..8192, &whole[..8191]).is_err());
        assert!(check_all(9, 0..8000, &whole).is_err());
        let mut stamp = Check::stamp(9, 0..8192);
        stamp.take(&whole[..8000]);
        assert_eq!(stamp.finish(), Err(WrongBytes { key: 9, offset: 8000 }));
    }

    #[test]
    fn what_making_values_costs_is_measured() {
        let generator = Generator::default();
        for key in 0..1000 {
            assert_eq!(generator.make(key, 0..65_536).len(), 65_536);
        }
        assert_eq!(generator.made_bytes(), 65_536_000);
        assert!(Duration::ZERO < generator.cpu());
    }
}
