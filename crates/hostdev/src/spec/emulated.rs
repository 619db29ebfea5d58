//! Specs of modelled drives: `emulator:zn540?zones=32&backing=PATH`,
//! `emulator:sn540?size=8GiB&zone=64MiB&backing=PATH`.

use std::fmt;
use std::path::Path;

use zonal_base::Bytes;
use zonal_emulator::{ConventionalProfile, Model, Profile};

use super::{DeviceLocation, DeviceSpec, ZONE_SIZE, check_zone, in_whole_zones};

/// Minimum size of a conventional drive: 256 MiB, the size at which its flash translation layer is
/// tested.
const SIZE_MIN: Bytes = Bytes::mib(256);

/// Options after the question mark.
#[derive(Default)]
struct Options {
    zones: Option<u32>,
    size: Option<Bytes>,
    zone: Option<Bytes>,
    backing: Option<Box<Path>>,
    trouble: Option<Box<Path>>,
}

pub(super) fn parse(name: &str, options: &str) -> Result<DeviceSpec, String> {
    let model = Model::by_name(name).ok_or_else(|| {
        format!("unknown model {name:?}: the models are {}", Model::NAMES.join(", "))
    })?;
    let options = Options::parse(options)?;
    let (size, zone) = match &model {
        Model::Zoned(profile) => zoned(profile, &options)?,
        Model::Conventional(profile) => conventional(profile, &options)?,
    };
    let Options { backing, trouble, .. } = options;
    let place = DeviceLocation::Emulated { model: model.name(), size, backing, trouble };
    Ok(DeviceSpec { place, zone: Some(zone), engine: None })
}

/// Writes the spec in the syntax that the parser reads. Requires: a modelled drive.
pub(super) fn fmt(spec: &DeviceSpec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let DeviceLocation::Emulated { model, size, backing, trouble } = &spec.place else {
        return Ok(());
    };
    let zone = spec.zone.unwrap_or(ZONE_SIZE);
    match Model::by_name(model) {
        Some(Model::Zoned(_)) => write!(f, "emulator:{model}?zones={}", size.0 / zone.0)?,
        _ => write!(f, "emulator:{model}?size={size}&zone={zone}")?,
    }
    for (key, path) in [("backing", backing), ("trouble", trouble)] {
        path.as_ref().map_or(Ok(()), |path| write!(f, "&{key}={}", path.display()))?;
    }
    Ok(())
}

/// Size and zone capacity of a zoned model.
fn zoned(profile: &Profile, options: &Options) -> Result<(Bytes, Bytes), String> {
    let (name, most) = (profile.name, profile.geometry.zone_count);
    let zone = profile.geometry.zone_capacity.bytes();
    if options.size.is_some() || options.zone.is_some() {
        return Err(format!(
            "{name} has fixed zones of {zone}: write zones=N, and omit size= and zone="
        ));
    }
    let zones = options.zones.unwrap_or(most);
    if zones == 0 || most < zones {
        return Err(format!("zones={zones}: write zones=4 to zones={most}"));
    }
    Ok((Bytes(u64::from(zones) * zone.0), zone))
}

/// Size and zone size of a conventional model.
fn conventional(
    profile: &ConventionalProfile,
    options: &Options,
) -> Result<(Bytes, Bytes), String> {
    let name = profile.drive.name;
    if options.zones.is_some() {
        return Err(format!("{name} is not a zoned drive: write size=8GiB and zone={ZONE_SIZE}"));
    }
    let zone = options.zone.unwrap_or(ZONE_SIZE);
    check_zone(zone)?;
    let most = profile.user_blocks().bytes();
    let size = options.size.unwrap_or(Bytes(most.0 / zone.0 * zone.0));
    let size = in_whole_zones(size, zone)?;
    if size < SIZE_MIN || most < size {
        let most = Bytes(most.0 >> 30 << 30);
        return Err(format!("size={size}: write size={SIZE_MIN} to size={most}"));
    }
    Ok((size, zone))
}

