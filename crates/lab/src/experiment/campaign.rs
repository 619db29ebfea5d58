//! Campaign: runs many experiments on all cores and stores their results, so that none runs twice.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zonal_watch::Watched;

use super::run::run_watched;
use super::{Engine, Experiment, Outcome, run};
use crate::bench::Progress;

/// An experiment that can run by itself. Equal experiments give equal outcomes.
pub trait Run: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync {
    /// Result of a run.
    type Outcome: Clone + PartialEq + Serialize + DeserializeOwned + Send;

    /// Runs the experiment. `on_progress` receives the finished fraction from time to time.
    ///
    /// # Errors
    /// When the experiment cannot run. The text gives the reason.
    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Self::Outcome, String>;
}

/// What an experiment runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Drive, or capacity drive of a block device.
    pub device: String,
    /// Buffer of a block device.
    pub buffer: Option<String>,
    /// Policy of a cache.
    pub policy: String,
    /// Times that a viewer should see it slower than it is.
    pub slow_motion: u64,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        if let Some(buffer) = &self.buffer {
            write!(f, ", buffer {buffer}")?;
        }
        if !self.policy.is_empty() {
            write!(f, ", policy {}", self.policy)?;
        }
        Ok(())
    }
}

/// An experiment with zones that a watcher can see.
pub trait Watchable: Run {
    /// Checks that there is something to see.
    ///
    /// # Errors
    /// There is not. The text starts with the key to change.
    fn check_watchable(&self) -> Result<(), String>;

    /// What a watcher is told of it.
    fn subject(&self) -> Subject;

    /// Runs the experiment before a watcher.
    ///
    /// # Errors
    /// As for [`Run::run`].
    fn run_watched(
        &self,
        on_progress: &dyn Fn(f64),
        watched: &Watched,
    ) -> Result<Self::Outcome, String>;
}

impl Run for Experiment {
    type Outcome = Outcome;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
        run(self, on_progress)
    }
}

impl Watchable for Experiment {
    fn check_watchable(&self) -> Result<(), String> {
        match self.cache {
            Engine::Zonal => Ok(()),
            Engine::Zncache | Engine::Znsccache => {
                let name = self.cache.name();
                Err(format!("cache: {name} cannot be watched: write zonal"))
            }
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            device: format!("{} of {} zones", self.drive, self.zones),
            buffer: None,
            policy: self.policy.clone(),
            slow_motion: 1,
        }
    }

    fn run_watched(&self, on_progress: &dyn Fn(f64), watched: &Watched) -> Result<Outcome, String> {
        run_watched(self, on_progress, watched)
    }
}

/// Experiments to run.
#[derive(Clone, Debug)]
pub struct Campaign<E = Experiment> {
    /// Experiments, in the order of their results.
    pub experiments: Vec<E>,
    /// Number of parallel runs. Each takes one core, and at full drive size up to 3 GiB of memory.
    pub at_once: usize,
    /// Directory that stores the results. `None`: results are not stored.
    pub kept: Option<PathBuf>,
    /// Commit of the program. Results of another commit are not reused.
    pub commit: String,
}

/// An experiment and its outcome, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound = "")]
pub struct Done<E: Run = Experiment> {
    /// Commit of the program that ran it.
    pub commit: String,
    /// The experiment.
    pub experiment: E,
    /// Outcome of the run.
    pub outcome: E::Outcome,
}

/// Reason why a campaign stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CampaignError {
    /// An experiment cannot run as it is.
    Experiment(String),
    /// A result could not be stored.
    Kept(String),
}

