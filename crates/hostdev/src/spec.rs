//! Device specs: `file:PATH?size=8GiB&zone=64MiB`, `block:/dev/nvme0n1`, `zns:/dev/nvme0n2`,
//! `emulator:zn540?zones=32&backing=PATH`.

mod emulated;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use zonal_base::Bytes;

use crate::EngineKind;

/// Default zone size: 64 MiB. Large enough that a zone's header and footer cost nothing, small
/// enough that a cache of 8 GiB has 128 zones to choose a victim from. A guess.
pub const ZONE_SIZE: Bytes = Bytes::mib(64);

/// Zone sizes are multiples of 1 MiB, a segment of the zone log.
const ZONE_STEP: Bytes = Bytes::mib(1);

/// Maximum zone size: 4 GiB, twice the largest zone of known drives (2 GiB). Positions
/// within a zone, in blocks, then fit 32 bits with room to spare.
const ZONE_MAX: Bytes = Bytes::mib(4096);

/// Zones of the smallest device that a cache of one shard takes.
const ZONES_LEAST: u64 = 4;

/// Device spec, as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Kind and path of the device.
    pub place: DeviceLocation,
    /// Zone size and capacity, in whole MiB. `None`: the zone size with which the device was
    /// formatted, or [`ZONE_SIZE`]; for a zoned drive, the drive's own.
    pub zone: Option<Bytes>,
    /// Engine that the user wants. `None`: io_uring where the system allows it, else a thread pool.
    pub engine: Option<EngineKind>,
}

/// Kind and path of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceLocation {
    /// A preallocated file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file, in whole zones. `None`: the size of the existing file.
        size: Option<Bytes>,
    },
    /// A block device without zones of its own.
    Block {
        /// Path of the block device.
        path: PathBuf,
    },
    /// A drive that keeps its zones itself: ZNS or host-managed SMR.
    Zoned {
        /// Path of the block device.
        path: PathBuf,
        /// NVMe only: writes bypass the kernel's block layer as NVMe passthrough commands, and
        /// appends are zone appends.
        appends: bool,
    },
    /// A drive model in real time: commands take as long as on the modelled drive.
    Emulated {
        /// Model name that [`zonal_emulator::Model`] knows.
        model: &'static str,
        /// Writable capacity, in whole zones.
        size: Bytes,
        /// Backing file. `None`: the bytes lie in memory and are gone with the device.
        backing: Option<Box<Path>>,
        /// File that injects faults while it exists. `None`: no faults.
        trouble: Option<Box<Path>>,
    },
}

impl DeviceLocation {
    /// Path of the device, or the model name where there is no path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Block { path } | Self::Zoned { path, .. } => path,
            Self::Emulated { backing: Some(path), .. } => path,
            Self::Emulated { model, backing: None, .. } => Path::new(model),
        }
    }

    /// True for a modelled drive in memory.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Emulated { backing: None, .. })
    }

    /// True when opening creates a missing file.
    pub(crate) const fn may_be_made(&self) -> bool {
        matches!(self, Self::File { size: Some(_), .. } | Self::Emulated { .. })
    }
}

/// Syntax error of a device spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Device spec as given.
    pub text: String,
    /// What is wrong, and what to write instead.
    pub why: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {:?}: {}", self.text, self.why)
    }
}

impl std::error::Error for SpecError {}

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        parse(text).map_err(|why| SpecError { text: text.into(), why })
    }
}