impl Options {
    fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let bytes = || value.parse::<Bytes>().map_err(|error| format!("{key}={error}"));
            let is_repeated = match key {
                "zones" => {
                    let zones = value.parse().map_err(|_| format!("{option}: write zones=32"))?;
                    options.zones.replace(zones).is_some()
                }
                "size" => options.size.replace(bytes()?).is_some(),
                "zone" => options.zone.replace(bytes()?).is_some(),
                "backing" if value.is_empty() => {
                    return Err(
                        "backing= is empty: write backing=PATH, or omit backing= to keep the data \
                         in memory"
                            .into(),
                    );
                }
                "backing" => options.backing.replace(Path::new(value).into()).is_some(),
                "trouble" if value.is_empty() => {
                    return Err("trouble= is empty: write trouble=PATH, or omit trouble=".into());
                }
                "trouble" => options.trouble.replace(Path::new(value).into()).is_some(),
                _ => {
                    return Err(format!(
                        "unknown option {key:?}: the options of a model are zones (zn540), size \
                         and zone (the others), backing and trouble"
                    ));
                }
            };
            if is_repeated {
                return Err(format!("{key} is set twice: remove one"));
            }
        }
        Ok(options)
    }
}

impl DeviceSpec {
    /// Model of the drive, cut to the size in the spec. `None` for a real device.
    pub(crate) fn model(&self) -> Option<Model> {
        let DeviceLocation::Emulated { model, size, .. } = &self.place else { return None };
        let zone = self.zone.unwrap_or(ZONE_SIZE);
        Some(match Model::by_name(model)? {
            Model::Zoned(mut profile) => {
                let zones = u32::try_from(size.0 / zone.0).ok()?;
                profile.geometry.zone_count = zones;
                Model::Zoned(profile)
            }
            Model::Conventional(profile) => {
                let cut = profile.scaled_to(*size).with_zones_of(zone.blocks_ceil());
                Model::Conventional(Box::new(cut))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<DeviceSpec>();
        let shown = parsed.as_ref().map(ToString::to_string);
        let shown = shown.as_deref().map_err(|error| error.why.as_str());
        assert_eq!(shown, expected, "parsing {text:?}");
    }

    #[test]
    fn a_model_is_named_with_its_size_and_its_file() {
        check("emulator:zn540", Ok("emulator:zn540?zones=904"));
        check("emulator:zn540?backing=a&zones=8", Ok("emulator:zn540?zones=8&backing=a"));
        check("emulator:sn540?size=8GiB", Ok("emulator:sn540?size=8GiB&zone=64MiB"));
        check(
            "emulator:p5316-qlc?zone=1GiB&size=16GiB&backing=/a/b",
            Ok("emulator:p5316-qlc?size=16GiB&zone=1GiB&backing=/a/b"),
        );
        check(
            "emulator:zn540?trouble=c&zones=8&backing=a",
            Ok("emulator:zn540?zones=8&backing=a&trouble=c"),
        );
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        check(
            "emulator:zn541",
            Err("unknown model \"zn541\": the models are zn540, sn540, p5316-qlc, p5510-tlc, \
                 p5800x-optane"),
        );
        check("emulator:zn540?zones=905", Err("zones=905: write zones=4 to zones=904"));
        check("emulator:zn540?zones=0", Err("zones=0: write zones=4 to zones=904"));
        check(
            "emulator:zn540?size=8GiB",
            Err("zn540 has fixed zones of 1077MiB: write zones=N, and omit size= and zone="),
        );
        check(
            "emulator:sn540?zones=8",
            Err("sn540 is not a zoned drive: write size=8GiB and zone=64MiB"),
        );
        check("emulator:sn540?size=128MiB", Err("size=128MiB: write size=256MiB to size=894GiB"));
        check(
            "emulator:zn540?backing=",
            Err("backing= is empty: write backing=PATH, or omit backing= to keep the data in \
                 memory"),
        );
        check(
            "emulator:zn540?engine=psync",
            Err("unknown option \"engine\": the options of a model are zones (zn540), size and \
                 zone (the others), backing and trouble"),
        );
        check("emulator:zn540?zones=8&zones=9", Err("zones is set twice: remove one"));
    }

    #[test]
    fn the_model_is_as_large_as_it_was_asked_to_be() {
        for name in Model::NAMES.into_iter().filter(|name| *name != "zn540") {
            for size in ["256MiB", "8GiB"] {
                let spec = format!("emulator:{name}?size={size}").parse::<DeviceSpec>().unwrap();
                let writable = spec.model().unwrap().geometry().writable();
                assert_eq!(writable, size.parse().unwrap(), "{spec}");
            }
        }
        let spec = "emulator:zn540?zones=8".parse::<DeviceSpec>().unwrap();
        assert_eq!(spec.model().unwrap().geometry().zone_count, 8);
    }
}
