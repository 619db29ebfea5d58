//! Spinning threads: the next one to run is random, however long the others have waited.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use zonal_base::{Rng, index};

pub(super) struct Spinning {
    waiting: RefCell<Vec<Rc<Waiter>>>,
    chance: RefCell<Rng>,
}

#[derive(Default)]
struct Waiter {
    waker: RefCell<Option<Waker>>,
    is_next: Cell<bool>,
}

impl Spinning {
    pub(super) fn new(seed: u64) -> Self {
        Self { waiting: RefCell::default(), chance: RefCell::new(Rng::new(seed)) }
    }

    pub(super) fn is_anyone(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Waits until [`Spinning::let_one_look`] picks this thread.
    pub(super) async fn wait(&self) {
        let waiter = Rc::new(Waiter::default());
        self.waiting.borrow_mut().push(waiter.clone());
        poll_fn(|cx| {
            if waiter.is_next.get() {
                return Poll::Ready(());
            }
            *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes a random waiting thread.
    pub(super) fn let_one_look(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return;
        }
        let which = index(self.chance.borrow_mut().below(waiting.len() as u64));
        let next = waiting.swap_remove(which);
        drop(waiting);
        next.is_next.set(true);
        if let Some(waker) = next.waker.take() {
            waker.wake();
        }
    }
}
