//! Events: what operators learn of zones and devices.

use std::collections::BTreeMap;

use zonal_base::{Blocks, Contents, Nanos, Rng, ZoneId};
use zonal_shaper::{
    BlockChange, BlockEvent, Settings, Stream, Tier, VictimChoice, ZoneChange, ZoneUse,
};

use crate::rig::{Drives, Rig, Shape, export, in_order};

/// A block device nine tenths full, written in order, and its blocks.
fn filled() -> (Rig, u64) {
    let shape = Shape { zone: Blocks(960), buffer_zones: 6, capacity_zones: 64 };
    let drives = Drives::new(shape, Contents::Bytes);
    let user = Settings::default().exportable(&drives.layout(), 1).0 * 9 / 10;
    let mut rig = Rig::open(drives, Settings::default(), export(Blocks(user)));
    rig.write(user, in_order());
    (rig, user)
}

fn of_zones(events: &[BlockEvent]) -> impl Iterator<Item = (Tier, ZoneId, &ZoneChange)> {
    events.iter().filter_map(|event| match &event.what {
        BlockChange::Zone(tier, zone, change) => Some((*tier, *zone, change)),
        _ => None,
    })
}

/// What may follow a change of a zone: each of them has one before.
fn before(change: &ZoneChange) -> fn(&ZoneChange) -> bool {
    match change {
        ZoneChange::Opened(_) => |before| matches!(before, ZoneChange::Reset),
        ZoneChange::Sealed { .. } => |before| matches!(before, ZoneChange::Opened(_)),
        ZoneChange::Chosen(_) => {
            |before| matches!(before, ZoneChange::Sealed { .. } | ZoneChange::Unreadable)
        }
        ZoneChange::Moved(_) => |before| matches!(before, ZoneChange::Chosen(_)),
        ZoneChange::Reset | ZoneChange::Retired | ZoneChange::Unreadable => {
            |before| matches!(before, ZoneChange::Moved(_))
        }
    }
}

/// True if the zone is a better victim than this one, or as good.
fn beats(tier: Tier, score: [u64; 3], other: [u64; 3]) -> bool {
    let [gained, moved, age] = score.map(u128::from);
    let [other_gained, other_moved, other_age] = other.map(u128::from);
    match tier {
        Tier::Buffer => score[0] < other[0],
        Tier::Capacity => other_gained * other_age * moved <= gained * age * other_moved,
    }
}

#[test]
fn a_zone_is_opened_filled_chosen_moved_and_reset_and_the_figures_are_those_of_the_counters() {
    let (mut rig, user) = filled();
    let first = rig.shaper.events(0).last().map_or(0, |last| last.number + 1);
    let (before_it, mut rng) = (rig.stats(), Rng::new(7));
    rig.write(user, move || rng.below(user));
    let events = rig.shaper.events(first);
    assert!(events.len() < 1000, "all of them are still known");
    assert!(events.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));

    let mut last = BTreeMap::new();
    let (mut moved, mut retained, mut resets) = (0, 0, 0);
    for (tier, zone, change) in of_zones(&events) {
        if let Some(was) = last.insert((tier, zone), change) {
            assert!(before(change)(was), "{tier:?} {zone:?}: {was:?}, then {change:?}");
        }
        match change {
            ZoneChange::Opened(stream) => {
                assert_eq!(*stream == Stream::User, tier == Tier::Buffer, "{stream:?}");
            }
            ZoneChange::Sealed { written } => assert_eq!(*written, Blocks(960).bytes()),
            ZoneChange::Chosen(choice) => {
                let VictimChoice { score, scored_by, candidates, beaten, .. } = &**choice;
                assert_eq!(scored_by.len(), if tier == Tier::Buffer { 1 } else { 3 });
                assert_eq!(beaten.len(), 7.min(*candidates as usize - 1));
                assert!(beaten.iter().all(|other| beats(tier, *score, other.score)), "{choice:?}");
            }
            ZoneChange::Moved(of) => {
                assert_eq!(of.into.is_empty(), of.bytes.0 == 0, "{of:?}");
                (moved, retained) = (moved + of.bytes.0, retained + of.retained.0);
            }
            ZoneChange::Reset => resets += 1,
            ZoneChange::Retired | ZoneChange::Unreadable => panic!("nothing is broken"),
        }
    }
    let (stats, tenant) = rig.stats();
    let (stats_before, tenant_before) = before_it;
    let reset = |of: zonal_shaper::ShaperStats| of.buffer_zones_reset + of.capacity_zones_reset;
    assert_eq!(resets, reset(stats) - reset(stats_before));
    // A victim whose move had not ended at the beginning or the end is counted on one side only.
    let counted = |of: zonal_shaper::TenantStats| of.compacted_bytes + of.collected_bytes;
    let (counted, slack) = (counted(tenant) - counted(tenant_before), 4 * 960 * 4096);
    assert!(counted.abs_diff(moved) <= slack, "{counted} {moved}");
    assert!((tenant.retained_bytes - tenant_before.retained_bytes).abs_diff(retained) <= slack);
}

