//! Open path: identifies the device, refuses foreign data, and formats or recovers.
//!
//! 1. Ask the device for its zones.
//! 2. Read the first block of every zone that may have content: blank, a Zonal log, or foreign.
//! 3. Decide: format a blank device, recover a log, refuse a foreign device.
//! 4. Recover the zones with content (`recover`).

use core::fmt;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use zonal_base::{BLOCK_BYTES, Blocks, Checksum, ZoneId};
use zonal_device::{
    Answer, Command, DeviceError, DeviceKind, Geometry, ZoneAction, ZoneReport, ZoneState,
};

use crate::format::Malformed;
use crate::format::mark::ZoneMark;
use crate::format::segment::Header;
use crate::log::Ports;
use crate::recover::recover;
use crate::scan::{Scanner, is_of_blocks};
use crate::state::State;
use crate::{Identity, Log, Recovered, Settings, SettingsError};

/// Treatment of the device's present contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Recover a Zonal log, format a blank device, refuse anything else.
    Recover,
    /// Format the device whatever it holds. All its contents are lost.
    Format,
}

/// Failure to open a log. Nothing was written, except with [`OpenError::Device`]: a device that
/// fails during formatting or recovery may have been changed by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The zone begins with foreign data: use another device, or format this one if the data may be
    /// lost.
    Foreign(ZoneId),
    /// The zone was written by another version of this format: use that version of Zonal, or
    /// format.
    Version(ZoneId, u16),
    /// The device holds zones of two logs: format it.
    Mixed(ZoneId),
    /// The device was formatted with another number of shards, or this is another shard of it.
    Shards {
        /// Identity on flash.
        found: Identity,
    },
    /// The shard was formatted with another number or size of zones.
    Zones {
        /// Zones of the shard when it was formatted.
        zone_count: u32,
        /// Zone capacity when it was formatted.
        zone_capacity: Blocks,
    },
    /// The settings do not fit the device.
    Settings(SettingsError),
    /// The device failed. Check the drive.
    Device(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(zone) => write!(
                f,
                "the device holds something that is not Zonal's ({zone}): use another device, or format this one and lose what it holds"
            ),
            Self::Version(zone, version) => write!(
                f,
                "the device holds a log of format version {version} ({zone}), which this program does not read: format it, or use the program that wrote it"
            ),
            Self::Mixed(zone) => {
                write!(f, "the device holds zones of more than one log ({zone}): format it")
            }
            Self::Shards { found } => write!(
                f,
                "the device was formatted for {} (this is number {}): open it so, or format it",
                counted(found.shard_count.into(), "shard"),
                found.shard
            ),
            Self::Zones { zone_count, zone_capacity } => write!(
                f,
                "the shard was formatted with {} of {}: open it so, or format it",
                counted(*zone_count, "zone"),
                zone_capacity.bytes()
            ),
            Self::Settings(error) => error.fmt(f),
            Self::Device(error) => {
                write!(f, "the device failed: {error}: look at the drive, or use another")
            }
        }
    }
}

/// Formats a count with its noun: `1 shard`, `2 shards`.
pub(crate) fn counted(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

impl core::error::Error for OpenError {}

impl From<DeviceError> for OpenError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Contents of a zone's first block, as recovery classifies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBlock {
    /// All zeros: never written.
    Blank,
    /// A Zonal mark: the zone is empty.
    Mark(ZoneMark),
    /// A segment header: the zone has records.
    Segment(Header),
    /// What was written to another zone of the log.
    Misplaced(Identity),
    /// A Zonal block with a bad checksum, or a block that cannot be read. Nothing leads to the
    /// zone's records.
    Torn,
    /// A Zonal block of a format version that this program does not read.
    OtherVersion(u16),
    /// No Zonal magic.
    Foreign,
}

