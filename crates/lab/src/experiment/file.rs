//! Experiments as TOML. Each key has one value or a list of them; the experiments are every combination.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use zonal_base::{Bytes, Nanos};

use super::{Drive, Engine, Experiment, Precondition};
use crate::simulated::Habits;
use crate::{Recorded, Workload};

/// A file of experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// What it is about.
    pub title: String,
    /// Every combination of its values, in the order of the keys below; each once.
    pub experiments: Vec<Experiment>,
}

/// Why a file is refused. Nothing was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.why)
    }
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    title: String,
    #[serde(default = "zonal")]
    cache: Several<Engine>,
    drive: Several<Text<Drive>>,
    #[serde(default = "nothing")]
    precondition: Several<Text<Precondition>>,
    zones: Several<u32>,
    chunk: Several<Text<Bytes>>,
    #[serde(default = "flow")]
    policy: Several<String>,
    #[serde(default = "no_memory")]
    dram: Several<Text<Bytes>>,
    workload: Several<Workload>,
    /// Bytes of all keys, as a multiple of the cache. A trace says it itself, and how much is got.
    #[serde(default = "by_trace")]
    ratio: Several<u64>,
    /// What all gets get together.
    #[serde(default = "by_trace_bytes")]
    bytes: Several<Text<Bytes>>,
    tasks: Several<usize>,
    origin_latency: Several<Text<Nanos>>,
    #[serde(default = "no_spread")]
    origin_sd: Several<Text<Nanos>>,
    #[serde(default = "no")]
    hold_zone_during_fetch: Several<bool>,
    #[serde(default = "no_habits")]
    habits: Several<Text<Habits>>,
    #[serde(default = "no_limit")]
    limit: Several<Text<Nanos>>,
    #[serde(default = "first_seed")]
    seed: Several<u64>,
}

fn zonal() -> Several<Engine> {
    Several(vec![Engine::Zonal])
}

fn nothing() -> Several<Text<Precondition>> {
    Several(vec![Text(Precondition::Nothing)])
}

fn flow() -> Several<String> {
    Several(vec!["flow".into()])
}

fn no_memory() -> Several<Text<Bytes>> {
    Several(vec![Text(Bytes(0))])
}

/// Only a trace can do without: [`Experiment::check`] says so of others.
fn by_trace() -> Several<u64> {
    Several(vec![0])
}

fn by_trace_bytes() -> Several<Text<Bytes>> {
    Several(vec![Text(Bytes(0))])
}

fn no() -> Several<bool> {
    Several(vec![false])
}

fn no_habits() -> Several<Text<Habits>> {
    Several(vec![Text(Habits::default())])
}

fn no_spread() -> Several<Text<Nanos>> {
    Several(vec![Text(Nanos(0))])
}

fn no_limit() -> Several<Text<Nanos>> {
    Several(vec![Text(Nanos::MAX)])
}

fn first_seed() -> Several<u64> {
    Several(vec![1])
}

/// What ratios are of: the bytes of chunks that fit into a zone.
const ZONE: Bytes = Bytes::mib(1077);

impl File {
    /// # Errors
    /// When a key is unknown or missing, a value is not one, or a combination cannot be run.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            FileError { why: error.message().trim().to_owned(), ..FileError::at(text, at) }
        })?;
        let mut experiments = Vec::new();
        for experiment in raw.combinations() {
            experiment.check().map_err(|why| FileError { why, ..at_key(text, &experiment) })?;
            if !experiments.contains(&experiment) {
                experiments.push(experiment);
            }
        }
        Ok(Self { title: raw.title, experiments })
    }
}

impl File {
    /// Finds the traces that the experiments name, in `folder` unless their names begin at the root, and marks them.
    ///
    /// # Errors
    /// When one is not there.
    pub fn find_traces(&mut self, folder: &Path) -> Result<(), String> {
        let mut found: Vec<(Recorded, Recorded)> = Vec::new();
        for experiment in &mut self.experiments {
            let Workload::Recorded(recorded) = &mut experiment.workload else { continue };
            // Many experiments name one file: it is read once.
            if let Some((_, known)) = found.iter().find(|(named, _)| named == recorded) {
                recorded.clone_from(known);
                continue;
            }
            let named = recorded.clone();
            recorded.find(folder)?;
            found.push((named, recorded.clone()));
        }
        Ok(())
    }
}

impl FileError {
    fn at(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Self { line, column, why: String::new() }
    }
}

/// Where the key stands that a check has named; of one that is not there, where the workload is named.
fn at_key(text: &str, experiment: &Experiment) -> FileError {
    let why = experiment.check().err().unwrap_or_default();
    let key = why.split(':').next().unwrap_or_default();
    let offset = [key, "trace", "workload"].into_iter().find_map(|key| offset_of(text, key));
    FileError::at(text, offset.unwrap_or(0))
}

