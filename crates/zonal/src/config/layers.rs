//! Configuration layers: flags, environment, file, defaults, in this order of precedence.
//!
//! 1. The defaults are `config/zonal.toml`, compiled into the program.
//! 2. The user's file overrides them key by key. Its origins and devices replace the default ones.
//! 3. Flags, or the environment variables that `clap` reads for absent flags, override both.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::prefix::alone;
use super::raw::{
    AccessFlags, AccessRule, ChunkFlags, DeviceFlags, File, Flags, FreshnessFlags, KeepFlags,
    KeepRule, OriginFlags,
};
use super::{ConfigError, chunk, freshness, keep, keys};

/// Configuration file with every key and its default.
pub(crate) const DEFAULTS: &str = include_str!("../../../../config/zonal.toml");

/// Merges flags, file and defaults into one unvalidated configuration.
pub(super) fn gather(flags: &Flags) -> Result<File, ConfigError> {
    let sections = [
        ("endpoint", table(&flags.endpoint)?),
        ("headers", table(&flags.headers)?),
        ("admin", table(&flags.admin)?),
        ("limits", table(&flags.limits)?),
        ("scrub", table(&flags.scrub)?),
        ("price", table(&flags.price)?),
        ("accounts", table(&flags.accounts)?),
        ("log", table(&flags.log)?),
    ];
    let mut file: File = gathered(DEFAULTS, flags.config.as_deref(), sections)?;
    file.data_dir = flags.data_dir.clone().or(file.data_dir);
    flags.origin.lay_over(&mut file)?;
    flags.device.lay_over(&mut file);
    flags.access.lay_over(&mut file)?;
    flags.freshness.lay_over(&mut file)?;
    flags.keep.lay_over(&mut file)?;
    flags.chunk.lay_over(&mut file)?;
    Ok(file)
}

/// Merges defaults, a file and the sections of flags; later ones take precedence.
pub(super) fn gathered<F: DeserializeOwned>(
    defaults: &str,
    file: Option<&Path>,
    sections: impl IntoIterator<Item = (&'static str, Table)>,
) -> Result<F, ConfigError> {
    let mut all = parse::<F>(defaults, defaults)?;
    if let Some(path) = file {
        let over = read::<F>(path, defaults).map_err(|error| error.in_file(path))?;
        lay_over(&mut all, over);
    }
    for (section, over) in sections {
        lay_over(&mut all, Table::from_iter([(section.to_owned(), Value::Table(over))]));
    }
    all.try_into().map_err(|error| ConfigError::syntax(&error, ("", defaults)))
}

fn read<F: DeserializeOwned>(path: &Path, defaults: &str) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new("", format!("cannot be read: {error}")))?;
    parse::<F>(&text, defaults)
}

/// Parses the text twice: as a table, which shows which keys are present, and as `F`, which refuses
/// unknown keys.
fn parse<F: DeserializeOwned>(text: &str, defaults: &str) -> Result<Table, ConfigError> {
    let syntax = |error: toml::de::Error| ConfigError::syntax(&error, (text, defaults));
    let table = text.parse().map_err(syntax)?;
    toml::from_str::<F>(text).map_err(syntax)?;
    Ok(table)
}

/// The keys of a section that have a value.
pub(super) fn table(section: &impl Serialize) -> Result<Table, ConfigError> {
    Table::try_from(section).map_err(|error| ConfigError::new("", error.to_string()))
}

