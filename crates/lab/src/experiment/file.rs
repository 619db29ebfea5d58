//! Experiments as TOML. Each key has one value or a list of them; the experiments are every combination.

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
    /// What it is about.
    pub title: String,
    /// Every combination of its values, in the order of their keys; each once.
    pub experiments: Experiments,
}

/// What a file is of: caches, or jobs if it has a key `jobs`.
#[derive(Clone, Debug, PartialEq)]
pub enum Experiments {
    /// Caches on drives.
    Caches(Vec<Experiment>),
    /// Jobs on block devices.
    Jobs(Vec<Jobs>),
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

/// What tells files of jobs from those of caches.
#[derive(Deserialize)]
struct Kind {
    jobs: Option<IgnoredAny>,
}

impl File {
    /// # Errors
    /// When a key is unknown or missing, a value is not one, or a combination cannot be run.
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

    /// Finds the traces that the experiments name, in `folder` unless their names begin at the root, and marks them.
    ///
    /// # Errors
    /// When one is not there.
    pub fn find_traces(&mut self, folder: &Path) -> Result<(), String> {
        let Experiments::Caches(experiments) = &mut self.experiments else { return Ok(()) };
        let mut found: Vec<(Recorded, Recorded)> = Vec::new();
        for experiment in experiments {
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

fn read<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        FileError { why: error.message().trim().to_owned(), ..FileError::at(text, at) }
    })
}

/// Each of them once, if all can be run.
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

/// Where the key stands that a check has named; of one that is not there, where the workload is named.
fn at_key(text: &str, why: &str) -> FileError {
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
