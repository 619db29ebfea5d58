//! Conformance checks: one function per promise of the ZNS contract, named after the promise.

use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, ZoneId};

use super::rig::{Check, Rig, TRANSFER_MAX};
use crate::{Answer, Command, DeviceError, DeviceKind, ZoneAction, ZoneState, ZonedDevice};

/// Number of accepted commands at which the suite reports that the queue has no bound.
const QUEUE_DEPTH_MAX: usize = 1 << 16;

macro_rules! promises {
    ($($check:ident),* $(,)?) => {
        [$((stringify!($check), $check::<D> as Check<D>)),*]
    };
}

pub(super) fn all<D: ZonedDevice>() -> [(&'static str, Check<D>); 24] {
    promises![
        a_fresh_device_reports_empty_zones,
        what_is_written_is_read_back,
        pieces_of_a_write_lie_one_after_the_other,
        every_state_change_is_reported,
        a_write_elsewhere_than_at_the_write_pointer_fails_and_moves_nothing,
        after_a_failed_write_the_zone_refuses_writes_until_it_is_reported,
        a_write_past_the_capacity_fails_and_moves_nothing,
        a_full_zone_takes_no_writes_and_can_be_read,
        a_read_at_or_past_the_write_pointer_is_refused,
        nothing_can_be_read_between_capacity_and_the_next_zone,
        malformed_commands_are_refused,
        misaligned_data_are_refused,
        a_reset_zone_is_empty_and_can_be_written_again,
        a_finished_zone_is_full_and_what_was_written_can_be_read,
        transitions_that_the_state_forbids_are_refused,
        an_append_lands_at_the_write_pointer_and_says_where,
        writes_that_follow_each_other_land_in_order,
        a_write_that_follows_a_refused_one_is_refused,
        reads_in_flight_each_get_their_own_blocks,
        a_zone_with_writes_in_flight_is_not_reset,
        a_zone_beyond_the_active_limit_is_refused,
        a_zone_beyond_the_open_limit_takes_the_place_of_an_implicitly_opened_one,
        a_conventional_device_takes_the_write_pointers_of_its_owner,
        a_full_queue_gives_the_command_back_and_every_ticket_is_answered,
    ]
}

fn a_fresh_device_reports_empty_zones<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let count = rig.geometry().zone_count;
    let zones = rig.report(0, u32::MAX).unwrap_or_default();
    assert_eq!(zones.len(), count as usize);
    for (n, zone) in (0..).zip(zones) {
        assert_eq!((zone.zone, zone.state, zone.written), (ZoneId(n), ZoneState::Empty, Blocks(0)));
    }
    assert_eq!(rig.report(count - 1, 5).map(|zones| zones.len()), Ok(1));
    assert_eq!(rig.report(count, 1), Err(DeviceError::InvalidField));
}

fn what_is_written_is_read_back<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    for zone in [0, 3] {
        let (first, second) = (rig.lba(zone, 0), rig.lba(zone, 3));
        assert_eq!(rig.write(first, 3), Ok(first));
        assert_eq!(rig.write(second, 2), Ok(second));
    }
    assert!(matches!(rig.call(Command::Flush), Ok(Answer::Done)));
    for zone in [3, 0] {
        rig.expect_pattern(rig.lba(zone, 0), 5, 0);
        rig.expect_pattern(rig.lba(zone, 4), 1, 0);
    }
}

fn pieces_of_a_write_lie_one_after_the_other<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let lba = rig.lba(1, 0);
    let piece = |at, blocks| rig.pattern(lba + Blocks(at), Blocks(blocks), 0);
    let data = alloc::vec![piece(0, 1), piece(1, 3), piece(4, 1)];
    let written = rig.call(Command::Write { lba, data });
    assert_eq!(written.map(|answer| rig.written(answer)), Ok(lba));
    rig.expect_pattern(lba, 5, 0);
}

fn every_state_change_is_reported<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let capacity = rig.geometry().zone_capacity.0;
    assert_eq!(rig.manage(0, ZoneAction::Open), Ok(()));
    rig.expect_zone(0, ZoneState::ExplicitlyOpened, 0);
    assert_eq!(rig.write(rig.lba(0, 0), 2), Ok(rig.lba(0, 0)));
    rig.expect_zone(0, ZoneState::ExplicitlyOpened, 2);
    assert_eq!(rig.manage(0, ZoneAction::Close), Ok(()));
    rig.expect_zone(0, ZoneState::Closed, 2);
    assert_eq!(rig.write(rig.lba(0, 2), 1), Ok(rig.lba(0, 2)));
    rig.expect_zone(0, ZoneState::ImplicitlyOpened, 3);
    rig.fill(0, 3);
    rig.expect_zone(0, ZoneState::Full, capacity);
    assert_eq!(rig.manage(0, ZoneAction::Reset), Ok(()));
    rig.expect_zone(0, ZoneState::Empty, 0);
}

