//! The sample file, the layers, and what is said about each mistake.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, Parser};
use proptest::prelude::*;
use zonal_base::{Bytes, Nanos};
use zonal_gateway::{Access, AccessRules, Authorization, Domains, FreshnessRules, Keep, KeepRules};
use zonal_host::Freshness;

use super::layers::DEFAULTS;
use super::{Config, ConfigError, Flags, LogFormat, check, layers, raw, variables};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

const REVALIDATE: Freshness = Freshness::Revalidate;

fn flags(words: &[&str]) -> Flags {
    Line::try_parse_from([&["zonal"], words].concat()).unwrap().flags
}

fn load(words: &[&str]) -> Result<Config, ConfigError> {
    check::check(&layers::gather(&flags(words))?, &|_| None)
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("zonal.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// What is said about a file; its path is written FILE.
#[track_caller]
fn check_file(text: &str, expected: &str) {
    let (_directory, path) = file(text);
    let said = load(&["--config", &path]).unwrap_err().to_string();
    assert_eq!(said.replace(&path, "FILE"), expected, "about {text:?}");
}

#[track_caller]
fn check_flags(words: &[&str], expected: &str) {
    assert_eq!(load(words).unwrap_err().to_string(), expected, "about {words:?}");
}

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
    assert_eq!(config.origins[0].limits, zonal_origin::Limits::default());
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

    // Flags count for all devices; naming devices leaves the file's out, but keeps what it says of them.
    let config = load(&["--config", &path, "--policy", "zone-fifo"]).unwrap();
    assert!(config.devices.iter().all(|device| device.policy.name() == "zone-fifo"));
    let words = ["--config", &path, "--device", "file:c?size=1GiB", "--device", "file:a?size=1GiB"];
    let config = load(&words).unwrap();
    let specs: Vec<String> =
        config.devices.iter().flat_map(|d| d.spec.clone()).map(|s| s.to_string()).collect();
    assert_eq!(specs, ["file:c?size=1GiB&zone=64MiB", "file:a?size=1GiB&zone=64MiB"]);
}

#[test]
fn a_prefix_may_be_kept_in_another_way() {
    let (_directory, path) = file(
        "[keep]\npinned = '20%'\nrules = [{ prefix = 'lake/dim/', keep = 'pin' }, \
         { prefix = 'logs/', keep = 'never' }, { prefix = 'lake/dim/=old/', keep = 'policy' }]\n",
    );
    let expected = KeepRules::all(Keep::Policy)
        .with("lake/dim/", Keep::Pin)
        .with("logs/", Keep::Never)
        .with("lake/dim/=old/", Keep::Policy);
    let keep = load(&["--config", &path]).unwrap().keep;
    assert!(!keep.pins_nothing());
    assert_eq!((keep.pinned_percent, keep.rules), (20, expected.clone()));
    let words = ["lake/dim/=pin", "logs/=never", "lake/dim/=old/=policy"];
    let words = words.map(|rule| ["--keep-rule", rule]).concat();
    let keep = load(&words).unwrap().keep;
    assert_eq!((keep.pinned_percent, keep.rules), (50, expected));
    let without = load(&["--keep-rule", "logs/=never"]).unwrap().keep;
    assert!(without.pins_nothing());
    for (words, said) in [
        (["--keep-rule", "a/"], "keep.rules: \"a/\": write PREFIX=KEEP, such as lake/dim/=pin"),
        (["--keep-rule", "a/=pinned"], "keep.rules: a/: \"pinned\": write pin, never or policy"),
        (["--keep-rule", "/a=pin"], "keep.rules: the prefix \"/a\" is not of the form BUCKET/KEY"),
        (["--keep-pinned", "80%"], "keep.pinned: \"80%\": write a share from 1% to 75%"),
        (["--keep-pinned", "0.5"], "keep.pinned: \"0.5\": write a share from 1% to 75%"),
    ] {
        check_flags(&words, said);
    }
    check_file(
        "[keep]\nrules = [{ prefix = 'a/', freshness = 'pin' }]\n",
        "FILE: line 2: unknown field `freshness`, expected `prefix` or `keep`",
    );
}

#[test]
fn what_is_pinned_by_order_stands_in_a_file() {
    let (directory, path) = file("");
    let pins = directory.path().join("pins");
    std::fs::write(&pins, "lake/a\nlake/dim/\t*\n").unwrap();
    let named = load(&["--keep-pins-file", pins.to_str().unwrap()]).unwrap().keep;
    assert_eq!((named.pins.object_count(), named.pins.prefix_count()), (1, 1));
    assert!(named.is_pins_file_named && !named.pins_nothing());
    let data_dir = directory.path().to_str().unwrap();
    let found = load(&["--config", &path, "--data-dir", data_dir]).unwrap().keep;
    assert_eq!((found.pins, found.pins_file), (named.pins, pins.clone()));
    assert!(!found.is_pins_file_named);
    std::fs::write(&pins, "lake\n").unwrap();
    let why = load(&["--data-dir", data_dir]).unwrap_err().to_string();
    assert!(
        why.starts_with("keep.pins-file: ") && why.ends_with("line 1: \"lake\": write BUCKET/KEY")
    );
}

#[test]
fn a_prefix_may_have_a_freshness_of_its_own() {
    let (_directory, path) = file(
        "[freshness]\nrules = [{ prefix = 'a/', freshness = 'immutable' }, \
         { prefix = 'a/=b/', freshness = 'ttl=5s' }]\n",
    );
    let expected = FreshnessRules::all(REVALIDATE.into())
        .with("a/", Freshness::Immutable.into())
        .with("a/=b/", Freshness::Ttl(Nanos::secs(5)).into());
    assert_eq!(load(&["--config", &path]).unwrap().freshness, expected);
    let words = ["--freshness-rule", "a/=immutable", "--freshness-rule", "a/=b/=ttl=5s"];
    assert_eq!(load(&words).unwrap().freshness, expected);
    check_flags(
        &["--freshness-rule", "a/"],
        "freshness.rules: \"a/\": write PREFIX=FRESHNESS, such as lake/=ttl=60s",
    );
    check_flags(
        &["--freshness-rule", "/a=immutable"],
        "freshness.rules: the prefix \"/a\" is not of the form BUCKET/KEY",
    );
}

#[test]
fn a_file_that_cannot_be_meant_is_refused_with_its_line() {
    check_file(
        "\n[endpoint]\nlisten = '127.0.0.1:1'\nport = 2\n",
        "FILE: line 4: unknown field `port`, expected one of `listen`, `region`, `domains`, \
         `authorization`, `access-key`, `secret-key`, `secret-key-file`, `keys-file`, `certificate-file`, `private-key-file`",
    );
    check_file(
        "[endpoints]\n",
        "FILE: line 1: unknown field `endpoints`, expected one of `data-dir`, `endpoint`, `admin`, \
         `origin`, `device`, `access`, `freshness`, `keep`, `limits`, `log`",
    );
    check_file(
        "[limits]\nidle = 75\n",
        "FILE: line 2: invalid type: integer `75`, expected a string",
    );
    check_file(
        "[limits]\nconnections = 0\n",
        "limits.connections: must be at least 1: no bound can be switched off",
    );
    check_file("[endpoint\n", "FILE: line 1: unclosed table, expected `]`");
    let said = load(&["--config", "no/such/file"]).unwrap_err().to_string();
    assert!(said.starts_with("no/such/file: cannot be read: No such file"), "{said}");
}

#[test]
fn a_value_that_cannot_be_meant_is_refused_with_what_to_write() {
    check_flags(
        &["--listen", "9000"],
        "endpoint.listen: \"9000\" is no address: write IP:PORT, such as 127.0.0.1:9000",
    );
    check_flags(&["--region", ""], "endpoint.region: must not be empty");
    check_flags(&["--access-key", "a"], "endpoint.access-key: is given without a secret key");
    check_flags(&["--secret-key", "a"], "endpoint.access-key: is missing: a secret key is given");
    check_flags(
        &["--access-key", "a b", "--secret-key", "c"],
        "endpoint.access-key: an access key is visible ASCII without spaces, slashes, commas and equals signs",
    );
    check_flags(
        &["--secret-key", "a", "--secret-key-file", "b"],
        "endpoint.secret-key: leave it or endpoint.secret-key-file out: both are given",
    );
    check_flags(
        &["--origin", "gopher:x"],
        "origin.spec: \"gopher:x\" names no origin: write s3:https://HOST?region=REGION, file:DIR, gcs:BUCKET, azure:CONTAINER?account=NAME or https://HOST/PATH",
    );
    check_flags(
        &["--origin", "file:x", "--origin-access-key", "a", "--origin-secret-key", "b"],
        "origin.access-key: a folder takes no keys: leave it out",
    );
    check_flags(
        &["--policy", "lru"],
        "device.policy: there is no policy \"lru\": write one of flow, zone-fifo, zone-lru, epoch, chunk-lru, region-fifo, region-lru, direct, zlru, zdrop, zlru+zdrop",
    );
    check_flags(
        &["--chunk", "100KiB"],
        "device.chunk: 100KiB: write a power of two from 4KiB to 32MiB",
    );
    check_flags(
        &["--chunk", "1MB"],
        "device.chunk: \"1MB\": this unit is ambiguous: write KiB, MiB, GiB or TiB",
    );
    check_flags(&["--buffers", "1MiB"], "device.buffers: 1MiB: a shard needs 16MiB at least");
    check_flags(
        &["--prefetch", "64MiB"],
        "device.prefetch: 64MiB: write 32MiB at most, or 0 for none",
    );
    check_flags(
        &["--shards", "0"],
        "device.shards: \"0\": write auto, or a number from 1 to 65535",
    );
    check_flags(
        &["--device", "a"],
        "device.spec: device \"a\": write file:PATH?size=8GiB, block:/dev/NAME, zns:/dev/NAME or emulator:zn540?zones=32&backing=PATH",
    );
    check_flags(&["--device", "file:a", "--device", "file:a"], "device.spec: a is named twice");
    check_flags(
        &["--freshness", "ttl"],
        "freshness.default: \"ttl\": write revalidate, ttl=TIME or immutable, and settings behind it as in \
         ttl=60s?head=5min&missing=10s&stale-if-error=1h",
    );
    check_flags(
        &["--freshness", "ttl=60"],
        "freshness.default: \"ttl=60\": ttl: \"60\": a time needs a unit: ns, us, ms, s, min or h",
    );
    check_flags(
        &["--limits-idle", "0s"],
        "limits.idle: must be longer than 0s: no bound can be switched off",
    );
    check_flags(&["--log-format", "xml"], "log.format: \"xml\": write text or json");
    check_flags(
        &["--log-level", "loud"],
        "log.level: \"loud\": write error, warn, info, debug or trace, or info,zonal_host=debug",
    );
}

/// They were both taken, and the kernel gave each of them half of what the other was asked.
#[test]
fn the_two_addresses_differ() {
    let said = |(listen, admin): (&str, &str)| {
        load(&["--listen", listen, "--admin", admin]).err().map(|error| error.to_string())
    };
    let why = |admin: &str, listen: &str| {
        Some(format!(
            "admin.listen: {admin} is also the endpoint's address, {listen}: name another with --admin"
        ))
    };
    for (listen, admin) in [
        ("127.0.0.1:9100", "127.0.0.1:9100"),
        ("0.0.0.0:9100", "127.0.0.1:9100"),
        ("10.0.0.1:9100", "0.0.0.0:9100"),
        ("[::1]:9100", "[::]:9100"),
        // Linux hears IPv4 there too.
        ("[::]:9100", "127.0.0.1:9100"),
        ("[::ffff:10.0.0.1]:9100", "10.0.0.1:9100"),
    ] {
        assert_eq!(said((listen, admin)), why(admin, listen));
    }
    for (listen, admin) in [
        ("127.0.0.1:9100", "127.0.0.1:9101"),
        ("127.0.0.1:9100", "10.0.0.1:9100"),
        ("0.0.0.0:9100", "[::1]:9100"),
        // Any free port, twice.
        ("127.0.0.1:0", "127.0.0.1:0"),
    ] {
        assert_eq!(said((listen, admin)), None, "{listen} and {admin}");
    }
}

/// A misspelt variable was passed over, and the default counted.
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
            "ZONAL_FRESHNES_DEFAULT: there is no such variable: ZONAL_FRESHNESS_DEFAULT is the nearest",
        ),
    );
    // Named after the flag.
    check(
        ("ZONAL_LISTEN", "127.0.0.1:9100"),
        Some("ZONAL_LISTEN: there is no such variable: ZONAL_ENDPOINT_LISTEN is the nearest"),
    );
    check(
        ("ZONAL_ENDPOINT_PORT", "9000"),
        Some(
            "ZONAL_ENDPOINT_PORT: there is no such variable: ZONAL_ENDPOINT_LISTEN is the nearest",
        ),
    );
    check(("ZONAL_ADMIN_LISTEN", "127.0.0.1:0"), None);
    check(("ZONALITY", "1"), None);
    // The project's own tests read these.
    check(("ZONAL_SIM_SEEDS", "7"), None);
    // Kubernetes sets these in every container beside a service called zonal, or zonal-cache.
    check(("ZONAL_SERVICE_HOST", "10.0.0.1"), None);
    check(("ZONAL_CACHE_SERVICE_PORT_S3", "9000"), None);
    check(("ZONAL_PORT", "tcp://10.0.0.1:9000"), None);
    check(("ZONAL_PORT_9000_TCP_ADDR", "10.0.0.1"), None);
}

