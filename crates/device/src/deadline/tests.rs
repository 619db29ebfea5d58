//! I/O deadlines: the wrapped device keeps the contract, late reads time out, and each fault gets its verdict.

use alloc::boxed::Box;
use alloc::vec;

use zonal_base::{Blocks, Buffer, Lba, Pool, PoolClass, ZoneId};

use super::*;
use crate::ram::{RamDevice, RamOptions};
use crate::{Answer, DeviceKind, conformance};

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 6,
    zone_size: Blocks(16),
    zone_capacity: Blocks(12),
    max_open_zones: Some(2),
    max_active_zones: Some(3),
};

const PATIENCE: Nanos = Nanos::millis(800);
const LOOK: Nanos = Nanos::millis(100);
const LATE: Completion = Err(DeviceError::TimedOut);
const GONE: Completion = Err(DeviceError::DeviceGone);

fn device(latency: Nanos) -> DeadlineDevice<RamDevice> {
    let options = RamOptions { latency, ..RamOptions::default() };
    let mut device = DeadlineDevice::new(RamDevice::new(GEOMETRY, options));
    device.set_read_timeout(Nanos(0), PATIENCE);
    device
}

fn pool() -> Pool {
    Pool::new(&[PoolClass { blocks: Blocks(16), count: 64 }], Box::new(|| ()))
}

fn buffer(pool: &Pool) -> Buffer {
    pool.take(Blocks(16)).unwrap()
}

fn read(pool: &Pool) -> Command {
    Command::Read { lba: Lba(0), blocks: Blocks(1), buffer: buffer(pool) }
}

fn write(pool: &Pool) -> Command {
    Command::Append { zone: ZoneId(0), data: vec![buffer(pool).freeze(4096)] }
}

/// Submits `command` at `at` and returns its completion and the time of it. Other completions are dropped.
fn answer(
    device: &mut DeadlineDevice<RamDevice>,
    at: Nanos,
    command: Command,
    ticket: Ticket,
) -> (Nanos, Completion) {
    device.submit(at, ticket, command).unwrap();
    let mut now = at;
    loop {
        while let Some((answered, completion)) = device.poll(now) {
            if answered == ticket {
                return (now, completion);
            }
        }
        now = device.next_event().unwrap();
    }
}

fn same(one: &Completion, other: &Completion) -> bool {
    matches!((one, other), (Err(one), Err(other)) if one == other)
}

#[test]
fn keeps_the_device_contract() {
    conformance::run_all(|| device(Nanos(0)), |_| ());
    conformance::run_all(|| device(Nanos::micros(50)), |_| ());
}

#[test]
fn a_read_is_given_up_in_time_and_its_late_answer_frees_the_buffer() {
    let (pool, mut device) = (pool(), device(Nanos::secs(2)));
    let (begin, written) = answer(&mut device, Nanos(0), write(&pool), Ticket(7));
    assert!(written.is_ok());
    let (at, completion) = answer(&mut device, begin, read(&pool), Ticket(7));
    let took = at.since(begin);
    assert!(same(&completion, &LATE) && PATIENCE <= took && took <= PATIENCE + LOOK, "{took:?}");
    assert_eq!((device.under_way(), pool.in_use(), device.waits().reads_timed_out), (1, 1, 1));
    assert!(device.poll(begin + Nanos::secs(2)).is_none(), "nobody is answered twice");
    assert_eq!((device.under_way(), pool.in_use(), device.trouble()), (0, 0, None));
}

#[test]
fn a_write_is_waited_for() {
    let (pool, mut device) = (pool(), device(Nanos::secs(7)));
    let (at, completion) = answer(&mut device, Nanos(0), write(&pool), Ticket(0));
    assert!(at == Nanos::secs(7) && matches!(completion, Ok(Answer::Written(_))));
    assert_eq!(device.trouble(), None, "it is slow, and nobody reads");
}

#[test]
fn a_write_that_never_comes_back_is_trouble() {
    let (pool, mut device) = (pool(), device(Nanos::secs(30)));
    device.submit(Nanos(0), Ticket(0), write(&pool)).unwrap();
    while let Some(now) = device.next_event().filter(|now| *now < Nanos::secs(12)) {
        assert!(device.poll(now).is_none());
        assert!(device.trouble().is_none() || Nanos::secs(8) <= now, "too early: {now:?}");
    }
    assert_eq!(device.trouble(), Some(DeviceFault::Slow));
}

