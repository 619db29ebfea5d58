//! Reads: questions without a body, asked again where that is safe and the origin can bear it.
//!
//! 1. Wait for a turn: an origin that wants to be asked less is (`pace`).
//! 2. Ask. When the answer is late and `hedge` is set, ask once more; the first good answer counts, and the other question
//!    is given up with its connection.
//! 3. Tell the pace what came of it.
//! 4. What may pass by itself is tried again after a while, as far as the budget of retries goes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use zonal_base::mix64;

use super::S3Origin;
use super::answer;
use crate::error::OriginError;
use crate::limits::Limits;
use crate::pace::Turn;
use crate::places::Place;

/// The longest wait before a retry: the doubling of the backoff ends here.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

type Answer = Result<Response<Incoming>, OriginError>;

impl S3Origin {
    /// Waits for a place. While the origin wants to be asked less, places become free too slowly to wait for them for
    /// ever.
    pub(super) async fn placed(
        &self,
        place: impl Future<Output = Place>,
    ) -> Result<Place, OriginError> {
        let mut place = pin!(place);
        loop {
            if let Ok(place) = timeout(self.limits.wait, &mut place).await {
                return Ok(place);
            }
            if self.pace.is_narrow() {
                return Err(self.pace.refuse());
            }
        }
    }

    /// Sends a request without a body until it succeeds, must not be repeated, or was repeated often enough.
    pub(super) async fn read(&self, request: impl Fn() -> Request<()>) -> Answer {
        self.retry_budget.earn();
        if let Some(hedging) = &self.hedging {
            hedging.budget.earn();
        }
        let mut retries = 0;
        loop {
            let turn = self.pace.turn().await?;
            let error = match self.ask(&request, turn).await {
                Err(error) if answer::is_worth_a_retry(&error) => error,
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
    async fn ask(&self, request: &impl Fn() -> Request<()>, turn: Turn<'_>) -> Answer {
        let began_at = Instant::now();
        let mut first = pin!(self.ask_once(request(), turn));
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
        let second = pin!(self.ask_once(request(), turn));
        let (answer, is_second) = first_good(first, second).await;
        self.stats.hedges_won.add(u64::from(is_second));
        hedging.note(began_at.elapsed());
        answer
    }

    async fn ask_once(&self, request: Request<()>, turn: Turn<'_>) -> Answer {
        let answer = self.attempt(request).await;
        match &answer {
            Err(failed) if matches!(failed.error, OriginError::Busy(_)) => {
                self.stats.slow_downs.add(1);
                turn.note_busy(failed.retry_after);
            }
            Err(failed) if failed.error.is_trouble() => {}
            Ok(_) | Err(_) => turn.note_well(),
        }
        answer.map_err(|failed| failed.error)
    }
}

/// A random wait ("full jitter"), so that many who failed together do not come back together. `drawn` counts the draws.
pub(crate) fn backoff(limits: &Limits, retries: u32, drawn: &AtomicU64) -> Duration {
    let bound = limits.backoff.saturating_mul(1 << retries.min(16)).min(BACKOFF_MAX);
    // The time of day is the seed: two processes that started together differ too.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let chance = mix64(drawn.fetch_add(1, Ordering::Relaxed) ^ u64::from(now.subsec_nanos()));
    bound.mul_f64((chance >> 11) as f64 / (1u64 << 53) as f64)
}

/// The first answer that a read can come to, or else the later of the two; and whether it is the second's.
async fn first_good<F: Future<Output = Answer>, S: Future<Output = Answer>>(
    mut first: Pin<&mut F>,
    mut second: Pin<&mut S>,
) -> (Answer, bool) {
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
fn is_good(answer: &Answer) -> bool {
    match answer {
        Ok(_) => true,
        Err(OriginError::Stalled { .. }) => false,
        Err(error) => !answer::is_worth_a_retry(error),
    }
}
