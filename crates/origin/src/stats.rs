//! Counters of an origin, and its health.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use zonal_base::LatencyHistogram;

use crate::accounts::{AccountUnit, Accounts, Figures};
use crate::circuit_breaker::{Circuit, CircuitBreaker};
use crate::error::{KINDS, OriginError};
use crate::object::ObjectName;

/// Monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gauge: a value that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one origin. Counts are of requests unless the name ends in `_bytes`.
#[derive(Debug, Default)]
pub struct Stats {
    /// Calls of `head`. Retries are not included.
    pub heads: Counter,
    /// Calls of `get`, one per requested range. Retries are not included. Denominator of bytes per
    /// range.
    pub gets: Counter,
    /// Calls of `forward`.
    pub forwards: Counter,
    /// Retries of a `head` or `get`. Divide by `heads + gets`.
    pub retries: Counter,
    /// Failed reads that were not retried, because the retry budget was empty. Divide by `retries`.
    pub retries_refused: Counter,
    /// Hedged requests: second requests for a `head` or `get` whose first answer is late. Divide by
    /// `heads + gets`.
    pub hedges: Counter,
    /// Hedged requests that were answered before the first request. Divide by `hedges`.
    pub hedges_won: Counter,
    /// Hedged requests not sent, because the hedge budget was empty or the origin is throttling.
    pub hedges_refused: Counter,
    /// Throttling answers to a `head` or `get`: 429, 503 or `SlowDown`, including answers to
    /// retries.
    pub slow_downs: Counter,
    /// Attempts delayed by the AIMD limit or a pause of the throttling origin.
    pub reads_held: Counter,
    /// Attempts refused without asking the origin, because the delay would exceed
    /// [`OriginLimits::wait`](crate::OriginLimits::wait).
    pub reads_refused: Counter,
    /// AIMD limit: requests that may be in flight while the origin is throttling. 0 while it is
    /// not.
    pub reads_allowed: Gauge,
    /// Requests that failed at once because the circuit breaker was open or opened. Those that were
    /// not sent count nowhere else.
    pub circuit_refusals: Counter,
    /// Calls of `probe`. An S3 origin bills `heads + gets + retries + hedges + forwards + probes`,
    /// and the requests of the bucket and upload checks, which no counter has.
    pub probes: Counter,
    /// Body bytes received, of ranges and forwarded answers, without HTTP headers.
    pub received_bytes: Counter,
    /// Body bytes sent in forwarded requests, without HTTP headers.
    pub sent_bytes: Counter,
    /// Times of `head` calls until the answer.
    pub head_latency: LatencyHistogram,
    /// Times of `get` calls until the answer begins.
    pub get_latency: LatencyHistogram,
    /// Times of `forward` calls until the answer begins. An upload takes as long as its client.
    pub forward_latency: LatencyHistogram,
    /// Times that `head` and `get` calls waited for a concurrency permit. Part of their latency.
    pub permit_waits: LatencyHistogram,
    /// Errors by [`OriginError::kind`]. A failed call counts once, after its last attempt.
    errors: [Counter; KINDS.len()],
    /// The last error that concerns the origin as a whole. `None` after a good answer.
    trouble: watch::Sender<Option<OriginError>>,
    pub(crate) circuit: CircuitBreaker,
    /// Reads by prefix, if somebody wants to know.
    accounts: OnceLock<Accounts>,
}

impl Stats {
    /// Counts reads by prefix from now on. Requires: this is the first call.
    pub fn keep_accounts(&self, unit: AccountUnit) {
        // Only the first call has an effect.
        let _ = self.accounts.set(Accounts::new(unit));
    }

    /// Reads by prefix, if they are counted.
    #[must_use]
    pub fn accounts(&self) -> Option<&Accounts> {
        self.accounts.get()
    }

    /// Counts a read of an object, and its bytes.
    pub(crate) fn note_read(&self, object: &ObjectName, bytes: u64) {
        if let Some(accounts) = self.accounts.get() {
            let (origin_requests, origin_bytes) = (1, bytes);
            let figures = Figures { origin_requests, origin_bytes, ..Figures::default() };
            accounts.note(&object.bucket, &object.key, &figures);
        }
    }

    /// Failed calls, forwarded failures and broken bodies, by [`OriginError::kind`]. Divide by
    /// `heads + gets + forwards + probes`.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.errors.iter().map(Counter::get))
    }

    /// The origin's current problem, as far as its last answers show.
    #[must_use]
    pub fn trouble(&self) -> Option<OriginError> {
        self.trouble.borrow().clone()
    }

    /// Notifies when a problem of the origin begins, changes its kind, or ends.
    #[must_use]
    pub fn watch_trouble(&self) -> watch::Receiver<Option<OriginError>> {
        self.trouble.subscribe()
    }

    /// State of the circuit breaker.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.circuit.state()
    }

    /// Times that the circuit breaker opened.
    #[must_use]
    pub fn circuit_opens(&self) -> u64 {
        self.circuit.opens.get()
    }

    /// Notifies when the state of the circuit breaker changes.
    #[must_use]
    pub fn watch_circuit(&self) -> watch::Receiver<Circuit> {
        self.circuit.subscribe()
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

    /// Clears the problem, after a good answer.
    pub(crate) fn note_well(&self) {
        if self.trouble.borrow().is_some() {
            self.trouble.send_replace(None);
        }
    }

    /// Counts the error in `result`, or clears the problem after a success.
    ///
    /// # Errors
    /// The error of `result`.
    pub fn counted<T>(&self, result: Result<T, OriginError>) -> Result<T, OriginError> {
        match &result {
            Ok(_) => self.note_well(),
            Err(error) => self.count_error(error),
        }
        result
    }
}
