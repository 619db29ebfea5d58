//! Benchmark modes: one file each, and the steps that they share.

mod churn;
mod count;
mod hits;
mod idle;
mod insert;
mod read_through;
mod reclaim;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::sync::mpsc;
use zonal_base::{Bytes, index};

use super::feed::{Feed, Lacking, Pace, Sequence};
use super::phase::{Bench, Crew};
use super::process::resident;
use super::report::{BenchReport, Summary, ratio};
use super::settings::part_of;
use super::window::Window;
use super::{BenchSettings, Mode, Progress, Rate, Subject};
use crate::Draw;

/// Reason for a run without a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchError {
    /// The flags do not fit this cache or device: change them.
    Unfit(String),
    /// A get failed or returned wrong bytes: the cache is at fault.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BenchError {}

/// Runs the workload on a cache that took `opened` to open.
///
/// Requires: the settings were checked.
///
/// # Errors
/// When the settings do not fit the cache, or a get failed.
pub async fn run<S: Subject>(
    subject: Arc<S>,
    (settings, opened): (BenchSettings, Duration),
    progress: Progress,
) -> Result<BenchReport, BenchError> {
    let mode = settings.mode;
    let bench = Bench::new(subject, settings, progress);
    let mut report = match mode {
        Mode::ReadThrough => read_through::run(&bench).await,
        Mode::Hits => hits::run(&bench).await,
        Mode::Insert => insert::run(&bench).await,
        Mode::Reclaim => reclaim::run(&bench).await,
        Mode::Churn => churn::run(&bench).await,
        Mode::Count => count::run(&bench).await,
        Mode::Idle => idle::run(&bench).await,
    }?;
    report.open_seconds = opened.as_secs_f64();
    bench.subject.settle().await;
    report.device_written_bytes_since_open = bench.subject.counters().await.device_written_bytes;
    Ok(report)
}

/// First key of a tag. Tag 0 holds the keys of the distribution.
const fn tagged(tag: u32) -> u64 {
    (tag as u64) << 32
}

/// Tag of the keys that a churn inserts.
const STREAM: u32 = 1;

/// Multiple of the capacity that fills a cache: 10 % more than its size, so that reclaim has
/// begun.
const FILL: f64 = 1.1;

/// Largest number of keys that hits are drawn from: a sample of this size is as good as all keys.
const KNOWN_MAX: u64 = 1 << 18;

impl<S: Subject> Bench<S> {
    fn keys(&self) -> u64 {
        self.settings.key_count(self.subject.capacity())
    }

    fn draw(&self) -> Draw {
        Draw::new(self.settings.dist, self.keys(), self.settings.seed)
    }

    fn crew(&self, feed: Feed) -> Vec<Crew> {
        vec![Crew { feed, tasks: self.settings.tasks }]
    }

    /// Number of values that fill `times` the cache's flash, at least 1.
    fn capacity_values(&self, times: f64) -> u64 {
        part_of(self.subject.capacity().0 / self.settings.value.0, times).max(1)
    }

    async fn bytes_per_s(&self, rate: Rate) -> Result<Option<u64>, BenchError> {
        match rate {
            Rate::Bytes(bytes) => Ok(Some(bytes.0)),
            Rate::Max => Ok(None),
            Rate::Percent(percent) => {
                let most = self.subject.write_bandwidth().await?;
                Ok(Some(part_of(most, f64::from(percent) / 100.0).max(1)))
            }
        }
    }

    /// Creates turns for values at `bytes_per_s`, starting now; `None` for no limit.
    fn pace(&self, bytes_per_s: Option<u64>) -> Option<Pace> {
        bytes_per_s.map(|bytes_per_s| Pace::new(self.settings.value.0, bytes_per_s))
    }

