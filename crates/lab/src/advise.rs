//! Which drive, policy, chunk size and spare space for a load that was recorded: measured, and then said in words.
//!
//! 1. The trace is read once: how much it asks for, and of what (`survey`).
//! 2. Policies, chunk sizes and capacities are replayed on it without a drive (`sweep`, `cut`): hits, requests to the
//!    origin, bytes written.
//! 3. The few that no other beats in both are run as a whole cache on the model of the drive, and the best of them
//!    on its twin without zones (`finals`).
//! 4. What follows from that is written down (`advice`, `report`).

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
use crate::experiment::Drive;
use crate::{Recorded, Workload};
pub use advice::Advice;
pub use finals::Final;
pub use survey::Survey;
pub use sweep::Replayed;

/// What advice is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The load.
    pub recorded: Recorded,
    /// What objects have, where the trace has no sizes.
    pub size: Bytes,
    /// The drive that is thought of.
    pub drive: Drive,
    /// How much of it; `None`: all.
    pub capacity: Option<Bytes>,
    /// Memory before flash.
    pub dram: Bytes,
    /// Gets that are under way together.
    pub tasks: usize,
    /// To the first byte of an object.
    pub origin_latency: Nanos,
    /// What the origin takes for a million requests, in dollars.
    pub price: f64,
    /// Reads in a second; `None`: as the trace says.
    pub reads_per_s: Option<f64>,
    /// Drive writes per day, for five years, that the drive is rated for.
    pub dwpd: f64,
    /// Equal seeds, equal advice.
    pub seed: u64,
    /// Runs at the same time.
    pub at_once: usize,
    /// What the program was built from.
    pub commit: String,
}

/// Zones that a cache needs for its policy to have a choice.
const ZONES_MIN: u32 = 16;

/// Zones, and stretches of drives without, are as large.
const ZONE: Bytes = Bytes::mib(1077);

/// The drives that are compared.
#[derive(Clone, Copy, Debug)]
struct Sides {
    /// `None`: there is none of the kind.
    zoned: Option<Drive>,
    conventional: Option<Drive>,
}

impl Question {
    /// # Errors
    /// When it cannot be meant so; nothing was read but the trace's name and beginning.
    fn check(&self) -> Result<(), String> {
        self.recorded.check()?;
        let zones = self.zones();
        if zones < ZONES_MIN {
            return Err(format!(
                "a cache of {zones} zones of {ZONE} leaves its policy no choice: --capacity {}GiB or more; a short trace \
                 fills that with --copies",
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
        if self.tasks == 0 {
            return Err("--tasks: there is nothing to do".into());
        }
        Ok(())
    }

    /// Reads the trace to its end.
    ///
    /// # Errors
    /// When it cannot be, or asks for nothing.
    pub fn survey(&self, progress: &Progress) -> Result<Survey, String> {
        self.check()?;
        Survey::of(self, progress)
    }

    /// Replays and runs. Equal questions to one program have equal answers.
    ///
    /// # Errors
    /// When a run failed.
    pub fn advise(&self, survey: Survey, progress: &Progress) -> Result<Advice, String> {
        let replayed = sweep::replay(self, &survey, progress)?;
        let finals = finals::run(self, &survey, &replayed, progress)?;
        Ok(Advice::new(self, survey, replayed, finals))
    }

    /// Zones that the cache has, at full size.
    fn zones(&self) -> u32 {
        let asked =
            self.capacity.map(|bytes| zonal_base::low_u32(zonal_base::index(bytes.0 / ZONE.0)));
        asked.unwrap_or_else(|| self.drive.zones())
    }

    /// What it may fill, in bytes.
    fn room(&self) -> Bytes {
        Bytes(u64::from(self.zones()) * ZONE.0)
    }

    /// The drive that was named, and its twin. Of the measured drive there is one of either kind.
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

/// Sizes that objects may have where the trace has none.
const CHUNKS_OF_ALL: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);
