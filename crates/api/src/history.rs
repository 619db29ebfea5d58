//! `GET /api/v1/history`: the last hour in steps of 5 seconds, and the last day in minutes.

use serde::Serialize;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/history";

#[derive(Debug, Serialize)]
pub struct History {
    /// Names of the values of each point.
    pub fields: Vec<&'static str>,
    /// Names of the rows of the latency heat map.
    pub paths: Vec<&'static str>,
    /// Ends of its columns: a time is below the end of its column. Longer times are in the last column.
    pub bounds_ns: Vec<u64>,
    pub spans: Vec<Span>,
}

#[derive(Debug, Serialize)]
pub struct Span {
    pub interval_ns: u64,
    /// Oldest first. An interval in which a shard did not answer is left out.
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// End of the interval, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Counters: what the interval added. Gauges: the value at its end. `null`: unknown.
    pub values: Vec<Option<f64>>,
    /// `GetObject` requests by row, column and count, until the first byte; only counts above 0.
    pub heat: Vec<(u8, u8, u32)>,
}
