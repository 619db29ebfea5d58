//! Panic containment: a panic ends the process by default, because an engine that lost a task answers nobody; marked
//! tasks die alone.
//!
//! 1. What serves one client or one order alone is [`contained`]: its panic ends its task, and nothing else.
//! 2. What others depend on is [`essential`], also while a contained task polls it: the engine of a block device runs in the
//!    tasks of its clients.
//! 3. The panic hook of the process asks [`in_contained_task`] which of the two it was.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// What a panic of the code that runs now ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Process,
    Task,
}

thread_local! {
    static REACH: Cell<Reach> = const { Cell::new(Reach::Process) };
}

/// The reach that holds until this is dropped; then the one from before does.
struct Scope {
    before: Reach,
}

impl Scope {
    fn enter(reach: Reach) -> Self {
        Self { before: REACH.replace(reach) }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        REACH.set(self.before);
    }
}

/// Runs a task whose panic ends this task only. Requires: it runs as a task of tokio's, which catches the panic, and what it
/// holds (places, memory, locks) is given back when it is dropped.
pub async fn contained<T>(task: impl Future<Output = T>) -> T {
    within(Reach::Task, task).await
}

/// Runs a future whose panic ends the process, whoever polls it.
pub async fn essential<T>(task: impl Future<Output = T>) -> T {
    within(Reach::Process, task).await
}

async fn within<T>(reach: Reach, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        let _scope = Scope::enter(reach);
        task.as_mut().poll(cx)
    })
    .await
}

/// For the panic hook: whether the code that panics on this thread is [`contained`].
///
/// Until its task is gone, another panic on this thread is not: one while the task is taken down would abort the process
/// without a word.
pub fn in_contained_task() -> bool {
    REACH.replace(Reach::Process) == Reach::Task
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn run<T>(task: impl Future<Output = T>) -> T {
        let Poll::Ready(output) = pin!(task).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits")
        };
        output
    }

    #[test]
    fn a_panic_reaches_as_far_as_the_innermost_scope_says() {
        assert!(!in_contained_task());
        run(contained(async {
            run(essential(async { assert!(!in_contained_task()) }));
            assert!(in_contained_task());
        }));
        assert!(!in_contained_task());
    }

    #[test]
    fn a_task_that_panicked_leaves_its_thread_as_it_was() {
        let panicked = std::panic::catch_unwind(|| {
            run(contained(async {
                assert!(in_contained_task(), "the hook asks");
                assert!(!in_contained_task(), "a panic while it is taken down");
                std::panic::resume_unwind(Box::new("of a client"));
            }));
        });
        assert!(panicked.is_err());
        assert!(!in_contained_task());
    }
}
