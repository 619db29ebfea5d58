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

/// I/O engine of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring: no threads, one system call for many commands.
    Uring,
    /// A bounded pool of threads that call `pread` and `pwritev`.
    Psync,
    /// A thread that runs a drive model in real time. The user cannot choose it: every modelled
    /// drive has it.
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
            _ => Err(format!("unknown engine {text:?}: write engine=uring or engine=psync")),
        }
    }
}

/// Maximum repetitions of one system call while the kernel returns EINTR or EAGAIN: 100. A signal
/// costs one; more than a few in a row mean that the kernel has no memory.
const ATTEMPTS_MAX: u32 = 100;

/// A completed transfer.
pub(crate) struct Finished {
    /// Slot of the transfer, as given to [`Engine::start`].
    pub(crate) slot: u32,
    pub(crate) transfer: Transfer,
    /// `Ok` when all bytes of the transfer were moved.
    pub(crate) outcome: Result<(), Errno>,
}

pub(crate) enum Engine {
    Uring(Box<Uring>),
    Psync(Psync),
}

impl Engine {
    /// Opens the wanted engine, or a thread pool where the system refuses io_uring. The engine
    /// takes transfers in slots below `queue_depth`. Reads into buffers of `pool` may use
    /// registered memory.
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
                    "io_uring not available: using I/O threads (psync), which cost more CPU"
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

    /// Hands all queued transfers to the kernel.
    pub(crate) fn flush_submissions(&mut self) {
        match self {
            Self::Uring(uring) => uring.flush_submissions(),
            Self::Psync(_) => (),
        }
    }

    /// True when the kernel did not accept all queued transfers: [`Engine::next_finished`] submits
    /// them again.
    pub(crate) const fn is_refused(&self) -> bool {
        match self {
            Self::Uring(uring) => uring.is_refused(),
            Self::Psync(_) => false,
        }
    }

    /// Returns the next completed transfer.
    pub(crate) fn next_finished(&mut self) -> Option<Finished> {
        match self {
            Self::Uring(uring) => uring.next_finished(),
            Self::Psync(psync) => psync.next_finished(),
        }
    }
}

impl AsFd for Engine {
    /// An eventfd that is raised each time [`Engine::next_finished`] may have a new completion.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Uring(uring) => uring.as_fd(),
            Self::Psync(psync) => psync.as_fd(),
        }
    }
}
