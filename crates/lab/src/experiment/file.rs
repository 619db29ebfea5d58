//! Experiment files in TOML: each key has a value or a list, and every combination is an
//! experiment.

mod caches;
mod jobs;
mod several;

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::Experiment;
use crate::jobs::Jobs;
use crate::{Recorded, Workload};

/// A file of experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Title of the file.
    pub title: String,
    /// Every combination of the values without duplicates, in the order of the keys.
    pub experiments: Experiments,
}

/// Contents of a file: jobs if it has the key `jobs`, else caches.
#[derive(Clone, Debug, PartialEq)]
pub enum Experiments {
    /// Caches on drives.
    Caches(Vec<Experiment>),
    /// Jobs on block devices.
    Jobs(Vec<Jobs>),
}

/// Reason why a file is refused, before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Line in the file, from 1.
    pub line: usize,
    /// Column in the line, from 1.
    pub column: usize,
    /// Error, with the text to write instead.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.why)
    }
}

/// Kind of a file: jobs if the key is there.
#[derive(Deserialize)]
struct Kind {
    jobs: Option<IgnoredAny>,
}

impl File {
    /// Parses a file.
    ///
    /// # Errors
    /// When a key is unknown or missing, a value is invalid, or a combination cannot run.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let kind: Kind = read(text)?;
        if kind.jobs.is_some() {
            let raw: jobs::Raw = read(text)?;
            let experiments = checked(text, raw.combinations(), Jobs::check)?;
            return Ok(Self { title: raw.title, experiments: Experiments::Jobs(experiments) });
        }
        let raw: caches::Raw = read(text)?;
        let experiments = checked(text, raw.combinations(), Experiment::check)?;
        Ok(Self { title: raw.title, experiments: Experiments::Caches(experiments) })
    }

    /// Finds the traces that the experiments name, and marks their contents. Relative names start
    /// at `folder`.
    ///
    /// # Errors
    /// When a trace does not exist.
    pub fn find_traces(&mut self, folder: &Path) -> Result<(), String> {
        let Experiments::Caches(experiments) = &mut self.experiments else { return Ok(()) };
        let mut found: Vec<(Recorded, Recorded)> = Vec::new();
        for experiment in experiments {
            let Workload::Recorded(recorded) = &mut experiment.workload else { continue };
            // Many experiments share a trace: it is read once.
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

fn read<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        FileError { why: error.message().trim().to_owned(), ..FileError::at(text, at) }
    })
}

/// Checks all experiments and removes duplicates.
fn checked<E: PartialEq>(
    text: &str,
    all: Vec<E>,
    check: impl Fn(&E) -> Result<(), String>,
) -> Result<Vec<E>, FileError> {
    let mut experiments = Vec::new();
    for one in all {
        check(&one).map_err(|why| FileError { why: why.clone(), ..at_key(text, &why) })?;
        if !experiments.contains(&one) {
            experiments.push(one);
        }
    }
    Ok(experiments)
}

impl FileError {
    fn at(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Self { line, column, why: String::new() }
    }
}

/// Position of the key that a check names. If the key is absent, the position of the workload.
fn at_key(text: &str, why: &str) -> FileError {
    let key = why.split(':').next().unwrap_or_default();
    let offset = [key, "trace", "workload"].into_iter().find_map(|key| offset_of(text, key));
    FileError::at(text, offset.unwrap_or(0))
}

/// Offset of the line that sets this key.
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