impl Log {
    /// Opens the log on a device. Calls `on_record` for every record that it finds, tombstones
    /// excluded, in no particular order.
    ///
    /// `identity` is for a device that is formatted now. A device with a log keeps the log's own
    /// identity.
    ///
    /// # Errors
    /// When the device holds something else, or fails. Nothing was written then, except with
    /// [`OpenError::Device`].
    pub async fn open(
        ports: Ports,
        geometry: Geometry,
        (settings, identity): (Settings, Identity),
        mode: OpenMode,
        on_record: &mut dyn FnMut(Recovered<'_>),
    ) -> Result<Self, OpenError> {
        settings.check(&geometry).map_err(OpenError::Settings)?;
        let scanner = Scanner { ports: &ports, geometry: &geometry };
        let zones = scanner.report().await?;
        let firsts = match mode {
            OpenMode::Recover => scanner.first_blocks(&zones).await?,
            OpenMode::Format => Vec::new(),
        };
        let state = State::new(&settings, &geometry);
        let Some(found) = identify_log(&firsts, &geometry, identity)? else {
            let log = Self::new(ports, geometry, settings, identity, state);
            log.format(&zones).await?;
            log.note_oldest();
            return Ok(log);
        };
        let log = Self::new(ports, geometry, settings, found, state);
        recover(&log, &zones, &firsts, on_record).await?;
        log.note_oldest();
        Ok(log)
    }

    fn note_oldest(&self) {
        let oldest = self.inner.state.borrow().generation_min();
        self.inner.ports.generations.note_oldest(oldest);
    }

    async fn format(&self, zones: &[ZoneReport]) -> Result<(), DeviceError> {
        for report in zones {
            let formatted = match report.state {
                ZoneState::Offline => Err(DeviceError::ZoneOffline),
                ZoneState::ReadOnly => Err(DeviceError::ZoneReadOnly),
                _ => self.format_zone(report.zone).await,
            };
            let mut state = self.inner.state.borrow_mut();
            match formatted {
                Ok(()) => state.empty.push_back(report.zone),
                Err(error @ DeviceError::DeviceGone) => return Err(error),
                // The zone cannot be reset or written: the log works without it.
                Err(_) => state.retire(report.zone),
            }
        }
        self.inner.ports.device.call(Command::Flush).await.map(drop)
    }

    async fn format_zone(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let device = &self.inner.ports.device;
        let reset = || Command::Manage { zone, action: ZoneAction::Reset };
        device.call(reset()).await?;
        if self.geometry().kind == DeviceKind::Conventional {
            self.inner.write_mark(zone).await?;
            device.call(reset()).await?;
        }
        Ok(())
    }
}

/// Returns the identity of the log on the device; `None` when the device is blank.
fn identify_log(
    firsts: &[FirstBlock],
    geometry: &Geometry,
    wanted: Identity,
) -> Result<Option<Identity>, OpenError> {
    let mut found: Option<Identity> = None;
    let (mut foreign, mut torn) = (None, None);
    for (zone, first) in (0..).map(ZoneId).zip(firsts) {
        let identity = match first {
            FirstBlock::Blank => continue,
            FirstBlock::Mark(mark) => {
                let (count, capacity) = (mark.zone_count, mark.zone_capacity);
                let Identity { shard, shard_count, .. } = mark.identity;
                // With another number of shards the zones differ as well. The caller needs the
                // cause, so the shard check below reports it.
                if (shard, shard_count) == (wanted.shard, wanted.shard_count)
                    && (count, capacity) != (geometry.zone_count, geometry.zone_capacity)
                {
                    return Err(OpenError::Zones { zone_count: count, zone_capacity: capacity });
                }
                mark.identity
            }
            FirstBlock::Segment(header) => header.identity,
            FirstBlock::Misplaced(identity) => *identity,
            FirstBlock::OtherVersion(version) => return Err(OpenError::Version(zone, *version)),
            FirstBlock::Torn => {
                torn = torn.or(Some(zone));
                continue;
            }
            FirstBlock::Foreign => {
                foreign = foreign.or(Some(zone));
                continue;
            }
        };
        let is_wanted = |identity: Identity| {
            (identity.shard, identity.shard_count) == (wanted.shard, wanted.shard_count)
        };
        found = match found {
            // A zone of another shard of this log is damage, see `recover`.
            Some(other)
                if other.log != identity.log || other.shard_count != identity.shard_count =>
            {
                return Err(OpenError::Mixed(zone));
            }
            Some(other) if is_wanted(other) => Some(other),
            _ => Some(identity),
        }
    }
    match (found, foreign.or(torn)) {
        (None, Some(zone)) => Err(OpenError::Foreign(zone)),
        (None, None) => Ok(None),
        (Some(found), _) => {
            let shape = (found.shard, found.shard_count);
            if shape == (wanted.shard, wanted.shard_count) {
                Ok(Some(found))
            } else {
                Err(OpenError::Shards { found })
            }
        }
    }
}

impl FirstBlock {
    /// Classifies the first block of a zone.
    #[must_use]
    pub fn read(block: &[u8], checksum: Checksum) -> Self {
        if block.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        match ZoneMark::decode(block, checksum) {
            Ok(mark) => return Self::Mark(mark),
            Err(Malformed::Magic) => {}
            Err(Malformed::Version(version)) => return Self::OtherVersion(version),
            Err(Malformed::Checksum | Malformed::Fields) => return Self::Torn,
        }
        match Header::peek(block, checksum) {
            Ok(header) => Self::Segment(header),
            Err(Malformed::Magic) => Self::Foreign,
            Err(Malformed::Version(version)) => Self::OtherVersion(version),
            Err(Malformed::Checksum | Malformed::Fields) => Self::Torn,
        }
    }

