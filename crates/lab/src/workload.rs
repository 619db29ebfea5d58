//! Workload of a cache: drawn keys, or the requests of a trace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use zonal_base::{Bytes, mix64};

use crate::Distribution;
use crate::trace::{Format, Trace};

/// Requests and their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Drawn keys, one per get.
    Drawn(Distribution),
    /// Requests of a trace file.
    Recorded(Recorded),
}

/// Trace replay: a file, and how its requests are issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recorded {
    /// The file.
    pub trace: PathBuf,
    /// Format, if the file name does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Pace of the requests.
    #[serde(default)]
    pub pace: Pace,
    /// Number of copies: user groups that issue the same requests at the same time, each for its
    /// own objects. A short trace fills a large drive this way.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub copies: u32,
    /// Sampling: one object in this many is requested, chosen by a hash of its number. A cache with
    /// the same fraction of the space has the same hit ratio, except for chance.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sample: u32,
    /// Requests from the beginning of the file; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Length and checksum of the file, so that results of another file are not reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The files, once they are found.
    #[serde(skip)]
    pub(crate) found: Option<Trace>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_one(copies: &u32) -> bool {
    *copies == 1
}

/// Largest number of copies: copy numbers have 16 bits.
const COPIES_MAX: u32 = 1 << 16;

/// Salt of the sampling hash, so that no other hash equals it.
const SAMPLED: u64 = 0x5A4D_504C;

/// Pace of a trace replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As soon as a task is free.
    #[default]
    Full,
    /// This many times the recorded speed.
    Times(f64),
}

impl Recorded {
    /// The whole file, as fast as possible.
    #[must_use]
    pub const fn new(trace: PathBuf, format: Option<Format>) -> Self {
        Self {
            trace,
            format,
            pace: Pace::Full,
            copies: 1,
            sample: 1,
            requests: None,
            mark: None,
            found: None,
        }
    }

    /// All of a trace whose files were found, as fast as possible.
    #[must_use]
    pub fn of(trace: Trace) -> Self {
        let mut recorded = Self::new(trace.to_string().into(), Some(trace.format()));
        recorded.found = Some(trace);
        recorded
    }

    /// The given format, or the one of the file name.
    #[must_use]
    pub fn known_format(&self) -> Option<Format> {
        self.format.or_else(|| Format::of_name(&self.trace))
    }

    /// # Errors
    /// The settings are invalid; the text begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(format) = self.known_format() else {
            let name = self.trace.display();
            return Err(format!("format: unknown trace format of {name}: write {}", names()));
        };
        if self.pace != Pace::Full && !format.may_have_times() {
            return Err(format!("pace: {format} has no times: omit pace"));
        }
        if !(1..=COPIES_MAX).contains(&self.copies) {
            return Err(format!("copies: write a number from 1 to {COPIES_MAX}"));
        }
        if self.sample == 0 {
            return Err("sample: write 1 for all objects, 10 for one in ten".into());
        }
        if self.requests == Some(0) {
            return Err("requests: write 1 or more".into());
        }
        Ok(())
    }

    /// Object number of a copy. `None`: the object is not sampled.
    pub(crate) const fn id_of(&self, id: u64, copy: u32) -> Option<u64> {
        let id = if copy == 0 { id } else { mix64(id ^ mix64(copy as u64)) };
        // Hashed, because caches sort by the bits of the number.
        let is_sampled = self.sample == 1 || mix64(id ^ SAMPLED).is_multiple_of(self.sample as u64);
        if is_sampled { Some(id) } else { None }
    }

    /// Requires: a known format.
    pub(crate) fn file(&self) -> Trace {
        self.found.clone().unwrap_or_else(|| {
            Trace::new(self.trace.clone(), self.known_format().expect("checked"))
        })
    }

    /// Size of every object, if the format has no sizes.
    pub(crate) fn size_of_all(&self, chunk: Bytes) -> Option<Bytes> {
        let has_sizes = self.known_format().is_some_and(Format::has_sizes);
        (!has_sizes).then_some(chunk)
    }

    /// Finds the file in `folder`, unless its path is absolute, and records its checksum.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(&mut self, folder: &Path) -> Result<(), String> {
        self.trace = folder.join(&self.trace);
        let trace = Trace::find(std::slice::from_ref(&self.trace), self.known_format());
        let trace = trace.map_err(|error| error.to_string())?;
        self.mark = Some(trace.mark().map_err(|error| error.to_string())?);
        self.found = Some(trace);
        Ok(())
    }
}

fn names() -> String {
    let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl From<Distribution> for Workload {
    fn from(distribution: Distribution) -> Self {
        Self::Drawn(distribution)
    }
}

impl fmt::Display for Workload {
    /// Formats the workload for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recorded { trace, pace, copies, .. } = match self {
            Self::Drawn(distribution) => return distribution.fmt(f),
            Self::Recorded(recorded) => recorded,
        };
        let name = trace.file_name().unwrap_or(trace.as_os_str());
        name.display().fmt(f)?;
        if *copies != 1 {
            write!(f, " x{copies}")?;
        }
        if *pace == Pace::Full { Ok(()) } else { write!(f, " at {pace}") }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Drawn(distribution) => serializer.collect_str(distribution),
            Self::Recorded(recorded) => recorded.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = Workload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a distribution such as \"zipf:0.9\", or a table with a trace")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Workload, E> {
        text.parse().map(Workload::Drawn).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Workload, A::Error> {
        Recorded::deserialize(MapAccessDeserializer::new(table)).map(Workload::Recorded)
    }
}

/// Largest speed-up. A larger one is as fast as possible.
const TIMES_MAX: f64 = 1e6;

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times = text.strip_suffix('x').and_then(|times| times.parse::<f64>().ok());
        match times {
            _ if text == "full" => Ok(Self::Full),
            Some(times) if 0.0 < times && times <= TIMES_MAX => Ok(Self::Times(times)),
            _ => Err(format!("{text:?}: write full, or a multiple of the recorded speed: 1x, 10x")),
        }
    }
}

impl fmt::Display for Pace {
    /// Formats the pace as it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Times(times) => write!(f, "{times}x"),
        }
    }
}

impl Serialize for Pace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
