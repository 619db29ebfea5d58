//! A device, the port through which an engine asks it, and what wakes its thread when it has answered.

use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use zonal_base::Nanos;
use zonal_device::{Command, Completion, DeviceError, Patient, Trouble, ZonedDevice};
use zonal_hostdev::HostDevice;
use zonal_runtime::Port;

use crate::clock::RealClock;

/// After how long a submission is tried again that the kernel had no room for.
const SUBMIT_RETRY: Nanos = Nanos::millis(1);

/// A device that is turned by one thread.
pub(crate) struct Driven {
    /// `None`: it was closed, because it is better done without.
    device: Option<Patient<HostDevice>>,
    port: Port<Command, Completion>,
    wake: AsyncFd<OwnedFd>,
}

impl Driven {
    /// # Errors
    /// When the system has no descriptors left.
    #[expect(
        deprecated,
        reason = "its fault is with types that change their descriptor; OwnedFd does not"
    )]
    pub(crate) fn new(
        device: HostDevice,
        port: Port<Command, Completion>,
    ) -> std::io::Result<Self> {
        let wake = AsyncFd::new(device.as_fd().try_clone_to_owned()?)?;
        Ok(Self { device: Some(Patient::new(device)), port, wake })
    }

    /// The device, unless it was closed.
    pub(crate) const fn device(&self) -> Option<&Patient<HostDevice>> {
        self.device.as_ref()
    }

    /// From now on reads take no longer than that, and the device is judged.
    pub(crate) fn be_patient(&mut self, now: Nanos, patience: Nanos) {
        if let Some(device) = &mut self.device {
            device.be_patient(now, patience);
        }
    }

    /// What is wrong with it, when that is news.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let device = self.device.as_ref().filter(|device| !device.is_abandoned())?;
        device.trouble()
    }

    /// Whatever waits for the device is told that it is gone, and so is all that comes.
    pub(crate) fn abandon(&mut self) {
        if let Some(device) = &mut self.device {
            device.abandon();
        }
    }

    /// True when it is not asked any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.device.as_ref().is_none_or(Patient::is_abandoned)
    }

    /// True when nothing that the device was asked can happen any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.device.as_ref().is_none_or(|device| device.under_way() == 0)
    }

    /// Requires: it is idle.
    pub(crate) fn close(&mut self) {
        self.device = None;
    }

    /// Takes what the device has answered. True when there was something.
    pub(crate) fn take_answers(&mut self, now: Nanos) -> bool {
        let mut any = false;
        let Some(device) = &mut self.device else { return false };
        while let Some((ticket, completion)) = device.poll(now) {
            any = true;
            self.port.complete(ticket, completion);
        }
        any
    }

    /// Hands on what the engine has asked, all of it with one system call. True when there was something.
    pub(crate) fn submit(&mut self, now: Nanos) -> bool {
        let mut any = false;
        while let Some((ticket, command)) = self.port.take() {
            any = true;
            let Some(device) = &mut self.device else {
                self.port.complete(ticket, Err(DeviceError::DeviceGone));
                continue;
            };
            if let Err(command) = device.submit(now, ticket, command) {
                self.port.put_back(ticket, command);
                break;
            }
        }
        if let Some(device) = self.device.as_mut().filter(|_| any) {
            device.device_mut().flush_submissions();
        }
        any
    }

    /// Arranges to be woken by the device. What comes back is when it must be looked at although nobody wakes.
    pub(crate) fn sleep(&self, cx: &mut Context<'_>, clock: &RealClock) -> Option<Nanos> {
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
        // The kernel had no room for what was submitted: try again soon.
        let retry = device.device().next_event().map(|_| clock.now() + SUBMIT_RETRY);
        [device.look_at(), retry].into_iter().flatten().min()
    }
}

impl Drop for Driven {
    /// A device that has not answered is not waited for: it is closed with the process.
    fn drop(&mut self) {
        if let Some(device) = self.device.take()
            && device.is_abandoned()
            && 0 < device.under_way()
        {
            std::mem::forget(device);
        }
    }
}