    /// Inserts keys that the cache lacks, by the distribution, until the cache is full, holds all
    /// keys, or the time is over. Returns the time taken.
    async fn prefill(&self) -> Result<Duration, BenchError> {
        let start = Instant::now();
        let limit = Duration::from_secs_f64(self.settings.prefill_seconds);
        let rate = self.bytes_per_s(self.settings.prefill_rate).await?;
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let before = self.subject.counters().await;
            let wanted = self.capacity_values(FILL);
            let lacking = Lacking::new(self.draw(), wanted, self.pace(rate));
            let crew = Crew { feed: Feed::Lacking(lacking), tasks: self.settings.tasks };
            self.run_whole("filling", crew, Some(left)).await?;
            self.subject.settle().await;
            let after = self.subject.counters().await.since(before);
            // Values that were refused are tried again, unless all or none were.
            if after.refused_bytes == 0 || after.admitted_bytes == 0 || limit <= start.elapsed() {
                return Ok(start.elapsed());
            }
        }
    }

    /// Inserts `count` keys from `first` on.
    async fn insert(&self, first: u64, count: u64) -> Result<(), BenchError> {
        let rate = self.bytes_per_s(self.settings.prefill_rate).await?;
        let limit = Duration::from_secs_f64(self.settings.prefill_seconds);
        let feed = Feed::Each(Sequence::new(first, count, self.pace(rate)));
        self.run_whole("filling", Crew { feed, tasks: self.settings.tasks }, Some(limit)).await?;
        self.subject.settle().await;
        Ok(())
    }

    /// Returns those of `keys` that the cache holds.
    async fn cached(&self, keys: &[u64]) -> Result<Vec<u64>, BenchError> {
        let share = keys.len().div_ceil(self.settings.tasks).max(1);
        let (found, mut results) = mpsc::channel(self.settings.tasks);
        for (task, keys) in keys.chunks(share).enumerate() {
            let (subject, found, keys) = (self.subject.clone(), found.clone(), keys.to_vec());
            let work = async move {
                let mut cached = Vec::new();
                for key in keys {
                    if subject.contains(key).await {
                        cached.push(key);
                    }
                }
                // Send cannot fail: the receiver waits for all parts.
                let _ = found.send(cached).await;
            };
            self.subject.place(task, Box::pin(work));
        }
        drop(found);
        let mut cached = Vec::new();
        while let Some(mut part) = results.recv().await {
            cached.append(&mut part);
        }
        Ok(cached)
    }

    /// Samples the keys of the distribution that are on flash.
    async fn known(&self) -> Result<Arc<[u64]>, BenchError> {
        let (keys, mut rng) = (self.keys(), self.rng());
        let sample: Vec<u64> = match keys <= KNOWN_MAX {
            true => (0..keys).collect(),
            false => (0..KNOWN_MAX).map(|_| rng.below(keys)).collect(),
        };
        let known = self.cached(&sample).await?;
        if known.is_empty() {
            return Err(BenchError::Unfit(
                "none of the keys is on flash: raise --prefill-seconds".into(),
            ));
        }
        Ok(known.into())
    }

    async fn warm_up(&self, feed: Feed) -> Result<(), BenchError> {
        let limit = Duration::from_secs_f64(self.settings.warmup_seconds);
        self.run_ranges("warming up", self.crew(feed), Some(limit)).await.map(drop)
    }

    /// Measures all segments; returns their total and their summaries.
    async fn segments(
        &self,
        feed: impl Fn() -> Feed,
    ) -> Result<(Window, Vec<Summary>), BenchError> {
        let limit = Some(self.settings.segment());
        let mut total = self.window("measuring", self.crew(feed()), limit).await?;
        let mut segments = vec![Summary::of(&total)];
        for _ in 1..self.settings.segments {
            let window = self.window("measuring", self.crew(feed()), limit).await?;
            segments.push(Summary::of(&window));
            total = total.and_then(window);
        }
        Ok((total, segments))
    }

    /// Makes the report of a window, without the fields of single modes.
    fn report(&self, total: &Window) -> BenchReport {
        let settings = &self.settings;
        let counters = total.counters;
        let mode = settings.mode.to_possible_value();
        BenchReport {
            subject: self.subject.describe().into_iter().collect(),
            mode: mode.map_or_else(String::new, |mode| mode.get_name().to_owned()),
            value_bytes: settings.value.0,
            range_bytes: settings.range.unwrap_or(settings.value).0,
            keys: self.keys(),
            dist: settings.dist.to_string(),
            tasks: settings.tasks,
            capacity_bytes: self.subject.capacity().0,
            open_seconds: 0.0,
            prefill_seconds: 0.0,
            total: Summary::of(total),
            found_after_insert_ratio: None,
            cpu_us_per_flash_hit: None,
            device_written_bytes_since_open: 0,
            rss_bytes: resident().0,
            records: counters.records,
            index_bytes: counters.index_bytes,
            index_bytes_per_chunk: ratio(counters.index_bytes as f64, counters.records as f64),
            segments: Vec::new(),
            flash_hits: None,
            detail: None,
        }
    }

    /// Total size of `values` values.
    fn bytes_of(&self, values: u64) -> Bytes {
        Bytes(values * self.settings.value.0)
    }
}

/// Lists `count` keys from `first` on.
fn keys_from(first: u64, count: u64) -> Vec<u64> {
    let mut keys = Vec::with_capacity(index(count));
    keys.extend(first..first + count);
    keys
}
