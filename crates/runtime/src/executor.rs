//! Executor: polls the tasks of one thread in the order in which they were woken.
//!
//! Tasks stay on their thread; their wakers may move. An event on another thread (a returned buffer, a caller that hung up)
//! wakes its task and, through [`Executor::host_waker`], the host.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;
use zonal_base::{Nanos, low_u32};

use crate::Clock;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Runs the tasks of one thread.
pub struct Executor {
    spawner: Spawner,
    clock: Clock,
}

/// Starts tasks on an executor, also from within a task. Clones share it.
#[derive(Clone)]
pub struct Spawner {
    tasks: Rc<RefCell<Tasks>>,
    ready: Arc<Ready>,
}

struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    running_count: u32,
}

struct Slot {
    /// `None` while the slot is free and while its task is being polled.
    task: Option<Task>,
    /// One waker per slot for its whole life. A waker that outlives its task causes a spurious wake-up of the next task in
    /// the slot, which every task must tolerate anyway.
    wake: Arc<SlotWaker>,
    /// As a `Waker`; `None` while the task is being polled.
    waker: Option<Waker>,
}

struct Ready {
    queue: ArrayQueue<u32>,
    host: AtomicWaker,
}

struct SlotWaker {
    slot: u32,
    /// Set while the slot is queued. A slot is queued at most once, so the queue never overflows.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let pushed = self.ready.queue.push(self.slot);
            assert!(pushed.is_ok(), "each slot stands in the queue once at most");
            self.ready.host.wake();
        }
    }
}

/// Lets the other ready tasks go first, once.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Executor {
    /// An executor for at most `task_limit` tasks at once, at time 0.
    #[must_use]
    pub fn new(task_limit: usize) -> Self {
        let ready = Ready { queue: ArrayQueue::new(task_limit), host: AtomicWaker::new() };
        let tasks = Tasks { slots: Vec::new(), free: Vec::new(), running_count: 0 };
        let spawner = Spawner { tasks: Rc::new(RefCell::new(tasks)), ready: Arc::new(ready) };
        Self { spawner, clock: Clock::default() }
    }

    /// The clock of this executor's tasks.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Starts tasks.
    #[must_use]
    pub const fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Sets the clock and wakes the tasks whose timers are due.
    pub fn advance(&self, now: Nanos) {
        self.clock.advance(now);
    }

    /// The deadline of the earliest timer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.clock.next_deadline()
    }

    /// Polls ready tasks, at most `poll_limit` times. Returns the number of polls; at the limit, more tasks may be ready.
    pub fn run(&self, poll_limit: usize) -> usize {
        let mut polls = 0;
        while polls < poll_limit {
            let Some(slot) = self.spawner.ready.queue.pop() else { break };
            self.spawner.poll(slot);
            polls += 1;
        }
        polls
    }

    /// Registers the waker of the host, which sleeps while no task is ready. Register before the last check of
    /// [`Executor::has_ready`].
    pub fn host_waker(&self, waker: &Waker) {
        self.spawner.ready.host.register(waker);
    }

    /// True when [`Executor::run`] would poll a task.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.spawner.ready.queue.is_empty()
    }
}

impl Drop for Executor {
    /// Tasks often hold this executor's spawner through their data: dropping them here breaks the reference cycle.
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.spawner.tasks.borrow_mut().slots);
        drop(slots);
    }
}

impl Spawner {
    /// Starts a task.
    ///
    /// Requires: fewer tasks than the executor's limit are running. Check [`Spawner::has_room`] before starting tasks on
    /// behalf of clients.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = match tasks.free.pop() {
            Some(slot) => slot,
            None => tasks.add_slot(&self.ready),
        };
        tasks.running_count += 1;
        tasks.slots[slot as usize].task = Some(Box::pin(task));
        tasks.slots[slot as usize].wake.wake_by_ref();
    }

    /// True when at least `count` more tasks can be started.
    #[must_use]
    pub fn has_room(&self, count: usize) -> bool {
        self.running_count() as usize + count <= self.ready.queue.capacity()
    }

    /// Tasks that were started and have not ended.
    #[must_use]
    pub fn running_count(&self) -> u32 {
        self.tasks.borrow().running_count
    }

    fn poll(&self, slot: u32) {
        let (mut task, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            // A late wake-up may come after the executor was dropped.
            let Some(entry) = tasks.slots.get_mut(slot as usize) else { return };
            // Cleared before the poll: a wake-up during the poll queues the task again.
            entry.wake.queued.store(false, Ordering::Release);
            let Some(task) = entry.task.take() else { return };
            (task, entry.waker.take().expect("a slot is polled once at a time"))
        };
        let is_done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // Dropping a task may start others, so it happens outside the borrow and before the slot is free.
        let left = (!is_done).then_some(task);
        let mut tasks = self.tasks.borrow_mut();
        let entry = &mut tasks.slots[slot as usize];
        (entry.task, entry.waker) = (left, Some(waker));
        if is_done {
            tasks.running_count -= 1;
            tasks.free.push(slot);
        }
    }
}

impl Tasks {
    fn add_slot(&mut self, ready: &Arc<Ready>) -> u32 {
        assert!(self.slots.len() < ready.queue.capacity(), "more tasks than the executor's limit");
        let slot = low_u32(self.slots.len());
        let wake =
            Arc::new(SlotWaker { slot, queued: AtomicBool::new(false), ready: ready.clone() });
        let waker = Some(Waker::from(wake.clone()));
        self.slots.push(Slot { task: None, wake, waker });
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn tasks_run_in_the_order_in_which_they_were_woken_and_sleep_in_virtual_time() {
        let executor = Executor::new(8);
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, at) in [("late", 20), ("early", 10), ("early too", 10)] {
            let (clock, log) = (executor.clock().clone(), log.clone());
            executor.spawner().spawn(async move {
                clock.sleep_until(Nanos(at)).await;
                log.borrow_mut().push((name, clock.now()));
            });
        }
        executor.run(100);
        while let Some(next) = executor.next_deadline() {
            executor.advance(next);
            executor.run(100);
        }
        let expected = [("early", Nanos(10)), ("early too", Nanos(10)), ("late", Nanos(20))];
        assert_eq!(*log.borrow(), expected);
        assert_eq!(executor.spawner().running_count(), 0);
    }

    #[test]
    fn a_task_may_start_others_and_the_poll_limit_holds() {
        let executor = Executor::new(4);
        let done = Rc::new(Cell::new(0));
        let (spawner, inner) = (executor.spawner().clone(), done.clone());
        executor.spawner().spawn(async move {
            for _ in 0..3 {
                let done = inner.clone();
                spawner.spawn(async move { done.set(done.get() + 1) });
            }
        });
        assert_eq!(executor.run(2), 2);
        assert_eq!(done.get(), 1);
        assert!(executor.has_ready());
        assert_eq!(executor.run(100), 2);
        assert_eq!(done.get(), 3);
    }
}
