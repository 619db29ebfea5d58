//! Mode insert: inserts new distinct keys once, at a rate, then reads all of them back.
//!
//! Every run uses new keys, so that records of an earlier run are not found by mistake.

use std::time::{SystemTime, UNIX_EPOCH};

use zonal_base::{Rng, low_u32};

use super::super::feed::{Feed, Sequence};
use super::super::phase::Bench;
use super::super::report::{BenchReport, ModeDetail, Summary, cpu_us, ratio};
use super::super::{Rate, Source, Subject};
use super::{BenchError, keys_from, tagged};

/// Lowest tag of insert runs.
const RUN: u32 = 1 << 31;

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let (first, count) = (tagged(run_tag()), bench.keys());
    let rate = bench.settings.rate();
    let bytes_per_s = bench.bytes_per_s(rate).await?;
    let before = bench.subject.counters().await;
    let feed = Feed::Each(Sequence::new(first, count, bench.pace(bytes_per_s)));
    let inserting = bench.window("inserting", bench.crew(feed), None).await?;
    bench.subject.settle().await;
    let settled = bench.subject.counters().await.since(before);
    let found = bench.cached(&keys_from(first, count)).await?.len() as u64;
    let feed = Feed::Each(Sequence::new(first, count, None));
    // The write bandwidth may have changed since the rate was derived from it.
    let left_bytes_per_s = match rate {
        Rate::Percent(_) => Some(bench.subject.write_bandwidth().await?),
        Rate::Bytes(_) | Rate::Max => None,
    };
    let read_back = bench.window("reading back", bench.crew(feed), None).await?;

    let mut report = bench.report(&inserting);
    report.found_after_insert_ratio = ratio(found as f64, count as f64);
    if read_back.tally.count(Source::Miss) == 0 {
        report.cpu_us_per_flash_hit = cpu_us(read_back.cpu, read_back.tally.count(Source::Flash));
    }
    let (written, admitted) = (settled.device_written_bytes, settled.admitted_bytes);
    report.detail = Some(ModeDetail::Insert {
        rate_bytes_per_s: bytes_per_s.unwrap_or(0),
        write_bandwidth_after_bytes_per_s: left_bytes_per_s,
        inserted: count,
        found,
        device_written_bytes: written,
        admitted_bytes: admitted,
        device_written_per_admitted: ratio(written as f64, admitted as f64),
        read_back: Box::new(Summary::of(&read_back)),
    });
    Ok(report)
}

/// Draws another tag for each run.
fn run_tag() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rng = Rng::new(now.as_secs() ^ u64::from(now.subsec_nanos()) << 32);
    RUN | low_u32(zonal_base::index(rng.below(u64::from(RUN))))
}
