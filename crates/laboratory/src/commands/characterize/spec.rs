//! Drive under test, from its specification.

use std::fmt;
use std::str::FromStr;

use zonal_emulator::{Model, Profile};
use zonal_hostdev::{DeviceSpec, SpecError};
use zonal_lab::characterize::ExperimentGroup;

/// Drive under test.
#[derive(Clone, Debug)]
pub(super) enum DriveUnderTest {
    Emulated(Emulated),
    Real(DeviceSpec),
}

impl FromStr for DriveUnderTest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.starts_with("emulator:") {
            true => text.parse().map(Self::Emulated),
            false => text.parse().map(Self::Real).map_err(|error| SpecError::to_string(&error)),
        }
    }
}

impl fmt::Display for DriveUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emulated(emulated) => f.write_str(&emulated.name),
            Self::Real(spec) => spec.fmt(f),
        }
    }
}

/// A drive model.
#[derive(Clone, Debug)]
pub(super) struct Emulated {
    /// Specification as given.
    pub(super) name: String,
    pub(super) model: Model,
}

/// Minimum number of zones for runs across zones.
const ZONES_MIN: u32 = 32;

impl FromStr for Emulated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write emulator:zn540, emulator:zn540?zones=64, emulator:sn540, \
                             emulator:p5316-qlc, emulator:p5510-tlc or emulator:p5800x-optane";
        let rest = text.strip_prefix("emulator:").ok_or(WRITE)?;
        let (name, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut model =
            Model::by_name(name).ok_or_else(|| format!("unknown model {name:?}: {WRITE}"))?;
        match &mut model {
            Model::Zoned(profile) => cut(profile, options)?,
            Model::Conventional(_) if options.is_empty() => (),
            Model::Conventional(_) => {
                return Err(format!("{options:?}: {name} takes no options here: {WRITE}"));
            }
        }
        Ok(Self { name: text.into(), model })
    }
}

/// Parses the name of an experiment.
pub(super) fn experiment(text: &str) -> Result<ExperimentGroup, String> {
    let named = ExperimentGroup::ALL.into_iter().find(|experiment| experiment.name() == text);
    named.ok_or_else(|| format!("write {}", names(&ExperimentGroup::ALL)))
}

/// Names of experiments, for people.
pub(super) fn names(experiments: &[ExperimentGroup]) -> String {
    let names: Vec<&str> = experiments.iter().map(|experiment| experiment.name()).collect();
    names.join(", ")
}

/// Cuts the drive to the number of zones in the options.
fn cut(profile: &mut Profile, options: &str) -> Result<(), String> {
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let zones = option.strip_prefix("zones=").and_then(|zones| zones.parse().ok());
        let most = profile.geometry.zone_count;
        profile.geometry.zone_count = zones
            .filter(|zones| (ZONES_MIN..=most).contains(zones))
            .ok_or_else(|| format!("{option:?}: write zones={ZONES_MIN} to zones={most}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_and_a_zoned_one_may_have_fewer_zones() {
        let zones = |text: &str| {
            text.parse::<Emulated>().map(|emulated| emulated.model.geometry().zone_count)
        };
        assert_eq!(zones("emulator:zn540"), Ok(904));
        assert_eq!(zones("emulator:zn540?zones=64"), Ok(64));
        assert_eq!(zones("emulator:sn540"), Ok(850));
        for wrong in [
            "zn540",
            "emulator:",
            "emulator:zn540?zones=1",
            "emulator:zn540?size=1GiB",
            "emulator:sn540?zones=64",
        ] {
            assert!(zones(wrong).is_err_and(|why| why.contains("write ")), "{wrong}");
        }
    }
}
