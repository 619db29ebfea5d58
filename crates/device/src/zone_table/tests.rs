//! Zone table: every state with every action, the zone limits, failed writes and writes in flight.

use alloc::vec::Vec;

use super::*;

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 6,
    zone_size: Blocks(16),
    zone_capacity: Blocks(12),
    max_open_zones: Some(2),
    max_active_zones: Some(3),
};

const ZONE: ZoneId = ZoneId(0);

/// A table whose first zone is in the given state, with no blocks when empty, all when full, and three otherwise.
fn table_with(state: ZoneState) -> ZoneTable {
    let written = match state {
        ZoneState::Empty => Blocks(0),
        ZoneState::Full => GEOMETRY.zone_capacity,
        _ => Blocks(3),
    };
    let report = |zone| match zone {
        ZONE => ZoneReport { zone, state, written },
        _ => ZoneReport { zone, state: ZoneState::Empty, written: Blocks(0) },
    };
    ZoneTable::from_reports(GEOMETRY, &GEOMETRY.zones().map(report).collect::<Vec<_>>())
}

fn lba(zone: u32, at: u64) -> Lba {
    GEOMETRY.zone_start(ZoneId(zone)) + Blocks(at)
}

fn write(table: &mut ZoneTable, lba: Lba, blocks: u64) -> Result<(), DeviceError> {
    let zone = table.begin_write(lba, Blocks(blocks))?;
    table.end_write(zone, Blocks(blocks));
    Ok(())
}

fn act(table: &mut ZoneTable, action: ZoneAction) -> Result<(), DeviceError> {
    let written = table.look(ZONE).written;
    match action {
        ZoneAction::Write => write(table, lba(0, written.0), 1),
        ZoneAction::WriteToCapacity => {
            // A full zone has no blocks left: write the last block before its end.
            let left = (GEOMETRY.zone_capacity - written).0.max(1);
            write(table, lba(0, GEOMETRY.zone_capacity.0 - left), left)
        }
        _ => table.manage(ZONE, action),
    }
}

#[test]
fn every_state_takes_exactly_the_actions_of_the_state_machine() {
    let actions = [
        ZoneAction::Open,
        ZoneAction::Close,
        ZoneAction::Finish,
        ZoneAction::Reset,
        ZoneAction::Write,
        ZoneAction::WriteToCapacity,
    ];
    for state in ZoneState::ALL {
        for action in actions {
            let mut table = table_with(state);
            let before = table.look(ZONE);
            let done = act(&mut table, action);
            let after = table.look(ZONE);
            let context = alloc::format!("{action:?} of a zone that is {state:?}");
            match state.after(action) {
                Ok(to) => assert_eq!((done, after.state), (Ok(()), to), "{context}"),
                Err(_) => {
                    assert!(done.is_err(), "{context}");
                    assert_eq!(before, after, "{context}: what is refused changes nothing");
                }
            }
            let expected = match (done, action) {
                (Err(_), _) | (_, ZoneAction::Open | ZoneAction::Close) => before.written,
                (_, ZoneAction::Write) => before.written + Blocks(1),
                (_, ZoneAction::Reset) => Blocks(0),
                (_, ZoneAction::Finish | ZoneAction::WriteToCapacity) => GEOMETRY.zone_capacity,
            };
            assert_eq!(after.written, expected, "{context}");
            let count = |is: fn(ZoneState) -> bool| u32::from(is(after.state));
            assert_eq!(table.open_count, count(ZoneState::is_open), "{context}");
            assert_eq!(table.active_count, count(ZoneState::is_active), "{context}");
        }
    }
}

#[test]
fn refused_writes_say_why() {
    let check = |state, at, blocks, expected| {
        let refused = table_with(state).begin_write(lba(0, at), Blocks(blocks));
        assert_eq!(refused, Err(expected), "{blocks} blocks at {at} of a zone that is {state:?}");
    };
    check(ZoneState::Empty, 1, 1, DeviceError::InvalidWrite);
    check(ZoneState::Closed, 2, 1, DeviceError::InvalidWrite);
    check(ZoneState::Closed, 4, 1, DeviceError::InvalidWrite);
    check(ZoneState::Closed, 3, 10, DeviceError::ZoneFull);
    check(ZoneState::Full, 11, 1, DeviceError::ZoneFull);
    check(ZoneState::Full, 12, 1, DeviceError::ZoneFull);
    check(ZoneState::ReadOnly, 3, 1, DeviceError::ZoneReadOnly);
    check(ZoneState::Offline, 3, 1, DeviceError::ZoneOffline);
    check(ZoneState::Empty, 0, 0, DeviceError::InvalidField);
    check(ZoneState::Empty, 0, 17, DeviceError::InvalidField);
    check(ZoneState::Closed, 3, 14, DeviceError::InvalidField);
    check(ZoneState::Empty, 16 * 6, 1, DeviceError::InvalidField);
    check(ZoneState::Empty, u64::MAX, u64::MAX, DeviceError::InvalidField);
}

