//! Access-keys file: additional client keys, each with its access rules.

use std::fmt::Display;
use std::path::Path;

use zonal_gateway::{Access, AccessRules};

use super::check::{Checked, Variables, access_key, first_line};
use super::prefix::{each_once, prefix_of};
use super::{ConfigError, KeyPair, error_position, raw};

/// An access key with its access rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) pair: KeyPair,
    pub(crate) rules: AccessRules,
}

const FILE: &str = "endpoint.keys-file";

/// Reads the file and the secrets that it names. Relative paths in it start from the working
/// directory of the process.
pub(super) fn load(path: &Path, variable: Variables<'_>) -> Checked<Vec<KeyEntry>> {
    let file = || path.display();
    let bad = |why: &dyn Display| ConfigError::new(FILE, format!("{}: {why}", file()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(FILE, format!("{} cannot be read: {error}", file())))?;
    let known: raw::KeysFile =
        toml::from_str(&text).map_err(|error| bad(&ConfigError::syntax(&error, (&text, ""))))?;
    let mut keys: Vec<KeyEntry> = Vec::with_capacity(known.key.len());
    for raw in &known.key {
        let (line, raw) = (error_position::line(&text, raw.span().start), raw.get_ref());
        let name = raw.access_key.as_deref().unwrap_or_default();
        let bad = |why: &dyn Display| bad(&format!("line {line}: key {name:?}: {why}"));
        access_key(name).map_err(|why| bad(&why))?;
        if keys.iter().any(|key| key.pair.access_key == name) {
            return Err(bad(&"duplicate access key"));
        }
        let secret_key = secret(raw, variable).map_err(|why| bad(&why))?;
        let rules = rules(raw).map_err(|why| bad(&why))?;
        keys.push(KeyEntry { pair: KeyPair { access_key: name.to_owned(), secret_key }, rules });
    }
    Ok(keys)
}

fn secret(key: &raw::Key, variable: Variables<'_>) -> Result<String, String> {
    match (&key.secret_key, &key.secret_key_file, &key.secret_key_variable) {
        (Some(secret), None, None) if !secret.is_empty() => Ok(secret.clone()),
        (None, Some(path), None) => first_line(path),
        (None, None, Some(name)) => {
            let secret = variable(name).filter(|secret| !secret.is_empty());
            secret.ok_or_else(|| format!("the environment variable {name} is not set or empty"))
        }
        _ => {
            Err("set exactly one of secret-key, secret-key-file and secret-key-variable".to_owned())
        }
    }
}

fn rules(key: &raw::Key) -> Result<AccessRules, String> {
    access_rules(key.access.as_deref().unwrap_or("none"), &key.rules)
}

/// Parses access rules: a default, and exceptions by prefix.
pub(super) fn access_rules(
    default: &str,
    rules: &[raw::AccessRule],
) -> Result<AccessRules, String> {
    each_once(rules.iter().map(|rule| rule.prefix.as_str()))?;
    let mut all = AccessRules::all(access(default)?);
    for raw::AccessRule { prefix, access: word } in rules {
        let access = access(word).map_err(|why| format!("{prefix}: {why}"))?;
        all = all.with(prefix_of(prefix)?, access);
    }
    Ok(all)
}

pub(super) fn access(word: &str) -> Result<Access, String> {
    match word {
        "none" => Ok(Access::None),
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "read-write" => Ok(Access::ReadWrite),
        _ => Err(format!("{word:?}: write none, read, write or read-write")),
    }
}
