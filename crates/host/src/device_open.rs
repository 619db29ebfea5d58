//! Device open: opens a device and checks its contents and division, before anything is changed.

use zonal_base::Bytes;
use zonal_cache::ChunkRules;
use zonal_hostdev::{Drive, OpenError};
use zonal_zonelog::OpenMode;

use crate::chunks::ChunkLimits;
use crate::node::{DeviceSettings, StartError};
use crate::{DeviceContents, Formatted};

/// Minimum zones of a shard where the number of shards is chosen automatically.
const ZONES_PER_SHARD_MIN: u32 = 8;

/// Active zones that a shard needs: one being filled, one for rewrites.
const ACTIVE_PER_SHARD_MIN: u32 = 2;

pub(crate) struct Opened {
    pub(crate) drive: Drive,
    pub(crate) shard_count: u16,
    /// Identity of the log on the device, if there is one.
    pub(crate) log: Option<[u8; 16]>,
}

impl Opened {
    /// Opens a device. Refuses foreign data, and a division that differs from the requested one.
    pub(crate) fn open(of: &DeviceSettings, mode: OpenMode) -> Result<Self, StartError> {
        Self::of(Drive::open(&of.spec)?, of, mode)
    }

    fn of(mut drive: Drive, of: &DeviceSettings, mode: OpenMode) -> Result<Self, StartError> {
        let formatted = match mode {
            OpenMode::Recover => log_on(&drive, of)?,
            // The caller asked for its data to be lost.
            OpenMode::Format => None,
        };
        if let Some(formatted) = &formatted {
            drive = formatted.in_its_zones(drive, &of.spec)?;
        }
        let shards = shard_count(of, &drive, formatted.as_ref());
        let log = formatted.as_ref().map(|formatted| formatted.identity.log);
        let differs = formatted.and_then(|formatted| formatted.difference(&drive, shards));
        if let Some(difference) = differs {
            let (spec, shards) = (of.spec.clone(), of.shards);
            return Err(StartError::Divided { spec, shards, difference: Box::new(difference) });
        }
        let shard_count = u16::try_from(shards).map_err(|_| OpenError::TooManyShards {
            path: drive.path().into(),
            shards: u32::MAX,
        })?;
        check_share(of, &drive, shard_count)?;
        Ok(Self { drive, shard_count, log })
    }
}

/// What a start would find on a device that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedDevice {
    /// True if a start would format the device.
    pub is_blank: bool,
    /// Number of shards of the cache.
    pub shards: u16,
    /// Number of zones of the device.
    pub zones: u32,
    /// Capacity of a zone.
    pub zone: Bytes,
}

impl CheckedDevice {
    /// Checks a device as a start does, without changing it, even while another process uses it.
    ///
    /// # Errors
    /// The error with which a start would refuse the device.
    pub fn of(settings: &DeviceSettings) -> Result<Self, StartError> {
        let drive = Drive::open_to_check(&settings.spec)?;
        let Opened { drive, shard_count, log } = Opened::of(drive, settings, OpenMode::Recover)?;
        let geometry = drive.geometry();
        Ok(Self {
            is_blank: log.is_none(),
            shards: shard_count,
            zones: geometry.zone_count,
            zone: geometry.zone_capacity.bytes(),
        })
    }

    /// Checks the chunk size rules of a node with these devices.
    ///
    /// # Errors
    /// The error with which a start would refuse the rules.
    pub fn check_chunks<'a>(
        devices: impl IntoIterator<Item = (&'a DeviceSettings, Self)>,
        rules: &ChunkRules,
    ) -> Result<(), StartError> {
        let sizes = devices.into_iter().map(|(settings, device)| (device.zone, settings.chunk));
        ChunkLimits::of(sizes, rules)?;
        Ok(())
    }
}

/// The log on the device, if there is one. Refuses foreign data.
fn log_on(drive: &Drive, of: &DeviceSettings) -> Result<Option<Formatted>, StartError> {
    let spec = of.spec.clone();
    match DeviceContents::of(drive)? {
        DeviceContents::Nothing => Ok(None),
        DeviceContents::NothingSeen => {
            tracing::warn!(
                path = %drive.path().display(),
                "formatting: the device looks blank, but only parts were checked"
            );
            Ok(None)
        }
        DeviceContents::Log(formatted) => Ok(Some(formatted)),
        DeviceContents::OtherVersion(version) => Err(StartError::OtherVersion { spec, version }),
        DeviceContents::Foreign(what) => Err(StartError::Foreign { spec, what }),
    }
}

fn shard_count(of: &DeviceSettings, drive: &Drive, formatted: Option<&Formatted>) -> usize {
    let zones = drive.geometry().zone_count;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let active =
        drive.geometry().max_active_zones.map_or(u32::MAX, |max| max / ACTIVE_PER_SHARD_MIN);
    let affordable = (zones / ZONES_PER_SHARD_MIN).min(active).max(1) as usize;
    match (of.shards, formatted) {
        (Some(wanted), _) => wanted,
        (None, Some(formatted)) => usize::from(formatted.identity.shard_count).max(1),
        (None, None) => cores.min(affordable),
    }
}

/// Refuses a device that is too small, before anything is written. The last shard has the fewest
/// zones.
fn check_share(of: &DeviceSettings, drive: &Drive, shard_count: u16) -> Result<(), StartError> {
    let share = drive.share(u32::from(shard_count - 1), shard_count.into())?;
    let mut settings = zonal_cache::Settings::for_device(&share);
    settings.chunk = of.chunk;
    let checked = settings.check(&share).and_then(|()| {
        let log = settings.log.check(&share).map_err(zonal_zonelog::OpenError::Settings);
        log.map_err(zonal_cache::StartError::Log)
    });
    checked.map_err(|error| StartError::Unfit { spec: of.spec.clone(), error })
}