/// The names of flags and keys differ in places, and a reader of the file had to guess the flag.
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

#[test]
fn keys_of_the_origin_come_from_the_configuration_or_the_environment() {
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("E".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
        "AWS_SESSION_TOKEN" => Some("t".to_owned()),
        _ => None,
    };
    let credentials = |words: &[&str]| {
        let gathered = layers::gather(&flags(words)).unwrap();
        check::check(&gathered, &variable).unwrap().origins[0].credentials.clone()
    };
    let s3 = ["--origin", "s3:http://h"];
    let of_environment = credentials(&s3).unwrap();
    assert_eq!(of_environment.access_key, "E");
    assert_eq!(of_environment.session_token.as_deref(), Some("t"));
    let (_directory, secret) = file("  secret \nmore\n");
    let words = ["--origin-access-key", "F", "--origin-secret-key-file", &secret];
    let given = credentials(&[&s3[..], &words[..]].concat()).unwrap();
    assert_eq!((given.access_key.as_str(), given.secret_key.as_str()), ("F", "secret"));
    assert_eq!(given.session_token, None);
    assert_eq!(credentials(&["--origin", "file:x"]), None, "a folder takes no keys");
}

#[test]
fn secrets_are_not_printed() {
    let config = load(&["--access-key", "A", "--secret-key", "hush"]).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

/// Secrets of the sample file of keys.
fn variable(name: &str) -> Option<String> {
    matches!(name, "LAKE_READER_SECRET" | "LOADER_SECRET").then(|| format!("secret of {name}"))
}

fn load_keys(text: &str) -> Result<Config, String> {
    let (_directory, path) = file(text);
    let words = ["--keys-file", &path, "--access-key", "pair", "--secret-key", "s"];
    let gathered = layers::gather(&flags(&words)).unwrap();
    check::check(&gathered, &variable).map_err(|error| error.to_string().replace(&path, "FILE"))
}

#[test]
fn the_sample_of_keys_is_valid() {
    let config = load_keys(include_str!("../../../../config/keys.toml")).unwrap();
    let [reader, loader] = &config.more_keys[..] else { panic!("{:?}", config.more_keys) };
    let rules = AccessRules::all(Access::None)
        .with("lake/", Access::Read)
        .with("lake/private/", Access::None);
    assert_eq!((reader.pair.access_key.as_str(), &reader.rules), ("lake-reader", &rules));
    assert_eq!(reader.pair.secret_key, "secret of LAKE_READER_SECRET");
    assert_eq!(loader.rules, AccessRules::all(Access::ReadWrite));
}

#[test]
fn a_mistake_in_the_file_of_keys_is_named() {
    let a = "[[key]]\naccess-key = 'a'\n";
    for (text, said) in [
        ("", "FILE has no keys"),
        ("[[key]\n", "FILE: line 1: unclosed array table, expected `]`"),
        (
            "[[key]]\nname = 'a'\n",
            "FILE: line 2: unknown field `name`, expected one of `access-key`, `secret-key`, `secret-key-file`, `secret-key-variable`, `access`, `rules`",
        ),
        (a, "FILE: key 1 (\"a\"): give one of secret-key, secret-key-file and secret-key-variable"),
        (
            &format!("{a}secret-key = ''"),
            "FILE: key 1 (\"a\"): give one of secret-key, secret-key-file and secret-key-variable",
        ),
        (
            &format!("{a}secret-key-variable = 'NONE'"),
            "FILE: key 1 (\"a\"): the variable NONE is not set, or empty",
        ),
        (
            &format!("{a}secret-key = 's'\naccess = 'all'"),
            "FILE: key 1 (\"a\"): \"all\": write none, read, write or read-write",
        ),
        (
            &format!("{a}secret-key = 's'\nrules = [{{ prefix = '/b', access = 'read' }}]"),
            "FILE: key 1 (\"a\"): the prefix \"/b\" is not of the form BUCKET/KEY",
        ),
        (
            &format!("{a}secret-key = 's'\n{a}secret-key = 's'"),
            "FILE: key 2 (\"a\"): it is named twice",
        ),
        (
            "[[key]]\nsecret-key = 's'\n",
            "FILE: key 1 (\"\"): an access key is visible ASCII without spaces, slashes, commas and equals signs",
        ),
    ] {
        assert_eq!(load_keys(text).unwrap_err(), format!("endpoint.keys-file: {said}"), "{text}");
    }
    let twice = "[[key]]\naccess-key = 'pair'\nsecret-key = 's'\n";
    let said = "endpoint.access-key: pair is in FILE too: leave one out";
    assert_eq!(load_keys(twice).unwrap_err(), said);
}

#[test]
fn a_certificate_needs_its_key() {
    check_flags(
        &["--certificate-file", "a.pem"],
        "endpoint.private-key-file: is missing: a certificate is given",
    );
    check_flags(
        &["--private-key-file", "a.pem"],
        "endpoint.certificate-file: is missing: a private key is given",
    );
    let (_directory, empty) = file("");
    check_flags(
        &["--certificate-file", &empty, "--private-key-file", &empty],
        &format!("endpoint.certificate-file: {empty}: there is no certificate in PEM form"),
    );
}

#[test]
fn what_a_running_process_cannot_change_is_named() {
    let before = load(&[]).unwrap();
    let same = ["--freshness", "immutable", "--keep-rule", "logs/=pin"];
    assert_eq!(before.fixed_that_differ(&load(&same).unwrap()), [""; 0]);
    for (words, key) in [
        (["--listen", "127.0.0.1:1"], "endpoint.listen"),
        (["--origin-retries", "7"], "origin (but for its keys)"),
        (["--chunk", "64KiB"], "device"),
        (["--keep-pinned", "20%"], "keep.pinned"),
        (["--keep-pins-file", "other"], "keep.pins-file"),
        (["--limits-idle", "1s"], "limits"),
        (["--log-format", "json"], "log.format"),
        (["--access-log", "access.json"], "log.access"),
    ] {
        assert_eq!(before.fixed_that_differ(&load(&words).unwrap()), [key]);
    }
    let with_key = |key| {
        let keys = ["--origin-access-key", key, "--origin-secret-key", "s"];
        load(&[&["--origin", "s3:http://h"], &keys[..]].concat()).unwrap()
    };
    assert_eq!(with_key("a").fixed_that_differ(&with_key("b")), [""; 0]);
}

#[test]
fn a_second_question_leaves_after_a_time_or_a_share() {
    let hedge = |text| load(&["--origin-hedge", text]).map(|config| config.origins[0].limits.hedge);
    assert_eq!(hedge("").unwrap(), None);
    assert_eq!(hedge("p95").unwrap(), Some(zonal_origin::Hedge::Percentile(95)));
    let time = std::time::Duration::from_millis(200);
    assert_eq!(hedge("200ms").unwrap(), Some(zonal_origin::Hedge::After(time)));
    check_flags(
        &["--origin-hedge", "95"],
        "origin.hedge: \"95\": write a time, such as 200ms, or p50 to p99",
    );
}

#[test]
fn several_origins_share_the_buckets() {
    let (_directory, path) = file(
        "[[origin]]\nspec = 'file:a'\nbuckets = ['x', 'y']\nretries = 7\n\
         [[origin]]\nspec = 's3:https://h'\nname = 'cloud'\n",
    );
    let origins = load(&["--config", &path]).unwrap().origins;
    let [folder, cloud] = &origins[..] else { panic!("{origins:?}") };
    assert_eq!(
        (folder.name.as_str(), &folder.buckets[..]),
        ("file:a", &["x".into(), "y".into()][..])
    );
    assert_eq!((cloud.name.as_str(), &cloud.buckets[..]), ("cloud", &[][..]));
    assert_eq!((folder.limits.retries, cloud.limits.retries), (7, 3));
    // Flags name others, and count for all.
    let words = ["--config", &path, "--origin", "file:a", "--origin-stall", "9s"];
    let origins = load(&words).unwrap().origins;
    assert_eq!((origins.len(), &origins[0].buckets[..]), (1, &["x".into(), "y".into()][..]));
    assert_eq!(origins[0].limits.stall.as_secs(), 9);
    for (text, said) in [
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\n",
            "origin.spec: must not be empty: there are several origins",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:a'\n",
            "origin.name: \"file:a\" is the name of two: give them names of their own",
        ),
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\nspec = 'file:b'\n",
            "origin.buckets: only one origin can have all buckets that no other names: say which the others have",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:b'\nbuckets=['b']\n",
            "origin.buckets: \"b\" is named by two origins: clients would see one of them",
        ),
        ("[[origin]]\nbuckets=['a/b']\n", "origin.buckets: \"a/b\" is no bucket"),
        ("origin = []", "origin: there must be one at least"),
        (
            "[origin]\nspec = 'file:a'\n",
            "FILE: line 1: invalid type: map, expected a sequence: write it in double brackets, as [[origin]]",
        ),
    ] {
        check_file(text, said);
    }
}

