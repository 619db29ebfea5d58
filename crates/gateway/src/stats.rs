//! Counters of the gateway. Counters only grow; the gauge `connections_open` is the difference of
//! two of them.

use std::sync::Arc;

use http::StatusCode;
use zonal_base::LatencyHistogram;
use zonal_origin::Counter;

use crate::bypass::BypassReason;
use crate::operation::Operation;

/// Cache status of a response, as in `X-Cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Served without a request to the origin.
    Hit,
    /// The origin confirmed the version, and all bytes were cached.
    Revalidated,
    /// The head or some of the bytes came from the origin.
    Miss,
    /// The origin failed, and a version was served that was no longer fresh.
    Stale,
    /// A version was served that was no longer fresh, while the origin was asked in the background.
    Updating,
    /// The origin answered. [`BypassReason`] has the reason.
    Bypass,
}

impl CacheStatus {
    /// All values, in the order of the counters.
    pub const ALL: [Self; 6] =
        [Self::Hit, Self::Revalidated, Self::Miss, Self::Stale, Self::Updating, Self::Bypass];

    /// Value of `X-Cache`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "HIT",
            Self::Revalidated => "REVALIDATED",
            Self::Miss => "MISS",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Bypass => "BYPASS",
        }
    }
}

/// S3 error codes of failed authentication and authorization.
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

/// Classes of HTTP status: 2xx, 3xx, 4xx, 5xx.
const STATUS_CLASSES: [u16; 4] = [2, 3, 4, 5];

/// Counters of one gateway. Any thread may read them at any time.
#[derive(Debug, Default)]
pub struct Stats {
    requests: [[Counter; STATUS_CLASSES.len()]; Operation::COUNT],
    outcomes: [Counter; CacheStatus::ALL.len()],
    bypasses: [Counter; BypassReason::ALL.len()],
    refusals: [Counter; REFUSALS.len()],
    /// Bytes of response bodies that were handed to connections. Numerator of the mean response
    /// size.
    pub sent_bytes: Counter,
    /// Bytes of request bodies that were received.
    pub received_bytes: Counter,
    /// Accepted connections. Requests divided by this tell how well clients reuse connections.
    pub connections_accepted: Counter,
    /// Connections beyond the limit, answered 503 and closed. Divide by `connections_accepted`.
    pub connections_refused: Counter,
    /// Connections beyond the limit of their address, answered 503 and closed. Part of
    /// `connections_refused`.
    pub connections_refused_by_address: Counter,
    /// Connections that waited for a request, closed to make room for others.
    pub connections_evicted: Counter,
    /// Writes and other requests with a body that got no permit in time, answered 503.
    pub writes_refused: Counter,
    /// Those of them whose address or access key had its share. Part of `writes_refused`.
    pub writes_refused_by_client: Counter,
    /// Connections that timed out: the client was silent or stopped reading for too long.
    pub connections_timed_out: Counter,
    /// Requests with something unknown that were forwarded because `would-refuse` is `log`.
    pub would_refuse: Counter,
    /// Requests to an origin to confirm the expected owner of a bucket. Divide by requests.
    pub owners_asked: Counter,
    /// With `authorization = "origin"`: reads that the origin answered 304, which confirms the
    /// cached version.
    pub confirmations: Counter,
    /// Configuration reloads that replaced the terms.
    pub terms_changed: Counter,
    /// Configuration reloads that failed because of a mistake in the configuration.
    pub terms_refused: Counter,
    /// Failed TLS handshakes.
    pub handshakes_failed: Counter,
    /// Closed connections. `connections_accepted` minus this are open.
    pub connections_closed: Counter,
    /// Failed calls of `accept`, usually for lack of file descriptors.
    pub accept_errors: Counter,
    /// Responses that broke off after they had begun, because the rest was not available.
    pub responses_cut: Counter,
    /// Reads whose version disappeared after it was opened, so that the object was opened again.
    pub versions_changed: Counter,
    /// Times that writes, and other requests with a body, waited for their permit.
    pub permit_waits: LatencyHistogram,
    /// Invalidations of objects for writes: one before and one after each write.
    pub removals: Counter,
    /// Invalidations that did not reach flash. Divide by `removals`.
    pub removals_failed: Counter,
    /// Lists of buckets that lack those of an origin, because that origin failed.
    pub bucket_lists_cut: Counter,
    /// Entries of the access log that were not written: its writer was too slow, or could not
    /// write. Divide by all requests.
    pub access_lines_lost: Arc<Counter>,
}

impl Stats {
    /// Requests by operation and by first digit of the status.
    pub fn requests(&self) -> impl Iterator<Item = (Operation, u16, u64)> {
        Operation::ALL.into_iter().flat_map(move |operation| {
            let row = &self.requests[operation as usize];
            STATUS_CLASSES.into_iter().zip(row).map(move |(class, n)| (operation, class, n.get()))
        })
    }

    /// Responses with an `X-Cache` header. Hit ratio: hits (and revalidations) divided by the sum
    /// of all.
    pub fn outcomes(&self) -> impl Iterator<Item = (CacheStatus, u64)> {
        CacheStatus::ALL.into_iter().zip(self.outcomes.iter().map(Counter::get))
    }

    /// Responses with `X-Cache: BYPASS` by `X-Cache-Reason`. Their sum is the count of that
    /// outcome.
    pub fn bypasses(&self) -> impl Iterator<Item = (BypassReason, u64)> {
        BypassReason::ALL.into_iter().zip(self.bypasses.iter().map(Counter::get))
    }

    /// Requests that failed authentication or authorization, by S3 error code.
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

    pub(crate) fn count_outcome(&self, outcome: CacheStatus) {
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
        stats.count_outcome(CacheStatus::Miss);
        stats.count_refusal("SignatureDoesNotMatch");
        let seen: Vec<_> = stats.requests().filter(|(_, _, n)| *n != 0).collect();
        assert_eq!(seen, [(Operation::HeadObject, 3, 1), (Operation::Other, 5, 1)]);
        let seen: Vec<_> = stats.outcomes().filter(|(_, n)| *n != 0).collect();
        assert_eq!(seen, [(CacheStatus::Miss, 1)]);
        let seen: Vec<_> = stats.refusals().filter(|(_, n)| *n != 0).collect();
        assert_eq!(seen, [("SignatureDoesNotMatch", 1)]);
    }
}
