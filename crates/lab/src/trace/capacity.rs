//! Cache capacity of a trace replay: a number of objects or of bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use zonal_base::Bytes;

/// Capacity of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Number of objects; every object counts as one, whatever its size.
    Objects(u64),
    /// Number of bytes; objects count with their sizes.
    Bytes(Bytes),
}

/// Unit of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Objects of any size.
    Objects,
    /// Bytes of objects.
    Bytes,
}

impl Capacity {
    /// The number without the unit.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Objects(amount) | Self::Bytes(Bytes(amount)) => amount,
        }
    }

    /// The unit of the number.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Objects(_) => Unit::Objects,
            Self::Bytes(_) => Unit::Bytes,
        }
    }

    /// Share of the capacity that an object of `size` bytes takes.
    #[must_use]
    pub const fn weight(self, size: u64) -> u64 {
        match self {
            Self::Objects(_) => 1,
            Self::Bytes(_) => size,
        }
    }
}

impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("objects").map_or(text, str::trim_end);
        let capacity =
            match number.parse::<u64>() {
                Ok(objects) => Self::Objects(objects),
                Err(_) => Self::Bytes(text.parse().map_err(|error| {
                    format!("{error}; or write a number of objects, such as 8212")
                })?),
            };
        match capacity.amount() {
            0 => Err(format!("{text:?}: the capacity must be above 0")),
            _ => Ok(capacity),
        }
    }
}

impl fmt::Display for Capacity {
    /// Writes the capacity as the parser reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(objects) => write!(f, "{objects}"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Objects => "objects",
            Self::Bytes => "bytes",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Capacity>) {
        assert_eq!(text.parse::<Capacity>().ok(), expected, "parsing {text:?}");
    }

    #[test]
    fn a_number_is_objects_and_a_size_is_bytes() {
        check("8212", Some(Capacity::Objects(8212)));
        check("8212objects", Some(Capacity::Objects(8212)));
        check("20MiB", Some(Capacity::Bytes(Bytes::mib(20))));
        check("20M", Some(Capacity::Bytes(Bytes::mib(20))));
        for text in ["", "0", "0GiB", "20X", "objects", "-1", "1.5GiB"] {
            check(text, None);
        }
        for text in ["8212", "20MiB"] {
            assert_eq!(text.parse::<Capacity>().map(|c| c.to_string()), Ok(text.into()));
        }
    }
}