fn a_write_elsewhere_than_at_the_write_pointer_fails_and_moves_nothing<D: ZonedDevice>(
    rig: &mut Rig<'_, D>,
) {
    assert_eq!(rig.write(rig.lba(0, 0), 4), Ok(rig.lba(0, 0)));
    for at in [0, 3, 5] {
        rig.expect_refused_write(rig.lba(0, at), 1, DeviceError::InvalidWrite);
        rig.expect_zone(0, ZoneState::ImplicitlyOpened, 4);
    }
    rig.expect_refused_write(rig.lba(1, 1), 1, DeviceError::InvalidWrite);
    rig.expect_zone(1, ZoneState::Empty, 0);
    rig.expect_pattern(rig.lba(0, 0), 4, 0);
}

fn after_a_failed_write_the_zone_refuses_writes_until_it_is_reported<D: ZonedDevice>(
    rig: &mut Rig<'_, D>,
) {
    assert_eq!(rig.write(rig.lba(0, 0), 1), Ok(rig.lba(0, 0)));
    rig.expect_refused_write(rig.lba(0, 4), 1, DeviceError::InvalidWrite);
    rig.expect_refused_write(rig.lba(0, 1), 1, DeviceError::InvalidWrite);
    assert_eq!(rig.write(rig.lba(1, 0), 1), Ok(rig.lba(1, 0)), "other zones go on");
    rig.expect_zone(1, ZoneState::ImplicitlyOpened, 1);
    rig.expect_refused_write(rig.lba(0, 1), 1, DeviceError::InvalidWrite);
    rig.expect_zone(0, ZoneState::ImplicitlyOpened, 1);
    assert_eq!(rig.write(rig.lba(0, 1), 1), Ok(rig.lba(0, 1)));
}

fn a_write_past_the_capacity_fails_and_moves_nothing<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let capacity = rig.geometry().zone_capacity.0;
    let has_gap = rig.geometry().zone_capacity < rig.geometry().zone_size;
    rig.fill(0, 0);
    assert_eq!(rig.manage(0, ZoneAction::Reset), Ok(()));
    let mut at = 0;
    while at + TRANSFER_MAX.0 < capacity {
        assert!(rig.write(rig.lba(0, at), TRANSFER_MAX.0).is_ok());
        at += TRANSFER_MAX.0;
    }
    assert!(at + 1 == capacity || rig.write(rig.lba(0, at), capacity - 1 - at).is_ok());
    // Without a gap between capacity and zone size, this write would cross into the next zone.
    let error = if has_gap { DeviceError::ZoneFull } else { DeviceError::InvalidField };
    rig.expect_refused_write(rig.lba(0, capacity - 1), 2, error);
    rig.expect_zone(0, ZoneState::ImplicitlyOpened, capacity - 1);
    assert!(rig.write(rig.lba(0, capacity - 1), 1).is_ok());
    rig.expect_zone(0, ZoneState::Full, capacity);
}

fn a_full_zone_takes_no_writes_and_can_be_read<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let capacity = rig.geometry().zone_capacity.0;
    rig.fill(2, 0);
    for at in [0, capacity - 1] {
        rig.expect_refused_write(rig.lba(2, at), 1, DeviceError::ZoneFull);
        rig.expect_zone(2, ZoneState::Full, capacity);
    }
    let last = capacity.min(TRANSFER_MAX.0);
    rig.expect_pattern(rig.lba(2, 0), last, 0);
    rig.expect_pattern(rig.lba(2, capacity - last), last, 0);
}

fn a_read_at_or_past_the_write_pointer_is_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    assert_eq!(rig.write(rig.lba(0, 0), 3), Ok(rig.lba(0, 0)));
    rig.expect_unwritten(rig.lba(0, 3));
    rig.expect_unwritten(rig.lba(0, 7));
    assert_eq!(rig.read(rig.lba(0, 2), 2), Err(DeviceError::ReadPastWritePointer));
    if rig.geometry().kind == DeviceKind::Zoned {
        rig.expect_unwritten(rig.lba(1, 0));
    }
    rig.expect_pattern(rig.lba(0, 0), 3, 0);
}

