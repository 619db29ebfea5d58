//! `GET /api/v1/latency`: latencies since the start.

use serde::{Deserialize, Serialize};
use zonal_base::{LatencyBucket, LatencySnapshot, Nanos};

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/latency";

/// Latencies by what was waited for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    pub requests: Vec<RequestLatency>,
    pub commands: Vec<CommandLatency>,
    pub origins: Vec<OriginLatency>,
    pub queues: Vec<QueueLatency>,
}

/// Requests of one S3 operation, by the slowest thing that they waited for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestLatency {
    pub operation: String,
    pub path: String,
    pub first_byte: Histogram,
    pub last_byte: Histogram,
}

/// Commands to one device: `read`, `write` or `flush`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandLatency {
    pub device: usize,
    pub command: String,
    pub latency: Histogram,
}

/// Requests to one origin: `head`, `get` or `forward`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OriginLatency {
    pub origin: String,
    pub request: String,
    pub latency: Histogram,
}

/// Waits in one queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueLatency {
    pub queue: Queue,
    pub latency: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Reads before the engine of their shard.
    Shard { device: usize, shard: usize },
    /// Reads before a connection slot of an origin.
    Origin(String),
    /// Requests with a body before their permit.
    Permit,
}

/// A histogram. In JSON it has quantiles, which a reader would have to compute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Document", from = "Document")]
pub struct Histogram(pub LatencySnapshot);

/// Form of a histogram. All times are in nanoseconds.
#[derive(Serialize, Deserialize)]
struct Document {
    count: u64,
    sum_ns: u64,
    /// At most a bucket too long; `null` without a recorded time.
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    /// Shortest time and count of each bucket that has any, from short to long.
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for Document {
    fn from(Histogram(latencies): Histogram) -> Self {
        let quantile = |part| latencies.quantile(part, 1000).map(|time| time.0);
        let bucket = |LatencyBucket { start, count, .. }| (start.0, count);
        Self {
            count: latencies.count(),
            sum_ns: latencies.sum.0,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            buckets: latencies.buckets().map(bucket).collect(),
        }
    }
}

impl From<Document> for Histogram {
    fn from(document: Document) -> Self {
        let mut latencies = LatencySnapshot::default();
        for (start, count) in document.buckets {
            latencies.add(Nanos(start), count);
        }
        latencies.sum = Nanos(document.sum_ns);
        Self(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_as_it_was_written() {
        let mut latencies = LatencySnapshot::default();
        for (time, count) in [(Nanos(50), 2), (Nanos::micros(250), 96), (Nanos::secs(3), 2)] {
            latencies.add(time, count);
        }
        let json = serde_json::to_string(&Histogram(latencies.clone())).unwrap();
        assert_eq!(
            json,
            r#"{"count":100,"sum_ns":6024000100,"p50_ns":260000,"p90_ns":260000,"#.to_owned()
                + r#""p99_ns":3100000000,"p999_ns":3100000000,"#
                + r#""buckets":[[0,2],[250000,96],[3000000000,2]]}"#
        );
        let Histogram(read) = serde_json::from_str(&json).unwrap();
        assert_eq!(read, latencies);
    }
}
