//! The runs of paper 002 have the paper's parameters.

use super::*;

#[test]
fn runs_are_as_large_as_the_paper_says() {
    let all: Vec<CacheLibSettings> = ZCacheLib::all().iter().map(ZCacheLib::settings).collect();
    assert_eq!(all.len(), 18);
    for settings in &all {
        let bytes = settings.region.0 * u64::from(settings.regions);
        // F2FS leaves less room for a file.
        let is_file = settings.placing == Placing::File;
        let expected = if is_file { 850..=856 } else { 886..=887 };
        assert!(expected.contains(&(bytes >> 30)), "{settings:?}");
    }
    let direct = ZCacheLib::new(Scheme::ZnsDirect, CachePool::Flat).settings();
    assert_eq!((direct.regions, direct.workload.threads()), (843, 48));
}

#[test]
fn every_published_figure_has_a_run() {
    for figure in Published::of(Paper::ZCacheLib) {
        assert!(run_of(&figure).is_some(), "{figure:?}");
    }
}