impl fmt::Display for CampaignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Experiment(why) | Self::Kept(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CampaignError {}

impl From<CampaignError> for String {
    fn from(error: CampaignError) -> Self {
        error.to_string()
    }
}

/// Units of the progress of an experiment.
const PARTS: f64 = 1_000_000.0;

impl<E> Campaign<E> {
    /// A campaign with the same settings for other experiments.
    pub fn of<F: Run>(&self, experiments: Vec<F>) -> Campaign<F> {
        let Self { at_once, kept, commit, .. } = self;
        let (kept, commit) = (kept.clone(), commit.clone());
        Campaign { experiments, at_once: *at_once, kept, commit }
    }
}

impl<E: Run> Campaign<E> {
    /// Runs experiments without a stored result. The results have the order of the experiments.
    ///
    /// # Errors
    /// When an experiment cannot run, or a result cannot be stored. Results until then are stored.
    pub fn run(&self, progress: &Progress) -> Result<Vec<Done<E>>, CampaignError> {
        if let Some(folder) = &self.kept {
            fs::create_dir_all(folder).map_err(|error| not_kept(folder, &error))?;
        }
        progress.begin("experiments");
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Done<E>>>> =
            self.experiments.iter().map(|_| Mutex::default()).collect();
        let parts: Vec<AtomicU64> = self.experiments.iter().map(|_| AtomicU64::new(0)).collect();
        let failure = Mutex::new(None);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(experiment) = self.experiments.get(at) else { return };
                let on_progress = |part: f64| {
                    parts[at].store(whole(part * PARTS), Ordering::Relaxed);
                    let sum: u64 = parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
                    progress.show_share(sum as f64 / PARTS / parts.len() as f64);
                };
                match self.one(experiment, &on_progress) {
                    Ok(one) => *locked(&done[at]) = Some(one),
                    Err(why) => {
                        locked(&failure).get_or_insert(why);
                        next.store(self.experiments.len(), Ordering::Relaxed);
                    }
                }
                on_progress(1.0);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.at_once.clamp(1, self.experiments.len().max(1)) {
                scope.spawn(work);
            }
        });
        if let Some(why) = locked(&failure).take() {
            return Err(why);
        }
        Ok(done.iter().filter_map(|one| locked(one).take()).collect())
    }

    /// Runs all experiments, one after the other, before a watcher. Stored results are not used.
    ///
    /// # Errors
    /// When an experiment cannot run.
    pub fn run_watched(
        &self,
        progress: &Progress,
        mut watch: impl FnMut(&E) -> Watched,
    ) -> Result<Vec<Done<E>>, CampaignError>
    where
        E: Watchable,
    {
        progress.begin("experiments");
        let count = self.experiments.len() as f64;
        let one = |(at, experiment): (usize, &E)| {
            let on_progress = |part: f64| progress.show_share((at as f64 + part) / count);
            let outcome = experiment.run_watched(&on_progress, &watch(experiment));
            let outcome = outcome.map_err(CampaignError::Experiment)?;
            Ok(Done { commit: self.commit.clone(), experiment: experiment.clone(), outcome })
        };
        self.experiments.iter().enumerate().map(one).collect()
    }

    fn one(&self, experiment: &E, on_progress: &dyn Fn(f64)) -> Result<Done<E>, CampaignError> {
        let path = self.kept.as_ref().map(|folder| folder.join(name_of(experiment)));
        if let Some(kept) = path.as_deref().and_then(|path| self.find(path, experiment)) {
            return Ok(kept);
        }
        let outcome = experiment.run(on_progress).map_err(CampaignError::Experiment)?;
        let done = Done { commit: self.commit.clone(), experiment: experiment.clone(), outcome };
        if let Some(path) = path {
            keep(&path, &done).map_err(|error| not_kept(&path, &error))?;
        }
        Ok(done)
    }

    /// Stored result of the same experiment by the same commit. Any other file counts as absent.
    fn find(&self, path: &Path, experiment: &E) -> Option<Done<E>> {
        let text = fs::read_to_string(path).ok()?;
        let kept: Done<E> = serde_json::from_str(&text).ok()?;
        (kept.commit == self.commit && kept.experiment == *experiment).then_some(kept)
    }
}

fn not_kept(path: &Path, error: &std::io::Error) -> CampaignError {
    CampaignError::Kept(format!("{}: {error}", path.display()))
}

/// Writes a result under a temporary name, then renames it: a file with its final name is complete.
fn keep<E: Run>(path: &Path, done: &Done<E>) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(done)?;
    let half = path.with_extension("half");
    fs::write(&half, text + "\n")?;
    fs::rename(half, path)
}

/// File name of an experiment. Names may collide: the file's content identifies the experiment.
fn name_of<E: Run>(experiment: &E) -> String {
    let text = serde_json::to_string(experiment).expect("an experiment is plain values");
    let (low, high) = (crc32c::crc32c(text.as_bytes()), crc32c::crc32c_append(1, text.as_bytes()));
    format!("{high:08x}{low:08x}.json")
}

/// Locks the mutex. No holder panics.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of PARTS")]
const fn whole(part: f64) -> u64 {
    part as u64
}
