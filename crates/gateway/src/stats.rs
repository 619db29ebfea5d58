//! Counters of the gateway. They only grow, but for one gauge.

use std::sync::Arc;

use http::StatusCode;
use zonal_origin::Counter;

use crate::bypass::BypassReason;
use crate::operation::Operation;

/// Where an answer came from, as `X-Cache` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing went to the origin.
    Hit,
    /// The origin confirmed the version; all bytes were cached.
    Revalidated,
    /// The head or some byte came from the origin.
    Miss,
    /// The origin failed, and the version was not fresh any more.
    Stale,
    /// The origin answered; [`BypassReason`] says why.
    Bypass,
}

impl Outcome {
    /// All, in the order of the counters.
    pub const ALL: [Self; 5] =
        [Self::Hit, Self::Revalidated, Self::Miss, Self::Stale, Self::Bypass];

    /// The value of `X-Cache`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "HIT",
            Self::Revalidated => "REVALIDATED",
            Self::Miss => "MISS",
            Self::Stale => "STALE",
            Self::Bypass => "BYPASS",
        }
    }
}

/// Why a request was not let in, as its S3 error code says it.
const REFUSALS: [&str; 10] = [
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "AuthorizationQueryParametersError",
    "InvalidAccessKeyId",
    "InvalidArgument",
    "InvalidRequest",
    "InvalidToken",
    "NotImplemented",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// The classes of HTTP status that an answer can have: 2xx, 3xx, 4xx, 5xx.
const STATUS_CLASSES: [u16; 4] = [2, 3, 4, 5];

/// Counters of one gateway. Any thread may read them at any time.
#[derive(Debug, Default)]
pub struct Stats {
    requests: [[Counter; STATUS_CLASSES.len()]; Operation::COUNT],
    outcomes: [Counter; Outcome::ALL.len()],
    bypasses: [Counter; BypassReason::ALL.len()],
    refusals: [Counter; REFUSALS.len()],
    /// Bytes of response bodies that were handed to connections. Numerator of the mean answer.
    pub sent_bytes: Counter,
    /// Bytes of request bodies that were received.
    pub received_bytes: Counter,
    /// Connections that were accepted. Requests divided by it tell how well clients keep them.
    pub connections_accepted: Counter,
    /// Connections beyond the limit, answered 503 and closed. Divide by `connections_accepted`.
    pub connections_refused: Counter,
    /// Connections that were closed because the client was silent or stopped reading for too long.
    pub connections_timed_out: Counter,
    /// Requests that would be refused for what they carry, and were let through because the configuration says so.
    pub would_refuse: Counter,
    /// Questions to an origin whether a bucket is the account's that a client expects. Divide by requests.
    pub owners_asked: Counter,
    /// Requests of clients that an origin which judges them answered 304: it confirmed what is cached.
    pub confirmations: Counter,
    /// Terms that took the place of others.
    pub terms_changed: Counter,
    /// Terms that did not, because whoever wrote them made a mistake.
    pub terms_refused: Counter,
    /// TLS handshakes that came to nothing.
    pub handshakes_failed: Counter,
    /// Connections that were closed. `connections_accepted` less this are open.
    pub connections_closed: Counter,
    /// `accept` failed, mostly for lack of file descriptors.
    pub accept_errors: Counter,
    /// Responses that broke off after they had begun, because the rest could not be had.
    pub responses_cut: Counter,
    /// Requests that found another version than the one they had opened, and opened again.
    pub versions_changed: Counter,
    /// Objects that were invalidated for writes: once before and once after each.
    pub removals: Counter,
    /// Removals that did not reach flash. Divide by `removals`.
    pub removals_failed: Counter,
    /// Lists of buckets without those that an origin did not tell.
    pub bucket_lists_cut: Counter,
    /// Lines of the access log that were not written: its writer was too far behind, or could not write. Divide by
    /// all requests.
    pub access_lines_lost: Arc<Counter>,
}

impl Stats {
    /// Requests by operation and first digit of the status.
    pub fn requests(&self) -> impl Iterator<Item = (Operation, u16, u64)> {
        Operation::ALL.into_iter().flat_map(move |operation| {
            let row = &self.requests[operation as usize];
            STATUS_CLASSES.into_iter().zip(row).map(move |(class, n)| (operation, class, n.get()))
        })
    }

    /// Answers with an `X-Cache` header. Hit ratio: hits (and revalidations) by the sum of all.
    pub fn outcomes(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.outcomes.iter().map(Counter::get))
    }

    /// Answers with `X-Cache: BYPASS` by `X-Cache-Reason`. Their sum is that outcome's.
    pub fn bypasses(&self) -> impl Iterator<Item = (BypassReason, u64)> {
        BypassReason::ALL.into_iter().zip(self.bypasses.iter().map(Counter::get))
    }

    /// Requests that were not let in, by S3 error code.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSALS.into_iter().zip(self.refusals.iter().map(Counter::get))
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections_open(&self) -> u64 {
        self.connections_accepted.get().saturating_sub(self.connections_closed.get())
    }

    pub(crate) fn count_request(&self, operation: Operation, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(2, 5) - 2;
        self.requests[operation as usize][class].add(1);
    }

    pub(crate) fn count_outcome(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].add(1);
    }

    pub(crate) fn count_bypass(&self, reason: BypassReason) {
        self.bypasses[reason as usize].add(1);
    }

    pub(crate) fn count_refusal(&self, code: &str) {
        if let Some(n) = REFUSALS.iter().position(|known| *known == code) {
            self.refusals[n].add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_where_they_were_put() {
        let stats = Stats::default();
        stats.count_request(Operation::HeadObject, StatusCode::NOT_MODIFIED);
        stats.count_request(Operation::Other, StatusCode::SERVICE_UNAVAILABLE);
        stats.count_outcome(Outcome::Miss);
        stats.count_refusal("SignatureDoesNotMatch");
        let seen: Vec<_> = stats.requests().filter(|(_, _, n)| *n != 0).collect();
        assert_eq!(seen, [(Operation::HeadObject, 3, 1), (Operation::Other, 5, 1)]);
        let seen: Vec<_> = stats.outcomes().filter(|(_, n)| *n != 0).collect();
        assert_eq!(seen, [(Outcome::Miss, 1)]);
        let seen: Vec<_> = stats.refusals().filter(|(_, n)| *n != 0).collect();
        assert_eq!(seen, [("SignatureDoesNotMatch", 1)]);
    }
}
