//! Advice: which cache to use for a recorded load, and what it saves.
//!
//! 1. Read the trace once: count everything, and keep the requests of some objects in memory
//!    (`sample`).
//! 2. Replay the default policy and others at many sizes (`curve`, `cut`): hits, requests to the
//!    origin, bytes written to flash.
//! 3. Choose (`choice`) by what it costs (`market`, `prices`): freshness rule (`freshness`), size,
//!    policy, chunk size, kind of drive.
//! 4. Run the choice as a whole cache on drive models, for latencies (`runs`).
//! 5. Say it in sentences (`sentences`), tables (`report`) and a page with figures (`page`,
//!    `figure`).

mod choice;
mod curve;
mod cut;
mod figure;
mod freshness;
mod market;
mod page;
mod prices;
mod report;
mod runs;
mod sample;
mod sentences;

#[cfg(test)]
mod tests;

use zonal_base::{Bytes, Nanos};

use crate::bench::Progress;
use crate::experiment::TASKS_MAX;
use crate::trace::Trace;
pub use choice::{Advice, Basis, Choice, DriveCost, PolicyCost, RuleCost, SizeCost};
pub use curve::Estimate;
pub use prices::{DriveKind, Egress, OriginPrice, Prices, ReadPrice};
pub use runs::Run;
pub use sample::{Sample, Survey};

/// Request for advice: the recorded load, and what is known about origin and drives.
#[derive(Clone, Debug)]
pub struct Question {
    /// The load.
    pub trace: Trace,
    /// Requests to use, from the start of the trace; `None`: all.
    pub requests: Option<u64>,
    /// Chunk lookups of the requests that are kept and replayed; `None`: all.
    pub lookups: Option<u64>,
    /// Size of every object, if the trace has no sizes.
    pub size: Bytes,
    /// Largest cache to recommend; `None`: any.
    pub capacity: Option<Bytes>,
    /// DRAM tier, in bytes.
    pub dram: Bytes,
    /// Gets in flight.
    pub tasks: usize,
    /// Latency of the origin to the first byte.
    pub origin_latency: Nanos,
    /// Prices of origins and drives.
    pub prices: Prices,
    /// Storage class in `prices`.
    pub origin: String,
    /// Where the cache is.
    pub egress: Egress,
    /// Reads per second; `None`: the rate of the trace.
    pub reads_per_s: Option<f64>,
    /// Seed of the runs: equal seeds give equal advice.
    pub seed: u64,
    /// Number of parallel runs.
    pub at_once: usize,
    /// Commit of the program.
    pub commit: String,
}

/// Chunk lookups that are usually kept. Their requests take 50 MB.
pub const LOOKUPS: u64 = 1 << 20;

/// Reads below which nothing can be said.
const READS_MIN: u64 = 1000;

/// Chunks below which chance decides.
const CHUNKS_MIN: u64 = 50;

/// Reads per second above which a number is none.
const RATE_MAX: f64 = 1e9;

impl Question {
    /// Checks the question, without reading the trace.
    fn check(&self) -> Result<(), String> {
        let is_size = self.size.0.is_power_of_two() && SIZES_OF_ALL.contains(&self.size);
        if !self.trace.format().has_sizes() && !is_size {
            return Err("--size: write a power of two from 4KiB to 1MiB".into());
        }
        if self.capacity.is_some_and(|capacity| capacity < curve::SIZE_MIN) {
            return Err(format!("--capacity: write {} or more", curve::SIZE_MIN));
        }
        if self.reads_per_s.is_some_and(|rate| !(0.0 < rate && rate <= RATE_MAX)) {
            return Err("--reads-per-s: write a number above 0, at most 1e9".into());
        }
        if !(1..=TASKS_MAX).contains(&self.tasks) {
            return Err(format!("--tasks: write a number from 1 to {TASKS_MAX}"));
        }
        self.prices.of(&self.origin, self.egress).map(drop)
    }

    /// Reads the trace, and keeps a sample of it.
    ///
    /// # Errors
    /// When the question makes no sense, or the trace cannot be read or is too short.
    pub fn sample(&self, progress: &Progress) -> Result<Sample, String> {
        self.check()?;
        let sample = Sample::take(self, progress)?;
        let (reads, (chunks, _)) = (sample.survey.reads, sample.footprint(curve::CHUNKS[0]));
        if reads < READS_MIN || chunks < CHUNKS_MIN {
            return Err(format!(
                "{}: not enough to advise on: {reads} reads of {chunks} different chunks. Advice \
                 needs {READS_MIN} reads of {CHUNKS_MIN} objects or chunks of {}",
                self.trace,
                curve::CHUNKS[0],
            ));
        }
        Ok(sample)
    }

    /// Replays and runs the candidates. Equal questions to the same program have equal answers.
    ///
    /// # Errors
    /// When a replay or a run failed.
    pub fn advise(&self, sample: &Sample, progress: &Progress) -> Result<Advice, String> {
        choice::advise(self, sample, progress)
    }
}

/// Allowed object sizes for traces without sizes.
const SIZES_OF_ALL: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);