#[test]
fn the_zones_are_those_that_are_counted() {
    let (mut rig, user) = filled();
    let mut rng = Rng::new(9);
    rig.write(user / 3, move || rng.below(user));
    let load = rig.shaper.waiting();
    let uses = [
        ZoneUse::Empty,
        ZoneUse::Open,
        ZoneUse::Sealed,
        ZoneUse::Emptying,
        ZoneUse::Retired,
        ZoneUse::Unreadable,
    ];
    for (tier, counts) in [(Tier::Buffer, load.buffer_zones), (Tier::Capacity, load.capacity_zones)]
    {
        let zones = rig.shaper.zones(tier);
        let of_use = |usage| zones.iter().filter(|zone| zone.usage == usage).count();
        assert_eq!(counts.map(|count| count as usize), uses.map(of_use), "{tier:?}");
        for zone in &zones {
            assert!(zone.live <= zone.written, "{zone:?}");
            assert_eq!(zone.stream.is_some(), zone.usage == ZoneUse::Open, "{zone:?}");
            assert_eq!(zone.usage == ZoneUse::Empty, zone.written.0 == 0, "{zone:?}");
        }
        let ranking = rig.shaper.ranking(tier);
        let sealed = of_use(ZoneUse::Sealed);
        assert!(ranking.zones.len() <= sealed, "{} {sealed}", ranking.zones.len());
        let in_order = ranking.zones.windows(2).all(|two| beats(tier, two[0].score, two[1].score));
        assert!(in_order, "{:?}", ranking.zones);
    }
    let stored: u64 =
        Tier::ALL.iter().flat_map(|tier| rig.shaper.zones(*tier)).map(|zone| zone.live.0).sum();
    let mapped = rig.stats().1.mapped_blocks * 4096;
    assert!((mapped..mapped + mapped / 50).contains(&stored), "{mapped} of users in {stored}");
}

#[test]
fn a_device_that_takes_no_writes_is_an_event_and_so_is_its_return() {
    let (mut rig, _) = filled();
    let first = rig.shaper.events(0).last().map_or(0, |last| last.number + 1);
    rig.take_no_writes(Tier::Buffer, true);
    assert!(rig.write_one(0).is_err());
    rig.take_no_writes(Tier::Buffer, false);
    rig.wait(Nanos::secs(3));
    let events = rig.shaper.events(first);
    let events = events.iter().map(|event| &event.what);
    let of_devices = events.filter(|what| !matches!(what, BlockChange::Zone(..)));
    let expected = [BlockChange::ReadOnly(Tier::Buffer), BlockChange::Writable(Tier::Buffer)];
    assert_eq!(of_devices.cloned().collect::<Vec<_>>(), expected);
}

#[test]
fn a_zone_that_is_kept_with_unreadable_blocks_is_an_event() {
    let (mut rig, user) = filled();
    rig.make_unreadable(10..11);
    let usage = |rig: &Rig| rig.shaper.zones(Tier::Capacity)[10].usage;
    let mut rng = Rng::new(5);
    for _ in 0..100 {
        let mut rng = Rng::new(rng.below(u64::MAX));
        rig.write(user / 20, move || rng.below(user / 2) * 2);
        if usage(&rig) == ZoneUse::Unreadable {
            break;
        }
    }
    let events = rig.shaper.events(0);
    let kept = of_zones(&events).filter(|(.., change)| **change == ZoneChange::Unreadable);
    let kept: Vec<_> = kept.map(|(tier, zone, _)| (tier, zone)).collect();
    assert_eq!(kept, [(Tier::Capacity, ZoneId(10))]);
}
