//! What an origin was asked and what came of it: counters that only grow.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{KINDS, OriginError};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
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
    /// Attempts after the first of a `head` or `get`. `heads + gets + retries + forwards` is what
    /// an origin bills, and the denominator of the retry ratio.
    pub retries: Counter,
    /// Bytes of bodies received: ranges and forwarded answers, without HTTP heads.
    pub received_bytes: Counter,
    /// Bytes of forwarded bodies sent, without HTTP heads.
    pub sent_bytes: Counter,
    /// By [`OriginError::kind`]; a call that failed counts once, after its last attempt.
    errors: [Counter; KINDS.len()],
}

impl Stats {
    /// Failed calls and broken bodies, by [`OriginError::kind`]. Divide by `heads + gets + forwards`.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.errors.iter().map(Counter::get))
    }

    pub(crate) fn count_error(&self, error: &OriginError) {
        self.errors[error.kind_index()].add(1);
    }

    /// Counts the error in `result`, if there is one.
    pub(crate) fn counted<T>(&self, result: Result<T, OriginError>) -> Result<T, OriginError> {
        result.inspect_err(|error| self.count_error(error))
    }
}
