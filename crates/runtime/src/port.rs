//! Port: a submission queue of commands and their completions, between the tasks of an executor and its host.
//!
//! A task submits a command and awaits its completion; the host takes the command, executes it, and completes its ticket. A
//! command is queued by the call, not by the first poll, so a task may submit several and await them in turn. The queue
//! length is bounded by the calls that tasks hold, and every task holds a bounded number. The host executes a command even
//! if its call is dropped, because the command owns its buffers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use zonal_base::{Ticket, index};

/// Takes commands `C` and returns completions `R`. Clones share it.
pub struct Port<C, R> {
    shared: Rc<RefCell<PortState<C, R>>>,
}

struct PortState<C, R> {
    queue: VecDeque<(Ticket, C)>,
    slots: Vec<Slot<R>>,
    free: Vec<Ticket>,
}

enum Slot<R> {
    Free,
    Pending(Option<Waker>, Held),
    Completed(R),
    /// The call was dropped; its completion will be, too.
    Abandoned(Held),
}

/// A value that must live until the command is complete.
type Held = Option<Box<dyn Any>>;

impl<C, R> Port<C, R> {
    /// An empty port.
    #[must_use]
    pub fn new() -> Self {
        let shared = PortState { queue: VecDeque::new(), slots: Vec::new(), free: Vec::new() };
        Self { shared: Rc::new(RefCell::new(shared)) }
    }

    /// Submits a command. Await the call for its completion.
    pub fn call(&self, command: C) -> Call<C, R> {
        self.submit(command, None)
    }

    /// As [`Port::call`]. `held` lives exactly until the command completes, whether or not the caller still awaits it.
    pub fn call_holding(&self, command: C, held: impl Any) -> Call<C, R> {
        self.submit(command, Some(Box::new(held)))
    }

    fn submit(&self, command: C, held: Held) -> Call<C, R> {
        let mut shared = self.shared.borrow_mut();
        let ticket = shared.free.pop().unwrap_or_else(|| {
            shared.slots.push(Slot::Free);
            Ticket(shared.slots.len() as u64 - 1)
        });
        shared.slots[index(ticket.0)] = Slot::Pending(None, held);
        shared.queue.push_back((ticket, command));
        Call { port: self.clone(), ticket: Some(ticket) }
    }

    /// Host: takes the next command to execute.
    #[must_use]
    pub fn take(&self) -> Option<(Ticket, C)> {
        self.shared.borrow_mut().queue.pop_front()
    }

    /// Host: puts a command back that could not be submitted now, at the front of the queue.
    pub fn put_back(&self, ticket: Ticket, command: C) {
        self.shared.borrow_mut().queue.push_front((ticket, command));
    }

    /// Host: completes a command. Requires: the ticket came from [`Port::take`] and is not complete.
    pub fn complete(&self, ticket: Ticket, answer: R) {
        let mut shared = self.shared.borrow_mut();
        let slot = &mut shared.slots[index(ticket.0)];
        match core::mem::replace(slot, Slot::Free) {
            Slot::Pending(waker, held) => {
                *slot = Slot::Completed(answer);
                drop(shared);
                drop(held);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Slot::Abandoned(held) => {
                shared.free.push(ticket);
                // Dropped outside the borrow: a completion may own a buffer, and its return runs a callback.
                drop(shared);
                drop((answer, held));
            }
            Slot::Free | Slot::Completed(_) => panic!("a ticket is answered once"),
        }
    }

    /// Commands without a completion, queued ones included.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        let shared = self.shared.borrow();
        let open = |slot: &&Slot<R>| matches!(slot, Slot::Pending(..) | Slot::Abandoned(_));
        shared.slots.iter().filter(open).count()
    }
}

impl<C, R> Clone for Port<C, R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<C, R> Default for Port<C, R> {
    fn default() -> Self {
        Self::new()
    }
}

/// A submitted command. See [`Port::call`].
#[must_use = "a call that is not awaited loses its answer"]
pub struct Call<C, R> {
    port: Port<C, R>,
    /// `None` once the completion was taken.
    ticket: Option<Ticket>,
}

impl<C, R> Future for Call<C, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let ticket = self.ticket.expect("polled after it was ready");
        let mut shared = self.port.shared.borrow_mut();
        let slot = &mut shared.slots[index(ticket.0)];
        if let Slot::Pending(waker, _) = slot {
            // One waker is enough, unless the call moved to another task.
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let Slot::Completed(answer) = core::mem::replace(slot, Slot::Free) else {
            unreachable!("the caller has not gone away");
        };
        shared.free.push(ticket);
        drop(shared);
        self.ticket = None;
        Poll::Ready(answer)
    }
}

impl<C, R> Drop for Call<C, R> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut shared = self.port.shared.borrow_mut();
        let slot = &mut shared.slots[index(ticket.0)];
        match core::mem::replace(slot, Slot::Free) {
            Slot::Pending(_, held) => *slot = Slot::Abandoned(held),
            answered => {
                shared.free.push(ticket);
                drop(shared);
                drop(answered);
            }
        }
    }
}

impl<C, R> Unpin for Call<C, R> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;
    use alloc::string::{String, ToString};

    #[test]
    fn calls_are_queued_when_made_and_answered_in_any_order() {
        let executor = Executor::new(4);
        let port: Port<u32, String> = Port::new();
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (inner, out) = (port.clone(), heard.clone());
        executor.spawner().spawn(async move {
            let (first, second) = (inner.call(1), inner.call(2));
            for call in [first, second] {
                let answer = call.await;
                out.borrow_mut().push(answer);
            }
        });
        executor.run(10);
        let (one, two) = (port.take().unwrap(), port.take().unwrap());
        assert_eq!((one.1, two.1, port.outstanding()), (1, 2, 2));
        port.complete(two.0, "b".to_string());
        executor.run(10);
        assert!(heard.borrow().is_empty());
        port.complete(one.0, "a".to_string());
        executor.run(10);
        assert_eq!(*heard.borrow(), ["a", "b"]);
    }

    #[test]
    fn a_dropped_call_is_carried_out_and_its_ticket_comes_back() {
        let port: Port<u32, u32> = Port::new();
        drop(port.call(7));
        let (ticket, command) = port.take().unwrap();
        assert_eq!((command, port.outstanding()), (7, 1));
        port.complete(ticket, 0);
        assert_eq!(port.outstanding(), 0);
        let again = port.call(8);
        assert_eq!(port.take().unwrap().0, ticket);
        drop(again);
    }

    #[test]
    fn what_is_held_for_a_call_is_dropped_when_that_is_answered() {
        let port: Port<u32, u32> = Port::new();
        let held = Rc::new(());
        drop(port.call_holding(7, held.clone()));
        let (ticket, _) = port.take().unwrap();
        assert_eq!(Rc::strong_count(&held), 2, "its caller went away, it goes on");
        port.complete(ticket, 0);
        assert_eq!(Rc::strong_count(&held), 1);
        let answered = port.call_holding(8, held.clone());
        let (ticket, _) = port.take().unwrap();
        port.complete(ticket, 0);
        assert_eq!(Rc::strong_count(&held), 1, "nobody has come for the answer yet");
        drop(answered);
        assert_eq!(port.outstanding(), 0);
    }
}
