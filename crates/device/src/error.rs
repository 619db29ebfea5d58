//! Device errors, named by the NVMe status: one variant per decision that the caller can take.

use core::fmt;

/// Error of a command. Each variant tells the caller what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// The write was not at the write pointer (NVMe BCh), or the zone has not been reported since its last failed
    /// write. The host's view of the zone is stale: report the zone, then decide.
    InvalidWrite,
    /// The write ends past the zone capacity (B8h), or the zone is full (B9h): take another zone.
    ZoneFull,
    /// Too many active (BDh) or open (BEh) zones: finish or close one, then try again.
    TooManyZones,
    /// The zone is read-only (BAh): its data can be read, and it takes no more writes.
    ZoneReadOnly,
    /// The zone is offline (BBh): its data and its space are lost.
    ZoneOffline,
    /// The zone's state does not allow this action (BFh): get a zone report, then decide.
    InvalidTransition,
    /// The host has not written the blocks since the last reset of the zone: a bug in the caller, or a stale index.
    ReadPastWritePointer,
    /// Malformed command: outside the device, across two zones, empty or misaligned. A bug in the caller.
    InvalidField,
    /// Media error: these blocks cannot be read or written. The rest of the device is good.
    Media,
    /// I/O timeout: the device did not answer before the deadline, and the command was given up. The blocks may be
    /// good.
    TimedOut,
    /// The whole device takes no writes: it has no capacity left (81h), it is write protected (20h), or many writes in
    /// a row failed. Its data can be read, and later writes may succeed.
    DeviceReadOnly,
    /// The device does not answer as a device should: isolate it and go on without it.
    DeviceGone,
    /// The device does not implement this command.
    Unsupported,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidWrite => {
                "write not at the write pointer, or the zone was not reported since a failed write"
            }
            Self::ZoneFull => "the zone is full",
            Self::TooManyZones => "too many zones are active or open",
            Self::ZoneReadOnly => "the zone is read-only",
            Self::ZoneOffline => "the zone is offline",
            Self::InvalidTransition => "the zone's state does not allow this",
            Self::ReadPastWritePointer => "read at or past the write pointer",
            Self::InvalidField => "malformed command",
            Self::Media => "media error",
            Self::TimedOut => "the device did not answer in time",
            Self::DeviceReadOnly => "the device takes no writes",
            Self::DeviceGone => "the device does not answer any more",
            Self::Unsupported => "the device has no such command",
        })
    }
}

impl core::error::Error for DeviceError {}