#[test]
fn only_what_was_written_is_read() {
    let check = |state, at, blocks, expected| {
        let read = table_with(state).check_read(lba(0, at), Blocks(blocks));
        assert_eq!(read, expected, "{blocks} blocks at {at} of a zone that is {state:?}");
    };
    check(ZoneState::Closed, 0, 3, Ok(()));
    check(ZoneState::ReadOnly, 0, 3, Ok(()));
    check(ZoneState::Full, 0, 12, Ok(()));
    check(ZoneState::Full, 11, 2, Err(DeviceError::ReadPastWritePointer));
    check(ZoneState::Closed, 2, 2, Err(DeviceError::ReadPastWritePointer));
    check(ZoneState::Empty, 0, 1, Err(DeviceError::ReadPastWritePointer));
    check(ZoneState::Offline, 0, 1, Err(DeviceError::ZoneOffline));
    check(ZoneState::Full, 15, 2, Err(DeviceError::InvalidField));
    check(ZoneState::Full, 0, 0, Err(DeviceError::InvalidField));
}

#[test]
fn a_zone_refuses_writes_from_a_failed_one_until_it_is_reported_or_reset() {
    let mut table = table_with(ZoneState::Closed);
    assert_eq!(write(&mut table, lba(0, 7), 1), Err(DeviceError::InvalidWrite));
    assert_eq!(write(&mut table, lba(0, 3), 1), Err(DeviceError::InvalidWrite));
    assert_eq!(write(&mut table, lba(1, 0), 1), Ok(()), "other zones go on");
    assert_eq!(table.report(ZoneId(1), 9).unwrap().len(), 5);
    assert_eq!(write(&mut table, lba(0, 3), 1), Err(DeviceError::InvalidWrite), "not reported");
    assert_eq!(table.report(ZONE, 1).unwrap()[0].written, Blocks(3));
    assert_eq!(write(&mut table, lba(0, 3), 1), Ok(()));
    table.require_report(ZONE);
    table.manage(ZONE, ZoneAction::Reset).unwrap();
    assert_eq!(write(&mut table, lba(0, 0), 1), Ok(()));
}

#[test]
fn the_oldest_implicitly_opened_zone_is_closed_for_the_next() {
    let mut table = ZoneTable::new(GEOMETRY);
    for zone in [2, 1, 0] {
        write(&mut table, lba(zone, 0), 1).unwrap();
    }
    let states = |table: &ZoneTable| [0, 1, 2].map(|zone| table.look(ZoneId(zone)).state);
    let (open, closed) = (ZoneState::ImplicitlyOpened, ZoneState::Closed);
    assert_eq!(states(&table), [open, open, closed]);
    assert_eq!(write(&mut table, lba(3, 0), 1), Err(DeviceError::TooManyZones), "a fourth active");
    assert_eq!(states(&table), [open, open, closed], "nothing was closed in vain");
    write(&mut table, lba(2, 1), 1).unwrap();
    assert_eq!(states(&table), [open, closed, open]);
    table.manage(ZoneId(0), ZoneAction::Open).unwrap();
    table.manage(ZoneId(2), ZoneAction::Open).unwrap();
    assert_eq!(write(&mut table, lba(1, 1), 1), Err(DeviceError::TooManyZones));
    assert_eq!(table.manage(ZoneId(1), ZoneAction::Open), Err(DeviceError::TooManyZones));
}

#[test]
fn writes_may_follow_each_other_and_are_readable_when_they_have_ended() {
    let mut table = ZoneTable::new(GEOMETRY);
    table.begin_write(lba(0, 0), Blocks(5)).unwrap();
    assert_eq!(table.begin_append(ZONE, Blocks(7)), Ok(lba(0, 5)));
    assert_eq!(
        table.look(ZONE).state,
        ZoneState::ImplicitlyOpened,
        "not full before it is written"
    );
    assert_eq!(table.check_read(lba(0, 0), Blocks(1)), Err(DeviceError::ReadPastWritePointer));
    assert_eq!(table.manage(ZONE, ZoneAction::Reset), Err(DeviceError::InvalidTransition));
    table.end_write(ZONE, Blocks(5));
    assert_eq!(table.check_read(lba(0, 0), Blocks(5)), Ok(()));
    assert_eq!(table.check_read(lba(0, 5), Blocks(1)), Err(DeviceError::ReadPastWritePointer));
    table.end_write(ZONE, Blocks(7));
    assert_eq!((table.look(ZONE).state, table.active_count), (ZoneState::Full, 0));
}

