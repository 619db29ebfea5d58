//! Effective configuration: every key with its merged value and the source of the value.
//!
//! Merging forgets where a value came from, so this module asks each layer again: the command line
//! and the environment through clap, the file through its text.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use serde::Serialize;
use toml::{Table, Value};

use super::sample::{self, Key};
use super::{BlockFlags, ConfigError, Flags, block, error_position, layers};

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag(String),
    Variable(String),
    File { path: PathBuf, line: usize },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Variable(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) key: Key<'static>,
    /// Index of the section among repeated ones (`[[origin]]`), from 0.
    pub(crate) nth: usize,
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// The merged configuration of a command, before it is checked.
#[derive(Debug)]
pub(crate) struct Effective {
    /// The sample whose keys these are.
    pub(crate) sample: &'static str,
    /// In the order of the sample; repeated sections one after the other.
    pub(crate) settings: Vec<Setting>,
}

impl Effective {
    /// The configuration of `zonal serve`. `matches` are those of the command with these flags.
    pub(crate) fn of_cache(flags: &Flags, matches: &ArgMatches) -> Result<Self, ConfigError> {
        let merged = layers::gather(flags)?;
        let command = Flags::augment_args(Command::new("serve"));
        let sources = Sources::new(&command, matches, flags.config.as_deref());
        Self::of(layers::DEFAULTS, &merged, &sources)
    }

    /// The configuration of `zonal block`.
    pub(crate) fn of_block(flags: &BlockFlags, matches: &ArgMatches) -> Result<Self, ConfigError> {
        let merged = block::gather(flags)?;
        let command = BlockFlags::augment_args(Command::new("block"));
        let sources = Sources::new(&command, matches, flags.config());
        Self::of(block::DEFAULTS, &merged, &sources)
    }

    fn of(
        sample: &'static str,
        merged: &impl Serialize,
        sources: &Sources<'_>,
    ) -> Result<Self, ConfigError> {
        let merged = layers::table(merged)?;
        let mut settings = Vec::new();
        for key in sample::keys(sample) {
            for (nth, section) in sections(&merged, &key).into_iter().enumerate() {
                // A key that no layer has cannot occur: the sample, a layer itself, has them all.
                let Some(value) = section.get(key.name).cloned() else { continue };
                let source = sources.of(&key, nth, section);
                settings.push(Setting { key: key.clone(), nth, value, source });
            }
        }
        Ok(Self { sample, settings })
    }

    /// The settings of a key: one, or one for each of the repeated sections.
    pub(crate) fn settings_of<'a>(&'a self, key: &'a Key<'_>) -> impl Iterator<Item = &'a Setting> {
        self.settings
            .iter()
            .filter(|setting| (setting.key.section, setting.key.name) == (key.section, key.name))
    }
}

/// The sections of a key: several for `[[origin]]`.
fn sections<'a>(merged: &'a Table, key: &Key<'_>) -> Vec<&'a Table> {
    match merged.get(key.section.name) {
        _ if key.section.name.is_empty() => vec![merged],
        Some(Value::Table(table)) => vec![table],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_table).collect(),
        _ => Vec::new(),
    }
}

/// All layers, to be asked for a key.
struct Sources<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
    /// Path and text of the file.
    file: Option<(&'a Path, String)>,
    parsed: Table,
}

impl<'a> Sources<'a> {
    fn new(command: &'a Command, matches: &'a ArgMatches, path: Option<&'a Path>) -> Self {
        let file = path.and_then(|path| Some((path, std::fs::read_to_string(path).ok()?)));
        let parsed = file.as_ref().and_then(|(_, text)| text.parse().ok()).unwrap_or_default();
        Self { command, matches, file, parsed }
    }

    fn of(&self, key: &Key<'_>, nth: usize, section: &Table) -> Source {
        if let Some(source) = self.of_flag(key.flag) {
            return source;
        }
        let place = self.nth_in_file(key, nth, section).and_then(|nth| {
            let (path, text) = self.file.as_ref()?;
            let at = error_position::key_start(text, (key.section.name, nth), key.name)?;
            Some(Source::File { path: path.into(), line: error_position::line(text, at) })
        });
        place.unwrap_or(Source::Default)
    }

    /// The flag or its variable, if one of them has a value.
    fn of_flag(&self, flag: &str) -> Option<Source> {
        let arg = self.command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
        match self.matches.value_source(arg.get_id().as_str())? {
            ValueSource::CommandLine => Some(Source::Flag(flag.to_owned())),
            ValueSource::EnvVariable => {
                let name = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                Some(Source::Variable(name.unwrap_or_default()))
            }
            _ => None,
        }
    }

    /// Index of a section in the file. If flags name the origins or devices, those that the file
    /// names, too, keep their other keys.
    fn nth_in_file(&self, key: &Key<'_>, nth: usize, section: &Table) -> Option<usize> {
        let name = key.section.name;
        if !key.section.is_list || self.of_flag(name).is_none() {
            return Some(nth);
        }
        let several = self.parsed.get(name)?.as_array()?;
        // Any other starts from the first of the file.
        several.iter().position(|one| one.get("spec") == section.get("spec")).or(Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn sources(words: &[&str], file: &Path, wanted: &[(&str, usize, &str, &str)]) {
        let command = Flags::augment_args(Command::new("serve").no_binary_name(true));
        let all = ["--config", file.to_str().unwrap()];
        let matches = command.get_matches_from(all.iter().chain(words));
        let flags = clap::FromArgMatches::from_arg_matches(&matches).unwrap();
        let effective = Effective::of_cache(&flags, &matches).unwrap();
        for (path, nth, value, source) in wanted {
            let found = effective
                .settings
                .iter()
                .find(|setting| setting.key.path() == *path && setting.nth == *nth);
            let found = found.unwrap_or_else(|| panic!("no {path} {nth}"));
            let source = source.replace("FILE", file.to_str().unwrap());
            let shown = (found.value.to_string(), found.source.to_string());
            assert_eq!(shown, ((*value).to_owned(), source), "{path} {nth}");
        }
    }

    #[test]
    fn each_value_has_the_source_that_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("z.toml");
        let text = "[endpoint]\nlisten = '127.0.0.1:1'\nregion = 'r'\n[[origin]]\nspec = 'file:a'\n\
                    reads = 7\n[[origin]]\nspec = 'file:b'\nname = 'b'\n";
        std::fs::write(&file, text).unwrap();
        sources(
            &["--region", "x", "--origin-retries", "1"],
            &file,
            &[
                ("data-dir", 0, "\"zonal-data\"", "default"),
                ("endpoint.listen", 0, "\"127.0.0.1:1\"", "FILE:2"),
                ("endpoint.region", 0, "\"x\"", "--region"),
                ("origin.reads", 0, "7", "FILE:6"),
                ("origin.reads", 1, "256", "default"),
                ("origin.name", 1, "\"b\"", "FILE:9"),
                ("origin.retries", 1, "1", "--origin-retries"),
                ("device.spec", 0, "\"\"", "default"),
            ],
        );
        // An origin that the file names as well keeps its keys.
        sources(
            &["--origin", "file:b", "--origin", "file:c"],
            &file,
            &[
                ("origin.spec", 0, "\"file:b\"", "--origin"),
                ("origin.name", 0, "\"b\"", "FILE:9"),
                ("origin.name", 1, "\"\"", "default"),
                ("origin.reads", 1, "7", "FILE:6"),
            ],
        );
    }
}
