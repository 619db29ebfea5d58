//! Latencies of a running Zonal, from all its parts.

use zonal_base::{LatencyHistogram, LatencySnapshot};
use zonal_gateway::{Gateway, RequestLatencies};
use zonal_host::ShardStats;
use zonal_origin::Stats as OriginStats;

use zonal_api::latency::{
    CommandLatency, Histogram, Latencies, OriginLatency, Queue, QueueLatency, RequestLatency,
};

/// Collects the latencies since the start.
pub(super) fn collect<'a>(
    shards: &[ShardStats],
    gateway: &Gateway,
    origins: impl Iterator<Item = (&'a str, &'a OriginStats)>,
) -> Latencies {
    let mut queues: Vec<QueueLatency> = shards.iter().map(shard_queue).collect();
    let permits = Histogram(gateway.stats().permit_waits.snapshot());
    queues.push(QueueLatency { queue: Queue::Permit, latency: permits });
    let mut of_origins = Vec::new();
    for (name, stats) in origins {
        of_origins.extend(requests(name, stats));
        let (queue, latency) = (Queue::Origin(name.to_owned()), stats.permit_waits.snapshot());
        queues.push(QueueLatency { queue, latency: Histogram(latency) });
    }
    Latencies {
        requests: gateway.latencies().into_iter().map(request).collect(),
        commands: commands(shards),
        origins: of_origins,
        queues,
    }
}

fn request(of: RequestLatencies) -> RequestLatency {
    RequestLatency {
        operation: of.operation.name().to_owned(),
        path: of.from.name().to_owned(),
        first_byte: Histogram(of.first_byte),
        last_byte: Histogram(of.last_byte),
    }
}

fn shard_queue(stats: &ShardStats) -> QueueLatency {
    let ShardStats { device, shard, queue, .. } = stats;
    let place = Queue::Shard { device: *device, shard: *shard };
    QueueLatency { queue: place, latency: Histogram(queue.snapshot()) }
}

/// Commands of each device, summed over its shards.
fn commands(shards: &[ShardStats]) -> Vec<CommandLatency> {
    let count = shards.iter().map(|shard| shard.device + 1).max().unwrap_or(0);
    let of_device =
        |device| {
            let mut sums: [LatencySnapshot; 3] = Default::default();
            let shards = shards.iter().filter(move |shard| shard.device == device);
            for commands in shards.filter_map(|shard| shard.commands.as_deref()) {
                let each = [&commands.reads, &commands.writes, &commands.flushes];
                let both = sums.iter_mut().zip(each.map(LatencyHistogram::snapshot));
                both.for_each(|(sum, each)| sum.merge(&each));
            }
            ["read", "write", "flush"].into_iter().zip(sums).map(move |(command, sum)| {
                CommandLatency { device, command: command.to_owned(), latency: Histogram(sum) }
            })
        };
    (0..count).flat_map(of_device).collect()
}

fn requests(origin: &str, stats: &OriginStats) -> [OriginLatency; 3] {
    let each = [
        ("head", &stats.head_latency),
        ("get", &stats.get_latency),
        ("forward", &stats.forward_latency),
    ];
    each.map(|(request, latency)| OriginLatency {
        origin: origin.to_owned(),
        request: request.to_owned(),
        latency: Histogram(latency.snapshot()),
    })
}
