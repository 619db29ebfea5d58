//! Event loop of a block device: one task runs the engine's executor and its device ports.
//!
//! An iteration sets the clock, reaps completions, runs ready tasks, and submits all queued
//! commands with one system call per device. If an iteration did nothing, the task sleeps until a
//! completion, a deadline or a request wakes it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;
use zonal_base::Nanos;
use zonal_device::DeviceFault;
use zonal_host::{Alarm, DeviceDriver, RealClock};
use zonal_runtime::Executor;

/// Maximum of engine task polls in one iteration, before the sockets of the same thread are polled.
const POLLS_PER_TURN: usize = 256;

/// Maximum of engine tasks: a handful of background tasks, and none per request.
const TASKS_MAX: usize = 64;

/// Read timeout of a device: 10 s. A timed-out read fails, and a device that answers nothing for
/// several timeouts is abandoned. Kernels wait 30 s for a drive, and then file systems above it
/// fail as well.
const READ_TIMEOUT: Nanos = Nanos::secs(10);

/// The event loop of one block device.
pub(crate) struct EventLoop {
    pub(crate) executor: Executor,
    /// Devices with their paths.
    pub(crate) devices: Vec<(PathBuf, DeviceDriver)>,
    pub(crate) waker: Rc<LoopWaker>,
    clock: RealClock,
    alarm: Alarm,
    /// True after a failing device was logged.
    has_told: bool,
}

/// Wakes the event loop for requests from outside the engine's own tasks.
#[derive(Default)]
pub(crate) struct LoopWaker(RefCell<Option<Waker>>);

impl LoopWaker {
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.0.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Runs a request to the engine, and wakes the event loop for it.
    pub(crate) async fn while_asking<T>(&self, asked: impl Future<Output = T>) -> T {
        let mut asked = pin!(asked);
        poll_fn(|cx| {
            let answer = asked.as_mut().poll(cx);
            if answer.is_pending() {
                self.wake();
            }
            answer
        })
        .await
    }
}

impl EventLoop {
    pub(crate) fn new() -> Self {
        let (executor, clock) = (Executor::new(TASKS_MAX), RealClock::start());
        executor.advance(clock.now());
        Self {
            executor,
            devices: Vec::new(),
            waker: Rc::default(),
            clock,
            alarm: Alarm::unset(),
            has_told: false,
        }
    }

    /// Enables the read timeouts of the devices.
    pub(crate) fn serve(&mut self) {
        let now = self.clock.now();
        for (_, device) in &mut self.devices {
            device.set_read_timeout(now, READ_TIMEOUT);
        }
        // From here on, another task runs the loop.
        self.alarm.hand_over();
    }

    /// Runs `task` on the engine's executor until it ends.
    pub(crate) async fn carry_out<T: 'static>(
        &mut self,
        task: impl Future<Output = T> + 'static,
    ) -> T {
        let (done, mut outcome) = oneshot::channel();
        self.executor.spawner().spawn(async move {
            let _ = done.send(task.await);
        });
        self.run_until(|| outcome.try_recv().ok()).await
    }

    /// Runs until `done` returns a value.
    pub(crate) async fn run_until<T>(&mut self, mut done: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| {
            // The wakers are registered before the work is checked, so that no event in between is
            // lost.
            self.executor.host_waker(cx.waker());
            self.waker.0.replace(Some(cx.waker().clone()));
            let moved = self.iterate();
            if let Some(output) = done() {
                return Poll::Ready(output);
            }
            if moved || self.executor.has_ready() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.sleep(cx)
        })
        .await
    }

    fn iterate(&mut self) -> bool {
        let now = self.clock.now();
        self.executor.advance(now);
        let mut moved = false;
        for (_, device) in &mut self.devices {
            moved |= device.take_answers(now);
        }
        self.check_devices();
        moved |= 0 < self.executor.run(POLLS_PER_TURN);
        for (_, device) in &mut self.devices {
            moved |= device.submit(&self.clock);
        }
        moved
    }

    /// Abandons a device that hangs or has disappeared: requests that wait for it fail. A device
    /// with read errors stays in use for the blocks that are still readable.
    fn check_devices(&mut self) {
        for (path, device) in &mut self.devices {
            match device.trouble() {
                // The engine tells when a device takes no writes, and goes on with reads.
                None | Some(DeviceFault::ReadOnly) => {}
                Some(DeviceFault::Failing) if self.has_told => {}
                Some(trouble @ DeviceFault::Failing) => {
                    tracing::error!(path = %path.display(), "device fault: {trouble}");
                    self.has_told = true;
                }
                Some(trouble @ (DeviceFault::Silent | DeviceFault::Slow | DeviceFault::Gone)) => {
                    tracing::error!(
                        path = %path.display(),
                        "device lost: {trouble}; requests that need it fail until a restart"
                    );
                    device.isolate();
                }
            }
        }
    }

    fn sleep<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let now = self.executor.clock().now();
        let of_devices =
            self.devices.iter().filter_map(|(_, device)| device.sleep(cx, &self.clock));
        if let Some(due) = of_devices.chain(self.executor.next_deadline()).min() {
            self.alarm.set(cx, due, now);
        }
        Poll::Pending
    }
}
