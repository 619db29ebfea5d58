//! Mode read-through: gets by the distribution; missing values are fetched and admitted.
//!
//! 1. Fill the cache, warm up, measure segment by segment.
//! 2. Of the most recent misses, count the keys found after all writes have settled.
//! 3. Read only keys known to be on flash, to measure the CPU time of a flash hit.

use std::time::Duration;

use super::super::feed::Feed;
use super::super::phase::Bench;
use super::super::report::{BenchReport, Summary, cpu_us, ratio};
use super::super::{Source, Subject};
use super::BenchError;

/// Longest phase of flash hits: 3 s, or the measured time if that is shorter.
const HITS_MAX: Duration = Duration::from_secs(3);

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let prefill = bench.prefill().await?;
    let draw = bench.draw();
    bench.warm_up(Feed::Draw(draw)).await?;
    let (total, segments) = bench.segments(|| Feed::Draw(draw)).await?;
    let mut report = bench.report(&total);
    report.prefill_seconds = prefill.as_secs_f64();
    report.segments = segments;

    bench.subject.settle().await;
    let mut inserted: Vec<u64> = total.tally.recent_misses.into();
    // A small cache may have evicted the first of these keys again.
    let most = bench.capacity_values(1.0 / 16.0);
    inserted.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    inserted.sort_unstable();
    inserted.dedup();
    let found = bench.cached(&inserted).await?.len();
    report.found_after_insert_ratio = ratio(found as f64, inserted.len() as f64);

    let known = bench.known().await?;
    let limit = HITS_MAX.min(Duration::from_secs_f64(bench.settings.seconds));
    let crew = bench.crew(Feed::Known(known));
    let hits = bench.window("flash hits", crew, Some(limit)).await?;
    report.cpu_us_per_flash_hit = cpu_us(hits.cpu, hits.tally.count(Source::Flash));
    report.flash_hits = Some(Summary::of(&hits));
    Ok(report)
}
