//! Mode idle: CPU time of a cache that serves no gets.

use std::time::Duration;

use super::super::Subject;
use super::super::feed::{Feed, Sequence};
use super::super::phase::Bench;
use super::super::process::process_cpu;
use super::super::report::{BenchReport, ModeDetail, ratio};
use super::BenchError;

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let none = Feed::Each(Sequence::new(0, 0, None));
    let window = bench.window("idle", bench.crew(none), Some(Duration::ZERO)).await?;
    bench.subject.settle().await;
    tokio::time::sleep(Duration::from_secs_f64(bench.settings.warmup_seconds)).await;
    let before = process_cpu();
    tokio::time::sleep(Duration::from_secs_f64(bench.settings.seconds)).await;
    let cpu = process_cpu().saturating_sub(before);
    let mut report = bench.report(&window);
    let cpu_share = ratio(cpu.as_secs_f64(), bench.settings.seconds).unwrap_or(0.0);
    report.detail = Some(ModeDetail::Idle { cpu_share });
    Ok(report)
}
