//! Something that tasks of one executor wait for: room in a queue, bytes of a fetch, a buffer.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// Wakes tasks that wait for it, in the order in which they began to.
///
/// Tasks look at the condition first and wait in a loop: `while !condition() { event.wait().await }`.
/// Nothing else runs between the look and the wait, so no notification is lost.
#[derive(Default)]
pub struct Event {
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    waker: RefCell<Option<Waker>>,
    notified: Cell<bool>,
    gone: Cell<bool>,
}

impl Event {
    /// Waits for the next notification.
    pub fn wait(&self) -> Wait<'_> {
        Wait { event: self, waiter: None, in_front: false }
    }

    /// Waits in line until `look` finds something. [`Event::notify_one`] then suffices, however much has
    /// become free: whoever finds something lets the next in line look, and whoever finds nothing keeps its
    /// place. Requires: what the first in line does not find, those behind it do not need.
    pub async fn wait_in_line<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let mut wait = self.wait();
        loop {
            if let Some(found) = look() {
                self.notify_one();
                return found;
            }
            wait.await;
            wait = Wait { event: self, waiter: None, in_front: true };
        }
    }

    /// Wakes all who wait now.
    pub fn notify_all(&self) {
        let waiting = core::mem::take(&mut *self.waiting.borrow_mut());
        for waiter in waiting {
            waiter.notify();
        }
    }

    /// Wakes the one that has waited longest.
    pub fn notify_one(&self) {
        loop {
            let Some(waiter) = self.waiting.borrow_mut().pop_front() else { return };
            if !waiter.gone.get() {
                return waiter.notify();
            }
        }
    }

    fn enlist(&self, in_front: bool) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter::default());
        let mut waiting = self.waiting.borrow_mut();
        if in_front {
            waiting.push_front(waiter.clone());
        } else {
            waiting.push_back(waiter.clone());
        }
        waiter
    }

    /// True when somebody waits.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.waiting.borrow().iter().any(|waiter| !waiter.gone.get())
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
    waiter: Option<Rc<Waiter>>,
    in_front: bool,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (event, in_front) = (self.event, self.in_front);
        let waiter = self.waiter.get_or_insert_with(|| event.enlist(in_front));
        if waiter.notified.get() {
            // The notification is used up: dropping this wait passes nothing on.
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
            // Whoever was woken and went away hands its turn to the next.
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
    fn one_notification_serves_as_many_in_line_as_there_is_something_for() {
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
                event.wait_in_line(look).await;
                served.borrow_mut().push(n);
            });
        }
        executor.run(100);
        assert_eq!((looks.replace(0), served.borrow().len()), (5, 0));
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
