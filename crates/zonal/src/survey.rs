//! What is on a device, without changing it: for `device info`, `inspect`, and before anything is formatted.
//!
//! 1. The first block of each zone tells whose it is, and among how many shards it is divided.
//! 2. Each shard's zones are read as the log itself would read them (`viewer`).
//! 3. What is not ours is named by its first bytes (`foreign`).

mod foreign;
mod viewer;

use std::fs::File;
use std::os::unix::fs::FileExt;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, ZoneId};
use zonal_device::Geometry;
use zonal_host::CHECKSUM;
use zonal_hostdev::{DeviceSpec, Drive, EngineKind, OpenError};
use zonal_zonelog::{Identity, ZoneContent};

use crate::failure::Failure;
use viewer::Viewer;

/// A device that is being looked at.
pub(crate) struct Survey {
    drive: Drive,
    identity: Option<Identity>,
}

/// What a device holds, in one word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing: it is formatted when it is used.
    Nothing,
    /// A log of ours.
    Log(Identity),
    /// A log of another version of the format.
    OtherVersion(u16),
    /// Something else; the text names it.
    Foreign(String),
}

/// A zone, and what it holds.
pub(crate) struct Zone {
    /// Counted over the whole device.
    pub(crate) zone: ZoneId,
    /// Whose it is; 0 on a device that is not ours.
    pub(crate) shard: u32,
    pub(crate) content: ZoneContent,
}

/// How the device would be driven.
pub(crate) struct Access {
    pub(crate) engine: EngineKind,
    pub(crate) is_direct: bool,
}

impl Survey {
    /// Opens the device read-only. It may be in use.
    pub(crate) fn open(spec: &DeviceSpec) -> Result<Self, OpenError> {
        let drive = Drive::open_read_only(spec)?;
        let identity = File::open(drive.path()).ok().and_then(|file| {
            let geometry = *drive.geometry();
            geometry.zones().find_map(|zone| identity_of(&file, &geometry, zone))
        });
        Ok(Self { drive, identity })
    }

    pub(crate) const fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    pub(crate) fn access(&self) -> Result<Access, Failure> {
        let viewer = Viewer::open(&self.drive, 0, 1).map_err(Failure::work)?;
        Ok(Access { engine: viewer.engine(), is_direct: self.drive.is_direct() })
    }

    /// Looks at every zone, in order; `on_zone` hears of each.
    pub(crate) fn zones(&self, mut on_zone: impl FnMut(Zone)) -> Result<(), Failure> {
        let shards = self.identity.map_or(1, |identity| u32::from(identity.shard_count).max(1));
        let mut first = 0;
        for shard in 0..shards {
            let mut viewer = Viewer::open(&self.drive, shard, shards).map_err(Failure::work)?;
            for zone in viewer.geometry().zones() {
                let content = viewer.content(zone).map_err(|error| {
                    Failure::work(format!("{}: {error}", self.drive.path().display()))
                })?;
                on_zone(Zone { zone: ZoneId(first + zone.0), shard, content });
            }
            first += viewer.geometry().zone_count;
        }
        Ok(())
    }

    /// What the device holds. Reads the first block of each zone, and where others leave their marks.
    pub(crate) fn holds(&self) -> Result<Holds, Failure> {
        if let Some(identity) = self.identity {
            return Ok(Holds::Log(identity));
        }
        let fail = |error| Failure::work(format!("{}: {error}", self.drive.path().display()));
        let file = File::open(self.drive.path()).map_err(fail)?;
        if let Some(mark) = foreign::mark(&file).map_err(fail)? {
            return Ok(Holds::Foreign(mark.to_owned()));
        }
        let mut holds = Holds::Nothing;
        self.zones(|zone| match (&holds, zone.content) {
            (Holds::Nothing, ZoneContent::OtherVersion(version)) => {
                holds = Holds::OtherVersion(version);
            }
            (Holds::Nothing, ZoneContent::Foreign | ZoneContent::Torn) => {
                let at = self.geometry().zone_start(zone.zone);
                holds = Holds::Foreign(first_bytes(&file, Blocks(at.0).bytes()));
            }
            _ => (),
        })?;
        Ok(holds)
    }
}

/// Refuses a device that is somebody else's, also where the log would find nothing but zeros: some
/// file systems leave the first 64 KiB blank.
pub(crate) fn refuse_foreign(spec: &DeviceSpec) -> Result<(), Failure> {
    let survey = match Survey::open(spec) {
        Ok(survey) => survey,
        // Made when it is opened to be used, or refused with better words there.
        Err(_) => return Ok(()),
    };
    match survey.holds()? {
        Holds::Foreign(what) => Err(Failure::work(format!(
            "{}: holds something that is not Zonal's ({what}): name another device, or run `zonal device \
             format` and lose what it holds",
            survey.drive.path().display()
        ))),
        // Whatever else there is, the log has the words for it.
        Holds::Nothing | Holds::Log(_) | Holds::OtherVersion(_) => Ok(()),
    }
}

fn identity_of(file: &File, geometry: &Geometry, zone: ZoneId) -> Option<Identity> {
    let mut block = [0; BLOCK_BYTES];
    let at = Blocks(geometry.zone_start(zone).0).bytes();
    file.read_exact_at(&mut block, at.0).ok()?;
    zonal_zonelog::identify(&block, CHECKSUM)
}

/// What stands at `at`, for people.
fn first_bytes(file: &File, at: Bytes) -> String {
    let mut bytes = [0; 16];
    match file.read_exact_at(&mut bytes, at.0) {
        Ok(()) => format!("at byte {}: \"{}\"", at.0, bytes.escape_ascii()),
        Err(error) => format!("byte {} cannot be read: {error}", at.0),
    }
}
