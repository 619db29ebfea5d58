//! Read requests: retried and hedged within the retry budget and the concurrency limit.
//!
//! 1. Wait for a turn: an origin that wants to be asked less is (`pace`).
//! 2. Ask. When the answer is late and `hedge` is set, ask once more; the first good answer counts, and the other question
//!    is given up with its connection.
//! 3. Tell the pace what came of it.
//! 4. What may pass by itself is tried again after a while, as far as the budget of retries goes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use zonal_base::mix64;

use crate::budget::Budget;
use crate::concurrency::Permit;
use crate::error::OriginError;
use crate::hedge::Hedging;
use crate::limits::Limits;
use crate::pace::{Pace, Turn};
use crate::stats::Stats;

/// The longest wait before a retry: the doubling of the backoff ends here.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How the reads of one origin are asked.
#[derive(Debug)]
pub(crate) struct Reads {
    limits: Limits,
    pace: Pace,
    retry_budget: Budget,
    hedging: Option<Hedging>,
    /// State of the random waits between retries.
    jitter: AtomicU64,
    stats: Arc<Stats>,
}

impl Reads {
    /// `at_once` is how many questions may wait for an answer when all is well: as many as there are places for.
    pub(crate) fn new(at_once: usize, limits: &Limits, stats: Arc<Stats>) -> Self {
        Self {
            pace: Pace::new(at_once, limits.wait, stats.clone()),
            retry_budget: Budget::of_retries(),
            hedging: limits.hedge.map(Hedging::new),
            limits: limits.clone(),
            jitter: AtomicU64::new(0),
            stats,
        }
    }

    /// Waits for a place. While the origin wants to be asked less, places become free too slowly to wait for them for
    /// ever.
    pub(crate) async fn placed(
        &self,
        permit: impl Future<Output = Permit>,
    ) -> Result<Permit, OriginError> {
        let mut permit = pin!(permit);
        loop {
            if let Ok(permit) = timeout(self.limits.wait, &mut permit).await {
                return Ok(permit);
            }
            if self.pace.is_narrow() {
                return Err(self.pace.refuse());
            }
        }
    }

    /// Asks until there is an answer, or a refusal that must not be repeated or was repeated often enough.
    ///
    /// `question` asks once, and gives up in time; it is over when the answer has begun.
    pub(crate) async fn ask<T, F>(&self, question: impl Fn() -> F) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, OriginError>>,
    {
        self.retry_budget.earn();
        if let Some(hedging) = &self.hedging {
            hedging.budget.earn();
        }
        let mut retries = 0;
        loop {
            let turn = self.pace.turn().await?;
            let error = match self.ask_in_turn(&question, turn).await {
                Err(error) if is_worth_a_retry(&error) => error,
                answer => return answer,
            };
            if self.limits.retries <= retries {
                return Err(error);
            }
            if !self.retry_budget.spend() {
                self.stats.retries_refused.add(1);
                return Err(error);
            }
            tokio::time::sleep(backoff(&self.limits, retries, &self.jitter)).await;
            retries += 1;
            self.stats.retries.add(1);
        }
    }

    /// Asks, and once more when the answer is late.
    async fn ask_in_turn<T, F>(
        &self,
        question: &impl Fn() -> F,
        turn: Turn<'_>,
    ) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, OriginError>>,
    {
        let began_at = Instant::now();
        let mut first = pin!(self.ask_once(question(), turn));
        let Some(hedging) = &self.hedging else { return first.await };
        let early = match hedging.after() {
            Some(after) => timeout(after, &mut first).await.ok(),
            None => Some(first.as_mut().await),
        };
        if let Some(answer) = early {
            hedging.note(began_at.elapsed());
            return answer;
        }
        let Some(turn) = self.pace.turn_now().filter(|_| hedging.budget.spend()) else {
            self.stats.hedges_refused.add(1);
            let answer = first.await;
            hedging.note(began_at.elapsed());
            return answer;
        };
        self.stats.hedges.add(1);
        let second = pin!(self.ask_once(question(), turn));
        let (answer, is_second) = first_good(first, second).await;
        self.stats.hedges_won.add(u64::from(is_second));
        hedging.note(began_at.elapsed());
        answer
    }

    /// Tells the pace what came of it.
    async fn ask_once<T>(
        &self,
        asked: impl Future<Output = Result<T, OriginError>>,
        turn: Turn<'_>,
    ) -> Result<T, OriginError> {
        let answer = asked.await;
        match &answer {
            Err(OriginError::Busy { retry_after, .. }) => {
                self.stats.slow_downs.add(1);
                turn.note_busy(*retry_after);
            }
            Err(error) if error.is_trouble() => {}
            Ok(_) | Err(_) => turn.note_well(),
        }
        answer
    }
}

/// A random wait ("full jitter"), so that many who failed together do not come back together. `drawn` counts the draws.
fn backoff(limits: &Limits, retries: u32, drawn: &AtomicU64) -> Duration {
    let bound = limits.backoff.saturating_mul(1 << retries.min(16)).min(BACKOFF_MAX);
    // The time of day is the seed: two processes that started together differ too.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let chance = mix64(drawn.fetch_add(1, Ordering::Relaxed) ^ u64::from(now.subsec_nanos()));
    bound.mul_f64((chance >> 11) as f64 / (1u64 << 53) as f64)
}

/// The first answer that a read can come to, or else the later of the two; and whether it is the second's.
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

/// Whether another answer would not be better: a refusal that will not pass is as good as a success.
fn is_good<T>(answer: &Result<T, OriginError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(OriginError::Stalled { .. }) => false,
        Err(error) => !is_worth_a_retry(error),
    }
}

/// True for failures that may pass by themselves. Silence is not among them: who waited that long
/// for an answer should not wait three times as long.
fn is_worth_a_retry(error: &OriginError) -> bool {
    match error {
        OriginError::Unreachable { .. } | OriginError::Busy { .. } => true,
        OriginError::Failed(refusal) => matches!(refusal.status, 500 | 502 | 504),
        _ => false,
    }
}
