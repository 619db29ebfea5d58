//! Zone inspection: shows the contents of a zone to operators, without opening the log or writing
//! to it.

use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_device::{DeviceError, Geometry, ZoneReport};

use crate::format::mark::ZoneMark;
use crate::format::segment::Header;
use crate::log::Ports;
use crate::open::FirstBlock;
use crate::scan::{Scan, Scanner};
use crate::{Descriptor, ZoneEnd};

/// Contents of a zone.
#[derive(Clone, Debug)]
pub enum ZoneContent {
    /// The zone has no data: its first block is all zeros, or the zone is not readable.
    Blank,
    /// An empty zone of a log, with its mark.
    Empty(ZoneMark),
    /// A zone of a log with records.
    Records {
        /// Header of the zone's first segment.
        first: Header,
        /// Headers of all segments; empty when the zone has a footer.
        segments: Vec<Header>,
        /// Descriptors of all records, tombstones included.
        records: Vec<Descriptor>,
        /// End of the zone's contents.
        ending: ZoneEnd,
    },
    /// A zone that holds what was written to another zone of the log.
    Misplaced,
    /// A zone whose first block is damaged, torn or unreadable.
    Torn,
    /// A zone of a format version that this program does not read.
    OtherVersion(u16),
    /// A zone without Zonal's magic.
    Foreign,
}

/// Reads the contents of one zone.
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
        FirstBlock::Misplaced(_) => ZoneContent::Misplaced,
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
