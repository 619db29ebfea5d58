//! Devices that do not fit are refused, with advice.

use zonal_base::{Blocks, Contents};
use zonal_shaper::{Settings, SettingsError, Tier};

use crate::rig::{Drives, Shape, export};

/// Regression: a zone table larger than a zone filled zones faster than they could be emptied.
#[test]
fn zones_that_cannot_hold_the_table_of_all_zones_are_refused() {
    let check = |capacity_zones| {
        let shape = Shape { zone: Blocks(16), buffer_zones: 80, capacity_zones };
        let layout = Drives::new(shape, Contents::Tags).layout();
        Settings::default().check(&layout, &[export(Blocks(1000))])
    };
    // 15 blocks with 252 zones each, and their header, fill a zone of 16.
    assert_eq!(check(3700), Ok(()));
    let error = check(3701).expect_err("one zone too many");
    let least = Blocks(17);
    assert_eq!(error, SettingsError::ZoneTooSmall { tier: Tier::Capacity, least });
    assert!(error.to_string().contains("68KiB is the least"), "{error}");
}
