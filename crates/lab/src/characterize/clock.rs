//! Clock of an experiment: virtual time jumps to the next event, real time waits.

use std::time::{Duration, Instant};

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::load::Stack;

/// Clock of a device under test.
pub trait Clock<D> {
    /// Current time.
    fn now(&self) -> Nanos;

    /// Lets time pass until the device may have a completion, but not beyond `until`. `None`: a
    /// completion is due, and nothing else.
    fn pass(&mut self, device: &mut D, until: Option<Nanos>);

    /// Host time that this clock does not show. Callers add it to the measured times.
    fn unseen(&self, host: Stack) -> Stack;
}

/// Virtual time: jumps to the next event.
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

    /// The whole host time: in virtual time only the device takes time.
    fn unseen(&self, host: Stack) -> Stack {
        host
    }
}

/// Real time: reads the host's clock and waits for the device.
#[derive(Debug)]
pub struct RealTime<W> {
    started: Instant,
    wait: W,
}

impl<W> RealTime<W> {
    /// `wait` submits the queued commands, and returns when the device may have a completion or the
    /// duration is over.
    #[must_use]
    pub fn new(wait: W) -> Self {
        Self { started: Instant::now(), wait }
    }
}

/// Poll interval while only a completion of the device is due. Long enough to cost nothing, and
/// short enough to poll a device again that forgot to wake its host.
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

    /// Zero: the measured times contain the host's own.
    fn unseen(&self, _host: Stack) -> Stack {
        Stack::default()
    }
}
