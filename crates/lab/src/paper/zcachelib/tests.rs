//! The runs are those of the paper.

use super::*;

#[test]
fn runs_are_as_large_as_the_paper_says() {
    let all: Vec<Settings> = ZCacheLib::all().iter().map(ZCacheLib::settings).collect();
    assert_eq!(all.len(), 15);
    for settings in &all {
        let bytes = settings.region.0 * u64::from(settings.regions);
        assert!((886..=887).contains(&(bytes >> 30)), "{settings:?}");
    }
    let direct = ZCacheLib::new(Scheme::ZnsDirect, CachePool::Flat).settings();
    assert_eq!((direct.regions, direct.workload.threads()), (843, 48));
}

#[test]
fn every_published_figure_has_a_run_unless_its_scheme_is_missing() {
    for figure in Published::of(Paper::ZCacheLib) {
        assert_eq!(run_of(&figure).is_none(), figure.row == "ZNS-F2FS", "{figure:?}");
    }
}