/// Where a line begins with a key and what is set.
fn offset_of(text: &str, key: &str) -> Option<usize> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let begun = line.trim_start();
        if begun.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return Some(offset + line.len() - begun.len());
        }
        offset += line.len();
    }
    None
}

impl Raw {
    fn combinations(&self) -> Vec<Experiment> {
        let mut all = vec![Experiment {
            cache: self.cache.0[0],
            drive: self.drive.0[0].0,
            precondition: self.precondition.0[0].0,
            zones: self.zones.0[0],
            chunk: self.chunk.0[0].0,
            policy: self.policy.0[0].clone(),
            dram: self.dram.0[0].0,
            workload: self.workload.0[0].clone(),
            keys: 0,
            gets: 0,
            tasks: self.tasks.0[0],
            origin_latency: self.origin_latency.0[0].0,
            origin_sd: self.origin_sd.0[0].0,
            hold_zone_during_fetch: self.hold_zone_during_fetch.0[0],
            habits: self.habits.0[0].0,
            limit: self.limit.0[0].0,
            seed: self.seed.0[0],
        }];
        spread(&mut all, &self.cache, |one, cache| one.cache = *cache);
        spread(&mut all, &self.drive, |one, drive| one.drive = drive.0);
        spread(&mut all, &self.precondition, |one, value| one.precondition = value.0);
        spread(&mut all, &self.zones, |one, zones| one.zones = *zones);
        spread(&mut all, &self.chunk, |one, chunk| one.chunk = chunk.0);
        spread(&mut all, &self.policy, |one, policy| one.policy.clone_from(policy));
        spread(&mut all, &self.dram, |one, dram| one.dram = dram.0);
        spread(&mut all, &self.workload, |one, workload| one.workload.clone_from(workload));
        spread(&mut all, &self.ratio, |one, ratio| {
            one.keys = (ZONE.0 / one.chunk.0.max(1) * u64::from(one.zones)).saturating_mul(*ratio);
        });
        spread(&mut all, &self.bytes, |one, bytes| one.gets = bytes.0.0 / one.chunk.0.max(1));
        spread(&mut all, &self.tasks, |one, tasks| one.tasks = *tasks);
        spread(&mut all, &self.origin_latency, |one, value| one.origin_latency = value.0);
        spread(&mut all, &self.hold_zone_during_fetch, |one, hold| {
            // Zonal never does; a list for both caches is one experiment for it.
            let is_list = 1 < self.hold_zone_during_fetch.0.len() || 1 < self.cache.0.len();
            one.hold_zone_during_fetch = *hold && !(is_list && one.cache == Engine::Zonal);
        });
        // None of these has any but ZNSCCache.
        let has_none = |one: &Experiment| 1 < self.cache.0.len() && one.cache != Engine::Znsccache;
        spread(&mut all, &self.origin_sd, |one, sd| {
            one.origin_sd = if has_none(one) { Nanos(0) } else { sd.0 };
        });
        spread(&mut all, &self.habits, |one, habits| {
            one.habits = if has_none(one) { Habits::default() } else { habits.0 };
        });
        spread(&mut all, &self.limit, |one, limit| {
            one.limit = if has_none(one) { Nanos::MAX } else { limit.0 };
        });
        spread(&mut all, &self.seed, |one, seed| one.seed = *seed);
        for one in &mut all {
            // So does the policy: the published caches have one or two.
            let known = one.cache.policies();
            if 1 < self.cache.0.len()
                && let Some(first) = known.first()
                && !known.contains(&&*one.policy)
            {
                one.policy = (*first).into();
            }
            // And what a trace says of keys and gets, in a list with workloads that do not.
            if 1 < self.workload.0.len() && matches!(one.workload, Workload::Recorded(_)) {
                (one.keys, one.gets) = (0, 0);
            }
        }
        all
    }
}

fn spread<T>(all: &mut Vec<Experiment>, values: &Several<T>, set: impl Fn(&mut Experiment, &T)) {
    let with = |one: &Experiment, value: &T| {
        let mut one = one.clone();
        set(&mut one, value);
        one
    };
    *all = all.iter().flat_map(|one| values.0.iter().map(|value| with(one, value))).collect();
}

/// A value, or a list of some.
struct Several<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SeveralVisitor(PhantomData))
    }
}

struct SeveralVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SeveralVisitor<T> {
    type Value = Several<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Several(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
        Ok(Several(vec![T::deserialize(MapAccessDeserializer::new(table))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let values = Vec::<T>::deserialize(SeqAccessDeserializer::new(list))?;
        if values.is_empty() {
            return Err(A::Error::custom("a list of values needs one at least"));
        }
        Ok(Several(values))
    }
}

/// A value that is written as text, with its unit.
struct Text<T>(T);

impl<'de, T: std::str::FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::text::deserialize(deserializer).map(Self)
    }
}
