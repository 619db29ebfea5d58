//! Timer of an event loop.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep};
use zonal_base::Nanos;

/// Timer of an event loop: wakes its task at the next deadline.
#[derive(Debug)]
pub struct Alarm {
    timer: Pin<Box<Sleep>>,
    set_for: Option<Nanos>,
}

impl Alarm {
    /// A timer without a deadline.
    #[must_use]
    pub fn unset() -> Self {
        Self { timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)), set_for: None }
    }

    /// Sets the deadline to `due`. A timer already set to `due` is left alone, because most
    /// iterations end before it fires.
    pub fn set(&mut self, cx: &mut Context<'_>, due: Nanos, now: Nanos) {
        if self.set_for == Some(due) && now < due {
            return;
        }
        self.set_for = Some(due);
        self.timer.as_mut().reset(Instant::now() + due.since(now).duration());
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Prepares the timer for another task: the next [`Alarm::set`] registers that task's waker.
    pub const fn hand_over(&mut self) {
        self.set_for = None;
    }
}
