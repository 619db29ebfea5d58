//! Panic containment: a panic ends the process by default, because an engine that lost a task would
//! leave requests unanswered. Tasks marked as contained end alone.
//!
//! 1. A task that serves a single client or command is [`contained`]: its panic ends only this
//!    task.
//! 2. Code that others depend on is [`essential`], even while a contained task polls it. For
//!    example, the engine of a block device runs inside the tasks of its clients.
//! 3. The panic hook of the process asks [`in_contained_task`] which of the two panicked.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Scope of a panic in the code that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PanicScope {
    Process,
    Task,
}

thread_local! {
    static REACH: Cell<PanicScope> = const { Cell::new(PanicScope::Process) };
}

/// Sets the scope until it is dropped, then restores the previous one.
struct ScopeGuard {
    before: PanicScope,
}

impl ScopeGuard {
    fn enter(reach: PanicScope) -> Self {
        Self { before: REACH.replace(reach) }
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        REACH.set(self.before);
    }
}

/// Runs a future whose panic ends only its task. Requires: the task is a tokio task, which catches
/// the panic, and its permits, memory and locks are released on drop.
pub async fn contained<T>(task: impl Future<Output = T>) -> T {
    within(PanicScope::Task, task).await
}

/// Runs a future whose panic ends the process, even when a contained task polls it.
pub async fn essential<T>(task: impl Future<Output = T>) -> T {
    within(PanicScope::Process, task).await
}

async fn within<T>(reach: PanicScope, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        let _scope = ScopeGuard::enter(reach);
        task.as_mut().poll(cx)
    })
    .await
}

/// For the panic hook: true if the panicking code on this thread is [`contained`].
///
/// Until the task is dropped, a second panic on this thread counts as not contained: a panic during
/// the unwinding would abort the process without a message.
pub fn in_contained_task() -> bool {
    REACH.replace(PanicScope::Process) == PanicScope::Task
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
