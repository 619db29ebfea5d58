//! Experiments as data: a workload on a cache on a drive, run in virtual time at full size.
//!
//! 1. An [`Experiment`] says everything that its result depends on; [`File`] reads several from TOML (`file`).
//! 2. The drive is made, and written over first if that is asked for (`ground`).
//! 3. The cache runs (`run`), and what it showed is an [`Outcome`], in whole numbers, so that it can be kept and read again
//!    without a digit lost (`outcome`).
//! 4. [`Campaign`] runs many, on all cores, and keeps what each gave, so that an interruption costs one run at most.
//! 5. [`Results`] shows them: a table, CSV, JSON, figures, a page.

mod campaign;
mod file;
mod ground;
mod outcome;
mod results;
mod run;
mod shown;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zonal_base::{Bytes, Nanos};
use zonal_emulator::Model;

use crate::Workload;
use crate::simulated::Habits;
pub use campaign::{Campaign, CampaignError, Done, Run};
pub use file::{Experiments, File, FileError};
pub(crate) use outcome::GIB;
pub use outcome::{DriveBytes, Outcome};
pub(crate) use results::{Column, millis};
pub use results::{Results, Shown};
pub(crate) use run::ZNSCCACHE_HOST;
pub use run::run;

/// A cache on a drive under a workload. Equal experiments have equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Which cache.
    pub cache: Engine,
    /// The model of the drive.
    #[serde(with = "text")]
    pub drive: Drive,
    /// What is done to the drive first.
    #[serde(with = "text")]
    pub precondition: Precondition,
    /// Zones that the cache uses, of 1077 MiB; on a drive without zones stretches of that length.
    pub zones: u32,
    /// What a get gets. A cache of threads keeps it as one chunk; Zonal cuts it as it cuts everything. Where a trace has
    /// objects with sizes, gets get those, and this is what they are cut into.
    #[serde(with = "text")]
    pub chunk: Bytes,
    /// What is kept, and memory for it: for Zonal only.
    pub policy: String,
    /// Memory before flash: for Zonal only.
    #[serde(with = "text")]
    pub dram: Bytes,
    /// What is asked for.
    pub workload: Workload,
    /// Keys that there are; 0 when a trace says it.
    pub keys: u64,
    /// Gets; 0 when a trace says it.
    pub gets: u64,
    /// Gets that are under way together.
    pub tasks: usize,
    /// From a question to the origin to the last byte of a chunk; of objects of their own, to the first.
    #[serde(with = "text")]
    pub origin_latency: Nanos,
    /// How far the origin's answers to ZNSCCache are spread: the standard deviation of a lognormal distribution whose geometric
    /// mean is `origin_latency`. 0: all take as long.
    #[serde(with = "text", default = "at_once", skip_serializing_if = "is_at_once")]
    pub origin_sd: Nanos,
    /// A cache of threads claims a zone for a miss before it asks the origin.
    pub hold_zone_during_fetch: bool,
    /// What ZNSCCache does as its code has it, besides what its paper describes.
    #[serde(with = "text")]
    pub habits: Habits,
    /// ZNSCCache begins no get after so long.
    #[serde(with = "text")]
    pub limit: Nanos,
    /// Equal seeds, equal histories.
    pub seed: u64,
}

const fn at_once() -> Nanos {
    Nanos(0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_at_once(span: &Nanos) -> bool {
    span.0 == 0
}

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Threads that do everything themselves, as ZNCache has it, and promote whole zones (ZPLRU).
    Zncache,
    /// One get after the other, as ZNSCCache has it; the zone whose chunks are oldest on average goes.
    Znsccache,
    /// The engine that serves users.
    Zonal,
}

/// Which drive: the model of one, `zn540`, or a smaller one with as much of it spare, `sn540?size=90GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drive {
    name: &'static str,
    /// Of the host's part of a conventional drive. `None`: as the drive is.
    size: Option<Bytes>,
}

/// What is done to a drive before the cache has it. Drives with zones are empty in any case: the cache resets them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: it was never written, or all of it was trimmed.
    Nothing,
    /// All of it is written once, in pieces of this size, in random order.
    Random(Bytes),
    /// So is the part that the cache uses; the rest was never written, or trimmed: it is spare.
    Used(Bytes),
}

impl Drive {
    /// The model.
    #[must_use]
    pub fn model(self) -> Model {
        match (Model::by_name(self.name), self.size) {
            (Some(Model::Conventional(profile)), Some(size)) => {
                Model::Conventional(Box::new(profile.scaled_to(size)))
            }
            (model, _) => model.expect("looked up when it was made"),
        }
    }

    /// The same with so much for the host, or with all that it has if that is less. Requires: a conventional drive, and
    /// 8 GiB or more.
    pub(crate) fn with_size(self, size: Bytes) -> Self {
        let whole = Self { size: None, ..self };
        let is_less =
            u64::from(whole.zones()) * whole.model().geometry().zone_capacity.bytes().0 > size.0;
        Self { size: is_less.then_some(size), ..self }
    }

    /// Zones that it has.
    #[must_use]
    pub fn zones(self) -> u32 {
        self.model().geometry().zone_count
    }
}

/// Smaller models of drives would not hold a few zones.
const SIZE_MIN: Bytes = Bytes::mib(8 << 10);

impl FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, size) = text
            .split_once("?size=")
            .map_or((text, None), |(name, size)| (name, Some(size.parse::<Bytes>())));
        let Some(name) = Model::NAMES.into_iter().find(|known| *known == name) else {
            let names = Model::NAMES.join(", ");
            return Err(format!("there is no model of a drive {text:?}: write {names}"));
        };
        let size = size.transpose().map_err(|error| error.to_string())?;
        let whole = match Model::by_name(name) {
            Some(Model::Conventional(profile)) => profile.user_blocks().bytes(),
            _ => Bytes(0),
        };
        match size {
            Some(_) if whole == Bytes(0) => {
                Err(format!("{name} has zones: say how many are used, zones = 40"))
            }
            Some(size) if size < SIZE_MIN || whole < size => {
                Err(format!("{name} has {SIZE_MIN} to {}GiB here", whole.0 >> 30))
            }
            size => Ok(Self { name, size }),
        }
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.size.map_or(Ok(()), |size| write!(f, "?size={size}"))
    }
}

const PRECONDITIONS: &str =
    "write nothing, or random:SIZE or used:SIZE with a power of two from 4KiB to 1MiB";

impl FromStr for Precondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "nothing" {
            return Ok(Self::Nothing);
        }
        let make = match text.split(':').next() {
            Some("random") => Self::Random,
            Some("used") => Self::Used,
            _ => return Err(PRECONDITIONS.into()),
        };
        match text.split_once(':').map(|(_, piece)| piece.parse::<Bytes>()) {
            Some(Ok(piece)) if piece.0.is_power_of_two() && Self::PIECES.contains(&piece) => {
                Ok(make(piece))
            }
            Some(Err(error)) => Err(error.to_string()),
            _ => Err(PRECONDITIONS.into()),
        }
    }
}

impl Precondition {
    /// Sizes that a drive can be written over with.
    const PIECES: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Random(piece) => write!(f, "random:{piece}"),
            Self::Used(piece) => write!(f, "used:{piece}"),
        }
    }
}

/// Values that are written as text, with their units.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
