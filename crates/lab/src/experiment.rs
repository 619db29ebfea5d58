//! Experiments as data: a workload on a cache on a drive, run in virtual time at full size.
//!
//! 1. An [`Experiment`] holds everything that its result depends on. [`File`] reads several from
//!    TOML (`file`).
//! 2. The drive model is created, and preconditioned if the experiment says so (`ground`).
//! 3. The cache runs (`run`). Its result is an [`Outcome`] of whole numbers, so that it can be
//!    stored and read again without loss (`outcome`).
//! 4. [`Campaign`] runs many experiments on all cores and stores each result, so that an
//!    interruption costs one run per core at most.
//! 5. [`Results`] shows them: as a table, CSV, JSON, charts, a page.

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
pub use campaign::{Campaign, CampaignError, Done, Run, Subject, Watchable};
pub use file::{Experiments, File, FileError};
pub(crate) use outcome::GIB;
pub use outcome::{DriveBytes, Outcome};
pub(crate) use results::{Column, millis};
pub use results::{Results, Shown};
pub(crate) use run::TASKS_MAX;
pub(crate) use run::ZNSCCACHE_HOST;
pub use run::run;

/// A cache on a drive under a workload. Equal experiments have equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Cache that runs.
    pub cache: Engine,
    /// Drive model.
    #[serde(with = "text")]
    pub drive: Drive,
    /// State of the drive before the cache starts.
    #[serde(with = "text")]
    pub precondition: Precondition,
    /// Zones that the cache uses, of 1077 MiB. On a conventional drive, ranges of that length.
    pub zones: u32,
    /// Bytes of one get. A cache of threads keeps them as one chunk, and Zonal cuts them into its
    /// own chunks. In a trace with object sizes, gets read whole objects, and this is their chunk
    /// size.
    #[serde(with = "text")]
    pub chunk: Bytes,
    /// Policy of the cache. A published cache knows one or two, Zonal all with their options.
    pub policy: String,
    /// Memory before flash in bytes. For Zonal only.
    #[serde(with = "text")]
    pub dram: Bytes,
    /// Workload.
    pub workload: Workload,
    /// Number of keys. 0 when a trace defines it.
    pub keys: u64,
    /// Number of gets. 0 when a trace defines it.
    pub gets: u64,
    /// Gets in flight.
    pub tasks: usize,
    /// Latency of the origin, from the request to the last byte of a chunk. For objects of a trace,
    /// to the first byte.
    #[serde(with = "text")]
    pub origin_latency: Nanos,
    /// Standard deviation of the origin's latency in ZNSCCache. The latency is lognormal with the
    /// geometric mean `origin_latency`. 0: all latencies are equal.
    #[serde(with = "text", default = "at_once", skip_serializing_if = "is_at_once")]
    pub origin_sd: Nanos,
    /// A multi-threaded cache claims a zone for a miss before its request to the origin.
    pub hold_zone_during_fetch: bool,
    /// Habits of ZNSCCache's published code, beyond its paper.
    #[serde(with = "text")]
    pub habits: Habits,
    /// Time after which ZNSCCache starts no get.
    #[serde(with = "text")]
    pub limit: Nanos,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

const fn at_once() -> Nanos {
    Nanos(0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_at_once(span: &Nanos) -> bool {
    span.0 == 0
}

/// Cache that an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// ZNCache: each thread runs whole gets and promotes whole zones (ZPLRU).
    Zncache,
    /// ZNSCCache: one get after the other. Eviction takes the zone whose chunks are oldest on
    /// average.
    Znsccache,
    /// Zonal's cache engine, as in production.
    Zonal,
}

/// Drive of an experiment: a model, `zn540`, or a smaller one with the same share of spare room,
/// `sn540?size=90GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drive {
    name: &'static str,
    /// Size of the user's part of a conventional drive. `None`: the size of the model.
    size: Option<Bytes>,
}

/// State of a drive before the cache starts. Zoned drives are always empty: the cache resets all
/// zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The drive was never written, or was trimmed.
    Nothing,
    /// The whole drive is written once, in pieces of this size in random order.
    Random(Bytes),
    /// The part that the cache uses is written like this. The rest was never written, or was
    /// trimmed, and is spare.
    Used(Bytes),
}

impl Drive {
    /// Drive model of this name and size.
    #[must_use]
    pub fn model(self) -> Model {
        match (Model::by_name(self.name), self.size) {
            (Some(Model::Conventional(profile)), Some(size)) => {
                Model::Conventional(Box::new(profile.scaled_to(size)))
            }
            (model, _) => model.expect("looked up when it was made"),
        }
    }

    /// The same drive with this user size, or its full size if that is less. Requires: a
    /// conventional drive, and 8 GiB or more.
    pub(crate) fn with_size(self, size: Bytes) -> Self {
        let whole = Self { size: None, ..self };
        let is_less =
            u64::from(whole.zones()) * whole.model().geometry().zone_capacity.bytes().0 > size.0;
        Self { size: is_less.then_some(size), ..self }
    }

    /// Number of zones of the drive.
    #[must_use]
    pub fn zones(self) -> u32 {
        self.model().geometry().zone_count
    }
}

/// Smaller drive models would have too few zones.
const SIZE_MIN: Bytes = Bytes::mib(8 << 10);

impl FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, size) = text
            .split_once("?size=")
            .map_or((text, None), |(name, size)| (name, Some(size.parse::<Bytes>())));
        let Some(name) = Model::NAMES.into_iter().find(|known| *known == name) else {
            let names = Model::NAMES.join(", ");
            return Err(format!("unknown drive model {text:?}: write {names}"));
        };
        let size = size.transpose().map_err(|error| error.to_string())?;
        let whole = match Model::by_name(name) {
            Some(Model::Conventional(profile)) => profile.user_blocks().bytes(),
            _ => Bytes(0),
        };
        match size {
            Some(_) if whole == Bytes(0) => {
                Err(format!("{name} has zones: set the number of zones to use, such as zones = 40"))
            }
            Some(size) if size < SIZE_MIN || whole < size => {
                Err(format!("{name} has {SIZE_MIN} to {}GiB", whole.0 >> 30))
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
    "write random:SIZE or used:SIZE with a power of two from 4KiB to 1MiB, or leave it empty";

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
    /// Sizes of the writes of a precondition.
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

/// Serde format for values that are written as text with their units.
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