#[test]
fn a_device_that_answers_nothing_is_silent() {
    let (pool, mut device) = (pool(), device(Nanos::secs(30)));
    let (_, completion) = answer(&mut device, Nanos(0), read(&pool), Ticket(0));
    assert!(same(&completion, &LATE) && device.trouble().is_none());
    while let Some(now) = device.next_event().filter(|_| device.trouble().is_none()) {
        assert!(device.poll(now).is_none());
        assert!(device.trouble().is_none() || now == Nanos(PATIENCE.0 * SILENCE_MAX), "{now:?}");
    }
    assert_eq!(device.trouble(), Some(DeviceFault::Silent));
}

#[test]
fn a_device_that_is_late_once_is_kept_and_one_that_is_late_time_and_again_is_not() {
    for (gap, kept) in [(Nanos::secs(8), true), (Nanos::secs(1), false)] {
        let (pool, mut device) = (pool(), device(Nanos::secs(1)));
        let mut now = Nanos(0);
        for ticket in 0..4 {
            now = answer(&mut device, now, read(&pool), Ticket(ticket)).0;
            now += gap;
            while device.poll(now).is_some() {}
        }
        let expected = if kept { None } else { Some(DeviceFault::Slow) };
        assert_eq!(device.trouble(), expected, "{gap:?}");
    }
}

#[test]
fn a_device_of_which_one_read_in_ten_fails_is_failing_and_one_with_bad_blocks_is_not() {
    for (of, expected) in [(2, Some(DeviceFault::Failing)), (40, None)] {
        let (pool, mut device) = (pool(), device(Nanos::micros(50)));
        let blocks = answer(&mut device, Nanos(0), write(&pool), Ticket(0)).1;
        assert!(matches!(blocks, Ok(Answer::Written(Lba(0)))));
        answer(&mut device, Nanos(0), write(&pool), Ticket(0)).1.unwrap();
        device.device_mut().make_unreadable(Lba(0));
        let mut now = Nanos::millis(1);
        for number in 0..800 {
            let lba = Lba(u64::from(number % of != 0));
            let read = Command::Read { lba, blocks: Blocks(1), buffer: buffer(&pool) };
            let (at, completion) = answer(&mut device, now, read, Ticket(number));
            assert_eq!(completion.is_err(), lba == Lba(0));
            now = at;
        }
        assert_eq!(device.trouble(), expected, "one in {of}");
    }
}

#[test]
fn a_device_that_says_that_it_is_gone_is_believed() {
    let (pool, mut device) = (pool(), device(Nanos(0)));
    device.device_mut().kill();
    let (_, completion) = answer(&mut device, Nanos(0), read(&pool), Ticket(0));
    assert!(same(&completion, &GONE));
    assert_eq!(device.trouble(), Some(DeviceFault::Gone));
}

#[test]
fn an_abandoned_device_answers_at_once_and_is_rid_of_what_was_under_way() {
    let (pool, mut device) = (pool(), device(Nanos::secs(1)));
    device.submit(Nanos(0), Ticket(3), write(&pool)).unwrap();
    device.isolate();
    let (ticket, completion) = device.poll(Nanos(0)).unwrap();
    assert!(ticket == Ticket(3) && same(&completion, &GONE));
    let (at, completion) = answer(&mut device, Nanos(0), read(&pool), Ticket(4));
    assert!(at == Nanos(0) && same(&completion, &GONE));
    assert_eq!(device.under_way(), 1, "what it may still do is known");
    assert!(device.poll(Nanos::secs(1)).is_none());
    assert_eq!((device.under_way(), pool.in_use(), device.next_event()), (0, 0, None));
}

#[test]
fn nothing_is_held_against_a_device_before_it_is_to_be_patient_with() {
    let options = RamOptions { latency: Nanos::secs(20), ..RamOptions::default() };
    let (pool, mut device) = (pool(), DeadlineDevice::new(RamDevice::new(GEOMETRY, options)));
    let (at, completion) = answer(&mut device, Nanos(0), write(&pool), Ticket(0));
    assert!(at == Nanos::secs(20) && completion.is_ok() && device.trouble().is_none());
}
