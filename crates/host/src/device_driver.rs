//! Device driver: connects an engine's device port to a device and its completion eventfd.

use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use zonal_base::Nanos;
use zonal_device::{Command, Completion, DeadlineDevice, DeviceError, DeviceFault, ZonedDevice};
use zonal_hostdev::HostDevice;
use zonal_runtime::Port;

use crate::clock::RealClock;

/// Delay before a submission is retried for which the kernel had no room.
const SUBMIT_RETRY: Nanos = Nanos::millis(1);

/// Driver of one device, used by one thread.
pub struct DeviceDriver {
    /// `None` after the device was closed.
    device: Option<DeadlineDevice<HostDevice>>,
    port: Port<Command, Completion>,
    wake: AsyncFd<OwnedFd>,
}

impl DeviceDriver {
    /// Creates a driver that executes the commands in `port`.
    ///
    /// # Errors
    /// The system has no file descriptors left.
    #[expect(
        deprecated,
        reason = "its fault is with types that change their descriptor; OwnedFd does not"
    )]
    pub fn new(device: HostDevice, port: Port<Command, Completion>) -> std::io::Result<Self> {
        let wake = AsyncFd::new(device.as_fd().try_clone_to_owned()?)?;
        Ok(Self { device: Some(DeadlineDevice::new(device)), port, wake })
    }

    /// The device; `None` after it was closed.
    #[must_use]
    pub const fn device(&self) -> Option<&DeadlineDevice<HostDevice>> {
        self.device.as_ref()
    }

    /// Sets the read timeout, and starts to count faults of the device.
    pub fn set_read_timeout(&mut self, now: Nanos, timeout: Nanos) {
        if let Some(device) = &mut self.device {
            device.set_read_timeout(now, timeout);
        }
    }

    /// The reason to isolate the device, once there is one. `None` after it was isolated or closed.
    #[must_use]
    pub fn trouble(&self) -> Option<DeviceFault> {
        let device = self.device.as_ref().filter(|device| !device.is_isolated())?;
        device.trouble()
    }

    /// Fails all commands in flight and all later ones with `DeviceGone`.
    pub fn isolate(&mut self) {
        if let Some(device) = &mut self.device {
            device.isolate();
        }
    }

    /// True when the device was isolated or closed: it gets no more commands.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.device.as_ref().is_none_or(DeadlineDevice::is_isolated)
    }

    /// True when no command is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.device.as_ref().is_none_or(|device| device.under_way() == 0)
    }

    /// Closes the device. Later commands fail with `DeviceGone`.
    ///
    /// Requires: the device is idle.
    pub fn close(&mut self) {
        self.device = None;
    }

    /// Reaps completions. True when there were some.
    pub fn take_answers(&mut self, now: Nanos) -> bool {
        let mut any = false;
        let Some(device) = &mut self.device else { return false };
        while let Some((ticket, completion)) = device.poll(now) {
            any = true;
            self.port.complete(ticket, completion);
        }
        any
    }

    /// Submits all queued commands with one system call. True when there were some.
    pub fn submit(&mut self, clock: &RealClock) -> bool {
        let mut now = None;
        while let Some((ticket, command)) = self.port.take() {
            // The latency of a command begins here, not when the tasks that queued it began to run.
            let now = *now.get_or_insert_with(|| clock.now());
            let Some(device) = &mut self.device else {
                self.port.complete(ticket, Err(DeviceError::DeviceGone));
                continue;
            };
            if let Err(command) = device.submit(now, ticket, command) {
                self.port.put_back(ticket, command);
                break;
            }
        }
        let any = now.is_some();
        if let Some(device) = self.device.as_mut().filter(|_| any) {
            device.device_mut().flush_submissions();
        }
        any
    }

    /// Registers the task for a wake-up by the next completion. Returns the time at which the
    /// device must be polled even without one.
    pub fn sleep(&self, cx: &mut Context<'_>, clock: &RealClock) -> Option<Nanos> {
        match self.wake.poll_read_ready(cx) {
            Poll::Ready(Ok(mut ready)) => {
                ready.clear_ready();
                cx.waker().wake_by_ref();
            }
            Poll::Ready(Err(error)) => {
                tracing::error!(%error, "the device's descriptor cannot be waited for");
                cx.waker().wake_by_ref();
            }
            Poll::Pending => {}
        }
        let device = self.device.as_ref()?;
        // The kernel had no room for the submissions: retry soon.
        let retry = device.device().next_event().map(|_| clock.now() + SUBMIT_RETRY);
        [device.next_check(), retry].into_iter().flatten().min()
    }
}

impl Drop for DeviceDriver {
    /// Does not wait for commands in flight on an isolated device: it is leaked, and closed with
    /// the process.
    fn drop(&mut self) {
        if let Some(device) = self.device.take()
            && device.is_isolated()
            && 0 < device.under_way()
        {
            std::mem::forget(device);
        }
    }
}
