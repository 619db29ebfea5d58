//! Errors of opening a zoned drive: the text of each says what to do.

use std::fmt;

/// Reason why the zones of a drive cannot be used.
#[derive(Debug)]
pub enum ZonesError {
    /// The spec names a block device, but the drive is zoned and takes sequential writes only.
    Zoned,
    /// The drive has no zones, or this kernel does not report them.
    NotZoned,
    /// The drive is host-aware: its zones are only advice.
    HostAware,
    /// No device of equal zones can be made of the drive's zones. The text says why, and what the
    /// user should do.
    Unfit(String),
    /// Under this I/O scheduler the kernel may reorder the writes of a zone.
    Scheduler {
        /// Scheduler in use.
        scheduler: String,
        /// Shell command that selects a scheduler that keeps the order.
        command: String,
    },
    /// The drive takes no zone appends by passthrough; the text says why.
    NoAppends(String),
}

impl fmt::Display for ZonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zoned => f.write_str("is a zoned drive: write zns:/dev/NAME"),
            Self::NotZoned => f.write_str(
                "is not a zoned drive, or this kernel does not report its zones: write \
                 block:/dev/NAME",
            ),
            Self::HostAware => f.write_str(
                "is a host-aware drive, which does not require sequential writes: write \
                 block:/dev/NAME",
            ),
            Self::Unfit(why) => f.write_str(why),
            Self::Scheduler { scheduler, command } => write!(
                f,
                "its I/O scheduler is {scheduler}, with which this kernel may reorder the writes \
                 of a zone: {command}"
            ),
            Self::NoAppends(why) => {
                write!(f, "does not support zone appends: {why}: omit append=")
            }
        }
    }
}