impl fmt::Display for DeviceSpec {
    /// Writes the spec in the syntax that the parser reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, size, appends) = match &self.place {
            DeviceLocation::File { size, .. } => ("file", *size, false),
            DeviceLocation::Block { .. } => ("block", None, false),
            DeviceLocation::Zoned { appends, .. } => ("zns", None, *appends),
            DeviceLocation::Emulated { .. } => return emulated::fmt(self, f),
        };
        write!(f, "{scheme}:{}", self.place.path().display())?;
        let options = [
            size.map(|size| format!("size={size}")),
            self.zone.map(|zone| format!("zone={zone}")),
            appends.then(|| "append=on".to_owned()),
            self.engine.map(|engine| format!("engine={engine}")),
        ];
        for (n, option) in options.into_iter().flatten().enumerate() {
            write!(f, "{}{option}", if n == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// Options after the question mark.
#[derive(Default)]
struct Options {
    size: Option<Bytes>,
    zone: Option<Bytes>,
    engine: Option<EngineKind>,
    append: Option<()>,
}

fn parse(text: &str) -> Result<DeviceSpec, String> {
    const WRITE: &str = "write file:PATH?size=8GiB, block:/dev/NAME, zns:/dev/NAME or \
                         emulator:zn540?zones=32&backing=PATH";
    let (scheme, rest) = text.split_once(':').ok_or_else(|| kind_of(text, WRITE))?;
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    match scheme {
        "file" | "block" | "zns" => (),
        "emulator" => return emulated::parse(path, options),
        _ => return Err(format!("unknown kind of device {scheme:?}: {WRITE}")),
    }
    if path.is_empty() {
        return Err(format!("missing path: {WRITE}"));
    }
    let Options { size, zone, engine, append } = parse_options(options)?;
    if scheme == "zns" {
        if size.is_some() || zone.is_some() {
            return Err(
                "a zoned drive has a fixed size and fixed zones: omit size= and zone=".into()
            );
        }
        if append.is_some() && engine == Some(EngineKind::Psync) {
            return Err("zone appends need io_uring: omit append= or engine=".into());
        }
        let place = DeviceLocation::Zoned { path: PathBuf::from(path), appends: append.is_some() };
        return Ok(DeviceSpec { place, zone, engine });
    }
    if append.is_some() {
        return Err("zone appends need a zoned drive: omit append=".into());
    }
    zone.map_or(Ok(()), check_zone)?;
    let path = PathBuf::from(path);
    let place = match (scheme, size) {
        ("file", size) => {
            let whole = |size| in_whole_zones(size, zone.unwrap_or(ZONE_SIZE));
            DeviceLocation::File { path, size: size.map(whole).transpose()? }
        }
        (_, None) => DeviceLocation::Block { path },
        (_, Some(_)) => return Err("a block device has a fixed size: omit size=".into()),
    };
    Ok(DeviceSpec { place, zone, engine })
}

fn parse_options(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for option in text.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let bytes = || value.parse::<Bytes>().map_err(|error| format!("{key}={error}"));
        let is_repeated = match key {
            "size" => options.size.replace(bytes()?).is_some(),
            "zone" => options.zone.replace(bytes()?).is_some(),
            "engine" => options.engine.replace(value.parse()?).is_some(),
            "append" if value == "on" => options.append.replace(()).is_some(),
            "append" => return Err(format!("append={value}: write append=on, or omit append=")),
            _ => {
                return Err(format!(
                    "unknown option {key:?}: the options are size, zone, engine and, for a zoned \
                     drive, append"
                ));
            }
        };
        if is_repeated {
            return Err(format!("{key} is set twice: remove one"));
        }
    }
    Ok(options)
}

fn check_zone(zone: Bytes) -> Result<(), String> {
    if zone.0 == 0 || ZONE_MAX < zone || !zone.0.is_multiple_of(ZONE_STEP.0) {
        return Err(format!(
            "zone={zone}: the zone size must be a multiple of {ZONE_STEP} and at most {ZONE_MAX}: \
             write zone={ZONE_SIZE}"
        ));
    }
    Ok(())
}

/// The size in whole zones, rounded down: `8GB` is 119 zones of 64 MiB.
fn in_whole_zones(size: Bytes, zone: Bytes) -> Result<Bytes, String> {
    let zones = size.0 / zone.0;
    if zones == 0 {
        let least = Bytes(ZONES_LEAST * zone.0);
        return Err(format!(
            "size={size} is less than a zone of {zone}: write size={least} or more, or smaller \
             zones with zone="
        ));
    }
    Ok(Bytes(zones * zone.0))
}

/// The spec that a bare path most likely means.
fn kind_of(path: &str, write: &str) -> String {
    match path.strip_prefix("/dev/") {
        Some(name) if !name.is_empty() => {
            format!("write block:{path}, or zns:{path} for a zoned drive")
        }
        _ if path.contains('/') => format!("write file:{path}?size=8GiB for a file of this name"),
        _ => write.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<DeviceSpec>();
        let shown = parsed.as_ref().map(ToString::to_string);
        let shown = shown.as_deref().map_err(|error| error.why.as_str());
        assert_eq!(shown, expected, "parsing {text:?}");
    }

    #[test]
    fn a_spec_names_a_file_or_a_block_device() {
        check("file:/a/b?size=8GiB", Ok("file:/a/b?size=8GiB"));
        check("file:rel/b?zone=1MiB&size=3MiB", Ok("file:rel/b?size=3MiB&zone=1MiB"));
        check("file:a?engine=psync", Ok("file:a?engine=psync"));
        check("block:/dev/sda", Ok("block:/dev/sda"));
        check("block:/dev/sda?zone=4GiB&engine=uring", Ok("block:/dev/sda?zone=4GiB&engine=uring"));
        check("zns:/dev/nvme0n2", Ok("zns:/dev/nvme0n2"));
        check("zns:/dev/sdb?engine=psync", Ok("zns:/dev/sdb?engine=psync"));
        check("zns:/dev/nvme0n2?append=on", Ok("zns:/dev/nvme0n2?append=on"));
        check(
            "zns:/dev/nvme0n2?engine=uring&append=on",
            Ok("zns:/dev/nvme0n2?append=on&engine=uring"),
        );
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        for text in ["file:/x?size=1GiB&zone=128MiB&engine=psync", "block:/dev/sda?zone=64MiB"] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_size_is_rounded_down_to_whole_zones() {
        for (text, rounded) in [("8GB", "7616MiB"), ("100MiB", "64MiB"), ("1G", "1GiB")] {
            let spec = format!("file:a?size={text}").parse::<DeviceSpec>().unwrap();
            assert_eq!(spec.to_string(), format!("file:a?size={rounded}"));
        }
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        let write = "write file:PATH?size=8GiB, block:/dev/NAME, zns:/dev/NAME or \
                     emulator:zn540?zones=32&backing=PATH";
        check("sda", Err(write));
        check("/dev/sda", Err("write block:/dev/sda, or zns:/dev/sda for a zoned drive"));
        check("a/b", Err("write file:a/b?size=8GiB for a file of this name"));
        check("file:", Err(&format!("missing path: {write}")));
        check("nvme:x", Err(&format!("unknown kind of device \"nvme\": {write}")));
        check(
            "file:a?size=8",
            Err("size=\"8\": a size needs a unit: B, KiB, MiB, GiB or TiB, such as 256MiB"),
        );
        check(
            "file:a?zone=1536KiB",
            Err("zone=1536KiB: the zone size must be a multiple of 1MiB and at most 4GiB: write \
                 zone=64MiB"),
        );
        check(
            "block:a?zone=5GiB",
            Err("zone=5GiB: the zone size must be a multiple of 1MiB and at most 4GiB: write \
                 zone=64MiB"),
        );
        check(
            "file:a?size=1MiB",
            Err("size=1MiB is less than a zone of 64MiB: write size=256MiB or more, or smaller \
                 zones with zone="),
        );
        check("block:a?size=64MiB", Err("a block device has a fixed size: omit size="));
        check(
            "file:a?length=1GiB",
            Err("unknown option \"length\": the options are size, zone, engine and, for a zoned \
                 drive, append"),
        );
        check("file:a?size=1GiB&size=1GiB", Err("size is set twice: remove one"));
        check(
            "file:a?engine=aio",
            Err("unknown engine \"aio\": write engine=uring or engine=psync"),
        );
        let of_its_own = "a zoned drive has a fixed size and fixed zones: omit size= and zone=";
        check("zns:/dev/nvme0n2?zone=64MiB", Err(of_its_own));
        check("zns:/dev/nvme0n2?size=64MiB", Err(of_its_own));
        check("zns:", Err(&format!("missing path: {write}")));
        check("zns:a?append=off", Err("append=off: write append=on, or omit append="));
        check("zns:a?append=on&append=on", Err("append is set twice: remove one"));
        check(
            "zns:a?append=on&engine=psync",
            Err("zone appends need io_uring: omit append= or engine="),
        );
        let elsewhere = "zone appends need a zoned drive: omit append=";
        check("block:a?append=on", Err(elsewhere));
        check("file:a?append=on", Err(elsewhere));
    }

    proptest! {
        #[test]
        fn a_spec_that_is_read_is_printed_so_that_it_is_read_again(
            text in prop_oneof![
                "(file|block|emulator|zns):[a-z0-9/.-]{0,8}(\\?((size|zone|zones|engine|append|backing)=[0-9a-zA-Z/]{0,7}|&|[a-z]){0,6})?",
                "file:/[a-z]{1,4}\\?size=[0-9]{1,4}(MiB|GiB|KiB|B|)(&zone=[0-9]{1,5}MiB)?(&engine=(uring|psync|x))?",
                "zns:/[a-z]{1,4}\\?(append=o[nf])?&?(engine=(uring|psync))?",
                "emulator:(zn540|sn540|p5316-qlc|p5510-tlc)\\?(zones=[0-9]{1,3}|size=[0-9]{1,2}GiB)(&backing=/[a-z]{1,3})?",
                ".*",
            ],
        ) {
            match text.parse::<DeviceSpec>() {
                Ok(spec) => prop_assert_eq!(spec.to_string().parse::<DeviceSpec>(), Ok(spec)),
                Err(error) => prop_assert!(!error.why.is_empty()),
            }
        }
    }
}
