//! Retention rules: parses `keep.rules` and reads the pins file.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zonal_gateway::{Keep, KeepRules};

use super::check::{Checked, given, percent};
use super::prefix::{each_once, prefix_of};
use super::{ConfigError, Retention, raw};
use crate::pins;

/// Largest share of a device that may be pinned, in percent: with more, reclaim would free too
/// little per zone.
const PINNED_PERCENT_MAX: u8 = 75;

pub(super) fn checked(keep: &raw::Keep, data_dir: &str) -> Checked<Retention> {
    let mut rules = KeepRules::all(Keep::Policy);
    let prefixes = keep.rules.iter().flatten().map(|rule| rule.prefix.as_str());
    each_once(prefixes).map_err(|why| ConfigError::new("keep.rules", why))?;
    for raw::KeepRule { prefix, keep } in keep.rules.iter().flatten() {
        let keep = word(keep).ok_or_else(|| {
            let why = format!("{prefix}: {keep:?}: write pin, never or policy");
            ConfigError::new("keep.rules", why)
        })?;
        let prefix = prefix_of(prefix).map_err(|why| ConfigError::new("keep.rules", why))?;
        rules = rules.with(prefix, keep);
    }
    let pinned = given("keep.pinned", &keep.pinned)?;
    let pinned_percent = percent("keep.pinned", pinned, PINNED_PERCENT_MAX)?.into();
    let named = keep.pins_file.as_ref().filter(|path| !path.is_empty());
    let pins_file = named.map_or_else(|| Path::new(data_dir).join("pins"), PathBuf::from);
    if named.is_none() {
        refuse_denied(data_dir, &pins_file)?;
    }
    let pins = pins::read(&pins_file).map_err(|why| ConfigError::new("keep.pins-file", why))?;
    let (pins, is_pins_file_named) = (Arc::new(pins), named.is_some());
    Ok(Retention { rules, pinned_percent, pins, pins_file, is_pins_file_named })
}

/// Refuses a data directory of another user. The pins file is the first that is read there.
fn refuse_denied(data_dir: &str, pins_file: &Path) -> Checked<()> {
    match File::open(pins_file) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let why = format!(
                "{data_dir} cannot be read: {error}: run Zonal as its owner, or name another \
                 directory with --data-dir"
            );
            Err(ConfigError::new("data-dir", why))
        }
        _ => Ok(()),
    }
}

/// Parses a retention class; `None` if the word is unknown.
pub(super) fn word(word: &str) -> Option<Keep> {
    match word {
        "pin" => Some(Keep::Pin),
        "never" => Some(Keep::Never),
        "policy" => Some(Keep::Policy),
        _ => None,
    }
}
