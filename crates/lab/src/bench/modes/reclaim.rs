//! Mode reclaim: flash hits beside writes, without and with garbage collection.
//!
//! The first window writes into empty zones. In the second window, each zone must be reclaimed
//! before it is written. The difference between the windows is the cost of garbage collection.
//!
//! 1. Insert known keys into an empty cache. Window one.
//! 2. Insert other keys until zones are reclaimed, then new known keys. Window two.

use std::sync::Arc;
use std::time::Duration;

use super::super::Subject;
use super::super::feed::{Feed, Sequence};
use super::super::phase::{Bench, Crew};
use super::super::report::{BenchReport, ModeDetail, Summary};
use super::super::window::Window;
use super::{BenchError, keys_from, tagged};

/// Number of writing loops: enough to keep the rate while each waits for its turn.
const WRITERS: usize = 4;

/// Keys of one stream: half of the keys of a tag. The warm-up has the other half.
const STREAM_MAX: u64 = 1 << 31;

/// Share of the cache that keys and writes of a window may take. Beyond it, the first window would
/// reclaim too.
const SHARE_MAX: f64 = 0.8;

/// Tags of the two sets of known keys, of the two streams, and of the keys inserted in between.
const KNOWN: [u32; 2] = [2, 3];
const WRITTEN: [u32; 2] = [4, 5];
const BETWEEN: u32 = 6;

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let count = bench.keys();
    let rate = bench.bytes_per_s(bench.settings.rate()).await?;
    check_room(bench, count, rate)?;
    let without = window(bench, 0, rate).await?;
    if 0 < without.counters.reclaims {
        return Err(BenchError::Unfit("the cache was not empty: add --format".into()));
    }
    bench.insert(tagged(BETWEEN), bench.capacity_values(1.0)).await?;
    let with = window(bench, 1, rate).await?;
    if with.counters.reclaims == 0 {
        return Err(BenchError::Unfit(
            "no zone was reclaimed: raise --seconds, --rate or --prefill-seconds".into(),
        ));
    }
    let mut report = bench.report(&with);
    let without = Summary::of(&without);
    let p999 = |summary: &Summary| summary.latency_us.flash_hit.p999;
    report.detail = Some(ModeDetail::Reclaim {
        p999_ratio: p999(&report.total) / p999(&without),
        without: Box::new(without),
    });
    Ok(report)
}

/// Refuses settings with which the first window would fill the cache.
fn check_room<S: Subject>(
    bench: &Bench<S>,
    count: u64,
    rate: Option<u64>,
) -> Result<(), BenchError> {
    let rate =
        rate.ok_or_else(|| BenchError::Unfit("--mode reclaim needs a --rate in bytes".into()))?;
    let seconds = bench.settings.seconds + bench.settings.warmup_seconds;
    let written = bench.bytes_of(count).0 as f64 + rate as f64 * seconds;
    let most = bench.subject.capacity().0 as f64 * SHARE_MAX;
    if most < written {
        return Err(BenchError::Unfit(format!(
            "keys and writes would fill the cache before the measurement ({:.0} of {:.0} MiB): \
             lower --keys, --rate or --seconds",
            written / 1048576.0,
            most / 1048576.0
        )));
    }
    Ok(())
}

/// Measures hits of keys just inserted, beside inserts of new keys at `rate`.
async fn window<S: Subject>(
    bench: &Bench<S>,
    number: usize,
    rate: Option<u64>,
) -> Result<Window, BenchError> {
    let count = bench.keys();
    bench.insert(tagged(KNOWN[number]), count).await?;
    let known: Arc<[u64]> = bench.cached(&keys_from(tagged(KNOWN[number]), count)).await?.into();
    if known.is_empty() {
        return Err(BenchError::Failed("none of the inserted keys was found".into()));
    }
    let crews = |first| {
        let stream = Sequence::new(first, STREAM_MAX, bench.pace(rate));
        let hits = Crew { feed: Feed::Known(known.clone()), tasks: bench.settings.tasks };
        vec![hits, Crew { feed: Feed::Each(stream), tasks: WRITERS }]
    };
    let span = |seconds| Some(Duration::from_secs_f64(seconds));
    let first = tagged(WRITTEN[number]);
    bench.run_ranges("warming up", crews(first), span(bench.settings.warmup_seconds)).await?;
    let first = first + STREAM_MAX;
    bench.window("measuring", crews(first), span(bench.settings.seconds)).await
}
