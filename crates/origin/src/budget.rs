//! Retry budget (token bucket): retries and hedged requests are capped at a share of real requests.
//!
//! Whoever repeats what failed multiplies the load of an origin just when it can bear least. Here the requests themselves
//! earn what may be repeated of them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Retries in per cent of reads: an origin that fails each tenth of its answers still gets all of them repeated, and a dead
/// one is asked for a fifth more than is wanted of it, instead of four times as much.
const RETRY_PERCENT: u64 = 20;

/// Retries that are saved up at most, and there at the start: where little is read, all of it may be repeated.
pub(crate) const RETRY_BURST: u64 = 20;

/// Retries each second whatever is read: what is read once a second is repeated.
pub(crate) const RETRIES_PER_SECOND: u64 = 1;

/// A share of the requests, and a little besides.
///
/// Of `n` requests in `t` seconds at most `n * percent / 100 + burst + t * per_second` are repeated.
#[derive(Debug)]
pub(crate) struct Budget {
    percent: u64,
    /// Requests that may be repeated before any was asked for, and the most that is saved up.
    burst: u64,
    per_second: u64,
    purse: Mutex<Purse>,
}

#[derive(Debug)]
struct Purse {
    /// Hundredths of a request.
    saved: u64,
    /// Until when `per_second` was paid in.
    paid_at: Instant,
}

impl Budget {
    /// What the reads of an origin earn for retries.
    pub(crate) fn of_retries() -> Self {
        Self::new(RETRY_PERCENT, RETRY_BURST, RETRIES_PER_SECOND)
    }

    pub(crate) fn new(percent: u64, burst: u64, per_second: u64) -> Self {
        let purse = Purse { saved: burst * 100, paid_at: Instant::now() };
        Self { percent, burst, per_second, purse: Mutex::new(purse) }
    }

    /// Pays in for a request that was asked for.
    pub(crate) fn earn(&self) {
        self.with_purse(|purse| {
            purse.saved = (purse.saved + self.percent).min(self.burst * 100);
        });
    }

    /// Pays for one that was not; false when there is not enough.
    pub(crate) fn spend(&self) -> bool {
        self.spend_at(Instant::now())
    }

    fn spend_at(&self, now: Instant) -> bool {
        self.with_purse(|purse| {
            self.pay_in(purse, now);
            let left = purse.saved.checked_sub(100);
            purse.saved = left.unwrap_or(purse.saved);
            left.is_some()
        })
    }

    fn pay_in(&self, purse: &mut Purse, now: Instant) {
        let seconds = now.saturating_duration_since(purse.paid_at).as_secs();
        purse.paid_at += Duration::from_secs(seconds);
        let paid = seconds.saturating_mul(self.per_second * 100);
        purse.saved = purse.saved.saturating_add(paid).min(self.burst * 100);
    }

    fn with_purse<T>(&self, act: impl FnOnce(&mut Purse) -> T) -> T {
        // A sum of numbers is whole whoever panicked.
        act(&mut self.purse.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_a_share_and_a_little_besides() {
        let (budget, since) = (Budget::new(20, 10, 1), Instant::now());
        let spent = |millis: u64| {
            let now = since + Duration::from_millis(millis);
            (0..100).filter(|_| budget.spend_at(now)).count()
        };
        assert_eq!(spent(0), 10, "the burst");
        (0..50).for_each(|_| budget.earn());
        assert_eq!(spent(0), 10, "a fifth of fifty");
        assert_eq!(spent(3_900), 3, "one a second");
        assert_eq!(spent(4_100), 1, "a part of a second is not lost");
        (0..5_000).for_each(|_| budget.earn());
        assert_eq!(spent(4_200), 10, "no more is saved up than the burst");
    }
}