fn nothing_can_be_read_between_capacity_and_the_next_zone<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let capacity = rig.geometry().zone_capacity;
    if capacity == rig.geometry().zone_size {
        return;
    }
    rig.fill(0, 0);
    rig.expect_unwritten(rig.lba(0, capacity.0));
    assert_eq!(rig.read(rig.lba(0, capacity.0 - 1), 2), Err(DeviceError::ReadPastWritePointer));
    rig.expect_refused_write(rig.lba(0, capacity.0), 1, DeviceError::ZoneFull);
}

fn malformed_commands_are_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let geometry = rig.geometry();
    let end = Lba(u64::from(geometry.zone_count) * geometry.zone_size.0);
    let last = rig.lba(0, geometry.zone_size.0 - 1);
    let malformed = [
        rig.read_command(rig.lba(0, 0), Blocks(0)),
        rig.read_command(rig.lba(0, 0), TRANSFER_MAX + Blocks(1)),
        rig.read_command(last, Blocks(2)),
        rig.read_command(end, Blocks(1)),
        rig.read_command(Lba(u64::MAX), Blocks(1)),
        rig.write_command(end, Blocks(1)),
        rig.write_command(Lba(u64::MAX), Blocks(1)),
        rig.write_command(last, Blocks(2)),
        Command::Write { lba: rig.lba(0, 0), data: Vec::new() },
        Command::Append { zone: ZoneId(0), data: Vec::new() },
        Command::Append {
            zone: ZoneId(geometry.zone_count),
            data: alloc::vec![rig.pattern(end, Blocks(1), 0)],
        },
        Command::Manage { zone: ZoneId(geometry.zone_count), action: ZoneAction::Reset },
        Command::Report { first: ZoneId(0), count: 0 },
    ];
    for command in malformed {
        let name = alloc::format!("{command:?}");
        assert_eq!(rig.call(command).err(), Some(DeviceError::InvalidField), "{name}");
    }
    for action in [ZoneAction::Write, ZoneAction::WriteToCapacity] {
        assert_eq!(rig.manage(0, action), Err(DeviceError::Unsupported));
    }
}

fn misaligned_data_are_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let lba = rig.lba(0, 0);
    let blocks = rig.pattern(lba, Blocks(2), 0);
    let bytes = blocks.len();
    for range in [0..bytes - 1, 512..bytes - 3584, 0..0] {
        let data = alloc::vec![blocks.slice(range.clone())];
        let refused = rig.call(Command::Write { lba, data }).err();
        assert_eq!(refused, Some(DeviceError::InvalidField), "bytes {range:?}");
    }
    rig.expect_zone(0, ZoneState::Empty, 0);
}

fn a_reset_zone_is_empty_and_can_be_written_again<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let lba = rig.lba(1, 0);
    assert_eq!(rig.write(lba, 5), Ok(lba));
    assert_eq!(rig.manage(1, ZoneAction::Reset), Ok(()));
    rig.expect_zone(1, ZoneState::Empty, 0);
    rig.expect_unwritten(lba);
    let data = alloc::vec![rig.pattern(lba, Blocks(2), 1)];
    assert!(rig.call(Command::Write { lba, data }).is_ok());
    rig.expect_pattern(lba, 2, 1);
    rig.expect_unwritten(lba + Blocks(2));
    assert_eq!(rig.manage(2, ZoneAction::Reset), Ok(()), "resetting an empty zone is no error");
}

fn a_finished_zone_is_full_and_what_was_written_can_be_read<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let capacity = rig.geometry().zone_capacity.0;
    assert_eq!(rig.write(rig.lba(1, 0), 2), Ok(rig.lba(1, 0)));
    for zone in [0, 1] {
        assert_eq!(rig.manage(zone, ZoneAction::Finish), Ok(()));
        rig.expect_zone(zone, ZoneState::Full, capacity);
        assert_eq!(rig.manage(zone, ZoneAction::Finish), Ok(()), "again");
        rig.expect_refused_write(rig.lba(zone, 2), 1, DeviceError::ZoneFull);
    }
    rig.expect_pattern(rig.lba(1, 0), 2, 0);
}