    /// The block as it is in this zone: one that names another zone is misplaced.
    fn in_zone(self, zone: ZoneId) -> Self {
        let written_to = match self {
            Self::Segment(header) => Some((header.identity, header.zone)),
            Self::Mark(mark) => Some((mark.identity, mark.zone)),
            _ => None,
        };
        match written_to {
            Some((identity, other)) if other != zone => Self::Misplaced(identity),
            _ => self,
        }
    }

    /// Identity of the log that wrote the block, if it is a valid block of a log.
    #[must_use]
    pub const fn identity(&self) -> Option<Identity> {
        match self {
            Self::Mark(mark) => Some(mark.identity),
            Self::Segment(header) => Some(header.identity),
            Self::Misplaced(identity) => Some(*identity),
            Self::Blank | Self::Torn | Self::OtherVersion(_) | Self::Foreign => None,
        }
    }
}

impl Scanner<'_> {
    pub(crate) async fn report(&self) -> Result<Vec<ZoneReport>, DeviceError> {
        let report = Command::Report { first: ZoneId(0), count: self.geometry.zone_count };
        match self.ports.device.call(report).await? {
            Answer::Report(zones) => Ok(zones),
            _ => Err(DeviceError::InvalidField),
        }
    }

    pub(crate) async fn report_of(&self, zone: ZoneId) -> Result<ZoneReport, DeviceError> {
        let report = Command::Report { first: zone, count: 1 };
        match self.ports.device.call(report).await? {
            Answer::Report(zones) => zones.first().copied().ok_or(DeviceError::InvalidField),
            _ => Err(DeviceError::InvalidField),
        }
    }

    /// Reads and classifies the first block of every zone, [`SCAN_WINDOW`] zones at a time.
    pub(crate) async fn first_blocks(
        &self,
        zones: &[ZoneReport],
    ) -> Result<Vec<FirstBlock>, DeviceError> {
        let mut firsts = Vec::with_capacity(zones.len());
        for batch in zones.chunks(SCAN_WINDOW) {
            let mut calls = Vec::with_capacity(batch.len());
            for report in batch {
                calls.push(match self.may_have_content(report) {
                    true => Some(self.start(report.zone, Blocks(0), Blocks(1)).await),
                    false => None,
                });
            }
            for (report, call) in batch.iter().zip(calls) {
                firsts.push(match call {
                    None => FirstBlock::Blank,
                    Some(call) => match call.await {
                        Ok(Answer::Read(buffer)) => {
                            let block = &buffer.bytes()[..BLOCK_BYTES];
                            FirstBlock::read(block, self.ports.checksum).in_zone(report.zone)
                        }
                        Err(error) if !is_of_blocks(error) => return Err(error),
                        // Without a first block nothing leads to the zone's records.
                        _ => FirstBlock::Torn,
                    },
                });
            }
        }
        Ok(firsts)
    }

    fn may_have_content(&self, report: &ZoneReport) -> bool {
        let written = self.geometry.kind == DeviceKind::Conventional || Blocks(0) < report.written;
        written && report.state.is_readable()
    }
}

/// Zones scanned concurrently: enough to keep a drive busy, few enough for any buffer pool.
pub(crate) const SCAN_WINDOW: usize = 16;
