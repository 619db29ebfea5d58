//! The simulator finds what it is there to find: each planted bug, within 500 seeds.
//!
//! `cargo test -p zonal-sim --features planted-bugs`
#![cfg(feature = "planted-bugs")]

use zonal_sim::{Options, run};

/// Histories within which a bug must be found.
const SEEDS_MAX: u64 = 500;

#[track_caller]
fn check(options: &Options) {
    let found = (1..=SEEDS_MAX).find_map(|seed| run(seed, options).err());
    let Some(violation) = found else { panic!("{options:?} is not found in {SEEDS_MAX} seeds") };
    println!("{options:?} found by {violation}");
}

macro_rules! planted {
    ($($name:ident: $field:ident = $bug:expr;)*) => {$(
        #[test]
        fn $name() {
            check(&Options { $field: Some($bug), ..Options::default() });
        }
    )*};
}

use zonal_cache::Planted as Cache;
use zonal_zonelog::Planted as Log;

planted! {
    an_ignored_epoch_is_found: cache_bug = Cache::EpochIgnored;
    an_ignored_generation_is_found: cache_bug = Cache::GenerationIgnored;
    an_ignored_salt_is_found: cache_bug = Cache::SaltIgnored;
    a_fetch_that_is_not_pinned_is_found: cache_bug = Cache::VersionNotPinned;
    a_removal_without_a_tombstone_is_found: cache_bug = Cache::NoTombstone;
    a_lost_tombstone_is_found: log_bug = Log::TombstoneLost;
    a_forgotten_flush_is_found: log_bug = Log::FlushForgotten;
    an_ignored_pin_is_found: log_bug = Log::PinIgnored;
    an_ignored_check_is_found: log_bug = Log::CheckIgnored;
    a_leaked_slot_is_found: log_bug = Log::SlotLeaked;
}
