//! The real clock: nanoseconds since 1970, monotonic.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use zonal_base::Nanos;

/// A clock set to the wall clock once and then driven by the monotonic clock. Times stored on flash
/// stay valid after a restart, and steps of the wall clock do not disturb deadlines.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    started: Instant,
    started_at: Nanos,
}

impl RealClock {
    /// Starts a clock at the time of the wall clock.
    #[must_use]
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Nanos(u64::try_from(since_1970.as_nanos()).unwrap_or(0));
        Self { started: Instant::now(), started_at }
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        Nanos(self.started_at.0 + elapsed)
    }
}