#[test]
fn a_failed_write_takes_those_after_it_along() {
    let mut table = ZoneTable::new(GEOMETRY);
    for at in [0, 4, 8] {
        table.begin_write(lba(0, at), Blocks(4)).unwrap();
    }
    table.end_write(ZONE, Blocks(4));
    table.abort_writes(ZONE);
    assert_eq!(table.look(ZONE).written, Blocks(4));
    assert_eq!(write(&mut table, lba(0, 4), 1), Err(DeviceError::InvalidWrite));
    table.report(ZONE, 1).unwrap();
    assert_eq!(write(&mut table, lba(0, 4), 1), Ok(()));
}

#[test]
fn a_conventional_device_shows_old_bytes_until_the_owner_knows_better() {
    let geometry = Geometry { kind: DeviceKind::Conventional, ..GEOMETRY };
    let mut table = ZoneTable::new(geometry);
    assert_eq!(table.check_read(lba(1, 11), Blocks(1)), Ok(()), "before a restore");
    assert_eq!(table.check_read(lba(1, 12), Blocks(1)), Err(DeviceError::ReadPastWritePointer));
    table.restore(ZoneId(1), Blocks(5)).unwrap();
    assert_eq!(table.look(ZoneId(1)).state, ZoneState::Closed);
    assert_eq!(table.check_read(lba(1, 5), Blocks(1)), Err(DeviceError::ReadPastWritePointer));
    assert_eq!(write(&mut table, lba(1, 5), 1), Ok(()));
    table.restore(ZoneId(2), Blocks(12)).unwrap();
    assert_eq!(table.look(ZoneId(2)).state, ZoneState::Full);
    table.restore(ZoneId(3), Blocks(0)).unwrap();
    assert_eq!(table.look(ZoneId(3)).state, ZoneState::Empty);
    assert_eq!(table.check_read(lba(3, 0), Blocks(1)), Err(DeviceError::ReadPastWritePointer));
    assert_eq!(table.restore(ZoneId(1), Blocks(6)), Err(DeviceError::InvalidTransition));
    assert_eq!(table.restore(ZoneId(4), Blocks(13)), Err(DeviceError::InvalidField));
    let zoned = ZoneTable::new(GEOMETRY).restore(ZONE, Blocks(1));
    assert_eq!(zoned, Err(DeviceError::Unsupported));
}

#[test]
fn a_retired_zone_gives_its_place_back() {
    let mut table = ZoneTable::new(GEOMETRY);
    table.begin_write(lba(0, 0), Blocks(4)).unwrap();
    table.retire(ZONE, ZoneState::ReadOnly);
    assert_eq!((table.open_count, table.active_count), (0, 0));
    assert_eq!(table.manage(ZONE, ZoneAction::Reset), Err(DeviceError::InvalidTransition));
    assert!(table.implicitly_opened.is_empty());
}

#[test]
fn a_device_may_correct_what_was_believed_of_a_zone() {
    let mut table = table_with(ZoneState::ImplicitlyOpened);
    let corrected = |state, written| ZoneReport { zone: ZONE, state, written: Blocks(written) };
    table.require_report(ZONE);
    table.correct(corrected(ZoneState::Closed, 5));
    assert_eq!(
        table.begin_write(lba(0, 5), Blocks(1)),
        Err(DeviceError::InvalidWrite),
        "as before"
    );
    assert_eq!(table.report(ZONE, 1), Ok(alloc::vec![corrected(ZoneState::Closed, 5)]));
    assert_eq!(write(&mut table, lba(0, 5), 1), Ok(()));
    // The reported state counts against the limits: an offline zone is no longer active.
    table.correct(corrected(ZoneState::Offline, 0));
    assert_eq!(table.check_read(lba(0, 0), Blocks(1)), Err(DeviceError::ZoneOffline));
    for zone in 1..4 {
        assert_eq!(write(&mut table, lba(zone, 0), 1), Ok(()));
    }
    table.correct(ZoneReport { zone: ZoneId(1), state: ZoneState::Full, written: Blocks(99) });
    assert_eq!(table.look(ZoneId(1)).written, GEOMETRY.zone_capacity, "no more than fits");
    assert_eq!(write(&mut table, lba(4, 0), 1), Ok(()));
}
