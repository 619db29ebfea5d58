//! Range spec (RFC 9110): the bytes that a request asks for before it knows the object's size.

use core::ops::Range;

/// The bytes of an object that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// No range: the whole object.
    Whole,
    /// The bytes from `start` to `end`, or to the end of the object if that comes first.
    Int(Range<u64>),
    /// The last bytes, in this number; the whole object if it is shorter.
    Suffix(u64),
}

impl RangeSpec {
    /// The range in an object of `size` bytes. Empty if the object has none of the bytes.
    #[must_use]
    pub fn in_object(&self, size: u64) -> Range<u64> {
        match self {
            Self::Whole => 0..size,
            Self::Int(range) => range.start.min(size)..range.end.min(size),
            Self::Suffix(bytes) => size.saturating_sub(*bytes)..size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_with_the_object() {
        assert_eq!(RangeSpec::Whole.in_object(10), 0..10);
        assert_eq!(RangeSpec::Int(2..4).in_object(10), 2..4);
        assert_eq!(RangeSpec::Int(2..40).in_object(10), 2..10);
        assert_eq!(RangeSpec::Int(20..40).in_object(10), 10..10);
        assert_eq!(RangeSpec::Suffix(3).in_object(10), 7..10);
        assert_eq!(RangeSpec::Suffix(30).in_object(10), 0..10);
        assert_eq!(RangeSpec::Suffix(3).in_object(0), 0..0);
    }
}
