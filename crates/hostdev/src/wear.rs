//! Wear of a drive, as its SMART log tells it.

use std::fs::File;

use zonal_base::Bytes;

use crate::zoned::{SMART_BYTES, smart_log};
use crate::{DeviceLocation, DeviceSpec};

/// Wear of an NVMe drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveWear {
    /// Share of its rated life that is used, in percent; it may exceed 100.
    pub percentage_used: u8,
    /// Bytes that hosts have written to it in its life.
    pub written: Bytes,
}

/// Asks the drive of a device for its wear. `None` for files and drive models, and when the drive
/// or the kernel refuses: the SMART log takes `CAP_SYS_ADMIN`.
///
/// Blocks as long as the drive does not answer.
#[must_use]
pub fn wear(spec: &DeviceSpec) -> Option<DriveWear> {
    let path = match &spec.place {
        DeviceLocation::Block { path } | DeviceLocation::Zoned { path, .. } => path,
        DeviceLocation::File { .. } | DeviceLocation::Emulated { .. } => return None,
    };
    let log = smart_log(&File::open(path).ok()?).ok()?;
    Some(parsed(&log))
}

/// NVM Express Base Specification 2.0, figure 207 (SMART / Health Information Log Page).
fn parsed(log: &[u8; SMART_BYTES]) -> DriveWear {
    const PERCENTAGE_USED: usize = 5;
    const DATA_UNITS_WRITTEN: usize = 48;
    /// A data unit is a thousand blocks of 512 bytes.
    const DATA_UNIT: u64 = 512_000;
    // The count has 16 bytes; no drive writes 2^64 units.
    let mut units = [0; 8];
    units.copy_from_slice(&log[DATA_UNITS_WRITTEN..DATA_UNITS_WRITTEN + 8]);
    DriveWear {
        percentage_used: log[PERCENTAGE_USED],
        written: Bytes(u64::from_le_bytes(units).saturating_mul(DATA_UNIT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_where_the_specification_says() {
        let mut log = [0xEE; SMART_BYTES];
        log[5] = 103;
        log[48..64].copy_from_slice(&2_000_000_u128.to_le_bytes());
        let wear = parsed(&log);
        assert_eq!(wear, DriveWear { percentage_used: 103, written: Bytes(1_024_000_000_000) });
    }

    #[test]
    fn a_file_has_no_wear() {
        let spec: DeviceSpec = "file:/nowhere/flash?size=1GiB".parse().unwrap();
        assert_eq!(wear(&spec), None);
    }
}
