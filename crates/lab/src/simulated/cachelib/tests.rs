//! CacheLib simulation at a sixteenth of the drives, with more spare room: few zones need more of
//! it.

use super::*;

/// 56 zones, of which three are always free or open.
fn settings(placing: Placing, eviction: Eviction, objects_per_item: u32) -> CacheLibSettings {
    let (region, regions) =
        if placing == Placing::Zones { (Bytes::mib(1077), 36) } else { (Bytes::mib(16), 2400) };
    CacheLibSettings {
        workload: CachePool::L2Wc,
        smaller: 16,
        objects_per_item,
        touches_per_change: objects_per_item - 1,
        eviction,
        placing,
        medium: match placing {
            Placing::InPlace => Medium::Conventional,
            _ => Medium::Zoned,
        },
        region,
        regions,
        zones: 55,
        zone: Bytes::mib(1077),
        free_zones: (8, 8),
        old_part: 0.3,
        old_in_zone: 48,
        memory: Bytes::mib(24_000),
        request_cpu: Nanos(1_000_000),
        aged: Bytes::mib(90 << 10),
        stable: Bytes::mib(58 << 10),
        settle: Nanos::secs(2),
        window: Nanos::secs(10),
        seed: 1,
    }
}

fn outcome(settings: &CacheLibSettings) -> CacheLibOutcome {
    settings.run(&|_| ()).expect("it can be run")
}

#[test]
fn zones_as_regions_and_dropped_regions_amplify_nothing_and_moved_ones_do() {
    let direct = outcome(&settings(Placing::Zones, Eviction::Lru, 4));
    let moved = outcome(&settings(Placing::Moved, Eviction::Lru, 4));
    let dropped = outcome(&settings(Placing::Dropped, Eviction::ZoneLru, 4));
    assert_eq!(direct.moved + dropped.moved, 0);
    assert!(1.1 < moved.write_amplification(), "{moved:?}");
    assert!(moved.mopm() < dropped.mopm(), "{moved:?}\n{dropped:?}");
    for one in [&direct, &dropped] {
        let off = one.hit_ratio() - moved.hit_ratio();
        assert!(off.abs() < 0.02, "{one:?}\n{moved:?}");
    }
}

#[test]
fn first_in_first_out_hits_less_than_what_goes_by_use() {
    let fifo = outcome(&settings(Placing::InPlace, Eviction::Fifo, 4));
    let lru = outcome(&settings(Placing::InPlace, Eviction::Lru, 4));
    assert!(fifo.hit_ratio() + 0.01 < lru.hit_ratio(), "{fifo:?}\n{lru:?}");
}

/// The effect on hits is small: regions of few items differ more, and the right ones are evicted.
#[test]
fn it_hardly_matters_how_many_objects_an_item_stands_for() {
    for (placing, eviction) in
        [(Placing::Moved, Eviction::Lru), (Placing::Dropped, Eviction::ZoneLru)]
    {
        let (few, many) =
            (outcome(&settings(placing, eviction, 2)), outcome(&settings(placing, eviction, 8)));
        let off = few.hit_ratio() - many.hit_ratio();
        assert!(off.abs() < 0.015, "{few:?}\n{many:?}");
        let off = few.write_amplification() / many.write_amplification() - 1.0;
        assert!(off.abs() < 0.05, "{few:?}\n{many:?}");
        let off = few.mopm() / many.mopm() - 1.0;
        assert!(off.abs() < 0.05, "{few:?}\n{many:?}");
    }
}

/// Settings for about half of the writes of the other tests.
fn short(placing: Placing, eviction: Eviction) -> CacheLibSettings {
    CacheLibSettings {
        aged: Bytes::mib(70 << 10),
        window: Nanos::secs(5),
        ..settings(placing, eviction, 8)
    }
}

#[test]
fn the_more_may_be_dropped_the_less_is_moved() {
    let moved = |old_part| {
        let settings = short(Placing::OldDropped, Eviction::Lru);
        outcome(&CacheLibSettings { old_part, ..settings }).moved
    };
    let by_part = [0.0, 0.3, 1.0].map(moved);
    assert!(by_part[1] < by_part[0] && by_part[2] == 0, "{by_part:?}");
    // A third of the regions is old. While zones are free the rest is moved: at worst as much as
    // when every region is moved.
    let by_load = outcome(&short(Placing::DroppedByLoad, Eviction::Lru)).moved;
    assert!(by_load <= by_part[0], "{by_load}, {by_part:?}");
}

#[test]
fn a_file_system_that_keeps_zones_free_moves_more() {
    let moved = outcome(&short(Placing::Moved, Eviction::Lru));
    let file = |kept: u32| {
        let settings = short(Placing::File, Eviction::Lru);
        outcome(&CacheLibSettings { free_zones: (kept, kept), ..settings })
    };
    assert!(moved.moved < file(14).moved, "{moved:?}");
    assert!(file(4).moved < file(14).moved);
}

#[test]
fn a_cache_without_spare_room_says_so() {
    let full = CacheLibSettings { regions: 54 * 67, ..short(Placing::Moved, Eviction::Lru) };
    let why = full.run(&|_| ()).expect_err("no zone can be emptied");
    assert!(why.contains("no spare capacity"), "{why}");
}

#[test]
fn equal_seeds_give_equal_histories() {
    let short = CacheLibSettings {
        aged: Bytes::mib(8 << 10),
        stable: Bytes(0),
        ..settings(Placing::Dropped, Eviction::ZoneLru, 8)
    };
    assert_eq!(outcome(&short), outcome(&short));
    assert_ne!(outcome(&short), outcome(&CacheLibSettings { seed: 2, ..short }));
}

#[test]
fn a_drive_that_is_too_small_is_named() {
    let large = CacheLibSettings { zones: 58, ..settings(Placing::Moved, Eviction::Lru, 8) };
    let why = large.run(&|_| ()).expect_err("of its 57 zones");
    assert!(why.contains("the drive has 57 of 58 zones"), "{why}");
}
