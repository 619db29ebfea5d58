//! Range locks: the order in which conflicting writes are granted.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Context;

use super::*;

fn is_ready<'a>(
    turn: &mut Pin<&mut impl Future<Output = RangeLockGuard<'a>>>,
) -> Option<RangeLockGuard<'a>> {
    match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    }
}

fn blocks(range: Range<u64>) -> Range<Lba> {
    Lba(range.start)..Lba(range.end)
}

#[test]
fn whole_blocks_are_written_beside_each_other() {
    let locks = RangeLocks::default();
    let mut first = pin!(locks.acquire(blocks(0..4), LockMode::Shared));
    let mut second = pin!(locks.acquire(blocks(2..6), LockMode::Shared));
    let held = (is_ready(&mut first), is_ready(&mut second));
    assert!(held.0.is_some() && held.1.is_some());
}

#[test]
fn a_part_of_a_block_is_written_alone_and_in_its_order() {
    let locks = RangeLocks::default();
    let mut before = pin!(locks.acquire(blocks(0..4), LockMode::Shared));
    let mut elsewhere = pin!(locks.acquire(blocks(8..9), LockMode::Exclusive));
    let mut alone = pin!(locks.acquire(blocks(3..4), LockMode::Exclusive));
    let mut after = pin!(locks.acquire(blocks(0..4), LockMode::Shared));
    let mut beside = pin!(locks.acquire(blocks(4..5), LockMode::Shared));
    let first = is_ready(&mut before);
    assert!(first.is_some() && is_ready(&mut elsewhere).is_some());
    assert!(is_ready(&mut alone).is_none(), "a write to its block is under way");
    assert!(is_ready(&mut after).is_none(), "it came later than one that wants to be alone");
    assert!(is_ready(&mut beside).is_some(), "it touches other blocks");
    drop(first);
    assert!(is_ready(&mut after).is_none());
    let second = is_ready(&mut alone);
    assert!(second.is_some() && is_ready(&mut after).is_none());
    drop(second);
    assert!(is_ready(&mut after).is_some());
    assert!(locks.entries.borrow().is_empty() && locks.alone.get() == 0);
}

#[test]
fn whoever_gives_up_waiting_is_in_nobodys_way() {
    let locks = RangeLocks::default();
    let mut before = pin!(locks.acquire(blocks(0..4), LockMode::Shared));
    let _held = is_ready(&mut before);
    {
        let mut alone = pin!(locks.acquire(blocks(0..1), LockMode::Exclusive));
        assert!(is_ready(&mut alone).is_none());
    }
    let mut after = pin!(locks.acquire(blocks(0..4), LockMode::Shared));
    assert!(is_ready(&mut after).is_some());
}
