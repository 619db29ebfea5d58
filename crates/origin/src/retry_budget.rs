//! Retry budget (token bucket): retries and hedged requests are capped at a share of real requests.
//!
//! Unlimited retries multiply the load of an origin just when it is overloaded. Here each real
//! request adds a fraction of a token, and each retry costs one token.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Retries as a percentage of reads. An origin that fails a tenth of its answers still gets all of
/// them retried. A dead origin gets 20 % more requests than reads, instead of four times as many.
const RETRY_PERCENT: u64 = 20;

/// Bucket size in retries, full at the start: with few reads, all of them may be retried.
pub(crate) const RETRY_BURST: u64 = 20;

/// Tokens per second, independent of reads: a read per second can always be retried.
pub(crate) const RETRIES_PER_SECOND: u64 = 1;

/// Token bucket, refilled by requests and by time.
///
/// Of `n` requests in `t` seconds, at most `n * percent / 100 + burst + t * per_second` are
/// repeated.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    percent: u64,
    /// Bucket size in repeats, which is also its initial level.
    burst: u64,
    per_second: u64,
    bucket: Mutex<TokenBucket>,
}

#[derive(Debug)]
struct TokenBucket {
    /// Tokens, in hundredths of a repeat.
    saved: u64,
    /// Time up to which `per_second` tokens were added.
    paid_at: Instant,
}

impl RetryBudget {
    /// The retry budget for the reads of an origin.
    pub(crate) fn of_retries() -> Self {
        Self::new(RETRY_PERCENT, RETRY_BURST, RETRIES_PER_SECOND)
    }

    pub(crate) fn new(percent: u64, burst: u64, per_second: u64) -> Self {
        let bucket = TokenBucket { saved: burst * 100, paid_at: Instant::now() };
        Self { percent, burst, per_second, bucket: Mutex::new(bucket) }
    }

    /// Adds the tokens of one real request.
    pub(crate) fn deposit(&self) {
        self.with_bucket(|bucket| {
            bucket.saved = (bucket.saved + self.percent).min(self.burst * 100);
        });
    }

    /// Takes a token for a repeat. False if there is none: the caller must not repeat.
    pub(crate) fn try_take(&self) -> bool {
        self.spend_at(Instant::now())
    }

    fn spend_at(&self, now: Instant) -> bool {
        self.with_bucket(|bucket| {
            self.refill(bucket, now);
            let left = bucket.saved.checked_sub(100);
            bucket.saved = left.unwrap_or(bucket.saved);
            left.is_some()
        })
    }

    fn refill(&self, bucket: &mut TokenBucket, now: Instant) {
        let seconds = now.saturating_duration_since(bucket.paid_at).as_secs();
        bucket.paid_at += Duration::from_secs(seconds);
        let paid = seconds.saturating_mul(self.per_second * 100);
        bucket.saved = bucket.saved.saturating_add(paid).min(self.burst * 100);
    }

    fn with_bucket<T>(&self, act: impl FnOnce(&mut TokenBucket) -> T) -> T {
        // Poisoning is ignored: the state is only numbers, valid after any panic.
        act(&mut self.bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_a_share_and_a_little_besides() {
        let (budget, since) = (RetryBudget::new(20, 10, 1), Instant::now());
        let spent = |millis: u64| {
            let now = since + Duration::from_millis(millis);
            (0..100).filter(|_| budget.spend_at(now)).count()
        };
        assert_eq!(spent(0), 10, "the burst");
        (0..50).for_each(|_| budget.deposit());
        assert_eq!(spent(0), 10, "a fifth of fifty");
        assert_eq!(spent(3_900), 3, "one a second");
        assert_eq!(spent(4_100), 1, "a part of a second is not lost");
        (0..5_000).for_each(|_| budget.deposit());
        assert_eq!(spent(4_200), 10, "no more is saved up than the burst");
    }
}
