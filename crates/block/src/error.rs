//! Errors when a block device starts.

use std::fmt;

use zonal_hostdev::DeviceSpec;
use zonal_shaper::{OpenError, SettingsError, Tier};

use crate::device::BlockSettings;

/// Why a block device could not be started. The contents of its devices are unchanged, except in
/// `Format` mode. Files that were created for it are removed.
#[derive(Debug)]
pub enum StartError {
    /// A device could not be opened.
    Device(zonal_hostdev::OpenError),
    /// A device contains foreign data: name another device, or format this one.
    Foreign {
        /// The device as configured.
        spec: DeviceSpec,
        /// Description of the contents.
        what: String,
    },
    /// The exports or devices do not fit: change the configuration.
    Unfit(SettingsError),
    /// The contents of the devices cannot be opened in this mode.
    Open {
        /// The affected device, if the error concerns one.
        spec: Option<DeviceSpec>,
        /// The error of the engine.
        error: OpenError,
    },
    /// The system denied a resource that the block device needs.
    System(String),
}

impl StartError {
    /// True if a retry with the same configuration may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Device(error) => error.may_pass(),
            Self::Open { error, .. } => matches!(error, OpenError::Device(..)),
            Self::System(_) => true,
            Self::Foreign { .. } | Self::Unfit(_) => false,
        }
    }

    pub(crate) fn open(settings: &BlockSettings, error: OpenError) -> Self {
        let tier = match &error {
            OpenError::Settings(error) => return Self::Unfit(error.clone()),
            OpenError::Foreign(tier)
            | OpenError::Version(tier, _)
            | OpenError::Features(tier, _)
            | OpenError::Mixed(tier)
            | OpenError::Blank(tier)
            | OpenError::Unreadable(tier)
            | OpenError::Damaged(tier, _)
            | OpenError::Device(tier, _) => Some(*tier),
            OpenError::NoRoomForMap { .. } => Some(Tier::Capacity),
            OpenError::Shape { .. }
            | OpenError::ExportsLost
            | OpenError::Shrunk(_)
            | OpenError::OtherTenant(_) => None,
        };
        let spec = tier.map(|tier| match tier {
            Tier::Buffer => settings.buffer.as_ref().unwrap_or(&settings.capacity).clone(),
            Tier::Capacity => settings.capacity.clone(),
        });
        Self::Open { spec, error }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Foreign { spec, what } => write!(
                f,
                "{}: holds data that is not a Zonal block device ({what})",
                spec.place.path().display()
            ),
            Self::Unfit(error) => error.fmt(f),
            Self::Open { spec: Some(spec), error } => {
                write!(f, "{}: {error}", spec.place.path().display())
            }
            Self::Open { spec: None, error } => error.fmt(f),
            Self::System(why) => write!(f, "cannot start the block device: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<zonal_hostdev::OpenError> for StartError {
    fn from(error: zonal_hostdev::OpenError) -> Self {
        Self::Device(error)
    }
}
