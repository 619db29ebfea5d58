//! Units as types (bytes, blocks, block addresses, zones, nanoseconds), and the conversions between them.

use alloc::string::String;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::str::FromStr;
use core::time::Duration;

const _: () = assert!(size_of::<usize>() == 8, "Zonal is built for 64-bit hosts only");

/// Logical block size of everything above `hostdev`: 4 KiB. One such block is eight sectors of a 512-byte device.
pub const BLOCK_BYTES: usize = 4096;

/// Converts a `u64` to an index: the one place that does.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "usize is 64 bits wide, asserted above")]
pub const fn index(n: u64) -> usize {
    n as usize
}

/// Converts a length to 32 bits: the one place that does.
///
/// Requires: `n` fits. Lengths come from our own constants (segments, chunks), never from a disk.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "asserted in the line before")]
pub const fn low_u32(n: usize) -> u32 {
    assert!(n <= u32::MAX as usize);
    n as u32
}

/// A count of bytes: a size, never an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A count of logical blocks of [`BLOCK_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocks(pub u64);

/// The address of a logical block on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A zone of one device, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

/// Identifies a command from submission to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A point in time or a duration, in nanoseconds. The host chooses the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Bytes {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// The size for people: in the largest unit that fits, rounded down to two decimals. It does not parse back.
    #[must_use]
    pub const fn rounded(self) -> Rounded {
        Rounded(self)
    }

    /// The number of blocks that hold this many bytes.
    #[must_use]
    pub const fn blocks_ceil(self) -> Blocks {
        Blocks(self.0.div_ceil(BLOCK_BYTES as u64))
    }
}

impl Blocks {
    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * BLOCK_BYTES as u64)
    }
}

impl Nanos {
    /// A deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` microseconds.
    #[must_use]
    pub const fn micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    #[must_use]
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// The duration from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// As a duration of the standard library.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

macro_rules! arithmetic {
    ($($unit:ident),*) => {$(
        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
    )*};
}
arithmetic!(Bytes, Blocks, Nanos);

impl Add<Blocks> for Lba {
    type Output = Self;
    fn add(self, blocks: Blocks) -> Self {
        Self(self.0 + blocks.0)
    }
}

impl Sub for Lba {
    type Output = Blocks;
    fn sub(self, earlier: Self) -> Blocks {
        Blocks(self.0 - earlier.0)
    }
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// Name and scale.
type Unit = (&'static str, u64);

const SIZE_UNITS: [Unit; 5] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1)];

/// Other forms of size units, in lower case. `8G` is binary as in most tools, `8GB` is decimal as on
/// the label of a drive.
const MORE_SIZE_UNITS: [Unit; 8] = [
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Other forms of time units.
const MORE_TIME_UNITS: [Unit; 2] = [("m", 60_000_000_000), ("d", 86_400_000_000_000)];

const TIME_UNITS: [Unit; 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A size or a time that does not parse; the message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    /// The text that does not parse.
    pub text: String,
    /// What to write instead.
    pub why: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.why)
    }
}

impl core::error::Error for ParseUnitError {}

impl fmt::Display for Bytes {
    /// Prints the largest unit that divides the size, so that the text parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit =
            SIZE_UNITS[..4].iter().rev().find(|(_, n)| self.0 != 0 && self.0.is_multiple_of(*n));
        let (name, unit) = unit.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

/// A size as [`Bytes::rounded`] prints it.
#[derive(Clone, Copy, Debug)]
pub struct Rounded(Bytes);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Bytes(bytes)) = *self;
        let unit = SIZE_UNITS[..4].iter().rev().find(|(_, n)| *n <= bytes);
        let (name, unit) = unit.copied().unwrap_or(("B", 1));
        match (bytes / unit, bytes % unit) {
            (whole, 0) => write!(f, "{whole}{name}"),
            (whole, rest) => write!(f, "{whole}.{:02}{name}", rest * 100 / unit),
        }
    }
}

