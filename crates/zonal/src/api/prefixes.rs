//! `GET /api/v1/prefixes`: which buckets and prefixes cause the requests and bytes.

use serde::Serialize;

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/api/v1/prefixes";

#[derive(Debug, Serialize)]
pub(crate) struct Prefixes {
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) started_at_ns: u64,
    /// What an account is of, as configured: `bucket`, `prefix`, `prefix:N` or `object`.
    pub(crate) by: String,
    pub(crate) currency: String,
    /// Those with most requests first; then others of which bytes are cached.
    pub(crate) prefixes: Vec<Prefix>,
    /// Sum of all others.
    pub(crate) others: Figures,
    /// How cached bytes were counted; `null` if they are not known yet.
    pub(crate) sample: Option<Sample>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Prefix {
    /// `bucket/prefix`; of an object `bucket/key`.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Requests that the prefix may have had before its figures began: 0 if they are exact.
    pub(crate) earlier_requests_max: u64,
    /// Cached bytes, on flash or in memory; `null` if they are not known yet, or too few to be in the
    /// sample.
    pub(crate) resident_bytes: Option<u64>,
    /// Standard error of `resident_bytes`; 0 if they are exact.
    pub(crate) resident_error_bytes: Option<u64>,
}

/// Since the start, or since the prefix has a row.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// Requests of clients for the prefix, also writes and listings.
    pub(crate) requests: u64,
    /// GET and HEAD of objects.
    pub(crate) reads: u64,
    /// Reads without bytes from an origin.
    pub(crate) served_by_cache: u64,
    pub(crate) served_bytes: u64,
    /// Reads of the origins, without retries and hedges.
    pub(crate) origin_requests: u64,
    pub(crate) origin_bytes: u64,
    /// `reads` less `origin_requests`, `served_bytes` less `origin_bytes`, and what they cost.
    pub(crate) saved_requests: i64,
    pub(crate) saved_bytes: i64,
    pub(crate) saved_cost: f64,
}

/// Sample of the cached objects, from which cached bytes are estimated.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) at_ns: u64,
    /// Objects that were visited.
    pub(crate) objects: u64,
    /// Estimated number of cached objects.
    pub(crate) cached_objects: u64,
    /// All cached objects were visited, so nothing is estimated.
    pub(crate) is_whole: bool,
}
