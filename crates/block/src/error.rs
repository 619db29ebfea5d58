//! Why a block device could not be started.

use std::fmt;

use zonal_hostdev::DeviceSpec;
use zonal_shaper::{OpenError, SettingsError, Tier};

use crate::device::BlockSettings;

/// Why a block device could not be started. What is on its devices is as it was, unless they were to be formatted; files
/// that were made are gone again.
#[derive(Debug)]
pub enum StartError {
    /// A device could not be opened.
    Device(zonal_hostdev::OpenError),
    /// A device holds something that is not a block device of ours: name another, or format it.
    Foreign {
        /// The device.
        spec: DeviceSpec,
        /// What it holds.
        what: String,
    },
    /// Exports or devices do not fit: ask for something else.
    Unfit(SettingsError),
    /// What is on the devices cannot be opened so.
    Open {
        /// The device that is meant, where one is.
        spec: Option<DeviceSpec>,
        /// Why not.
        error: OpenError,
    },
    /// The system refused what is needed.
    System(String),
}

impl StartError {
    /// Whether the same may go well later although nobody changes what was asked for.
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
            OpenError::Shape | OpenError::Shrunk(_) | OpenError::OtherTenant(_) => None,
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
                "{}: holds something that is not a block device of Zonal's ({what})",
                spec.place.path().display()
            ),
            Self::Unfit(error) => error.fmt(f),
            Self::Open { spec: Some(spec), error } => {
                write!(f, "{}: {error}", spec.place.path().display())
            }
            Self::Open { spec: None, error } => error.fmt(f),
            Self::System(why) => write!(f, "the system refused what a block device needs: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<zonal_hostdev::OpenError> for StartError {
    fn from(error: zonal_hostdev::OpenError) -> Self {
        Self::Device(error)
    }
}
