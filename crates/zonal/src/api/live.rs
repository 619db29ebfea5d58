//! `GET /api/v1/live`: the whole state of a running Zonal, and then what changes, once a second.

use std::collections::BTreeMap;

use serde::Serialize;

use super::zones::Zone;
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

/// Times to the first byte since the start.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    pub(crate) operation: String,
    pub(crate) path: String,
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    /// Counts by the shortest time of their bucket, in nanoseconds.
    pub(crate) buckets: BTreeMap<u64, u64>,
}

/// Zones of one shard, by their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shard {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) zone_bytes: u64,
    pub(crate) zones: BTreeMap<u32, Zone>,
}
