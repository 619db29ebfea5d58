//! Turning the crank of a block device: its executor and its devices, driven by one task.
//!
//! A turn: set the clock; take the devices' answers; run ready tasks; submit what was asked, all of it with one system
//! call for each device. When nothing moved, the task sleeps until a device, a deadline or a nudge wakes it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;
use zonal_base::Nanos;
use zonal_device::Trouble;
use zonal_runtime::Executor;

use crate::clock::RealClock;
use crate::crank::Alarm;
use crate::driven::Driven;

/// Polls of engine tasks in one turn, before sockets get theirs.
const POLLS_PER_TURN: usize = 256;

/// Tasks of the engine: it has a handful, and starts none for what it is asked.
const TASKS_MAX: usize = 64;

/// How long a read of a device is waited for: 10 s. Whoever asked is told that it failed; a device that answers nothing for
/// some of these is done without. Kernels wait 30 s for a drive, and file systems above give up on what fails.
const PATIENCE: Nanos = Nanos::secs(10);

/// Everything that a block device's thread turns.
pub(super) struct Crank {
    pub(super) executor: Executor,
    /// Where each is, and what drives it.
    pub(super) devices: Vec<(PathBuf, Driven)>,
    pub(super) nudge: Rc<Nudge>,
    clock: RealClock,
    alarm: Alarm,
    /// The log was told that a device fails.
    has_told: bool,
}

/// Wakes the crank for what was asked outside of the engine's own tasks.
#[derive(Default)]
pub(super) struct Nudge(RefCell<Option<Waker>>);

impl Nudge {
    pub(super) fn now(&self) {
        if let Some(waker) = &*self.0.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Asks the engine for something, and sees to it that the crank is turned for it.
    pub(super) async fn while_asking<T>(&self, asked: impl Future<Output = T>) -> T {
        let mut asked = pin!(asked);
        poll_fn(|cx| {
            let answer = asked.as_mut().poll(cx);
            if answer.is_pending() {
                self.now();
            }
            answer
        })
        .await
    }
}

impl Crank {
    pub(super) fn new() -> Self {
        let (executor, clock) = (Executor::new(TASKS_MAX), RealClock::start());
        executor.advance(clock.now());
        Self {
            executor,
            devices: Vec::new(),
            nudge: Rc::default(),
            clock,
            alarm: Alarm::new(),
            has_told: false,
        }
    }

    /// From now on the devices are waited for no longer than they may take.
    pub(super) fn serve(&mut self) {
        let now = self.clock.now();
        for (_, device) in &mut self.devices {
            device.be_patient(now, PATIENCE);
        }
        // Another task turns from here on.
        self.alarm.hand_over();
    }

    /// Has the engine carry something out.
    pub(super) async fn carry_out<T: 'static>(
        &mut self,
        task: impl Future<Output = T> + 'static,
    ) -> T {
        let (done, mut outcome) = oneshot::channel();
        self.executor.spawner().spawn(async move {
            let _ = done.send(task.await);
        });
        self.turn_until(|| outcome.try_recv().ok()).await
    }

    /// Turns until `done` is ready.
    pub(super) async fn turn_until<T>(&mut self, mut done: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| {
            // Registered before the last look, so that nothing that happens in between is missed.
            self.executor.host_waker(cx.waker());
            self.nudge.0.replace(Some(cx.waker().clone()));
            let moved = self.turn();
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

    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        self.executor.advance(now);
        let mut moved = false;
        for (_, device) in &mut self.devices {
            moved |= device.take_answers(now);
        }
        self.look_for_trouble();
        moved |= 0 < self.executor.run(POLLS_PER_TURN);
        for (_, device) in &mut self.devices {
            moved |= device.submit(now);
        }
        moved
    }

    /// A device that hangs or is gone is done without: whoever waits is told. One that fails is asked on: what it still reads
    /// is wanted.
    fn look_for_trouble(&mut self) {
        for (path, device) in &mut self.devices {
            match device.trouble() {
                None => {}
                Some(Trouble::Failing) if self.has_told => {}
                Some(trouble @ Trouble::Failing) => {
                    tracing::error!(path = %path.display(), "the device fails: {trouble}");
                    self.has_told = true;
                }
                Some(trouble @ (Trouble::Silent | Trouble::Slow | Trouble::Gone)) => {
                    tracing::error!(
                        path = %path.display(),
                        "the device is not asked any more: {trouble}; what needs it fails until a restart"
                    );
                    device.abandon();
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
