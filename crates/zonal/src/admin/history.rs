//! History of a cache: what its points have.

use zonal_admin::{HistoryKind, Sample, Span};
use zonal_api::stats::{Answers, Savings};
use zonal_gateway::{Operation, RequestLatencies, ServedFrom};
use zonal_host::ShardStats;

use super::{Admin, Observed};

pub(super) const HISTORY: HistoryKind = HistoryKind {
    counters: &[
        "reads",
        "served_by_cache",
        "served_bytes",
        "fetched_bytes",
        "origin_requests",
        "admitted_bytes",
        "rewritten_bytes",
        "written_bytes",
        "saved_requests",
        "saved_bytes",
        "saved_cost",
    ],
    gauges: &["empty_zones", "used_bytes"],
    rows: || ServedFrom::ALL.iter().map(|from| from.name()).collect(),
    quantiles_of: None,
};

impl Admin {
    /// Samples one span until the process ends.
    pub(super) async fn keep_history(self, span: usize) {
        let mut ticks = Span::ALL[span].ticks();
        loop {
            ticks.tick().await;
            let sample = match self.node.get() {
                Some(node) => self.sample(node).await,
                None => None,
            };
            self.history.note(span, sample);
        }
    }

    async fn sample(&self, node: &Observed) -> Option<Sample> {
        let gateway = node.front.gateway()?;
        let shards = node.shards().await?;
        let answers = super::summary::answers(node, gateway);
        let savings = super::savings::savings(&answers, &shards, &self.prices.load());
        Some(sample((&answers, &savings), &shards, gateway.latencies()))
    }
}

fn sample(
    (answers, savings): (&Answers, &Savings),
    shards: &[ShardStats],
    latencies: Vec<RequestLatencies>,
) -> Sample {
    let sum = |of: fn(&ShardStats) -> u64| shards.iter().map(of).sum::<u64>() as f64;
    let used = |shard: &ShardStats| {
        let [_, open, sealed, reclaiming, _] = shard.zones;
        u64::from(open + sealed + reclaiming) * shard.zone_capacity.0
    };
    let gets = latencies.into_iter().filter(|of| of.operation == Operation::GetObject);
    Sample {
        counters: vec![
            answers.reads() as f64,
            answers.served_by_cache() as f64,
            sum(|shard| shard.cache.served_bytes),
            sum(|shard| shard.cache.fetched_bytes),
            answers.origin_requests as f64,
            sum(|shard| shard.cache.admitted_bytes),
            sum(|shard| shard.log.rewritten_bytes),
            sum(|shard| shard.log.device_written_bytes),
            savings.requests as f64,
            savings.bytes as f64,
            savings.cost,
        ],
        gauges: vec![
            sum(|shard| u64::from(shard.zones[0])),
            shards.iter().map(used).sum::<u64>() as f64,
        ],
        rows: gets.map(|of| of.first_byte).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_fits_into_4_mb() {
        assert!(HISTORY.bytes_max() <= 4_000_000, "{}", HISTORY.bytes_max());
    }
}
