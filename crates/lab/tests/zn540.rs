//! Model of the reference's own drive under all experiments. Slow: needs `SLOW_TESTS=1`.

use zonal_emulator::{DiscardMedium, Profile, ZonedDrive};
use zonal_lab::characterize::{
    CharacterizeSettings, ExperimentGroup, Score, Table, TableDetail, VirtualTime, memory, zoned,
};

/// Minimum percentage of the fitted means within their tolerance. It was 96 when this was written.
const FIT_PERCENT_MIN: usize = 90;

#[test]
fn the_zn540_model_is_near_the_drive_that_it_was_fitted_to() {
    if std::env::var_os("SLOW_TESTS").is_none_or(|value| value != "1") {
        return;
    }
    let mut drive = ZonedDrive::new(Profile::zn540(), 1, Box::new(DiscardMedium));
    let settings = CharacterizeSettings {
        effort: 0.2,
        ..CharacterizeSettings::new("emulator:zn540", 1, &ExperimentGroup::ZONED)
    };
    let mut clock = VirtualTime::default();
    let report = zoned((&mut drive, memory()), &mut clock, &settings, &mut |_| ())
        .expect("a drive takes it");
    println!("{}", Table { report: &report, detail: TableDetail::Misses });
    let Score { within, of } = report.scores().fit_means;
    assert_eq!(report.skipped, Vec::<String>::new());
    assert!(FIT_PERCENT_MIN * of <= within * 100, "{within} of {of}");
}
