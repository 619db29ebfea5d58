//! Zone verification while the log is in use: compares what a zone lists with what was written to
//! it.

use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_device::DeviceError;

use crate::open::FirstBlock;
use crate::read::Pin;
use crate::scan::{Scan, Scanner, ZoneEnd};
use crate::{Descriptor, Log, ZoneUse};

/// What a zone lists.
#[derive(Clone, Debug, Default)]
pub struct ZoneListing {
    /// Descriptors of its records, tombstones included.
    pub records: Vec<Descriptor>,
    /// False if a header or the footer is damaged or gone: the next recovery would miss records.
    pub is_intact: bool,
}

impl Log {
    /// Reads the headers or the footer of a zone, and compares them with what was written. The zone
    /// is pinned meanwhile. A zone that is empty, retired or being reclaimed lists nothing.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn list_zone(&self, zone: ZoneId) -> Result<ZoneListing, DeviceError> {
        let inner = &self.inner;
        let nothing = ZoneListing { records: Vec::new(), is_intact: true };
        let expected = {
            let state = inner.state.borrow();
            match state.zone(zone).usage {
                ZoneUse::Open | ZoneUse::Sealed => state.fills.written(zone),
                ZoneUse::Empty | ZoneUse::Reclaiming | ZoneUse::Retired => None,
            }
        };
        let Some((expected, has_footer)) = expected.filter(|(fill, _)| 0 < fill.segments) else {
            return Ok(nothing);
        };
        let pin = Pin::new(inner, zone);
        let scanner = Scanner { ports: &inner.ports, geometry: &inner.geometry };
        let report = scanner.report_of(zone).await?;
        let listing = match scanner.first_blocks(&[report]).await?[..] {
            [FirstBlock::Segment(first)] => {
                let written = (first, expected.segments);
                let scan = scanner.scan_written(report, written).await?;
                let Scan { records, fill, ending, .. } = scan;
                let is_it = (fill.zone, fill.sequence, fill.first_crc)
                    == (expected.zone, expected.sequence, expected.first_crc);
                let is_whole = expected.segments <= fill.segments
                    && (!has_footer || ending == ZoneEnd::Footer);
                ZoneListing { records, is_intact: is_it && is_whole }
            }
            _ => ZoneListing::default(),
        };
        drop(pin);
        Ok(listing)
    }
}
