//! Closed loops: each requests a key, reads the value to its last byte, checks it, and goes on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use zonal_base::{Bytes, Rng, mix64};

use super::feed::Feed;
use super::progress::TICK;
use super::tally::LoopTally;
use super::{BenchError, BenchSettings, Progress, Source, Subject};
use crate::Check;

/// One response in this many is checked to its last byte, the others by their stamp.
const CHECKED_ALL: u64 = 256;

/// Loops that share a feed.
pub(crate) struct Crew {
    pub(crate) feed: Feed,
    pub(crate) tasks: usize,
}

/// State shared by all phases of a run.
pub(crate) struct Bench<S> {
    pub(crate) subject: Arc<S>,
    pub(crate) settings: BenchSettings,
    progress: Progress,
    /// Random generators handed out: no two phases draw the same keys.
    begun: AtomicU64,
}

/// State of one phase for the loops of one crew.
struct Phase<S> {
    subject: Arc<S>,
    crew: Crew,
    shared: Arc<PhaseState>,
}

struct PhaseState {
    ranges: Ranges,
    deadline: Option<Instant>,
    /// Set when a loop fails: the other loops then stop.
    failed: AtomicBool,
    gets: AtomicU64,
}

/// Part of a value that a get reads: the whole, or a range at a random multiple of its size.
#[derive(Clone, Copy)]
struct Ranges {
    value: Bytes,
    range: Option<Bytes>,
}

impl Ranges {
    fn pick(self, rng: &mut Rng) -> Range<u64> {
        match self.range {
            None => 0..self.value.0,
            Some(range) => {
                let start = rng.below(self.value.0 / range.0) * range.0;
                start..start + range.0
            }
        }
    }
}

impl<S: Subject> Bench<S> {
    pub(crate) fn new(subject: Arc<S>, settings: BenchSettings, progress: Progress) -> Self {
        Self { subject, settings, progress, begun: AtomicU64::new(0) }
    }

    pub(crate) fn rng(&self) -> Rng {
        Rng::new(mix64(self.settings.seed) ^ mix64(self.begun.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Runs a phase of gets of whole values, to fill the cache.
    pub(crate) async fn run_whole(
        &self,
        name: &'static str,
        crew: Crew,
        limit: Option<Duration>,
    ) -> Result<LoopTally, BenchError> {
        let ranges = Ranges { value: self.settings.value, range: None };
        let mut tallies = self.run_phase(name, vec![crew], (ranges, limit)).await?;
        Ok(tallies.remove(0))
    }

    /// Runs a phase of gets of the range that the user chose. Returns one tally per crew.
    pub(crate) async fn run_ranges(
        &self,
        name: &'static str,
        crews: Vec<Crew>,
        limit: Option<Duration>,
    ) -> Result<Vec<LoopTally>, BenchError> {
        let ranges = Ranges { value: self.settings.value, range: self.settings.range };
        self.run_phase(name, crews, (ranges, limit)).await
    }

    /// Runs the crews until every loop has ended: at the limit, or at the end of its feed.
    async fn run_phase(
        &self,
        name: &'static str,
        crews: Vec<Crew>,
        (ranges, limit): (Ranges, Option<Duration>),
    ) -> Result<Vec<LoopTally>, BenchError> {
        let start = Instant::now();
        let shared = Arc::new(PhaseState {
            ranges,
            deadline: limit.map(|limit| start + limit),
            failed: AtomicBool::new(false),
            gets: AtomicU64::new(0),
        });
        let crew_count = crews.len();
        let task_count: usize = crews.iter().map(|crew| crew.tasks).sum();
        let (done, mut ended) = mpsc::channel(task_count);
        let mut seeds = self.rng();
        let mut phases = Vec::with_capacity(crew_count);
        let mut task = 0;
        for (number, crew) in crews.into_iter().enumerate() {
            let (subject, shared) = (self.subject.clone(), shared.clone());
            let phase = Arc::new(Phase { subject, crew, shared });
            for _ in 0..phase.crew.tasks {
                let (phase, done, rng) = (phase.clone(), done.clone(), Rng::new(seeds.next_u64()));
                let work = async move {
                    let tally = phase.gets(rng).await;
                    // Send cannot fail: the receiver waits for all loops.
                    let _ = done.send((number, tally)).await;
                };
                self.subject.place(task, Box::pin(work));
                task += 1;
            }
            phases.push(phase);
        }
        drop(done);
        self.progress.begin(name);
        let mut tallies: Vec<LoopTally> = (0..crew_count).map(|_| LoopTally::default()).collect();
        let mut waiting = task_count;
        while 0 < waiting {
            match timeout(TICK, ended.recv()).await {
                Ok(Some((number, tally))) => {
                    tallies[number].merge(tally);
                    waiting -= 1;
                }
                Ok(None) => {
                    return Err(BenchError::Failed("a thread of the cache has ended".into()));
                }
                Err(_) => self.show_progress(start, limit, &phases),
            }
        }
        match tallies.iter().find_map(|tally| tally.failure.clone()) {
            Some(failure) => Err(BenchError::Failed(failure)),
            None => Ok(tallies),
        }
    }

    fn show_progress(&self, start: Instant, limit: Option<Duration>, phases: &[Arc<Phase<S>>]) {
        let passed = start.elapsed();
        let of_limit = limit.map(|limit| passed.as_secs_f64() / limit.as_secs_f64());
        let of_feed = phases.iter().filter_map(|phase| phase.crew.feed.progress());
        let done = of_feed.chain(of_limit).fold(0.0, f64::max);
        let gets = phases[0].shared.gets.load(Ordering::Relaxed);
        self.progress.show(done, gets as f64 / passed.as_secs_f64());
    }
}

impl<S: Subject> Phase<S> {
    async fn gets(&self, mut rng: Rng) -> LoopTally {
        let mut tally = LoopTally::default();
        while !self.shared.is_over() {
            let Some(key) = self.crew.feed.next(&mut rng).await else { break };
            if let Some(lacking) = self.crew.feed.lacking() {
                if self.subject.contains(key).await {
                    continue;
                }
                lacking.turn().await;
            }
            let range = self.shared.ranges.pick(&mut rng);
            if let Err(failure) = self.get(key, range, &mut rng, &mut tally).await {
                self.shared.failed.store(true, Ordering::Relaxed);
                tally.failure = Some(failure);
                break;
            }
            // DRAM hits never yield: this gives the cache's own tasks on this thread a turn.
            tokio::task::consume_budget().await;
        }
        tally
    }

    async fn get(
        &self,
        key: u64,
        range: Range<u64>,
        rng: &mut Rng,
        tally: &mut LoopTally,
    ) -> Result<(), String> {
        let mut check = match rng.one_in(CHECKED_ALL) {
            true => Check::all(key, range.clone()),
            false => Check::stamp(key, range.clone()),
        };
        let bytes = range.end - range.start;
        let start = std::time::Instant::now();
        let source: Source = self.subject.get(key, range, &mut check).await?;
        let latency = start.elapsed();
        check.finish().map_err(|wrong| wrong.to_string())?;
        tally.add(key, source, latency, bytes);
        self.shared.gets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl PhaseState {
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}
