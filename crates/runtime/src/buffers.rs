//! The pool as tasks see it: whoever finds it empty waits, in order.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;

use atomic_waker::AtomicWaker;
use zonal_base::{Blocks, Buffer, Contents, Pool, PoolClass};

use crate::{Event, Spawner};

/// A bounded pool of buffers shared by the tasks of one executor. Clones share it.
#[derive(Clone)]
pub struct Buffers {
    pool: Pool,
    lines: Rc<[Line]>,
}

/// Those who wait for buffers of one size: nobody waits behind others who want larger ones.
struct Line {
    blocks: Blocks,
    /// Buffers that only [`Buffers::take_reserved`] hands out.
    reserve: u32,
    returned: Event,
    returned_for_reserved: Event,
}

/// One buffer in so many of a size is kept for those without whom others would never give theirs back.
const RESERVE: u32 = 8;

/// Set from whatever thread gives a buffer back.
#[derive(Default)]
struct Signal {
    raised: AtomicBool,
    waker: AtomicWaker,
}

impl Buffers {
    /// A pool of these classes, and the task that wakes those who wait for it.
    #[must_use]
    pub fn new(spawner: &Spawner, classes: &[PoolClass]) -> Self {
        Self::holding(Contents::Bytes, spawner, classes)
    }

    /// As [`Buffers::new`], of a pool whose buffers hold `contents` of what is copied into them.
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
        let line = |PoolClass { blocks, count }| Line {
            blocks,
            reserve: count / RESERVE,
            returned: Event::default(),
            returned_for_reserved: Event::default(),
        };
        let lines: Rc<[Line]> = classes.into_iter().map(line).collect();
        let waiting = lines.clone();
        spawner.spawn(async move {
            loop {
                signal.raised().await;
                // Which size came back is not known: the first of each line looks.
                for line in waiting.iter() {
                    line.returned_for_reserved.notify_one();
                    line.returned.notify_one();
                }
            }
        });
        Self { pool, lines }
    }

    /// A buffer of at least `blocks`, when there is one.
    /// Requires: `blocks` is at most the largest class.
    pub async fn take(&self, blocks: Blocks) -> Buffer {
        let Line { reserve, returned, .. } = self.line(blocks);
        self.take_from(blocks, *reserve, returned).await
    }

    /// As [`Buffers::take`], also when only the reserve is left: for those who must go on so that others
    /// can. Requires: whoever asks holds one such buffer at a time, or none that it waits with.
    pub async fn take_reserved(&self, blocks: Blocks) -> Buffer {
        self.take_from(blocks, 0, &self.line(blocks).returned_for_reserved).await
    }

    async fn take_from(&self, blocks: Blocks, left: u32, returned: &Event) -> Buffer {
        returned.wait_in_line(|| self.pool.take_leaving(blocks, left)).await
    }

    /// A buffer, if there is one now and nobody waits for it.
    #[must_use]
    pub fn try_take(&self, blocks: Blocks) -> Option<Buffer> {
        let line = self.line(blocks);
        if line.returned.has_waiters() {
            return None;
        }
        self.pool.take_leaving(blocks, line.reserve)
    }

    fn line(&self, blocks: Blocks) -> &Line {
        let line = self.lines.iter().find(|line| blocks <= line.blocks);
        line.expect("no caller asks for more than the largest class")
    }

    /// The pool itself.
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
