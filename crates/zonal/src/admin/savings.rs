//! Savings: what the cache has saved at the origins since the start.

use zonal_api::stats::{Answers, Savings};
use zonal_host::ShardStats;

use crate::config::Prices;

/// Compares the reads with the same reads without a cache: one origin request for each, and each
/// byte once for each time that it was served. Negative if the cache has asked for more.
pub(super) fn savings(answers: &Answers, shards: &[ShardStats], prices: &Prices) -> Savings {
    let sum = |of: fn(&ShardStats) -> u64| shards.iter().map(of).sum::<u64>();
    let served = sum(|shard| shard.cache.served_bytes);
    let fetched = sum(|shard| shard.cache.fetched_bytes);
    let requests = difference(answers.reads(), answers.origin_requests);
    let bytes = difference(served, fetched);
    let cost = cost((requests, bytes), prices);
    Savings { requests, bytes, cost, currency: prices.currency.clone() }
}

/// What an origin would have charged for requests and bytes.
pub(super) fn cost((requests, bytes): (i64, i64), prices: &Prices) -> f64 {
    requests as f64 / 1e6 * prices.million_reads + bytes as f64 / f64::from(1 << 30) * prices.gib
}

fn difference(of: u64, less: u64) -> i64 {
    of.cast_signed().wrapping_sub(less.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cost_by_the_million_and_may_be_more_than_without_a_cache() {
        let prices = Prices { million_reads: 0.4, gib: 0.09, currency: "USD".into() };
        let answers = Answers { hit: 3_000_000, origin_requests: 500_000, ..Answers::default() };
        let saved = savings(&answers, &[], &prices);
        assert_eq!((saved.requests, saved.bytes, saved.cost), (2_500_000, 0, 1.0));
        let answers = Answers { hit: 1, origin_requests: 3, ..Answers::default() };
        assert_eq!(savings(&answers, &[], &prices).requests, -2);
    }
}
