//! Mode hits: gets of keys that are on flash, and of no others.

use super::super::feed::Feed;
use super::super::phase::Bench;
use super::super::report::{BenchReport, cpu_us};
use super::super::{Source, Subject};
use super::BenchError;

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let prefill = bench.prefill().await?;
    // A cache with a DRAM tier may move records between DRAM and flash at first.
    let known = bench.known().await?;
    bench.warm_up(Feed::Known(known)).await?;
    let known = bench.known().await?;
    let (total, segments) = bench.segments(|| Feed::Known(known.clone())).await?;
    let mut report = bench.report(&total);
    report.prefill_seconds = prefill.as_secs_f64();
    report.segments = segments;
    report.cpu_us_per_flash_hit = cpu_us(total.cpu, total.tally.count(Source::Flash));
    Ok(report)
}
