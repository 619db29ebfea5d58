//! `GET /api/v1/prefixes`: which buckets and prefixes cause the requests and bytes.

use serde::Serialize;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/prefixes";

#[derive(Debug, Serialize)]
pub struct Prefixes {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    pub started_at_ns: u64,
    /// What an account is of, as configured: `bucket`, `prefix`, `prefix:N` or `object`.
    pub by: String,
    pub currency: String,
    /// Those with most requests first; then others of which bytes are cached.
    pub prefixes: Vec<Prefix>,
    /// Sum of all others.
    pub others: Figures,
    /// How cached bytes were counted; `null` if they are not known yet.
    pub sample: Option<Sample>,
}

#[derive(Debug, Serialize)]
pub struct Prefix {
    /// `bucket/prefix`; of an object `bucket/key`.
    pub name: String,
    #[serde(flatten)]
    pub figures: Figures,
    /// Requests that the prefix may have had before its figures began: 0 if they are exact.
    pub earlier_requests_max: u64,
    /// Cached bytes, on flash or in memory; `null` if they are not known yet, or too few to be in the
    /// sample.
    pub resident_bytes: Option<u64>,
    /// Standard error of `resident_bytes`; 0 if they are exact.
    pub resident_error_bytes: Option<u64>,
}

/// Since the start, or since the prefix has a row.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Requests of clients for the prefix, also writes and listings.
    pub requests: u64,
    /// GET and HEAD of objects.
    pub reads: u64,
    /// Reads without bytes from an origin.
    pub served_by_cache: u64,
    pub served_bytes: u64,
    /// Reads of the origins, without retries and hedges.
    pub origin_requests: u64,
    pub origin_bytes: u64,
    /// `reads` less `origin_requests`, `served_bytes` less `origin_bytes`, and what they cost.
    pub saved_requests: i64,
    pub saved_bytes: i64,
    pub saved_cost: f64,
}

/// Sample of the cached objects, from which cached bytes are estimated.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub at_ns: u64,
    /// Objects that were visited.
    pub objects: u64,
    /// Estimated number of cached objects.
    pub cached_objects: u64,
    /// All cached objects were visited, so nothing is estimated.
    pub is_whole: bool,
}
