//! Range locks: the order in which conflicting writes are granted.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

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
    assert!(locks.locks.borrow().is_empty());
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

/// Regression: each released lock woke all later ones, and each of these looked at all earlier ones.
#[test]
fn a_released_lock_wakes_only_the_next_one_of_its_blocks() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let locks = RangeLocks::default();
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(woken.clone());
    let cx = &mut Context::from_waker(&waker);
    let mut waiting = Vec::new();
    for n in 0..4096 {
        waiting.push(Box::pin(locks.acquire(blocks(n / 8..n / 8 + 1), LockMode::Exclusive)));
    }
    let mut held: VecDeque<_> = VecDeque::new();
    for one in &mut waiting {
        if let Poll::Ready(guard) = one.as_mut().poll(cx) {
            held.push_back(guard);
        }
    }
    assert_eq!(held.len(), 512, "the first of each block");
    drop(held.pop_front());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    drop(held);
    assert_eq!(woken.0.load(Ordering::Relaxed), 512);
    drop(waiting);
    assert!(locks.locks.borrow().is_empty());
}

proptest! {
    /// No conflicting locks are held together, the order of conflicting ones is that of their
    /// arrival, and whoever is not blocked by an earlier one holds its lock.
    #[test]
    fn locks_are_granted_in_order(
        requests in vec((0u64..24, 1u64..9, any::<bool>()), 1..40),
        releases in vec(any::<Index>(), 0..80),
    ) {
        let locks = RangeLocks::default();
        let mut held: Vec<_> = Vec::new();
        for (start, length, is_alone) in requests {
            let mode = if is_alone { LockMode::Exclusive } else { LockMode::Shared };
            held.push(locks.enter(start..start + length, mode));
        }
        for release in releases {
            if held.is_empty() {
                break;
            }
            drop(held.remove(release.index(held.len())));
            for (n, one) in held.iter().enumerate() {
                let overlaps = |other: &Range<u64>| {
                    one.blocks.start < other.end && other.start < one.blocks.end
                };
                let earlier = held[..n].iter().filter(|other| {
                    overlaps(&other.blocks) && one.lock.conflicts_with(&other.lock)
                });
                prop_assert_eq!(one.lock.blockers.get(), earlier.count());
            }
        }
    }
}
