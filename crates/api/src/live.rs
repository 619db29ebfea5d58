//! `GET /api/v1/live`: the whole state of a running Zonal, and then what changes, once a second.

use std::collections::BTreeMap;

use serde::Serialize;
use zonal_base::{LatencySnapshot, Nanos};
use zonal_host::RealClock;

use crate::stats::{Answers, Connections, DeviceStats, OriginStats, Savings};
use crate::switching::CachingState;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/live";

/// State without the zones, which are compared one by one.
#[derive(Debug, Serialize)]
pub struct State {
    #[serde(flatten)]
    pub header: Header,
    pub caching: CachingState,
    pub answers: Answers,
    pub savings: Savings,
    pub connections: Connections,
    pub devices: BTreeMap<usize, DeviceStats>,
    pub origins: BTreeMap<String, OriginStats>,
    /// By operation and path, such as `GetObject flash`.
    pub requests: BTreeMap<String, Requests>,
}

/// What the documents of a cache and of a block device have in common.
#[derive(Debug, Serialize)]
pub struct Header {
    pub kind: &'static str,
    pub version: &'static str,
    #[serde(flatten)]
    pub times: SampleTimes,
    /// A cache: as `/readyz` says. A block device: true while writes are served.
    pub ready: bool,
    /// What is wrong; empty if all is well.
    pub trouble: Vec<Trouble>,
}

/// When a sample was taken.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SampleTimes {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Start of the process: when it changes, all counters began again.
    pub started_at_ns: u64,
    /// Of a simulation only: all times are its virtual time, multiplied by this.
    pub slow_motion: Option<u64>,
}

impl SampleTimes {
    /// Of a process that has run since `started_at`.
    pub fn now(started_at: Nanos) -> Self {
        let at_ns = RealClock::start().now().0;
        Self { at_ns, started_at_ns: started_at.0, slow_motion: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    pub text: String,
    /// The alert of `docs/alerts.md` that says what to do.
    pub alert: &'static str,
}

/// Requests by operation and path, with their times to the first byte.
#[derive(Debug, Serialize)]
pub struct Requests {
    pub operation: String,
    pub path: String,
    #[serde(flatten)]
    pub times: Times,
}

/// Times since the start.
#[derive(Debug, Serialize)]
pub struct Times {
    pub count: u64,
    pub sum_ns: u64,
    /// Counts by the shortest time of their bucket, in nanoseconds.
    pub buckets: BTreeMap<u64, u64>,
}

impl From<&LatencySnapshot> for Times {
    fn from(times: &LatencySnapshot) -> Self {
        let buckets = times.buckets().map(|bucket| (bucket.start.0, bucket.count));
        Self { count: times.count(), sum_ns: times.sum.0, buckets: buckets.collect() }
    }
}
