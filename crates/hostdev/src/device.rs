//! Device of one shard, whatever its kind.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use zonal_base::{Nanos, Pool, Ticket};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};

use crate::EngineKind;
use crate::emulated::EmulatedDevice;
use crate::real::RealDevice;
use crate::zoned::ZonedBlockDevice;

/// Commands in flight where nobody asks for another number: 256. An NVMe drive gives all it has at 64
/// to 128; the rest lets every task of a shard queue its command without waiting for another's answer.
pub const QUEUE_DEPTH: u32 = 256;

/// The deepest queue that can be asked for: io_uring rings of it take 400 KiB.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 4096;

/// What a shard asks of a drive.
#[derive(Clone)]
pub struct ShardOptions<'a> {
    /// Which shard, from 0.
    pub shard: u32,
    /// Of how many.
    pub shard_count: u32,
    /// Commands that may be in flight; usually [`QUEUE_DEPTH`]. At least 1, at most 4096.
    pub queue_depth: u32,
    /// Where the buffers of all reads come from.
    pub pool: &'a Pool,
}

/// A share of a device, driven by one thread.
pub struct HostDevice(Behind);

enum Behind {
    Real(Box<RealDevice>),
    Zoned(Box<ZonedBlockDevice>),
    Emulated(EmulatedDevice),
}

impl HostDevice {
    pub(crate) fn real(device: RealDevice) -> Self {
        Self(Behind::Real(Box::new(device)))
    }

    pub(crate) fn zoned(device: ZonedBlockDevice) -> Self {
        Self(Behind::Zoned(Box::new(device)))
    }

    pub(crate) const fn emulated(device: EmulatedDevice) -> Self {
        Self(Behind::Emulated(device))
    }

    /// From now on reads and writes lie anywhere, as the drive itself takes them: zones are not looked at. To
    /// measure a drive, not to keep anything on it.
    ///
    /// Requires: a real device without zones of its own. Models are measured in virtual time.
    pub fn ignore_zones(&mut self) {
        match &mut self.0 {
            Behind::Real(device) => device.ignore_zones(),
            Behind::Zoned(_) => panic!("a drive's own zones cannot be ignored"),
            Behind::Emulated(_) => panic!("a model is measured in virtual time"),
        }
    }

    /// Sends off everything that was submitted, with one system call.
    pub fn flush_submissions(&mut self) {
        match &mut self.0 {
            Behind::Real(device) => device.flush_submissions(),
            Behind::Zoned(device) => device.flush_submissions(),
            // Its commands are under way.
            Behind::Emulated(_) => (),
        }
    }

    /// What drives the device: the system may have refused the one that was asked for.
    #[must_use]
    pub const fn engine(&self) -> EngineKind {
        match &self.0 {
            Behind::Real(device) => device.engine(),
            Behind::Zoned(device) => device.engine(),
            Behind::Emulated(_) => EngineKind::Model,
        }
    }

    /// Sends off what was submitted and sleeps until `poll` may have something, at most `timeout`.
    /// For callers without an event loop.
    pub fn wait(&mut self, timeout: Duration) {
        self.flush_submissions();
        if self.next_event().is_some() {
            return;
        }
        let timeout = Timespec::try_from(timeout).ok();
        let mut wake = [PollFd::new(self, PollFlags::IN)];
        // Woken too early, by a signal or for want of memory, the caller finds nothing and waits again.
        let _ = rustix::event::poll(&mut wake, timeout.as_ref());
        // Take the signal, so that the next sleep lasts.
        let _ = rustix::io::read(self, &mut [0; 8]);
    }
}

impl ZonedDevice for HostDevice {
    fn geometry(&self) -> &Geometry {
        match &self.0 {
            Behind::Real(device) => device.geometry(),
            Behind::Zoned(device) => device.geometry(),
            Behind::Emulated(device) => device.geometry(),
        }
    }

    /// Only queues: see [`HostDevice::flush_submissions`].
    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        match &mut self.0 {
            Behind::Real(device) => device.submit(now, ticket, command),
            Behind::Zoned(device) => device.submit(now, ticket, command),
            Behind::Emulated(device) => device.submit(now, ticket, command),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        match &mut self.0 {
            Behind::Real(device) => device.poll(now),
            Behind::Zoned(device) => device.poll(now),
            Behind::Emulated(device) => device.poll(now),
        }
    }

    /// The beginning of time when there is something to do at once; else the descriptor wakes the host.
    fn next_event(&self) -> Option<Nanos> {
        match &self.0 {
            Behind::Real(device) => device.next_event(),
            Behind::Zoned(device) => device.next_event(),
            Behind::Emulated(device) => device.next_event(),
        }
    }
}

impl AsFd for HostDevice {
    /// An eventfd that is raised whenever `poll` may have something that it had not when it last
    /// returned `None`. Who sleeps on edges (`epoll` with EPOLLET, tokio's `AsyncFd`) never reads it;
    /// others read it after waking and before they poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Behind::Real(device) => device.as_fd(),
            Behind::Zoned(device) => device.as_fd(),
            Behind::Emulated(device) => device.as_fd(),
        }
    }
}
