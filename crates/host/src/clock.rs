//! The real clock: nanoseconds since 1970, monotonic.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use zonal_base::Nanos;

/// A clock set to the wall clock once and then driven by a clock that never steps. Times stored on
/// flash stay valid after a restart, and steps of the wall clock do not disturb deadlines.
///
/// Time in which the machine is suspended counts. Otherwise a suspend would make cached heads live
/// longer.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    started: Nanos,
    started_at: Nanos,
}

impl RealClock {
    /// Starts a clock at the time of the wall clock.
    #[must_use]
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Nanos(u64::try_from(since_1970.as_nanos()).unwrap_or(0));
        Self { started: monotonic(), started_at }
    }

    /// The time at which [`monotonic`] returned `time`.
    #[must_use]
    pub fn at(&self, time: Nanos) -> Nanos {
        self.started_at + time.since(self.started)
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.at(monotonic())
    }
}

/// Nanoseconds since the boot of the machine, with the time in which it was suspended: half the
/// memory of [`std::time::Instant`], and a third of the instructions to subtract.
#[must_use]
pub fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    Nanos::secs(part(time.tv_sec)) + Nanos(part(time.tv_nsec))
}