fn transitions_that_the_state_forbids_are_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    assert_eq!(rig.manage(0, ZoneAction::Close), Err(DeviceError::InvalidTransition));
    rig.expect_zone(0, ZoneState::Empty, 0);
    assert_eq!(rig.manage(0, ZoneAction::Finish), Ok(()));
    for action in [ZoneAction::Open, ZoneAction::Close] {
        assert_eq!(rig.manage(0, action), Err(DeviceError::InvalidTransition));
    }
    rig.expect_zone(0, ZoneState::Full, rig.geometry().zone_capacity.0);
}

fn an_append_lands_at_the_write_pointer_and_says_where<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    assert_eq!(rig.write(rig.lba(2, 0), 3), Ok(rig.lba(2, 0)));
    for at in [3, 5] {
        let lba = rig.lba(2, at);
        let data = alloc::vec![rig.pattern(lba, Blocks(2), 0)];
        match rig.call(Command::Append { zone: ZoneId(2), data }) {
            Ok(answer) => assert_eq!(rig.written(answer), lba),
            Err(error) => return assert_eq!(error, DeviceError::Unsupported),
        }
    }
    rig.expect_pattern(rig.lba(2, 0), 7, 0);
}

fn writes_that_follow_each_other_land_in_order<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    // Two writes are in flight in one zone at a time: the device must not let them overtake each other.
    for at in [0, 2, 4, 6] {
        let lbas = [rig.lba(0, at), rig.lba(0, at + 1)];
        let tickets = lbas.map(|lba| rig.submit(rig.write_command(lba, Blocks(1))));
        for (lba, ticket) in lbas.into_iter().zip(tickets) {
            let answer = rig.answer_of(ticket);
            assert_eq!(answer.map(|answer| rig.written(answer)), Ok(lba));
        }
    }
    rig.expect_pattern(rig.lba(0, 0), 8, 0);
}

fn a_write_that_follows_a_refused_one_is_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let tickets = [1, 0].map(|at| rig.submit(rig.write_command(rig.lba(0, at), Blocks(1))));
    for ticket in tickets {
        assert_eq!(rig.answer_of(ticket).err(), Some(DeviceError::InvalidWrite));
    }
    rig.expect_zone(0, ZoneState::Empty, 0);
}

fn reads_in_flight_each_get_their_own_blocks<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    for zone in 0..2 {
        assert!(rig.write(rig.lba(zone, 0), 8).is_ok());
    }
    let mut wanted: Vec<Lba> = Vec::new();
    for at in 0..8 {
        wanted.extend((0..2).map(|zone| rig.lba(zone, at)));
    }
    let mut reads = Vec::new();
    for lba in wanted {
        if let Some(ticket) = rig.try_submit(rig.read_command(lba, Blocks(1))) {
            reads.push((lba, ticket));
        }
    }
    assert!(2 <= reads.len(), "a queue of two is the least");
    for (lba, ticket) in reads.into_iter().rev() {
        let bytes = rig.answer_of(ticket).map(|answer| rig.bytes(answer, Blocks(1)));
        let expected = rig.pattern(lba, Blocks(1), 0);
        assert_eq!(bytes.as_deref(), Ok(expected.as_bytes()), "at {lba}");
    }
}

fn a_zone_with_writes_in_flight_is_not_reset<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    // The rig submits the reset before it takes the answer of the write. A device may carry out the two in either
    // order. Either the data are there and the reset was refused, or the reset came after the write.
    let write = rig.submit(rig.write_command(rig.lba(0, 0), Blocks(4)));
    let reset = rig.submit(Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset });
    assert!(rig.answer_of(write).is_ok());
    match rig.answer_of(reset) {
        Ok(_) => rig.expect_zone(0, ZoneState::Empty, 0),
        Err(error) => {
            assert_eq!(error, DeviceError::InvalidTransition);
            rig.expect_zone(0, ZoneState::ImplicitlyOpened, 4);
            rig.expect_pattern(rig.lba(0, 0), 4, 0);
        }
    }
}