fn lay_over(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => lay_over(under, over),
            (Some(Value::Array(under)), Value::Array(over)) if SEVERAL.contains(&&*key) => {
                let default = under.first().cloned();
                *under = over.into_iter().map(|one| complete(default.clone(), one)).collect();
            }
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// Repeatable sections: those of the user replace the default one.
const SEVERAL: [&str; 2] = ["origin", "device"];

/// Fills the missing keys of a repeatable section from the default one.
fn complete(default: Option<Value>, one: Value) -> Value {
    match (default, one) {
        (Some(Value::Table(mut default)), Value::Table(one)) => {
            lay_over(&mut default, one);
            Value::Table(default)
        }
        (_, one) => one,
    }
}

impl OriginFlags {
    fn lay_over(&self, file: &mut File) -> Result<(), ConfigError> {
        if !self.specs.is_empty() {
            let pattern = file.origin.first().cloned().unwrap_or_default();
            let named = self.specs.iter().map(|spec| {
                let known = file.origin.iter().find(|origin| origin.spec.as_ref() == Some(spec));
                let mut origin = known.unwrap_or(&pattern).clone();
                origin.spec = Some(spec.clone());
                origin
            });
            file.origin = named.collect();
        }
        let over = table(&self.each)?;
        for origin in &mut file.origin {
            let mut under = table(origin)?;
            lay_over(&mut under, over.clone());
            *origin =
                under.try_into().map_err(|error| ConfigError::syntax(&error, ("", DEFAULTS)))?;
        }
        Ok(())
    }
}

impl DeviceFlags {
    fn lay_over(&self, file: &mut File) {
        if !self.specs.is_empty() {
            let pattern = file.device.first().cloned().unwrap_or_default();
            let named = self.specs.iter().map(|spec| {
                let known = file.device.iter().find(|device| device.spec.as_ref() == Some(spec));
                let mut device = known.unwrap_or(&pattern).clone();
                device.spec = Some(spec.clone());
                device
            });
            file.device = named.collect();
        }
        for device in &mut file.device {
            let over = |under: &mut Option<String>, flag: &Option<String>| {
                *under = flag.clone().or(under.take());
            };
            over(&mut device.shards, &self.shards);
            over(&mut device.policy, &self.policy);
            over(&mut device.chunk, &self.chunk);
            over(&mut device.dram, &self.dram);
            over(&mut device.buffers, &self.buffers);
            over(&mut device.prefetch, &self.prefetch);
            over(&mut device.patience, &self.patience);
            over(&mut device.rejoin, &self.rejoin);
        }
    }
}

impl FreshnessFlags {
    fn lay_over(&self, file: &mut File) -> Result<(), ConfigError> {
        let section = &mut file.freshness;
        section.default = self.default.clone().or(section.default.take());
        if !self.rules.is_empty() {
            let rules: Result<_, _> =
                self.rules.iter().map(|rule| freshness::split(rule)).collect();
            section.rules = Some(rules?);
        }
        Ok(())
    }
}

impl KeepFlags {
    fn lay_over(&self, file: &mut File) -> Result<(), ConfigError> {
        let keep = &mut file.keep;
        keep.pinned = self.pinned.clone().or(keep.pinned.take());
        keep.pins_file = self.pins_file.clone().or(keep.pins_file.take());
        if !self.rules.is_empty() {
            let rules = self.rules.iter().map(|rule| {
                let rule = alone("keep.rules", rule, is_keep)?;
                let (prefix, keep) = rule.rsplit_once('=').ok_or_else(|| {
                    let why = format!("{rule:?}: write PREFIX=KEEP, such as lake/dim/=pin");
                    ConfigError::new("keep.rules", why)
                })?;
                Ok(KeepRule { prefix: prefix.into(), keep: keep.into() })
            });
            keep.rules = Some(rules.collect::<Result<_, _>>()?);
        }
        Ok(())
    }
}

impl ChunkFlags {
    fn lay_over(&self, file: &mut File) -> Result<(), ConfigError> {
        if !self.rules.is_empty() {
            let rules: Result<_, _> = self.rules.iter().map(|rule| chunk::split(rule)).collect();
            file.chunk.rules = Some(rules?);
        }
        Ok(())
    }
}

impl AccessFlags {
    fn lay_over(&self, file: &mut File) -> Result<(), ConfigError> {
        let access = &mut file.access;
        access.default = self.default.clone().or(access.default.take());
        if !self.rules.is_empty() {
            let rules = self.rules.iter().map(|rule| {
                let rule = alone("access.rules", rule, is_access)?;
                let (prefix, access) = rule.rsplit_once('=').ok_or_else(|| {
                    let why = format!("{rule:?}: write PREFIX=ACCESS, such as lake/=read");
                    ConfigError::new("access.rules", why)
                })?;
                Ok(AccessRule { prefix: prefix.into(), access: access.into() })
            });
            access.rules = Some(rules.collect::<Result<_, _>>()?);
        }
        Ok(())
    }
}

fn is_keep(rule: &str) -> bool {
    rule.rsplit_once('=').is_some_and(|(_, word)| keep::word(word).is_some())
}

fn is_access(rule: &str) -> bool {
    rule.rsplit_once('=').is_some_and(|(_, word)| keys::access(word).is_ok())
}
