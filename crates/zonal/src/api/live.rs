//! `GET /api/v1/live`: the whole state of a running Zonal, and then what changes, once a second.

use std::collections::BTreeMap;

use serde::Serialize;
use zonal_base::LatencySnapshot;

use crate::stats::{Answers, Connections, DeviceStats, OriginStats, Savings};
use crate::switching::CachingState;

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/api/v1/live";

/// State without the zones, which are compared one by one.
#[derive(Debug, Serialize)]
pub(crate) struct State {
    pub(crate) kind: &'static str,
    pub(crate) version: &'static str,
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) started_at_ns: u64,
    pub(crate) caching: CachingState,
    pub(crate) ready: bool,
    /// What is wrong; empty if all is well.
    pub(crate) trouble: Vec<Trouble>,
    pub(crate) answers: Answers,
    pub(crate) savings: Savings,
    pub(crate) connections: Connections,
    pub(crate) devices: BTreeMap<usize, DeviceStats>,
    pub(crate) origins: BTreeMap<String, OriginStats>,
    /// By operation and path, such as `GetObject flash`.
    pub(crate) requests: BTreeMap<String, Requests>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Trouble {
    pub(crate) text: String,
    /// The alert of `docs/alerts.md` that says what to do.
    pub(crate) alert: &'static str,
}

/// Requests by operation and path, with their times to the first byte.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    pub(crate) operation: String,
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) times: Times,
}

/// Times since the start.
#[derive(Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    /// Counts by the shortest time of their bucket, in nanoseconds.
    pub(crate) buckets: BTreeMap<u64, u64>,
}

impl From<&LatencySnapshot> for Times {
    fn from(times: &LatencySnapshot) -> Self {
        let buckets = times.buckets().map(|bucket| (bucket.start.0, bucket.count));
        Self { count: times.count(), sum_ns: times.sum.0, buckets: buckets.collect() }
    }
}
