//! I/O engines: io_uring, or a thread pool where the system refuses it.

mod psync;
mod uring;

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use rustix::io::Errno;
use zonal_base::Pool;

use crate::transfer::Transfer;
use psync::Psync;
use uring::Uring;

/// How a device is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring: no threads, one system call for many commands.
    Uring,
    /// A bounded pool of threads that call `pread` and `pwritev`.
    Psync,
    /// A thread that keeps the time of a drive that is a model. Nobody asks for it: it comes with the device.
    Model,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "uring",
            Self::Psync => "psync",
            Self::Model => "model",
        })
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uring" => Ok(Self::Uring),
            "psync" => Ok(Self::Psync),
            _ => Err(format!("there is no engine {text:?}: write engine=uring or engine=psync")),
        }
    }
}

/// Attempts for one system call that the kernel wants repeated (EINTR, EAGAIN) before it counts as
/// failed: 100. A signal costs one; more than a few in a row means that the kernel has no memory.
const ATTEMPTS_MAX: u32 = 100;

/// A transfer that is over.
pub(crate) struct Finished {
    /// As given to [`Engine::start`].
    pub(crate) slot: u32,
    pub(crate) transfer: Transfer,
    /// An error, or all of it was moved.
    pub(crate) outcome: Result<(), Errno>,
}

pub(crate) enum Engine {
    Uring(Box<Uring>),
    Psync(Psync),
}

impl Engine {
    /// The wanted engine, or the best that the system allows. Takes transfers in slots below
    /// `queue_depth`; reads into buffers of `pool` may use registered memory.
    pub(crate) fn open(
        wanted: Option<EngineKind>,
        file: File,
        queue_depth: u32,
        pool: &Pool,
    ) -> std::io::Result<Self> {
        if wanted == Some(EngineKind::Psync) {
            return Ok(Self::Psync(Psync::new(file)?));
        }
        match Uring::new(file.try_clone()?, queue_depth, pool) {
            Ok(uring) => Ok(Self::Uring(Box::new(uring))),
            Err(error) => {
                tracing::warn!(
                    %error,
                    threads = psync::THREADS,
                    "io_uring is refused: reading and writing with threads, which costs more CPU"
                );
                Ok(Self::Psync(Psync::new(file)?))
            }
        }
    }

    pub(crate) const fn kind(&self) -> EngineKind {
        match self {
            Self::Uring(_) => EngineKind::Uring,
            Self::Psync(_) => EngineKind::Psync,
        }
    }

    /// Queues a transfer. Requires: the slot is free.
    pub(crate) fn start(&mut self, slot: u32, transfer: Transfer) {
        match self {
            Self::Uring(uring) => uring.start(slot, transfer),
            Self::Psync(psync) => psync.start(slot, transfer),
        }
    }

    /// Hands everything that is queued to the kernel.
    pub(crate) fn flush_submissions(&mut self) {
        match self {
            Self::Uring(uring) => uring.flush_submissions(),
            Self::Psync(_) => (),
        }
    }

    /// True when the kernel did not take all that it was handed: [`Engine::next_finished`] tries again.
    pub(crate) const fn is_refused(&self) -> bool {
        match self {
            Self::Uring(uring) => uring.is_refused(),
            Self::Psync(_) => false,
        }
    }

    /// The next transfer that is over.
    pub(crate) fn next_finished(&mut self) -> Option<Finished> {
        match self {
            Self::Uring(uring) => uring.next_finished(),
            Self::Psync(psync) => psync.next_finished(),
        }
    }
}

impl AsFd for Engine {
    /// An eventfd: raised, again and again, whenever [`Engine::next_finished`] may have something new.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Uring(uring) => uring.as_fd(),
            Self::Psync(psync) => psync.as_fd(),
        }
    }
}