impl From<Duration> for Nanos {
    /// Longer durations than [`Nanos`] can express, of 584 years, become the longest.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    /// Prints the largest unit that divides the duration, so that the text parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = TIME_UNITS.iter().rev().find(|(_, n)| self.0 != 0 && self.0.is_multiple_of(*n));
        let (name, unit) = unit.copied().unwrap_or(("s", 1_000_000_000));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const WRITE: &str = "write a whole number and B, KiB, MiB, GiB or TiB, such as 256MiB";
        const BARE: &str = "a size needs a unit: B, KiB, MiB, GiB or TiB, such as 256MiB";
        parse(text, (&SIZE_UNITS, &MORE_SIZE_UNITS), BARE, WRITE).map(Self)
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const WRITE: &str = "write a whole number and ns, us, ms, s, min or h, such as 30s";
        const BARE: &str = "a time needs a unit: ns, us, ms, s, min or h, such as 30s";
        parse(text, (&TIME_UNITS, &MORE_TIME_UNITS), BARE, WRITE).map(Self)
    }
}

/// Parses a number with a unit, in any case: one that is printed, or another form of it.
fn parse(
    text: &str,
    (units, more): (&[Unit], &[Unit]),
    bare: &'static str,
    write: &'static str,
) -> Result<u64, ParseUnitError> {
    let fail = |why| ParseUnitError { text: text.into(), why };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| fail(write))?;
    if unit.is_empty() {
        return if number == 0 { Ok(0) } else { Err(fail(bare)) };
    }
    let mut known = units.iter().chain(more);
    let scale = known.find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, scale) = scale.ok_or_else(|| fail(write))?;
    number.checked_mul(*scale).ok_or_else(|| fail("this is more than 64 bits can hold"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[track_caller]
    fn check(text: &str, expected: Result<u64, &str>) {
        let parsed = text.parse::<Bytes>();
        assert_eq!(parsed.as_ref().map(|b| b.0).map_err(|e| e.why), expected, "parsing {text:?}");
    }

    #[test]
    fn sizes_need_a_unit() {
        check("4KiB", Ok(4096));
        check("4kib", Ok(4096));
        check("8GiB", Ok(8 << 30));
        check("17B", Ok(17));
        check("4KB", Ok(4000));
        check("8GB", Ok(8_000_000_000));
        check("4G", Ok(4 << 30));
        check("4096", Err("a size needs a unit: B, KiB, MiB, GiB or TiB, such as 256MiB"));
        for text in ["", "-1KiB", "1.5GiB", "4KiBB"] {
            check(text, Err("write a whole number and B, KiB, MiB, GiB or TiB, such as 256MiB"));
        }
        check("99999999TiB", Err("this is more than 64 bits can hold"));
    }

    #[test]
    fn sizes_for_people_have_two_decimals_at_most_and_are_never_too_large() {
        for (bytes, expected) in [
            (0, "0B"),
            (1023, "1023B"),
            (1 << 20, "1MiB"),
            (325_760 << 10, "318.12MiB"),
            (39_610_568 << 10, "37.77GiB"),
            ((2 << 30) - 1, "1.99GiB"),
            ((40 << 30) + 1, "40.00GiB"),
            (100 << 40, "100TiB"),
            (u64::MAX, "16777215.99TiB"),
        ] {
            assert_eq!(Bytes(bytes).rounded().to_string(), expected, "{bytes}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, nanos) in
            [("5m", 300_000_000_000), ("5min", 300_000_000_000), ("2S", 2_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        assert_eq!("30d".parse(), "720h".parse::<Nanos>());
        let said = "60".parse::<Nanos>().unwrap_err().why;
        assert_eq!(said, "a time needs a unit: ns, us, ms, s, min or h, such as 30s");
    }

    #[test]
    fn sizes_and_times_print_as_they_are_read() {
        for text in ["4KiB", "64MiB", "8GiB", "1TiB", "17B", "1077MiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        for text in ["200ms", "1s", "90s", "5min", "2h", "7ns"] {
            assert_eq!(text.parse::<Nanos>().unwrap().to_string(), text);
        }
    }
}
