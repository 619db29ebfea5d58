//! What is asked of a cache: keys that are drawn, or the requests of a trace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use zonal_base::{Bytes, mix64};

use crate::Distribution;
use crate::trace::{Format, Trace};

/// What is asked for, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Keys, each get one of them.
    Drawn(Distribution),
    /// The requests of a file.
    Recorded(Recorded),
}

/// The requests of a file, and how they are asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recorded {
    /// The file.
    pub trace: PathBuf,
    /// How it is written down, where its name does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// When each request is asked.
    #[serde(default)]
    pub pace: Pace,
    /// How many caches' users ask the same at the same time, each for objects of its own: a short trace fills a large
    /// drive so.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub copies: u32,
    /// One object in so many is asked for, chosen by a hash of its number, and the others are passed over: a cache with as
    /// small a part of the room hits as often, but for chance.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sample: u32,
    /// Requests of the file, from its beginning; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Length and checksum of the file, so that what was run on another one is not taken for this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_one(copies: &u32) -> bool {
    *copies == 1
}

/// Copies at most: their numbers have 16 bits.
const COPIES_MAX: u32 = 1 << 16;

/// Any number: the hash by which objects are chosen is nobody else's.
const SAMPLED: u64 = 0x5A4D_504C;

/// When a request of a trace is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As soon as a task is free.
    #[default]
    Full,
    /// So many times as fast as it was recorded.
    Times(f64),
}

impl Recorded {
    /// All of a file, as fast as it goes.
    #[must_use]
    pub const fn new(trace: PathBuf, format: Option<Format>) -> Self {
        Self { trace, format, pace: Pace::Full, copies: 1, sample: 1, requests: None, mark: None }
    }

    /// The format: the one that was given, or the one that the name says.
    #[must_use]
    pub fn known_format(&self) -> Option<Format> {
        self.format.or_else(|| Format::of_name(&self.trace))
    }

    /// # Errors
    /// When it cannot be asked so; the text begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(format) = self.known_format() else {
            let name = self.trace.display();
            return Err(format!("format: the name of {name} does not say it: write {}", names()));
        };
        if self.pace != Pace::Full && !format.may_have_times() {
            return Err(format!("pace: {format} has no times: leave pace out"));
        }
        if !(1..=COPIES_MAX).contains(&self.copies) {
            return Err(format!("copies: write a number from 1 to {COPIES_MAX}"));
        }
        if self.sample == 0 {
            return Err("sample: write 1 for all objects, 10 for one in ten".into());
        }
        if self.requests == Some(0) {
            return Err("requests: there is nothing to do".into());
        }
        Ok(())
    }

    /// A copy's objects are its own. `None`: the object is passed over.
    pub(crate) const fn id_of(&self, id: u64, copy: u32) -> Option<u64> {
        let id = if copy == 0 { id } else { mix64(id ^ mix64(copy as u64)) };
        // Not by the bits that caches sort by.
        let is_sampled = self.sample == 1 || mix64(id ^ SAMPLED).is_multiple_of(self.sample as u64);
        if is_sampled { Some(id) } else { None }
    }

    /// Requires: a format that is known.
    pub(crate) fn file(&self) -> Trace {
        let format = self.known_format().expect("checked");
        Trace::new(self.trace.clone(), format)
    }

    /// What objects have without a size of their own, if the format has none.
    pub(crate) fn size_of_all(&self, chunk: Bytes) -> Option<Bytes> {
        let has_sizes = self.known_format().is_some_and(Format::has_sizes);
        (!has_sizes).then_some(chunk)
    }

    /// The file is looked for in `folder`, unless its name begins at the root, and marked.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn find(&mut self, folder: &Path) -> Result<(), String> {
        self.trace = folder.join(&self.trace);
        self.mark = Some(self.file().mark().map_err(|error| error.to_string())?);
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
    /// As a column of a table has it.
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

/// Times as fast at most: faster is as fast as it goes.
const TIMES_MAX: f64 = 1e6;

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times = text.strip_suffix('x').and_then(|times| times.parse::<f64>().ok());
        match times {
            _ if text == "full" => Ok(Self::Full),
            Some(times) if 0.0 < times && times <= TIMES_MAX => Ok(Self::Times(times)),
            _ => Err(format!("{text:?}: write full, or times as fast as it was recorded: 1x, 10x")),
        }
    }
}

impl fmt::Display for Pace {
    /// As it is read.
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
