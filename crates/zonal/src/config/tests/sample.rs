//! Tests of the sample file: it has every key with its default, and flags and variables are named
//! after its keys.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Args, Command};
use zonal_base::Bytes;
use zonal_gateway::{Access, AccessRules, FreshnessRules};

use super::{REVALIDATE, file, load};
use crate::config::layers::DEFAULTS;
use crate::config::{Flags, LogFormat, raw, variables};

#[test]
fn the_defaults_are_the_sample_and_are_valid() {
    let config = load(&[]).unwrap();
    assert_eq!(config.listen, "127.0.0.1:9000".parse().unwrap());
    assert_eq!(config.admin, "127.0.0.1:9090".parse().unwrap());
    assert_eq!(config.freshness, FreshnessRules::all(REVALIDATE.into()));
    assert_eq!((config.keys, config.origins.len()), (None, 1));
    assert_eq!((&config.origins[0].spec, &config.origins[0].buckets[..]), (&None, &[][..]));
    assert_eq!(config.access, AccessRules::all(Access::ReadWrite));
    assert_eq!(config.devices.len(), 1);
    assert_eq!(config.devices[0].buffers, zonal_host::BUFFER_BYTES);
    assert_eq!(config.devices[0].prefetch, zonal_host::PREFETCH_BYTES);
    assert_eq!(config.origins[0].limits, zonal_origin::OriginLimits::default());
    assert_eq!(config.limits, zonal_gateway::Limits::default());
}

/// Keys of a section, as `section.key`.
fn keys_of(section: &str, table: &toml::Table) -> BTreeSet<String> {
    table.keys().map(|key| format!("{section}.{key}")).collect()
}

#[test]
fn the_sample_has_every_key_of_the_schema() {
    let sample: toml::Table = DEFAULTS.parse().unwrap();
    let known: raw::File = toml::from_str(DEFAULTS).unwrap();
    // A key that the sample lacks is `None`, and would vanish on the way back.
    let again = toml::Table::try_from(&known).unwrap();
    assert_eq!(again, sample);
    let debug = format!("{known:?}");
    assert!(!debug.contains("None"), "a key is not in the sample: {debug}");
}

#[test]
fn every_key_has_a_flag_and_a_variable_that_are_named_after_it() {
    let sample: toml::Table = DEFAULTS.parse().unwrap();
    let mut wanted = BTreeSet::from(["ZONAL_CONFIG".to_owned()]);
    for (name, value) in &sample {
        let keys = match value {
            toml::Value::Table(section) => keys_of(name, section),
            toml::Value::Array(devices) => keys_of(name, devices[0].as_table().unwrap()),
            _ => BTreeSet::from([name.clone()]),
        };
        let variable =
            |key: &String| format!("ZONAL_{}", key.replace(['.', '-'], "_").to_uppercase());
        wanted.extend(keys.iter().map(variable));
    }
    let command = Flags::augment_args(Command::new("serve"));
    let variables = command.get_arguments().map(|argument| {
        assert!(argument.get_long().is_some(), "{argument} has no flag");
        argument.get_env().unwrap().to_str().unwrap().to_owned()
    });
    assert_eq!(variables.collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
    let (_directory, path) = file(
        "[endpoint]\nlisten = '127.0.0.1:1'\nregion = 'r'\n\
         [[device]]\nspec = 'file:a?size=1GiB'\nchunk = '64KiB'\n\
         [[device]]\nspec = 'file:b?size=1GiB'\n\
         [log]\nformat = 'json'\n",
    );
    let config = load(&["--config", &path, "--listen", "127.0.0.1:2"]).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!((config.region.as_str(), config.admin.port()), ("r", 9090));
    assert_eq!(config.log.format, LogFormat::Json);
    let chunks: Vec<Bytes> = config.devices.iter().map(|device| device.chunk).collect();
    assert_eq!(chunks, [Bytes::kib(64), Bytes::kib(256)]);

    // Device flags apply to all devices. Devices named by flags replace those of the file, but keep
    // the settings of a device with the same spec.
    let config = load(&["--config", &path, "--policy", "zone-fifo"]).unwrap();
    assert!(config.devices.iter().all(|device| device.policy.name() == "zone-fifo"));
    let words = ["--config", &path, "--device", "file:c?size=1GiB", "--device", "file:a?size=1GiB"];
    let config = load(&words).unwrap();
    let specs: Vec<String> =
        config.devices.iter().flat_map(|d| d.spec.clone()).map(|s| s.to_string()).collect();
    assert_eq!(specs, ["file:c?size=1GiB", "file:a?size=1GiB"]);
}

/// Regression: a misspelt variable was ignored, and the default applied.
#[test]
fn a_variable_that_is_not_known_is_refused_with_the_nearest() {
    let check = |variable: (&str, &str), expected: Option<&str>| {
        let of = [("PATH", "/bin"), ("ZONAL_LOG_LEVEL", "info"), variable];
        let of = of.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let said = variables::refuse_unknown(of).err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), expected, "about {variable:?}");
    };
    check(
        ("ZONAL_FRESHNES_DEFAULT", "immutable"),
        Some(
            "unknown environment variable ZONAL_FRESHNES_DEFAULT; did you mean \
             ZONAL_FRESHNESS_DEFAULT?",
        ),
    );
    // A name built from the flag instead of the key.
    check(
        ("ZONAL_LISTEN", "127.0.0.1:9100"),
        Some("unknown environment variable ZONAL_LISTEN; did you mean ZONAL_ENDPOINT_LISTEN?"),
    );
    check(
        ("ZONAL_ENDPOINT_PORT", "9000"),
        Some(
            "unknown environment variable ZONAL_ENDPOINT_PORT; did you mean ZONAL_ENDPOINT_LISTEN?",
        ),
    );
    check(("ZONAL_ADMIN_LISTEN", "127.0.0.1:0"), None);
    check(("ZONALITY", "1"), None);
    // The project's own tests read these.
    check(("ZONAL_SIM_SEEDS", "7"), None);
    // Kubernetes sets these in every container if a service is named zonal or zonal-cache.
    check(("ZONAL_SERVICE_HOST", "10.0.0.1"), None);
    check(("ZONAL_CACHE_SERVICE_PORT_S3", "9000"), None);
    check(("ZONAL_PORT", "tcp://10.0.0.1:9000"), None);
    check(("ZONAL_PORT_9000_TCP_ADDR", "10.0.0.1"), None);
}

/// Regression: some flags are not named like their keys, so the sample file must name each flag.
#[test]
fn the_sample_names_the_flag_of_each_key() {
    let command = Flags::augment_args(Command::new("serve"));
    let mut section = String::new();
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned() + "_";
        }
        let Some((key, rest)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let variable = format!("ZONAL_{section}{key}").replace('-', "_").to_uppercase();
        let mut flags = command.get_arguments();
        let flag = flags.find(|flag| flag.get_env().is_some_and(|name| *name == *variable));
        let flag = flag.and_then(clap::Arg::get_long).unwrap();
        assert!(rest.ends_with(&format!("  # --{flag}")), "the flag of {key} is --{flag}: {line}");
    }
}
