//! Device probe: one read of an isolated device, to test whether the device answers.

use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, ZoneId, index, mix64};

use super::content::Reader;
use super::{Drive, OpenError, Zones, position};
use crate::DeviceSpec;
use crate::emulated::FaultFile;

/// Opens the device read-only and reads one block; each `number` selects another block. The call
/// takes as long as the device: for ever when the device hangs.
///
/// # Errors
/// When the device cannot be opened or read.
pub fn probe(spec: &DeviceSpec, number: u64) -> Result<(), OpenError> {
    let failed = |errno| OpenError::io("read", spec.place.path(), errno);
    if spec.model().is_some() {
        let answers = FaultFile::of(&spec.place).delay();
        return answers.then_some(()).ok_or_else(|| failed(Errno::IO));
    }
    let drive = Drive::open_read_only(spec)?;
    let at = match &drive.zones {
        // A working drive answers a zone report. A read of an offline zone would say nothing about
        // the other zones, so the probe reads a readable one.
        Zones::Own(zoned) => {
            let reports = zoned.reports(&drive.file, ZoneId(0), drive.geometry.zone_count);
            let mut reports = reports.map_err(failed)?;
            reports.retain(|report| report.state.is_readable());
            let count = reports.len() as u64;
            let Some(chosen) = mix64(number).checked_rem(count) else {
                return Err(failed(Errno::IO));
            };
            let zone = reports[index(chosen)].zone;
            position(zoned.base(), drive.geometry.zone_start(zone))
        }
        Zones::Agreed | Zones::Modelled(_) => {
            let blocks = (drive.size.0 / BLOCK_BYTES as u64).max(1);
            Blocks(mix64(number) % blocks).bytes().0
        }
    };
    let mut reader = Reader::new(Blocks(1));
    reader.read(&drive.file, at).map(drop).map_err(failed)
}
