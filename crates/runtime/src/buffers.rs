//! Async buffer pool: a task that finds no free buffer waits in FIFO order.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;

use atomic_waker::AtomicWaker;
use zonal_base::{Blocks, Buffer, Contents, Pool, PoolClass};

use crate::{Event, Spawner};

/// A bounded pool of buffers that the tasks of one executor share. Clones share it.
#[derive(Clone)]
pub struct Buffers {
    pool: Pool,
    queues: Rc<[WaitQueue]>,
}

/// Tasks that wait for buffers of one size. A task never waits behind tasks that need a larger size.
struct WaitQueue {
    blocks: Blocks,
    /// Buffers that only [`Buffers::take_reserved`] may take.
    reserve: u32,
    returned: Event,
    returned_for_reserved: Event,
}

/// One buffer in eight of each size is reserved for tasks that let others return their buffers: without it, both would
/// wait for each other.
const RESERVE: u32 = 8;

/// Raised by the thread that returns a buffer.
#[derive(Default)]
struct Signal {
    raised: AtomicBool,
    waker: AtomicWaker,
}

impl Buffers {
    /// A pool of these classes, and the task that wakes its waiters.
    #[must_use]
    pub fn new(spawner: &Spawner, classes: &[PoolClass]) -> Self {
        Self::holding(Contents::Bytes, spawner, classes)
    }

    /// As [`Buffers::new`]. `contents` says whether the buffers hold
    /// data or, in simulations, a short tag for each block.
    #[must_use]
    pub fn holding(contents: Contents, spawner: &Spawner, classes: &[PoolClass]) -> Self {
        let signal = Arc::new(Signal::default());
        let raise = signal.clone();
        let on_return = move || {
            raise.raised.store(true, Ordering::Release);
            raise.waker.wake();
        };
        let pool = Pool::holding(contents, classes, Box::new(on_return));
        let mut classes = classes.to_vec();
        classes.sort_by_key(|class| class.blocks);
        let queue = |PoolClass { blocks, count }| WaitQueue {
            blocks,
            reserve: count / RESERVE,
            returned: Event::default(),
            returned_for_reserved: Event::default(),
        };
        let queues: Rc<[WaitQueue]> = classes.into_iter().map(queue).collect();
        let waiting = queues.clone();
        spawner.spawn(async move {
            loop {
                signal.raised().await;
                // The size of the returned buffer is not known: the first waiter of each queue tries.
                for queue in waiting.iter() {
                    queue.returned_for_reserved.notify_one();
                    queue.returned.notify_one();
                }
            }
        });
        Self { pool, queues }
    }

    /// Takes a buffer of at least `blocks`, and waits until one is free.
    /// Requires: `blocks` is at most the largest class.
    pub async fn take(&self, blocks: Blocks) -> Buffer {
        let WaitQueue { reserve, returned, .. } = self.queue(blocks);
        self.take_from(blocks, *reserve, returned).await
    }

    /// As [`Buffers::take`], and may use the reserve: for tasks that must proceed so that others can.
    ///
    /// Requires: the task holds one such buffer at a time, or none while it waits.
    pub async fn take_reserved(&self, blocks: Blocks) -> Buffer {
        self.take_from(blocks, 0, &self.queue(blocks).returned_for_reserved).await
    }

    async fn take_from(&self, blocks: Blocks, left: u32, returned: &Event) -> Buffer {
        returned.wait_fifo(|| self.pool.take_leaving(blocks, left)).await
    }

    /// A buffer, if one is free and no task waits for it.
    #[must_use]
    pub fn try_take(&self, blocks: Blocks) -> Option<Buffer> {
        let queue = self.queue(blocks);
        if queue.returned.has_waiters() {
            return None;
        }
        self.pool.take_leaving(blocks, queue.reserve)
    }

    fn queue(&self, blocks: Blocks) -> &WaitQueue {
        let queue = self.queues.iter().find(|queue| blocks <= queue.blocks);
        queue.expect("no caller asks for more than the largest class")
    }

    /// The pool that lends the buffers.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Signal {
    async fn raised(&self) {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.raised.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Executor;
    use alloc::vec::Vec;
    use core::cell::{Cell, RefCell};

    #[test]
    fn tasks_wait_in_order_for_buffers_that_come_back_from_anywhere() {
        let executor = Executor::new(8);
        let class = PoolClass { blocks: Blocks(1), count: 1 };
        let buffers = Buffers::new(executor.spawner(), &[class]);
        let order = Rc::new(RefCell::new(Vec::new()));
        let first = buffers.try_take(Blocks(1)).unwrap();
        for n in 0..3 {
            let (buffers, order) = (buffers.clone(), order.clone());
            executor.spawner().spawn(async move {
                let buffer = buffers.take(Blocks(1)).await;
                order.borrow_mut().push((n, buffer));
            });
        }
        executor.run(100);
        assert!(order.borrow().is_empty());
        drop(first);
        for n in 0..3 {
            executor.run(100);
            let (who, buffer) = order.borrow_mut().pop().unwrap();
            assert_eq!(who, n);
            drop(buffer);
        }
    }

    #[test]
    fn nobody_waits_behind_others_who_want_larger_buffers() {
        let executor = Executor::new(8);
        let classes = [1, 4].map(|blocks| PoolClass { blocks: Blocks(blocks), count: 1 });
        let buffers = Buffers::new(executor.spawner(), &classes);
        let (small, large) = (buffers.try_take(Blocks(1)), buffers.try_take(Blocks(4)));
        let got = Rc::new(Cell::new(0));
        for blocks in [4, 1] {
            let (buffers, got) = (buffers.clone(), got.clone());
            executor.spawner().spawn(async move {
                drop(buffers.take(Blocks(blocks)).await);
                got.set(got.get() + blocks);
            });
        }
        executor.run(100);
        drop(small);
        executor.run(100);
        assert_eq!(got.get(), 1);
        drop(large);
        executor.run(100);
        assert_eq!(got.get(), 5);
    }

    #[test]
    fn the_reserve_is_for_those_who_must_go_on() {
        let executor = Executor::new(8);
        let class = PoolClass { blocks: Blocks(1), count: 16 };
        let buffers = Buffers::new(executor.spawner(), &[class]);
        let mut held: Vec<_> = (0..14).filter_map(|_| buffers.try_take(Blocks(1))).collect();
        assert_eq!((held.len(), buffers.try_take(Blocks(1)).is_none()), (14, true));
        let got = Rc::new(RefCell::new(Vec::new()));
        for n in 0..4 {
            let (buffers, got) = (buffers.clone(), got.clone());
            executor.spawner().spawn(async move {
                let buffer = match n {
                    0 => buffers.take(Blocks(1)).await,
                    _ => buffers.take_reserved(Blocks(1)).await,
                };
                got.borrow_mut().push((n, buffer));
            });
        }
        let who = || got.borrow().iter().map(|(n, _)| *n).collect::<Vec<_>>();
        executor.run(100);
        assert_eq!(who(), [1, 2]);
        held.pop();
        executor.run(100);
        assert_eq!(who(), [1, 2, 3], "the others wait until the reserve is whole");
        held.truncate(10);
        executor.run(100);
        assert_eq!(who(), [1, 2, 3, 0]);
    }
}
