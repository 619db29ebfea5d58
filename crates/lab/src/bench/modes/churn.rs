//! Mode churn: fills the cache, inserts at a rate and prints live counts; the process may be
//! killed.
//!
//! Each line is a JSON object: `live` keys at the start of the stream, and keys `inserted` and
//! `evicted` since then. A restart finds at most `live + inserted - evicted` keys.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use super::super::feed::{Feed, Sequence};
use super::super::phase::Bench;
use super::super::report::BenchReport;
use super::super::{Counters, Subject};
use super::{BenchError, STREAM, keys_from, tagged};

/// Interval between lines: the last line lacks at most 50 ms of inserts.
const LINE: Duration = Duration::from_millis(50);

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let prefill = bench.prefill().await?;
    let live = bench.cached(&keys_from(0, bench.keys())).await?.len();
    let rate = bench.bytes_per_s(bench.settings.rate()).await?;
    let before = bench.subject.counters().await;
    let printer = tokio::spawn(print_lines(bench.subject.clone(), live, before));
    let limit = Some(Duration::from_secs_f64(bench.settings.seconds));
    let feed = Feed::Each(Sequence::new(tagged(STREAM), 1 << 32, bench.pace(rate)));
    let window = bench.window("churning", bench.crew(feed), limit).await;
    printer.abort();
    let mut report = bench.report(&window?);
    report.prefill_seconds = prefill.as_secs_f64();
    Ok(report)
}

async fn print_lines<S: Subject>(subject: Arc<S>, live: usize, before: Counters) {
    loop {
        let since = subject.counters().await.since(before);
        print_line(live, since.misses, since.evicted);
        tokio::time::sleep(LINE).await;
    }
}

fn print_line(live: usize, inserted: u64, evicted: u64) {
    let mut out = std::io::stdout().lock();
    let line = format!("{{\"live\":{live},\"inserted\":{inserted},\"evicted\":{evicted}}}");
    // An error means that the reader of standard output hung up: the line may be lost.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
