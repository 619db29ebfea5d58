//! Device of one shard: a real, zoned or modelled device behind one type.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use zonal_base::{Nanos, Pool, Ticket};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};

use crate::EngineKind;
use crate::emulated::EmulatedDevice;
use crate::real::RealDevice;
use crate::zoned::ZonedBlockDevice;

/// Default queue depth: 256 commands in flight. An NVMe drive reaches its full throughput at 64 to
/// 128; the rest lets every task of a shard queue its command without waiting for another's
/// completion.
pub const QUEUE_DEPTH: u32 = 256;

/// Maximum queue depth: 4096. The io_uring rings of this depth take 400 KiB.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 4096;

/// Parameters of [`crate::Drive::shard`].
#[derive(Clone)]
pub struct ShardOptions<'a> {
    /// Index of the shard, from 0.
    pub shard: u32,
    /// Number of shards that divide the drive.
    pub shard_count: u32,
    /// Maximum number of commands in flight, from 1 to 4096; usually [`QUEUE_DEPTH`].
    pub queue_depth: u32,
    /// Pool of the buffers of all reads: the io_uring engine registers them with the kernel.
    pub pool: &'a Pool,
}

/// Device of one shard: a run of zones of a drive, driven by one thread.
pub struct HostDevice(Backend);

enum Backend {
    Real(Box<RealDevice>),
    Zoned(Box<ZonedBlockDevice>),
    Emulated(EmulatedDevice),
}

impl HostDevice {
    pub(crate) fn real(device: RealDevice) -> Self {
        Self(Backend::Real(Box::new(device)))
    }

    pub(crate) fn zoned(device: ZonedBlockDevice) -> Self {
        Self(Backend::Zoned(Box::new(device)))
    }

    pub(crate) const fn emulated(device: EmulatedDevice) -> Self {
        Self(Backend::Emulated(device))
    }

    /// Turns the zone checks of reads and writes off: they may then access any block of the share.
    /// For measurements of a drive, not for data that is kept.
    ///
    /// Requires: a real device without zones of its own. Models are measured in virtual time.
    pub fn ignore_zones(&mut self) {
        match &mut self.0 {
            Backend::Real(device) => device.ignore_zones(),
            Backend::Zoned(_) => panic!("a drive's own zones cannot be ignored"),
            Backend::Emulated(_) => panic!("a model is measured in virtual time"),
        }
    }

    /// Hands all submitted commands to the kernel, with one system call.
    pub fn flush_submissions(&mut self) {
        match &mut self.0 {
            Backend::Real(device) => device.flush_submissions(),
            Backend::Zoned(device) => device.flush_submissions(),
            // The drive's thread received its commands at their submission.
            Backend::Emulated(_) => (),
        }
    }

    /// The engine in use. It differs from the engine in the device spec when the system refuses
    /// io_uring.
    #[must_use]
    pub const fn engine(&self) -> EngineKind {
        match &self.0 {
            Backend::Real(device) => device.engine(),
            Backend::Zoned(device) => device.engine(),
            Backend::Emulated(_) => EngineKind::Model,
        }
    }

    /// Hands all submitted commands to the kernel and sleeps until `poll` may have a completion, at
    /// most `timeout`. For callers without an event loop.
    pub fn wait(&mut self, timeout: Duration) {
        self.flush_submissions();
        if self.next_event().is_some() {
            return;
        }
        let timeout = Timespec::try_from(timeout).ok();
        let mut wake = [PollFd::new(self, PollFlags::IN)];
        // A signal or a lack of memory may end the sleep early: the caller then finds no completion
        // and waits again.
        let _ = rustix::event::poll(&mut wake, timeout.as_ref());
        // Reading the eventfd resets it. Otherwise the next sleep would end at once.
        let _ = rustix::io::read(self, &mut [0; 8]);
    }
}

impl ZonedDevice for HostDevice {
    fn geometry(&self) -> &Geometry {
        match &self.0 {
            Backend::Real(device) => device.geometry(),
            Backend::Zoned(device) => device.geometry(),
            Backend::Emulated(device) => device.geometry(),
        }
    }

    /// Only queues the command: see [`HostDevice::flush_submissions`].
    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        match &mut self.0 {
            Backend::Real(device) => device.submit(now, ticket, command),
            Backend::Zoned(device) => device.submit(now, ticket, command),
            Backend::Emulated(device) => device.submit(now, ticket, command),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        match &mut self.0 {
            Backend::Real(device) => device.poll(now),
            Backend::Zoned(device) => device.poll(now),
            Backend::Emulated(device) => device.poll(now),
        }
    }

    /// Time 0 when `poll` has work to do at once; otherwise `None`, and the descriptor wakes the
    /// host.
    fn next_event(&self) -> Option<Nanos> {
        match &self.0 {
            Backend::Real(device) => device.next_event(),
            Backend::Zoned(device) => device.next_event(),
            Backend::Emulated(device) => device.next_event(),
        }
    }
}

impl AsFd for HostDevice {
    /// An eventfd that is raised when `poll` may have a completion that it did not have when it
    /// last returned `None`. Edge-triggered callers (`epoll` with EPOLLET, tokio's `AsyncFd`) never
    /// read it. Other callers read it after they wake and before they poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Backend::Real(device) => device.as_fd(),
            Backend::Zoned(device) => device.as_fd(),
            Backend::Emulated(device) => device.as_fd(),
        }
    }
}
