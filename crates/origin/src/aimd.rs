//! AIMD concurrency limit per origin, driven by 503 `SlowDown` and `Retry-After`, with pauses.
//!
//! 1. A throttling answer halves the number of requests that may be in flight. Throttling answers
//!    to requests that were in flight together count once.
//! 2. If even one request at a time is too many, or the answer has a `Retry-After`, the limiter
//!    pauses: no request is sent for a while. Without `Retry-After` the pause starts at 100 ms and
//!    doubles each time, up to 5 s.
//! 3. Each good answer raises the limit by one, up to the maximum. So the limit can double in each
//!    round trip.
//!
//! A request that would wait longer than `OriginLimits::wait` is refused with `SlowDown`, without asking
//! the origin. That limit is shorter than a client's timeout, so the client receives the refusal.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::OriginError;
use crate::stats::Stats;

/// First pause. Equal to the first retry backoff.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause without `Retry-After`: the longest delay before Zonal notices that the origin has
/// recovered.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Upper bound of `Retry-After`, so that a mistake in it causes no longer outage.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Concurrency limiter of one origin's reads.
#[derive(Debug)]
pub(crate) struct AimdLimiter {
    /// Maximum of requests in flight while the origin is well.
    widest: usize,
    /// Longest wait for a permit. A request that would wait longer is refused.
    wait: Duration,
    state: Mutex<LimiterState>,
    changed: Notify,
    stats: Arc<Stats>,
}

#[derive(Debug)]
struct LimiterState {
    under_way: usize,
    /// Current AIMD limit of `under_way`.
    limit: usize,
    /// Time of the last decrease. A throttling answer to a request sent before it does not decrease
    /// the limit again.
    narrowed_at: Option<Instant>,
    /// End of the pause: no request is sent before.
    not_before: Option<Instant>,
    /// Length of the next pause.
    pause: Duration,
}

/// Permit for one request. If it is dropped without a result, the limit does not change.
#[derive(Debug)]
pub(crate) struct LimiterPermit<'a> {
    limiter: &'a AimdLimiter,
    began_at: Instant,
}

enum Admission {
    /// A permit is free. The field is its start time.
    Open(Instant),
    /// The limit is reached: wait for an answer.
    Full,
    /// All requests pause until this time.
    Paused(Instant),
}

impl AimdLimiter {
    pub(crate) fn new(widest: usize, wait: Duration, stats: Arc<Stats>) -> Self {
        let state = LimiterState {
            under_way: 0,
            limit: widest,
            narrowed_at: None,
            not_before: None,
            pause: PAUSE_MIN,
        };
        Self { widest, wait, state: Mutex::new(state), changed: Notify::new(), stats }
    }

    /// True if the limit is below its maximum or requests pause.
    pub(crate) fn is_narrow(&self) -> bool {
        self.with_state(|state| state.limit < self.widest || state.not_before.is_some())
    }

    /// A permit without waiting, for hedged requests. `None` if the limit is reached or the origin
    /// is throttling.
    pub(crate) fn try_acquire(&self) -> Option<LimiterPermit<'_>> {
        if self.is_narrow() {
            return None;
        }
        match self.enter(Instant::now()) {
            Admission::Open(began_at) => Some(LimiterPermit { limiter: self, began_at }),
            Admission::Full | Admission::Paused(_) => None,
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`OriginError::Throttled`] if no permit becomes free within `wait`.
    pub(crate) async fn acquire(&self) -> Result<LimiterPermit<'_>, OriginError> {
        let until = Instant::now() + self.wait;
        let mut has_waited = false;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registers the waiter before the check below, so that no notification is lost.
            changed.as_mut().enable();
            let wake = match self.enter(Instant::now()) {
                Admission::Open(began_at) => return Ok(LimiterPermit { limiter: self, began_at }),
                Admission::Full => until,
                Admission::Paused(not_before) => not_before,
            };
            if until < wake || until <= Instant::now() {
                return Err(self.refuse());
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.stats.reads_held.add(1);
            }
            let _ = tokio::time::timeout_at(wake, changed).await;
        }
    }

    /// Counts a refusal and returns its error. The origin is not asked.
    pub(crate) fn refuse(&self) -> OriginError {
        self.stats.reads_refused.add(1);
        OriginError::slow_down("the origin asks to slow down")
    }

    fn enter(&self, now: Instant) -> Admission {
        self.with_state(|state| match state.not_before {
            Some(not_before) if now < not_before => Admission::Paused(not_before),
            _ if state.limit <= state.under_way => Admission::Full,
            _ => {
                state.not_before = None;
                state.under_way += 1;
                Admission::Open(now)
            }
        })
    }

    fn show(&self, limit: usize) {
        let allowed = if limit < self.widest { limit } else { 0 };
        self.stats.reads_allowed.set(allowed as u64);
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut LimiterState) -> T) -> T {
        // Poisoning is ignored: each change leaves a valid state.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LimiterPermit<'_> {
    /// Reports a good answer: raises the limit by one, and resets the pause.
    pub(crate) fn on_success(&self) {
        let limiter = self.limiter;
        let is_wider = limiter.with_state(|state| {
            state.pause = PAUSE_MIN;
            let is_narrow = state.limit < limiter.widest;
            state.limit += usize::from(is_narrow);
            limiter.show(state.limit);
            is_narrow
        });
        if is_wider {
            limiter.changed.notify_one();
        }
    }

    /// Reports a throttling answer: halves the limit, and pauses if needed.
    pub(crate) fn on_throttled(&self, retry_after: Option<Duration>) {
        let now = Instant::now();
        self.limiter.with_state(|state| {
            let is_news = state.narrowed_at.is_none_or(|at| at <= self.began_at);
            let mut pause = retry_after.map(|after| after.min(RETRY_AFTER_MAX));
            if is_news {
                if state.limit == 1 && pause.is_none() {
                    pause = Some(state.pause);
                    state.pause = (state.pause * 2).min(PAUSE_MAX);
                }
                // The decrease starts from the requests in flight, if they are fewer than the
                // limit. Otherwise a limit that was never reached would have to shrink first.
                state.limit = (state.limit.min(state.under_way) / 2).max(1);
                self.limiter.show(state.limit);
                state.narrowed_at = Some(now);
            }
            state.not_before = state.not_before.max(pause.map(|pause| now + pause));
        });
    }
}

impl Drop for LimiterPermit<'_> {
    fn drop(&mut self) {
        self.limiter.with_state(|state| state.under_way -= 1);
        self.limiter.changed.notify_one();
    }
}
