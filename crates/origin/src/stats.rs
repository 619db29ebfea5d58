//! Counters of an origin, and whether it is in trouble.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::error::{KINDS, OriginError};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that comes and goes.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one origin. Counts are of requests unless the name ends in `_bytes`.
#[derive(Debug, Default)]
pub struct Stats {
    /// Calls of `head`. Retries are not in it.
    pub heads: Counter,
    /// Calls of `get`: ranges asked for. Retries are not in it. Denominator of bytes per range.
    pub gets: Counter,
    /// Calls of `forward`.
    pub forwards: Counter,
    /// Attempts after the first of a `head` or `get`. Divide by `heads + gets`.
    pub retries: Counter,
    /// Reads that failed and were not tried again, because too many had been. Divide by `retries`.
    pub retries_refused: Counter,
    /// Second questions for a `head` or `get` that waited for its answer. Divide by `heads + gets`.
    pub hedges: Counter,
    /// Those that were answered first. Divide by `hedges`.
    pub hedges_won: Counter,
    /// Those that were not sent, because too many had been or the origin wants to be asked less.
    pub hedges_refused: Counter,
    /// Answers to a `head` or `get` that wanted us to ask less: 429, 503 or `SlowDown`, those to retries too.
    pub slow_downs: Counter,
    /// Attempts that waited because the origin wants to be asked less.
    pub reads_held: Counter,
    /// Those that would have waited for too long: the origin was not asked.
    pub reads_refused: Counter,
    /// Questions that may wait for an answer at once while the origin wants to be asked less; 0 while it does not.
    pub reads_allowed: Gauge,
    /// Calls of `probe`. `heads + gets + retries + hedges + forwards + probes` is what an origin bills.
    pub probes: Counter,
    /// Bytes of bodies received: ranges and forwarded answers, without HTTP heads.
    pub received_bytes: Counter,
    /// Bytes of forwarded bodies sent, without HTTP heads.
    pub sent_bytes: Counter,
    /// By [`OriginError::kind`]; a call that failed counts once, after its last attempt.
    errors: [Counter; KINDS.len()],
    /// The last error that spoke of the origin as a whole; none since it answered as it should.
    trouble: watch::Sender<Option<OriginError>>,
}

impl Stats {
    /// Failed calls, forwarded failures and broken bodies, by [`OriginError::kind`]. Divide by
    /// `heads + gets + forwards + probes`.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.errors.iter().map(Counter::get))
    }

    /// What is wrong with the origin as a whole, as far as its last answers tell.
    #[must_use]
    pub fn trouble(&self) -> Option<OriginError> {
        self.trouble.borrow().clone()
    }

    /// Wakes when the origin gets into trouble, into another kind of it, or out of it.
    #[must_use]
    pub fn watch_trouble(&self) -> watch::Receiver<Option<OriginError>> {
        self.trouble.subscribe()
    }

    pub(crate) fn count_error(&self, error: &OriginError) {
        if let Some(n) = error.kind_index() {
            self.errors[n].add(1);
        }
        if error.is_trouble() {
            self.trouble.send_if_modified(|known| {
                let before = known.replace(error.clone());
                before.is_none_or(|before| before.kind() != error.kind())
            });
        }
    }

    /// The origin answered as it should.
    pub(crate) fn note_well(&self) {
        if self.trouble.borrow().is_some() {
            self.trouble.send_replace(None);
        }
    }

    /// Counts the error in `result`, or notes that the origin is well.
    ///
    /// # Errors
    /// That of `result`.
    pub fn counted<T>(&self, result: Result<T, OriginError>) -> Result<T, OriginError> {
        match &result {
            Ok(_) => self.note_well(),
            Err(error) => self.count_error(error),
        }
        result
    }
}
