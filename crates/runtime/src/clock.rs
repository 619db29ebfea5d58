//! Clock and timers of an executor. The host sets the time.

use alloc::collections::BinaryHeap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::cmp::{Ordering, Reverse};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use zonal_base::Nanos;

/// The current time, and timers. Clones share it.
#[derive(Clone, Default)]
pub struct Clock {
    shared: Rc<ClockState>,
}

#[derive(Default)]
struct ClockState {
    now: Cell<Nanos>,
    /// Registration order. It breaks ties, so that equal runs stay equal.
    next_seq: Cell<u64>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
}

struct Timer {
    at: Nanos,
    seq: u64,
    waker: Waker,
}

impl Clock {
    /// The time of the current iteration of the event loop.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.now.get()
    }

    /// Waits until the time is `at` or later.
    pub fn sleep_until(&self, at: Nanos) -> Sleep {
        Sleep { clock: self.clone(), at, registered: false }
    }

    pub(crate) fn advance(&self, now: Nanos) {
        assert!(self.now() <= now, "time does not run backwards");
        self.shared.now.set(now);
        let mut timers = self.shared.timers.borrow_mut();
        while timers.peek().is_some_and(|Reverse(timer)| timer.at <= now) {
            let Some(Reverse(timer)) = timers.pop() else { return };
            timer.waker.wake();
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.shared.timers.borrow().peek().map(|Reverse(timer)| timer.at)
    }

    fn register(&self, at: Nanos, waker: &Waker) {
        let seq = self.shared.next_seq.get();
        self.shared.next_seq.set(seq + 1);
        self.shared.timers.borrow_mut().push(Reverse(Timer { at, seq, waker: waker.clone() }));
    }
}

/// See [`Clock::sleep_until`].
#[must_use = "a sleep does nothing unless awaited"]
pub struct Sleep {
    clock: Clock,
    at: Nanos,
    registered: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.clock.now() {
            return Poll::Ready(());
        }
        // One registration is enough: a task has the same waker for its whole life.
        if !self.registered {
            self.registered = true;
            self.clock.register(self.at, cx.waker());
        }
        Poll::Pending
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}
