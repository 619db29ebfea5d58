//! Read requests to an origin: retried and hedged within the retry budget and the concurrency
//! limit.
//!
//! 1. Wait for the AIMD limiter (`aimd`), which delays requests while the origin is throttling.
//! 2. Send the request. If `hedge` is set and the answer is late, send a hedged request. The first
//!    good answer counts; the other request is cancelled by closing its connection.
//! 3. Report the result to the limiter.
//! 4. After a transient failure, back off and retry, as far as the retry budget allows.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use zonal_base::mix64;

use crate::aimd::{AimdLimiter, LimiterPermit};
use crate::concurrency::Permit;
use crate::error::OriginError;
use crate::hedge::Hedging;
use crate::limits::OriginLimits;
use crate::retry_budget::RetryBudget;
use crate::stats::Stats;

/// Upper bound of the exponential backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Sends the reads of one origin.
#[derive(Debug)]
pub(crate) struct Reads {
    limits: OriginLimits,
    limiter: AimdLimiter,
    retry_budget: RetryBudget,
    hedging: Option<Hedging>,
    /// State of the backoff jitter: the number of draws.
    jitter: AtomicU64,
    stats: Arc<Stats>,
}

impl Reads {
    /// `at_once` is the maximum of requests in flight when the origin is well: the number of
    /// concurrency permits.
    pub(crate) fn new(at_once: usize, limits: &OriginLimits, stats: Arc<Stats>) -> Self {
        Self {
            limiter: AimdLimiter::new(at_once, limits.wait, stats.clone()),
            retry_budget: RetryBudget::of_retries(),
            hedging: limits.hedge.map(Hedging::new),
            limits: limits.clone(),
            jitter: AtomicU64::new(0),
            stats,
        }
    }

    /// Waits for a concurrency permit. While the origin is throttling, permits become free slowly,
    /// so the wait is limited to [`OriginLimits::wait`]. Otherwise it is unlimited.
    pub(crate) async fn placed(
        &self,
        permit: impl Future<Output = Permit>,
    ) -> Result<Permit, OriginError> {
        let asked_at = Instant::now();
        let mut permit = pin!(permit);
        loop {
            if let Ok(permit) = timeout(self.limits.wait, &mut permit).await {
                self.stats.permit_waits.record_shared(asked_at.elapsed().into());
                return Ok(permit);
            }
            if self.limiter.is_narrow() {
                return Err(self.limiter.refuse());
            }
        }
    }

    /// Sends a request until it succeeds, fails with an error that must not be retried, or exhausts
    /// its retries.
    ///
    /// `question` sends the request once, with its own timeout. It completes when the answer
    /// begins.
    pub(crate) async fn ask<T, F>(&self, question: impl Fn() -> F) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, OriginError>>,
    {
        self.retry_budget.deposit();
        if let Some(hedging) = &self.hedging {
            hedging.budget.deposit();
        }
        let mut retries = 0;
        loop {
            let permit = self.limiter.acquire().await?;
            let error = match self.ask_with_permit(&question, permit).await {
                Err(error) if is_worth_a_retry(&error) => error,
                answer => return answer,
            };
            if self.limits.retries <= retries {
                return Err(error);
            }
            if !self.retry_budget.try_take() {
                self.stats.retries_refused.add(1);
                return Err(error);
            }
            tokio::time::sleep(backoff(&self.limits, retries, &self.jitter)).await;
            retries += 1;
            self.stats.retries.add(1);
        }
    }

    /// Sends a request, and a hedged request if the answer is late.
    async fn ask_with_permit<T, F>(
        &self,
        question: &impl Fn() -> F,
        permit: LimiterPermit<'_>,
    ) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, OriginError>>,
    {
        let began_at = Instant::now();
        let mut first = pin!(self.ask_once(question(), permit));
        let Some(hedging) = &self.hedging else { return first.await };
        let early = match hedging.after() {
            Some(after) => timeout(after, &mut first).await.ok(),
            None => Some(first.as_mut().await),
        };
        if let Some(answer) = early {
            hedging.record_latency(began_at.elapsed());
            return answer;
        }
        let Some(permit) = self.limiter.try_acquire().filter(|_| hedging.budget.try_take()) else {
            self.stats.hedges_refused.add(1);
            let answer = first.await;
            hedging.record_latency(began_at.elapsed());
            return answer;
        };
        self.stats.hedges.add(1);
        let second = pin!(self.ask_once(question(), permit));
        let (answer, is_second) = first_good(first, second).await;
        self.stats.hedges_won.add(u64::from(is_second));
        hedging.record_latency(began_at.elapsed());
        answer
    }

    /// Sends one request, and reports its result to the limiter.
    async fn ask_once<T>(
        &self,
        asked: impl Future<Output = Result<T, OriginError>>,
        permit: LimiterPermit<'_>,
    ) -> Result<T, OriginError> {
        let answer = asked.await;
        match &answer {
            Err(OriginError::Throttled { retry_after, .. }) => {
                self.stats.slow_downs.add(1);
                permit.on_throttled(*retry_after);
            }
            Err(error) if error.is_trouble() => {}
            Ok(_) | Err(_) => permit.on_success(),
        }
        answer
    }
}

/// Random backoff with full jitter, so that clients that failed together do not retry together.
/// `drawn` counts the draws.
fn backoff(limits: &OriginLimits, retries: u32, drawn: &AtomicU64) -> Duration {
    let bound = limits.backoff.saturating_mul(1 << retries.min(16)).min(BACKOFF_MAX);
    // The time of day is the seed, so that two processes that started together differ.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let chance = mix64(drawn.fetch_add(1, Ordering::Relaxed) ^ u64::from(now.subsec_nanos()));
    bound.mul_f64((chance >> 11) as f64 / (1u64 << 53) as f64)
}

/// The first final answer, or else the later of the two. The flag is true for the answer of
/// `second`.
async fn first_good<T>(
    mut first: Pin<&mut impl Future<Output = Result<T, OriginError>>>,
    mut second: Pin<&mut impl Future<Output = Result<T, OriginError>>>,
) -> (Result<T, OriginError>, bool) {
    let (mut is_first_over, mut is_second_over) = (false, false);
    poll_fn(|cx| {
        if !is_first_over && let Poll::Ready(answer) = first.as_mut().poll(cx) {
            is_first_over = true;
            if is_good(&answer) || is_second_over {
                return Poll::Ready((answer, false));
            }
        }
        if !is_second_over && let Poll::Ready(answer) = second.as_mut().poll(cx) {
            is_second_over = true;
            if is_good(&answer) || is_first_over {
                return Poll::Ready((answer, true));
            }
        }
        Poll::Pending
    })
    .await
}

/// True if the answer is final. A permanent refusal is as final as a success.
fn is_good<T>(answer: &Result<T, OriginError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(OriginError::Stalled { .. }) => false,
        Err(error) => !is_worth_a_retry(error),
    }
}

/// True for transient failures. A timeout is not among them: a client that waited for one timeout
/// must not wait for three more.
fn is_worth_a_retry(error: &OriginError) -> bool {
    match error {
        OriginError::Unreachable { .. } | OriginError::Throttled { .. } => true,
        OriginError::Failed(refusal) => matches!(refusal.status, 500 | 502 | 504),
        _ => false,
    }
}
