//! The real clock: nanoseconds since 1970, monotonic.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use zonal_base::Nanos;

/// Set to the wall clock once, then driven by the monotonic one: what is written to flash with a time
/// means something after a restart, and no step of the wall clock disturbs a deadline.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    started: Instant,
    started_at: Nanos,
}

impl RealClock {
    /// Starts at the wall clock's time.
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
