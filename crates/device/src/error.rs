//! Why a device refused: a variant per decision that the caller can take.

use core::fmt;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// Not at the write pointer (NVMe BCh), or the zone has not been reported since its last failed
    /// write: our view of the zone is stale. Report it, then decide.
    InvalidWrite,
    /// Past the zone capacity (B8h), or the zone is full (B9h): take another zone.
    ZoneFull,
    /// Too many active (BDh) or open (BEh) zones: finish or close one, then try again.
    TooManyZones,
    /// The zone went read-only (BAh): its data are good, its space is gone.
    ZoneReadOnly,
    /// The zone went offline (BBh): its data and its space are gone.
    ZoneOffline,
    /// The zone's state does not allow this action (BFh): report it, then decide.
    InvalidTransition,
    /// The blocks were never written since the last reset: a bug above, or a stale index.
    ReadPastWritePointer,
    /// Malformed: outside the device, across two zones, empty, misaligned. A bug above.
    InvalidField,
    /// These blocks cannot be read or written (a media error): the rest of the device is good.
    Media,
    /// There was no answer in time, and nobody waits for it any more. The blocks may be good.
    TimedOut,
    /// The device no longer answers as a device should: go on without it.
    DeviceGone,
    /// This device has no such command.
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
            Self::DeviceGone => "the device does not answer any more",
            Self::Unsupported => "the device has no such command",
        })
    }
}

impl core::error::Error for DeviceError {}
