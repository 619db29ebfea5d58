//! Errors of opening a zoned drive, and what to do about them.

use std::fmt;

/// Why a drive's own zones cannot be used.
#[derive(Debug)]
pub enum ZonesError {
    /// It has zones of its own, and was named as one that takes writes at random places.
    Zoned,
    /// It has none, or this kernel does not tell.
    NotZoned,
    /// Its zones are only advice.
    HostAware,
    /// No device of equal zones can be made of them; the text says why, and what to do.
    Unfit(String),
    /// This kernel may hand it the writes of a zone in any order.
    Scheduler {
        /// That is in use.
        scheduler: String,
        /// What chooses another.
        command: String,
    },
    /// It takes no zone appends from here; the text says why.
    NoAppends(String),
}

impl fmt::Display for ZonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zoned => f.write_str(
                "is a zoned drive, which is written in its own zones: write zns:/dev/NAME",
            ),
            Self::NotZoned => f.write_str(
                "has no zones of its own, or this kernel does not tell: write block:/dev/NAME",
            ),
            Self::HostAware => f.write_str(
                "is a host-aware drive, whose zones are only advice: write block:/dev/NAME",
            ),
            Self::Unfit(why) => f.write_str(why),
            Self::Scheduler { scheduler, command } => write!(
                f,
                "its scheduler is {scheduler}, under which this kernel may hand it the writes of a \
                 zone in any order: {command}"
            ),
            Self::NoAppends(why) => {
                write!(f, "takes no zone appends from here: {why}: leave append= out")
            }
        }
    }
}
