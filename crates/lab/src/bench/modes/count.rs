//! Mode count: finds the keys that survived a churn, and checks a sample to the last byte.

use std::sync::Arc;
use std::time::Duration;

use super::super::feed::{Feed, Sequence};
use super::super::phase::Bench;
use super::super::report::{BenchReport, ModeDetail};
use super::super::{Source, Subject};
use super::{BenchError, STREAM, keys_from, tagged};
use crate::Check;

/// One found value in this many is read and checked.
const CHECKED: usize = 16;

pub(super) async fn run<S: Subject>(bench: &Bench<S>) -> Result<BenchReport, BenchError> {
    let none = Feed::Each(Sequence::new(0, 0, None));
    let window = bench.window("counting", bench.crew(none), Some(Duration::ZERO)).await?;
    let filled = bench.cached(&keys_from(0, bench.keys())).await?;
    let inserted = bench.settings.inserted.unwrap_or(0);
    let streamed = bench.cached(&keys_from(tagged(STREAM), inserted)).await?;
    let sample: Vec<u64> = filled.iter().chain(&streamed).step_by(CHECKED).copied().collect();
    let checked = check_all(&bench.subject, &sample, bench.settings.value.0).await?;
    let mut report = bench.report(&window);
    report.detail = Some(ModeDetail::Count {
        filled_found: filled.len() as u64,
        inserted_found: streamed.len() as u64,
        checked,
    });
    Ok(report)
}

async fn check_all<S: Subject>(
    subject: &Arc<S>,
    keys: &[u64],
    value: u64,
) -> Result<u64, BenchError> {
    let mut checked = 0;
    for key in keys {
        let mut check = Check::all(*key, 0..value);
        let source = subject.get(*key, 0..value, &mut check).await.map_err(BenchError::Failed)?;
        check.finish().map_err(|wrong| BenchError::Failed(wrong.to_string()))?;
        checked += u64::from(source != Source::Miss);
    }
    Ok(checked)
}