fn a_zone_beyond_the_active_limit_is_refused<D: ZonedDevice>(rig: &mut Rig<'_, D>) {
    let geometry = rig.geometry();
    let Some(max) = geometry.max_active_zones.filter(|max| *max < geometry.zone_count) else {
        return;
    };
    for zone in 0..max {
        assert!(rig.write(rig.lba(zone, 0), 1).is_ok());
    }
    rig.expect_refused_write(rig.lba(max, 0), 1, DeviceError::TooManyZones);
    assert_eq!(rig.manage(max, ZoneAction::Open), Err(DeviceError::TooManyZones));
    rig.expect_zone(max, ZoneState::Empty, 0);
    for (given_back, action) in [(0, ZoneAction::Finish), (1, ZoneAction::Reset)] {
        assert_eq!(rig.manage(given_back, action), Ok(()));
        assert!(rig.write(rig.lba(max, 0), 1).is_ok(), "a place is free after {action:?}");
        assert_eq!(rig.manage(max, ZoneAction::Reset), Ok(()));
        assert!(rig.manage(0, ZoneAction::Reset).is_ok() && rig.write(rig.lba(0, 0), 1).is_ok());
    }
}

fn a_zone_beyond_the_open_limit_takes_the_place_of_an_implicitly_opened_one<D: ZonedDevice>(
    rig: &mut Rig<'_, D>,
) {
    let geometry = rig.geometry();
    let most = geometry.zone_count.min(geometry.max_active_zones.unwrap_or(u32::MAX));
    let Some(max) = geometry.max_open_zones.filter(|max| *max < most) else { return };
    for zone in 0..=max {
        assert!(
            rig.write(rig.lba(zone, 0), 1).is_ok(),
            "room is made for an implicitly opened zone"
        );
    }
    let zones = rig.report(0, max + 1).unwrap_or_default();
    let open = zones.iter().filter(|zone| zone.state.is_open()).count();
    assert_eq!((open, zones.len()), (max as usize, max as usize + 1));
    for zone in 0..max {
        assert_eq!(rig.manage(zone, ZoneAction::Open), Ok(()));
    }
    rig.expect_refused_write(rig.lba(max, 1), 1, DeviceError::TooManyZones);
    rig.expect_zone(max, ZoneState::Closed, 1);
    assert_eq!(rig.manage(0, ZoneAction::Close), Ok(()));
    assert!(rig.write(rig.lba(max, 1), 1).is_ok());
}

fn a_conventional_device_takes_the_write_pointers_of_its_owner<D: ZonedDevice>(
    rig: &mut Rig<'_, D>,
) {
    let capacity = rig.geometry().zone_capacity;
    let restore = |zone, written| Command::Restore { zone: ZoneId(zone), written };
    let refused = rig.call(restore(rig.geometry().zone_count, Blocks(1))).err();
    if rig.geometry().kind == DeviceKind::Zoned {
        return assert_eq!(refused, Some(DeviceError::Unsupported));
    }
    assert_eq!(refused, Some(DeviceError::InvalidField));
    assert!(rig.read(rig.lba(0, capacity.0 - 1), 1).is_ok(), "old bytes can be read");
    assert!(rig.call(restore(0, Blocks(5))).is_ok());
    rig.expect_zone(0, ZoneState::Closed, 5);
    assert!(rig.read(rig.lba(0, 0), 5).is_ok());
    rig.expect_unwritten(rig.lba(0, 5));
    assert!(rig.write(rig.lba(0, 5), 1).is_ok());
    assert!(rig.call(restore(1, capacity)).is_ok());
    rig.expect_zone(1, ZoneState::Full, capacity.0);
    assert!(rig.call(restore(2, Blocks(0))).is_ok());
    rig.expect_zone(2, ZoneState::Empty, 0);
    let again = rig.call(restore(0, Blocks(5))).err();
    assert_eq!(again, Some(DeviceError::InvalidTransition));
    let too_much = rig.call(restore(3, capacity + Blocks(1))).err();
    assert_eq!(too_much, Some(DeviceError::InvalidField));
}

fn a_full_queue_gives_the_command_back_and_every_ticket_is_answered<D: ZonedDevice>(
    rig: &mut Rig<'_, D>,
) {
    for round in 0..2 {
        let report = || Command::Report { first: ZoneId(0), count: 1 };
        let mut tickets = Vec::new();
        while let Some(ticket) = rig.try_submit(report()) {
            tickets.push(ticket);
            assert!(tickets.len() < QUEUE_DEPTH_MAX, "the queue has no bound");
        }
        assert!(2 <= tickets.len(), "a queue of two is the least, in round {round}");
        let refused = rig.device.submit(zonal_base::Nanos(0), zonal_base::Ticket(0), report());
        assert!(matches!(refused, Err(Command::Report { count: 1, .. })), "the same command");
        for ticket in tickets {
            assert!(matches!(rig.answer_of(ticket), Ok(Answer::Report(_))));
        }
    }
}
