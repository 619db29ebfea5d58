//! Thread-pool engine: `pread`, `pwritev` and `fdatasync`, for systems that refuse io_uring.

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::{ATTEMPTS_MAX, Finished};
use crate::mailbox::Mailbox;
use crate::transfer::{Memory, Transfer};

/// Threads of the pool of one shard's device: 8. An NVMe drive reaches most of its read bandwidth
/// at 64 KiB with eight concurrent reads; more threads only cost memory and context switches. A
/// guess, from fio.
pub(super) const THREADS: usize = 8;

/// Work shared with the threads. The device's queue depth bounds both queues: the device starts no
/// more transfers.
struct WorkQueues {
    file: File,
    waiting: Mutex<Waiting>,
    work_came: Condvar,
    finished: Mailbox<Finished>,
}

#[derive(Default)]
struct Waiting {
    transfers: VecDeque<(u32, Transfer)>,
    is_closing: bool,
}

pub(crate) struct Psync {
    shared: Arc<WorkQueues>,
    threads: Vec<JoinHandle<()>>,
}

impl Psync {
    pub(super) fn new(file: File) -> std::io::Result<Self> {
        let shared = Arc::new(WorkQueues {
            file,
            waiting: Mutex::default(),
            work_came: Condvar::new(),
            finished: Mailbox::new()?,
        });
        let mut psync = Self { shared, threads: Vec::with_capacity(THREADS) };
        for n in 0..THREADS {
            let shared = psync.shared.clone();
            let thread = std::thread::Builder::new().name(format!("zonal-io-{n}"));
            psync.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(psync)
    }

    pub(super) fn start(&mut self, slot: u32, transfer: Transfer) {
        lock(&self.shared.waiting).transfers.push_back((slot, transfer));
        self.shared.work_came.notify_one();
    }

    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.shared.finished.take()
    }
}

impl AsFd for Psync {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.finished.as_fd()
    }
}

impl Drop for Psync {
    fn drop(&mut self) {
        lock(&self.shared.waiting).is_closing = true;
        self.shared.work_came.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

impl WorkQueues {
    fn work(&self) {
        while let Some((slot, mut transfer)) = self.next_waiting() {
            let outcome = carry_out(&self.file, &mut transfer);
            self.finished.put(Finished { slot, transfer, outcome });
        }
    }

    /// Sleeps until a transfer waits. `None` when the device is closed.
    fn next_waiting(&self) -> Option<(u32, Transfer)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.is_closing {
                return None;
            }
            if let Some(next) = waiting.transfers.pop_front() {
                return Some(next);
            }
            waiting = self.work_came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and the queues are consistent at every
    // moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves all bytes of the transfer, in as many system calls as the kernel needs.
fn carry_out(file: &File, transfer: &mut Transfer) -> Result<(), Errno> {
    let mut attempts = 0;
    loop {
        match step(file, transfer) {
            Ok(()) if transfer.left() == 0 => return Ok(()),
            Ok(()) => attempts = 0,
            Err(Errno::INTR | Errno::AGAIN) if attempts < ATTEMPTS_MAX => attempts += 1,
            Err(errno) => return Err(errno),
        }
    }
}

fn step(file: &File, transfer: &mut Transfer) -> Result<(), Errno> {
    let position = transfer.position();
    let moved = match transfer.memory {
        Memory::Read(_) => rustix::io::pread(file, transfer.target(), position)?,
        Memory::Write(_) => {
            let pieces: Vec<_> = transfer.pieces().map(IoSlice::new).collect();
            rustix::io::pwritev(file, &pieces, position)?
        }
        Memory::Sync => return rustix::fs::fdatasync(file),
    };
    match moved {
        // The file or the device has become shorter.
        0 => Err(Errno::IO),
        _ => {
            transfer.advance(moved);
            Ok(())
        }
    }
}
