//! Zone layout tests: mixed, odd and invalid zone reports.

use proptest::prelude::*;

use super::*;

/// Zone length in sectors: 16 MiB, of which 12 MiB can be written.
const LEN: u64 = 32768;
const CAPACITY: u64 = 24576;

const EMPTY: u8 = 1;
const CONVENTIONAL: u8 = 1;
const IN_ORDER: u8 = 2;

fn zone(number: u64, condition: u8, written: u64) -> RawZone {
    RawZone {
        start: number * LEN,
        len: LEN,
        write_pointer: number * LEN + written,
        kind: IN_ORDER,
        condition,
        capacity: CAPACITY,
        ..RawZone::default()
    }
}

fn conventional(number: u64) -> RawZone {
    RawZone { kind: CONVENTIONAL, condition: 0, capacity: LEN, ..zone(number, 0, 0) }
}

fn limits() -> Queue {
    Queue { max_open_zones: Some(7), max_active_zones: Some(14), ..Queue::default() }
}

#[test]
fn zones_are_read_as_the_drive_has_them() {
    let conditions = [(1, 0), (2, 8), (3, 16), (4, 24), (0xD, 32), (0xE, LEN), (0xF, 0), (99, 0)];
    let zones: Vec<_> =
        (0..).zip(conditions).map(|(n, (condition, at))| zone(n, condition, at)).collect();
    let layout = ZoneLayout::of(&zones, &limits()).unwrap();
    let Geometry { zone_count, zone_size, zone_capacity, .. } = layout.geometry;
    assert_eq!((zone_count, zone_size, zone_capacity), (8, Blocks(4096), Blocks(3072)));
    assert_eq!(layout.geometry.max_open_zones, Some(7));
    assert_eq!(layout.geometry.max_active_zones, Some(14));
    use ZoneState as S;
    let expected = [
        (S::Empty, Some(0)),
        (S::ImplicitlyOpened, Some(1)),
        (S::ExplicitlyOpened, Some(2)),
        (S::Closed, Some(3)),
        (S::ReadOnly, None),
        (S::Full, Some(3072)),
        (S::Offline, Some(0)),
        (S::Offline, Some(0)),
    ];
    for (n, (raw, (state, written))) in (0..).zip(zones.iter().zip(expected)) {
        let written = written.map(Blocks);
        assert_eq!(layout.read(raw), Some(KernelZone { zone: ZoneId(n), state, written }));
    }
    assert_eq!(layout.count(&zones).by_state, [1, 1, 1, 1, 1, 1, 2]);
}

#[test]
fn conventional_and_odd_zones_are_never_used() {
    let short = RawZone { len: LEN / 2, capacity: LEN / 2, ..zone(7, EMPTY, 0) };
    let other = RawZone { capacity: CAPACITY - 8, ..zone(4, EMPTY, 0) };
    let zones = [
        conventional(0),
        conventional(1),
        zone(2, EMPTY, 0),
        zone(3, EMPTY, 0),
        other,
        conventional(5),
        zone(6, EMPTY, 0),
        short,
    ];
    let layout = ZoneLayout::of(&zones, &limits()).unwrap();
    assert_eq!((layout.base, layout.geometry.zone_count), (Lba(2 * 4096), 5));
    let states: Vec<_> = zones.iter().map(|raw| layout.read(raw).map(|told| told.state)).collect();
    let (empty, unused) = (Some(ZoneState::Empty), Some(ZoneState::Offline));
    assert_eq!(states, [None, None, empty, empty, unused, unused, empty, None]);
    let census = layout.count(&zones);
    assert_eq!((census.conventional, census.odd, census.by_state[0]), (3, 2, 3));
    assert_eq!(layout.sector(ZoneId(4)), 6 * LEN);
}

#[test]
fn zones_that_cannot_be_used_are_refused_with_a_reason() {
    let refusal = |zones: &[RawZone]| ZoneLayout::of(zones, &limits()).unwrap_err();
    assert!(refusal(&[]).starts_with("has no sequential-write zones"));
    assert!(refusal(&[conventional(0)]).starts_with("has no sequential-write zones"));
    let uneven = RawZone { capacity: CAPACITY + 1, ..zone(0, EMPTY, 0) };
    let why = refusal(&[uneven]);
    assert!(why.contains("with 24577 writable") && why.contains("format the drive"), "{why}");
    for contradiction in [
        RawZone { capacity: LEN + 8, ..zone(0, EMPTY, 0) },
        RawZone { capacity: 0, ..zone(0, EMPTY, 0) },
        RawZone { len: 0, capacity: 0, ..zone(0, EMPTY, 0) },
        RawZone { start: !7, ..zone(0, EMPTY, 0) },
    ] {
        assert_eq!(refusal(&[contradiction]), "reports inconsistent zones");
    }
}

fn any_zone() -> impl Strategy<Value = RawZone> {
    let number = prop_oneof![0u64..64, any::<u64>()];
    let sectors = prop_oneof![Just(LEN), Just(CAPACITY), 0u64..100, any::<u64>()];
    let fields = (number, sectors.clone(), sectors, any::<u64>(), 0u8..4, any::<u8>());
    fields.prop_map(|(number, len, capacity, write_pointer, kind, condition)| RawZone {
        start: number.wrapping_mul(LEN),
        len,
        write_pointer,
        kind,
        condition,
        capacity,
        ..RawZone::default()
    })
}

proptest! {
    #[test]
    fn whatever_a_kernel_reports_no_zone_lies_outside_the_device(
        zones in proptest::collection::vec(any_zone(), 0..40), more in any_zone(),
    ) {
        let Ok(layout) = ZoneLayout::of(&zones, &limits()) else { return Ok(()) };
        let Geometry { zone_count, zone_capacity, zone_size, .. } = layout.geometry;
        prop_assert!(0 < zone_count && Blocks(0) < zone_capacity && zone_capacity <= zone_size);
        for raw in zones.iter().chain([&more]) {
            if let Some(told) = layout.read(raw) {
                prop_assert!(told.zone.0 < zone_count);
                prop_assert!(told.written.is_none_or(|written| written <= zone_capacity));
                prop_assert_eq!(layout.sector(told.zone), raw.start);
            }
        }
        let census = layout.count(&zones);
        let counted = census.by_state.iter().sum::<u32>() + census.conventional + census.odd;
        prop_assert_eq!(counted as usize, zones.len());
    }
}
