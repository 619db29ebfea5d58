//! Device contents as text for people and as JSON fields for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use zonal_base::Bytes;
use zonal_host::DeviceContents;
use zonal_zonelog::{Identity, ZoneContent, ZoneEnd};

use crate::failure::Failure;
use crate::inspect::DeviceInspector;
use crate::print;

/// Contents of a device, classified.
#[derive(Debug)]
pub struct Contents {
    /// `nothing`, `nothing-seen` (too large to be read whole), `log`, `other-version` or `foreign`.
    pub holds: &'static str,
    /// The same, as a phrase for people.
    pub about: String,
    /// Summary of the log; `None` if `holds` is not `log`.
    pub log: Option<LogContents>,
}

impl Contents {
    /// Describes a device. Of a log it reads every zone; other contents are classified from what
    /// the survey has read already.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn of(survey: &DeviceInspector) -> Result<Self, Failure> {
        let (holds, about) = match survey.holds() {
            DeviceContents::Nothing => {
                ("nothing", "nothing: it is formatted on first use".to_owned())
            }
            DeviceContents::NothingSeen => (
                "nothing-seen",
                "nothing in the parts that were checked: it is formatted on first use".into(),
            ),
            DeviceContents::Foreign(what) => {
                ("foreign", format!("data of another program: {what}"))
            }
            DeviceContents::OtherVersion(version) => {
                ("other-version", format!("a log of format version {version}"))
            }
            DeviceContents::Log(formatted) => {
                let log = LogContents::of(survey, formatted.identity)?;
                return Ok(Self { holds: "log", about: log.about(), log: Some(log) });
            }
        };
        Ok(Self { holds, about, log: None })
    }
}

/// Summary of a log that Zonal wrote.
#[derive(Debug, Serialize)]
pub struct LogContents {
    /// 32 hexadecimal digits, chosen when the device was formatted.
    pub id: String,
    /// Threads that share the device.
    pub shards: u16,
    /// Number of zones in each [state](state_name).
    pub zones: BTreeMap<&'static str, u32>,
    /// Records in all zones.
    pub records: u64,
    /// Bytes of all records.
    pub record_bytes: u64,
}

impl LogContents {
    fn of(survey: &DeviceInspector, identity: Identity) -> Result<Self, Failure> {
        let mut log = Self {
            id: identity.log.iter().map(|byte| format!("{byte:02x}")).collect(),
            shards: identity.shard_count,
            zones: BTreeMap::new(),
            records: 0,
            record_bytes: 0,
        };
        survey.zones(|zone| {
            let (records, bytes) = totals(&zone.content);
            *log.zones.entry(state_name(&zone.content)).or_default() += 1;
            log.records += records;
            log.record_bytes += bytes;
        })?;
        Ok(log)
    }

    fn about(&self) -> String {
        let Self { id, shards, records, record_bytes, .. } = self;
        let plural = if *shards == 1 { "" } else { "s" };
        let bytes = print::human(Bytes(*record_bytes));
        format!("log {id} of {shards} shard{plural}: {records} records, {bytes}")
    }
}

/// The state of a zone as one word, for tables and JSON.
#[must_use]
pub const fn state_name(content: &ZoneContent) -> &'static str {
    match content {
        ZoneContent::Blank => "blank",
        ZoneContent::Empty(_) => "empty",
        ZoneContent::Records { ending: ZoneEnd::Open(_), .. } => "open",
        ZoneContent::Records { ending: ZoneEnd::Footer, .. } => "full",
        ZoneContent::Records { ending: ZoneEnd::Unreadable(_), .. } => "unreadable",
        ZoneContent::Misplaced => "misplaced",
        ZoneContent::Torn => "torn",
        ZoneContent::OtherVersion(_) => "other-version",
        ZoneContent::Foreign => "foreign",
    }
}

/// Number of records in a zone, and their bytes.
#[must_use]
pub fn totals(content: &ZoneContent) -> (u64, u64) {
    match content {
        ZoneContent::Records { records, .. } => {
            (records.len() as u64, records.iter().map(|record| u64::from(record.len)).sum())
        }
        _ => (0, 0),
    }
}
