//! Zone inspection: the contents of a zone for people, read without opening the log or writing to it.

use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_device::{DeviceError, Geometry, ZoneReport};

use crate::format::mark::Mark;
use crate::format::segment::Header;
use crate::log::Ports;
use crate::open::FirstBlock;
use crate::scan::{Scan, Scanner};
use crate::{Descriptor, Ending};

/// What a zone holds.
#[derive(Clone, Debug)]
pub enum ZoneContent {
    /// Nothing was ever written.
    Blank,
    /// Ours, and empty.
    Empty(Mark),
    /// Ours, with records.
    Records {
        /// The header of its first segment.
        first: Header,
        /// Headers of all segments, when the zone has no footer yet.
        segments: Vec<Header>,
        /// All records.
        records: Vec<Descriptor>,
        /// What stands behind them.
        ending: Ending,
    },
    /// Ours, torn before its first segment was complete.
    Torn,
    /// A version of the format that this program does not read.
    OtherVersion(u16),
    /// Not ours.
    Foreign,
}

/// Looks at one zone.
///
/// # Errors
/// When the device fails.
pub async fn inspect_zone(
    ports: &Ports,
    geometry: &Geometry,
    zone: ZoneId,
) -> Result<(ZoneReport, ZoneContent), DeviceError> {
    let scanner = Scanner { ports, geometry };
    let report = scanner.report_of(zone).await?;
    let firsts = scanner.first_blocks(&[report]).await?;
    let content = match firsts[0] {
        FirstBlock::Blank => ZoneContent::Blank,
        FirstBlock::Mark(mark) => ZoneContent::Empty(mark),
        FirstBlock::Torn => ZoneContent::Torn,
        FirstBlock::OtherVersion(version) => ZoneContent::OtherVersion(version),
        FirstBlock::Foreign => ZoneContent::Foreign,
        FirstBlock::Segment(first) => {
            let Scan { segments, records, ending, .. } = scanner.scan(report, first).await?;
            ZoneContent::Records { first, segments, records, ending }
        }
    };
    Ok((report, content))
}
