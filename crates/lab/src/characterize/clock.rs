//! How time passes: a jump in virtual time, a wait in real time.

use std::time::{Duration, Instant};

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::load::Stack;

/// The time that a device lives in.
pub trait Clock<D> {
    /// Now.
    fn now(&self) -> Nanos;

    /// Lets time pass until the device may have an answer, and at most until `until`.
    /// `None`: the device owes an answer, and nothing else is due.
    fn pass(&mut self, device: &mut D, until: Option<Nanos>);

    /// What of the host's share has to be added to what this clock shows.
    fn unseen(&self, host: Stack) -> Stack;
}

/// Time of its own: it jumps to whatever comes next.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualTime {
    now: Nanos,
}

impl<D: ZonedDevice> Clock<D> for VirtualTime {
    fn now(&self) -> Nanos {
        self.now
    }

    fn pass(&mut self, device: &mut D, until: Option<Nanos>) {
        let next = [device.next_event(), until].into_iter().flatten().min();
        self.now = next.unwrap_or(self.now).max(self.now);
    }

    /// All of it: nothing but the device takes time.
    fn unseen(&self, host: Stack) -> Stack {
        host
    }
}

/// The time of this machine.
#[derive(Debug)]
pub struct RealTime<W> {
    started: Instant,
    wait: W,
}

impl<W> RealTime<W> {
    /// `wait` sends off what was submitted to the device and returns when it may have an answer, or
    /// when the duration is over.
    #[must_use]
    pub fn new(wait: W) -> Self {
        Self { started: Instant::now(), wait }
    }
}

/// How long to wait when nothing but the device's answer is due: long enough to cost nothing, short
/// enough that a device that forgot to wake its host is asked again.
const PATIENCE: Duration = Duration::from_millis(10);

impl<D: ZonedDevice, W: FnMut(&mut D, Duration)> Clock<D> for RealTime<W> {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn pass(&mut self, device: &mut D, until: Option<Nanos>) {
        let now = Clock::<D>::now(self);
        let next = [device.next_event(), until].into_iter().flatten().min();
        let span = next.map_or(PATIENCE, |next| next.since(now).duration());
        (self.wait)(device, span);
    }

    /// Nothing: this host's own share is in what is measured.
    fn unseen(&self, _host: Stack) -> Stack {
        Stack::default()
    }
}
