//! Notification that tasks of one executor wait for (a condition variable): room in a queue, fetched bytes, a buffer.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// Wakes waiting tasks in FIFO order.
///
/// Tasks check the condition first and wait in a loop: `while !condition() { event.wait().await }`. No other task runs
/// between the check and the wait, so no notification is lost.
#[derive(Default)]
pub struct Event {
    /// In rising order of their numbers.
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
    /// Number of the next waiter.
    next_number: Cell<u64>,
    /// Tasks in [`Event::wait_fifo`], also while they try.
    fifo_len: Cell<usize>,
}

struct Waiter {
    number: u64,
    waker: RefCell<Option<Waker>>,
    notified: Cell<bool>,
    gone: Cell<bool>,
}

impl Event {
    /// Waits for the next notification.
    pub fn wait(&self) -> Wait<'_> {
        self.wait_as(self.new_number())
    }

    /// Waits in FIFO order until `attempt` returns something. A task that arrives while others wait queues behind them.
    ///
    /// One [`Event::notify_one`] suffices, however much became free: a task that succeeds wakes the next one, and a task
    /// that fails keeps its position and blocks those behind it.
    pub async fn wait_fifo<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        let position = Position::last(self);
        if !position.was_first {
            self.wait_as(position.number).await;
        }
        loop {
            if let Some(found) = attempt() {
                return found;
            }
            self.wait_as(position.number).await;
        }
    }

    fn new_number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        number
    }

    fn wait_as(&self, number: u64) -> Wait<'_> {
        Wait { event: self, number, waiter: None }
    }

    /// Wakes all waiting tasks.
    pub fn notify_all(&self) {
        let waiting = core::mem::take(&mut *self.waiting.borrow_mut());
        for waiter in waiting {
            waiter.notify();
        }
    }

    /// Wakes the task that has waited longest.
    pub fn notify_one(&self) {
        loop {
            let Some(waiter) = self.waiting.borrow_mut().pop_front() else { return };
            if !waiter.gone.get() {
                return waiter.notify();
            }
        }
    }

    fn enlist(&self, number: u64) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter {
            number,
            waker: RefCell::default(),
            notified: Cell::default(),
            gone: Cell::default(),
        });
        let mut waiting = self.waiting.borrow_mut();
        let place = waiting.partition_point(|before| before.number <= number);
        waiting.insert(place, waiter.clone());
        waiter
    }

    /// True when a task waits.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        0 < self.fifo_len.get() || self.waiting.borrow().iter().any(|waiter| !waiter.gone.get())
    }
}

/// A position in the FIFO of an event. Dropping it wakes the next task.
struct Position<'a> {
    event: &'a Event,
    number: u64,
    was_first: bool,
}

impl<'a> Position<'a> {
    fn last(event: &'a Event) -> Self {
        let before = event.fifo_len.get();
        event.fifo_len.set(before + 1);
        Self { event, number: event.new_number(), was_first: before == 0 }
    }
}

impl Drop for Position<'_> {
    fn drop(&mut self) {
        self.event.fifo_len.set(self.event.fifo_len.get() - 1);
        self.event.notify_one();
    }
}

impl Waiter {
    fn notify(&self) {
        self.notified.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// See [`Event::wait`].
#[must_use = "a wait does nothing unless awaited"]
pub struct Wait<'a> {
    event: &'a Event,
    number: u64,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (event, number) = (self.event, self.number);
        let waiter = self.waiter.get_or_insert_with(|| event.enlist(number));
        if waiter.notified.get() {
            // The notification is consumed: dropping this wait must not pass it on.
            self.waiter = None;
            return Poll::Ready(());
        }
        *waiter.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        waiter.gone.set(true);
        if waiter.notified.get() {
            // A task that was notified and then dropped passes its turn on.
            self.event.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;
    use alloc::vec::Vec;

    #[test]
    fn one_notification_serves_as_many_fifo_len_as_there_is_something_for() {
        let executor = Executor::new(8);
        let (event, free) = (Rc::new(Event::default()), Rc::new(Cell::new(0)));
        let (looks, served) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        for n in 0..5 {
            let (event, free) = (event.clone(), free.clone());
            let (looks, served) = (looks.clone(), served.clone());
            executor.spawner().spawn(async move {
                let look = || {
                    looks.set(looks.get() + 1);
                    let some = 0 < free.get();
                    some.then(|| free.set(free.get() - 1))
                };
                event.wait_fifo(look).await;
                served.borrow_mut().push(n);
            });
        }
        executor.run(100);
        assert_eq!((looks.replace(0), served.borrow().len()), (1, 0), "one looks for all");
        free.set(2);
        event.notify_one();
        executor.run(100);
        assert_eq!((looks.replace(0), &served.borrow()[..]), (3, &[0, 1][..]));
        free.set(9);
        event.notify_one();
        executor.run(100);
        assert_eq!((looks.get(), &served.borrow()[..]), (3, &[0, 1, 2, 3, 4][..]));
    }

    #[test]
    fn nobody_is_served_before_those_who_came_earlier() {
        let executor = Executor::new(16);
        let (event, free) = (Rc::new(Event::default()), Rc::new(Cell::new(0)));
        let served = Rc::new(RefCell::new(Vec::new()));
        let come = |n: usize| {
            let (event, free, served) = (event.clone(), free.clone(), served.clone());
            executor.spawner().spawn(async move {
                let look = || (0 < free.get()).then(|| free.set(free.get() - 1));
                event.wait_fifo(look).await;
                served.borrow_mut().push(n);
            });
        };
        for n in 0..3 {
            come(n);
        }
        executor.run(100);
        // The newcomer runs before the one that is woken; two notifications wake two, one of them for nothing.
        come(3);
        free.set(1);
        event.notify_one();
        event.notify_one();
        executor.run(100);
        assert_eq!(*served.borrow(), [0]);
        free.set(3);
        event.notify_one();
        executor.run(100);
        assert_eq!(*served.borrow(), [0, 1, 2, 3]);
        assert!(!event.has_waiters());
    }

    #[test]
    fn whoever_leaves_the_line_lets_the_next_look() {
        let executor = Executor::new(8);
        let event = Rc::new(Event::default());
        let mut cx = Context::from_waker(Waker::noop());
        let served = Rc::new(Cell::new(false));
        {
            let mut first = core::pin::pin!(event.wait_fifo(|| None::<()>));
            assert!(first.as_mut().poll(&mut cx).is_pending());
            let (event, is_served) = (event.clone(), served.clone());
            executor.spawner().spawn(async move {
                event.wait_fifo(|| Some(())).await;
                is_served.set(true);
            });
            executor.run(10);
            assert!(!served.get());
        }
        executor.run(10);
        assert!(served.get());
    }

    #[test]
    fn waiters_are_woken_in_order_one_or_all() {
        let executor = Executor::new(8);
        let event = Rc::new(Event::default());
        let woken = Rc::new(RefCell::new(Vec::new()));
        for n in 0..3 {
            let (event, woken) = (event.clone(), woken.clone());
            executor.spawner().spawn(async move {
                event.wait().await;
                woken.borrow_mut().push(n);
            });
        }
        executor.run(10);
        event.notify_one();
        executor.run(10);
        assert_eq!(*woken.borrow(), [0]);
        assert!(event.has_waiters());
        event.notify_all();
        executor.run(10);
        assert_eq!(*woken.borrow(), [0, 1, 2]);
        assert!(!event.has_waiters());
    }
}
