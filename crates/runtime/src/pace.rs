//! Pace: bounds the rate of background work.

use zonal_base::{Bytes, Nanos};

use crate::{Clock, yield_now};

/// Limits the bytes per second of one task.
pub struct Pace {
    clock: Clock,
    bytes_per_second: u64,
    /// When the next piece may begin. A delay is not made up for.
    due: Nanos,
}

impl Pace {
    /// A pace of at most `rate` bytes per second, and at least one.
    #[must_use]
    pub fn new(clock: &Clock, rate: Bytes) -> Self {
        Self { clock: clock.clone(), bytes_per_second: rate.0.max(1), due: clock.now() }
    }

    /// Waits until the next piece may begin. `begun`: when the work on these bytes began.
    pub async fn pause(&mut self, begun: Nanos, bytes: Bytes) {
        let time = bytes.0.saturating_mul(1_000_000_000) / self.bytes_per_second;
        self.due = Nanos(self.due.max(begun).0.saturating_add(time));
        // Other tasks go first, even if the next piece is due.
        yield_now().await;
        self.clock.sleep_until(self.due).await;
    }
}
