//! Completion mailbox: completions from other threads, and the eventfd that wakes their receiver.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::EventfdFlags;

/// Queue of completions with an eventfd. The sender bounds it: it holds at most one completion for
/// each request that its receiver has in flight.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: Mutex<VecDeque<T>>,
    /// Eventfd, raised when `letters` gets its first entry.
    wake: OwnedFd,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::raising(wake))
    }

    /// Creates a mailbox on an existing eventfd, which other sources raise as well.
    pub(crate) const fn raising(wake: OwnedFd) -> Self {
        Self { letters: Mutex::new(VecDeque::new()), wake }
    }

    #[expect(clippy::host_endian_bytes, reason = "the kernel takes an integer of this machine")]
    pub(crate) fn put(&self, letter: T) {
        let mut letters = self.letters();
        letters.push_back(letter);
        if letters.len() == 1 {
            let raised = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
            debug_assert_eq!(raised, Ok(8));
        }
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.letters().pop_front()
    }

    fn letters(&self) -> MutexGuard<'_, VecDeque<T>> {
        // No code panics while it holds the lock, and the queue is consistent at every moment.
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