#[test]
fn a_store_that_is_only_read_is_one_bucket() {
    let (_directory, path) = file(
        "[[origin]]\nspec = 'gcs:lake'\n[[origin]]\nspec = 'https://h/sets'\nbuckets = ['sets']\n",
    );
    let origins = load(&["--config", &path]).unwrap().origins;
    assert_eq!(
        (&*origins[0].buckets, &*origins[1].buckets),
        (&["lake".into()][..], &["sets".into()][..])
    );
    check_flags(
        &["--origin", "https://h/sets"],
        "origin.buckets: must name one: what clients are to call the files of this server",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-bucket", "a", "--origin-bucket", "b"],
        "origin.buckets: this kind of origin is one bucket: name one at most",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-secret-key", "k"],
        "origin.secret-key: Google's keys are a file: name it in origin.spec, as gcs:BUCKET?credentials=FILE",
    );
    check_flags(
        &["--origin", "azure:c?account=a", "--origin-access-key", "a", "--origin-secret-key", "k"],
        "origin.access-key: only S3 has one: leave it out",
    );
}

#[test]
fn domains_are_names() {
    let expected = Domains::default().with("s3.example.com").unwrap().with("localhost").unwrap();
    let words = ["--domain", "S3.example.com", "--domain", "localhost"];
    assert_eq!(load(&words).unwrap().domains, expected);
    let (_directory, path) = file("[endpoint]\ndomains = ['s3.example.com', 'localhost']\n");
    assert_eq!(load(&["--config", &path]).unwrap().domains, expected);
    for text in ["http://a", "a:9000", "127.0.0.1", "*.a", ""] {
        let said = "is no domain: write a name without scheme and port, such as s3.example.com";
        check_flags(&["--domain", text], &format!("endpoint.domains: {text:?} {said}"));
    }
}

