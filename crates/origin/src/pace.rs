//! AIMD concurrency limit per origin, driven by 503 `SlowDown` and `Retry-After`, with a circuit breaker.
//!
//! 1. An answer that says "slow down" halves how many may be under way, once for all that were under way together.
//! 2. When one at a time is too many, or the answer names a time (`Retry-After`), nobody asks for a while: 100 ms, and twice
//!    as long each time, up to 5 s.
//! 3. Each good answer lets one more be under way, until all may: as many more in each round as there were in the last.
//!
//! Who would wait for longer than a client hears is told to come back, without asking the origin.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::OriginError;
use crate::stats::Stats;

/// The first pause. As long as the first wait before a retry.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest that we choose ourselves: an origin that is well again is found so late at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest that `Retry-After` is believed: a mistake in it should not outlast a coffee.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The pace of one origin's reads.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Under way at once when all is well.
    widest: usize,
    /// Who waits longer is told to come back.
    wait: Duration,
    state: Mutex<State>,
    changed: Notify,
    stats: Arc<Stats>,
}

#[derive(Debug)]
struct State {
    under_way: usize,
    /// How many may be.
    limit: usize,
    /// Who asked before has nothing to say any more about the limit.
    narrowed_at: Option<Instant>,
    /// Nobody asks before.
    not_before: Option<Instant>,
    /// The next pause, when one is needed.
    pause: Duration,
}

/// The right to ask once. Dropped without a word, it says nothing of the origin.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pace: &'a Pace,
    began_at: Instant,
}

enum Entrance {
    Open(Instant),
    /// Somebody has to leave first.
    Full,
    Closed(Instant),
}

impl Pace {
    pub(crate) fn new(widest: usize, wait: Duration, stats: Arc<Stats>) -> Self {
        let state = State {
            under_way: 0,
            limit: widest,
            narrowed_at: None,
            not_before: None,
            pause: PAUSE_MIN,
        };
        Self { widest, wait, state: Mutex::new(state), changed: Notify::new(), stats }
    }

    /// Whether the origin is asked less than it could be.
    pub(crate) fn is_narrow(&self) -> bool {
        self.with_state(|state| state.limit < self.widest || state.not_before.is_some())
    }

    /// The right to ask, if it is there and the origin is asked as fast as it could be.
    pub(crate) fn turn_now(&self) -> Option<Turn<'_>> {
        if self.is_narrow() {
            return None;
        }
        match self.enter(Instant::now()) {
            Entrance::Open(began_at) => Some(Turn { pace: self, began_at }),
            Entrance::Full | Entrance::Closed(_) => None,
        }
    }

    /// Waits for the right to ask.
    ///
    /// # Errors
    /// [`OriginError::Busy`] when it would not come within the time that somebody may wait.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, OriginError> {
        let until = Instant::now() + self.wait;
        let mut has_waited = false;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on nothing is missed.
            changed.as_mut().enable();
            let wake = match self.enter(Instant::now()) {
                Entrance::Open(began_at) => return Ok(Turn { pace: self, began_at }),
                Entrance::Full => until,
                Entrance::Closed(not_before) => not_before,
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

    /// Our word for it. The origin is not asked.
    pub(crate) fn refuse(&self) -> OriginError {
        self.stats.reads_refused.add(1);
        OriginError::slow_down("the origin wants to be asked less")
    }

    fn enter(&self, now: Instant) -> Entrance {
        self.with_state(|state| match state.not_before {
            Some(not_before) if now < not_before => Entrance::Closed(not_before),
            _ if state.limit <= state.under_way => Entrance::Full,
            _ => {
                state.not_before = None;
                state.under_way += 1;
                Entrance::Open(now)
            }
        })
    }

    fn show(&self, limit: usize) {
        let allowed = if limit < self.widest { limit } else { 0 };
        self.stats.reads_allowed.set(allowed as u64);
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // Each change is whole by itself.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Turn<'_> {
    /// The origin answered as it should.
    pub(crate) fn note_well(&self) {
        let pace = self.pace;
        let is_wider = pace.with_state(|state| {
            state.pause = PAUSE_MIN;
            let is_narrow = state.limit < pace.widest;
            state.limit += usize::from(is_narrow);
            pace.show(state.limit);
            is_narrow
        });
        if is_wider {
            pace.changed.notify_one();
        }
    }

    /// The origin wants fewer questions, and perhaps none for so long.
    pub(crate) fn note_busy(&self, retry_after: Option<Duration>) {
        let now = Instant::now();
        self.pace.with_state(|state| {
            let is_news = state.narrowed_at.is_none_or(|at| at <= self.began_at);
            let mut pause = retry_after.map(|after| after.min(RETRY_AFTER_MAX));
            if is_news {
                if state.limit == 1 && pause.is_none() {
                    pause = Some(state.pause);
                    state.pause = (state.pause * 2).min(PAUSE_MAX);
                }
                // What was allowed beyond what was under way was of no use.
                state.limit = (state.limit.min(state.under_way) / 2).max(1);
                self.pace.show(state.limit);
                state.narrowed_at = Some(now);
            }
            state.not_before = state.not_before.max(pause.map(|pause| now + pause));
        });
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pace.with_state(|state| state.under_way -= 1);
        self.pace.changed.notify_one();
    }
}
