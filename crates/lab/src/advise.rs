//! Advice: recommends drive, policy, chunk size and spare space for a recorded load, from
//! measurements.
//!
//! 1. Read the trace once: volume and kind of its requests (`survey`).
//! 2. Replay policies, chunk sizes and capacities without a drive (`sweep`, `cut`): hits, origin
//!    requests, bytes written.
//! 3. Run the best of them (the Pareto front of the two) as a whole cache on the drive model, and
//!    the best one on its conventional twin (`finals`).
//! 4. Derive and print the recommendation (`advice`, `report`).

mod advice;
mod cut;
mod finals;
mod report;
mod survey;
mod sweep;

#[cfg(test)]
mod tests;

use zonal_base::{Bytes, Nanos};
use zonal_emulator::Model;

use crate::bench::Progress;
use crate::experiment::{Drive, TASKS_MAX};
use crate::{Recorded, Workload};
pub use advice::Advice;
pub use finals::Final;
pub use survey::Survey;
pub use sweep::Replayed;

/// Request for advice: the recorded load, the intended drive, and prices.
#[derive(Clone, Debug)]
pub struct Question {
    /// The load.
    pub recorded: Recorded,
    /// Size of every object, if the trace has no sizes.
    pub size: Bytes,
    /// Bytes of the drive that the cache may use; `None`: all.
    pub drive: Drive,
    /// Share of the drive that the cache may use; `None`: all.
    pub capacity: Option<Bytes>,
    /// DRAM tier, in bytes.
    pub dram: Bytes,
    /// Gets in flight.
    pub tasks: usize,
    /// Latency of the origin to the first byte.
    pub origin_latency: Nanos,
    /// Price of a million origin requests, in dollars.
    pub price: f64,
    /// Reads per second; `None`: the rate of the trace.
    pub reads_per_s: Option<f64>,
    /// Rated drive writes per day (DWPD), for five years.
    pub dwpd: f64,
    /// Seed: equal seeds give equal advice.
    pub seed: u64,
    /// Number of parallel runs.
    pub at_once: usize,
    /// Commit of the program.
    pub commit: String,
}

/// Minimum number of zones for a policy to have a choice.
const ZONES_MIN: u32 = 16;

/// Size of zones, and of the equivalent stretches of conventional drives.
const ZONE: Bytes = Bytes::mib(1077);

/// Drives to compare.
#[derive(Clone, Copy, Debug)]
struct Sides {
    /// Zoned drive; `None` without one.
    zoned: Option<Drive>,
    conventional: Option<Drive>,
}

impl Question {
    /// Checks the question; reads only the trace's name and beginning.
    ///
    /// # Errors
    /// When the question makes no sense.
    fn check(&self) -> Result<(), String> {
        self.recorded.check()?;
        let zones = self.zones();
        if zones < ZONES_MIN {
            return Err(format!(
                "a cache of {zones} zones of {ZONE} is too small to compare policies: write \
                 --capacity {}GiB or more; for a short trace, add --copies",
                (u64::from(ZONES_MIN) * ZONE.0).div_ceil(1 << 30)
            ));
        }
        let whole = self.drive.zones();
        if whole < zones {
            return Err(format!(
                "{} has {}GiB, less than --capacity",
                self.drive,
                (u64::from(whole) * ZONE.0) >> 30
            ));
        }
        let has_sizes = self.recorded.size_of_all(self.size).is_none();
        let is_size = self.size.0.is_power_of_two() && CHUNKS_OF_ALL.contains(&self.size);
        if !has_sizes && !is_size {
            return Err("--size: write a power of two from 4KiB to 1MiB".into());
        }
        for (name, value) in [("--price", self.price), ("--dwpd", self.dwpd)] {
            if !value.is_finite() || value <= 0.0 {
                return Err(format!("{name}: write a number above 0"));
            }
        }
        if self.reads_per_s.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return Err("--reads-per-s: write a number above 0".into());
        }
        if !(1..=TASKS_MAX).contains(&self.tasks) {
            return Err(format!("--tasks: write a number from 1 to {TASKS_MAX}"));
        }
        Ok(())
    }

    /// Reads the whole trace.
    ///
    /// # Errors
    /// When the trace cannot be read, or has no requests.
    pub fn survey(&self, progress: &Progress) -> Result<Survey, String> {
        self.check()?;
        Survey::of(self, progress)
    }

    /// Replays and runs the candidates. Equal questions to the same program have equal answers.
    ///
    /// # Errors
    /// When a run failed.
    pub fn advise(&self, survey: Survey, progress: &Progress) -> Result<Advice, String> {
        let replayed = sweep::replay(self, &survey, progress)?;
        let finals = finals::run(self, &survey, &replayed, progress)?;
        Ok(Advice::new(self, survey, replayed, finals))
    }

    /// Zones of the cache, at full size.
    fn zones(&self) -> u32 {
        let asked =
            self.capacity.map(|bytes| zonal_base::low_u32(zonal_base::index(bytes.0 / ZONE.0)));
        asked.unwrap_or_else(|| self.drive.zones())
    }

    /// Capacity of the cache, in bytes.
    fn room(&self) -> Bytes {
        Bytes(u64::from(self.zones()) * ZONE.0)
    }

    /// The named drive and its twin. Of the measured drive there is one of either kind.
    fn sides(&self) -> Sides {
        let named = |name: &str| name.parse::<Drive>().ok();
        let is_measured = [named("zn540"), named("sn540")].contains(&Some(self.drive));
        match (self.drive.model(), is_measured) {
            (_, true) => Sides { zoned: named("zn540"), conventional: named("sn540") },
            (Model::Zoned(_), false) => Sides { zoned: Some(self.drive), conventional: None },
            (Model::Conventional(_), false) => {
                Sides { zoned: None, conventional: Some(self.drive) }
            }
        }
    }

    fn workload(&self, sample: u32) -> Workload {
        Workload::Recorded(Recorded { sample, ..self.recorded.clone() })
    }
}

/// Allowed object sizes for traces without sizes.
const CHUNKS_OF_ALL: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);