#[test]
fn a_prefix_has_one_rule() {
    let said = "the prefix \"a/\" has two rules: leave one out";
    check_flags(
        &["--keep-rule", "a/=pin", "--keep-rule", "a/=never"],
        &format!("keep.rules: {said}"),
    );
    let words = ["--freshness-rule", "a/=immutable", "--freshness-rule", "a/=ttl=1s"];
    check_flags(&words, &format!("freshness.rules: {said}"));
    let words = ["--access-rule", "a/=none", "--access-rule", "a/=read"];
    check_flags(&words, &format!("access: {said}"));
}

#[test]
fn no_more_memory_is_taken_than_there_is() {
    for key in ["dram", "buffers"] {
        let said = load(&[&format!("--{key}"), "1000TiB"]).unwrap_err().to_string();
        let expected = format!("device.{key}: 1000TiB for each shard: the machine has ");
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn what_anybody_may_do_has_rules() {
    let expected = AccessRules::all(Access::Read).with("in/=x/", Access::ReadWrite);
    let words = ["--access", "read", "--access-rule", "in/=x/=read-write"];
    assert_eq!(load(&words).unwrap().access, expected);
    check_flags(
        &["--access-rule", "a/"],
        "access.rules: \"a/\": write PREFIX=ACCESS, such as lake/=read",
    );
    check_flags(&["--access", "all"], "access: \"all\": write none, read, write or read-write");
}

#[test]
fn the_origin_may_judge_requests_if_it_is_one_and_knows_the_keys() {
    assert_eq!(load(&[]).unwrap().authorization, Authorization::Keys);
    let origin = ["--authorization", "origin", "--origin", "s3:http://127.0.0.1:1"];
    assert_eq!(load(&origin).unwrap().authorization, Authorization::Origin);
    let more = |words: &[&str]| load(&[&origin, words].concat()).unwrap_err().to_string();
    let keys = "endpoint.authorization: origin: it knows the keys: leave endpoint.access-key and endpoint.keys-file out";
    assert_eq!(more(&["--access-key", "a", "--secret-key", "b"]), keys);
    let one =
        "endpoint.authorization: origin: this takes one origin, and that an S3 endpoint (s3:URL)";
    assert_eq!(more(&["--origin", "file:a"]), one);
    check_flags(&["--authorization", "origin"], one);
    check_flags(
        &["--authorization", "caller"],
        "endpoint.authorization: \"caller\": write keys or origin",
    );
}

/// A line of a configuration: a section, or a key with a value of whatever kind.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<String> = include_str!("../../../../config/zonal.toml")
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(key, _)| !key.starts_with('#'))
        .map(|(key, _)| key.to_owned())
        .collect();
    let section = "\\[\\[?(origin|device|endpoint|limits|keep|access|freshness|log|admin)\\]\\]?";
    let value = prop_oneof![
        "'[a-z0-9:/?=&.+-]{0,12}'",
        "'[0-9]{1,20}(s|ms|MiB|KiB|%|)'",
        "-?[0-9]{1,20}",
        "true|false|nan|\\[\\]|\\{\\}|\\['x'\\]",
        "\\[\\{ ?prefix = '[a-z/]{0,4}', (keep|access|freshness) = '[a-z=0-9]{0,6}' ?\\}\\]",
    ];
    prop_oneof![
        section,
        (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key} = {value}"))
    ]
}

proptest! {
    #[test]
    fn any_file_is_a_configuration_or_is_refused_in_words(
        lines in prop_oneof![prop::collection::vec(line(), 0..8), prop::collection::vec(".*", 0..4)],
    ) {
        let (_directory, path) = file(&lines.join("\n"));
        match load(&["--config", &path]) {
            Ok(config) => {
                prop_assert!(!config.devices.is_empty() && !config.origins.is_empty());
                prop_assert!(config.origins.iter().all(|origin| 0 < origin.limits.concurrent_reads));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
