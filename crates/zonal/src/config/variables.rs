//! Environment check: refuses unknown variables with the prefix `ZONAL_`, which are probably
//! misspelt.

use std::ffi::OsString;

use clap::{Args, Command};

use super::{BlockFlags, ConfigError, Flags};

/// Prefix of all environment variables of Zonal.
const PREFIX: &str = "ZONAL_";

/// Flags that people try, each with what to write instead. Variables named after them get the same
/// answer.
pub(crate) const WRONG_FLAGS: [(&str, &str); 29] = [
    ("--cache-size", SIZE),
    ("--cache-dir", SIZE),
    ("--cache-path", SIZE),
    ("--disk-size", SIZE),
    ("--size", SIZE),
    ("--device", "the devices of zonal block are --capacity and --buffer"),
    ("-c", "write --config FILE"),
    ("-t", "write zonal config check --config FILE"),
    ("-1", "a number is 0 or more"),
    ("--port", "the port belongs to the address: --listen 127.0.0.1:PORT"),
    ("--bind", "write --listen IP:PORT"),
    ("--address", "write --listen IP:PORT"),
    ("--host", "write --listen IP:PORT"),
    ("--endpoint", "write --origin s3:https://HOST"),
    ("--endpoint-url", "write --origin s3:https://HOST"),
    ("--upstream", "write --origin s3:https://HOST"),
    ("--backend", "write --origin s3:https://HOST"),
    ("--bucket", "write --origin-bucket NAME"),
    ("--origin-region", "the region belongs to the spec: --origin 's3:https://HOST?region=REGION'"),
    ("--ttl", "write --freshness ttl=60s"),
    ("--verbose", "write --log-level debug"),
    ("--debug", "write --log-level debug"),
    ("--threads", "write --shards N"),
    ("--workers", "write --shards N"),
    ("--eviction-policy", "write --policy NAME"),
    ("--chunk-size", "write --chunk SIZE"),
    ("--tls-cert", "write --certificate-file FILE"),
    ("--tls-key", "write --private-key-file FILE"),
    ("--metrics-port", "metrics are at the admin endpoint: --admin IP:PORT"),
];

const SIZE: &str = "place and size belong to the device: --device 'file:PATH?size=8GiB' (of \
                    zonal block: --capacity)";

/// Variables of the project's own tests, which may run in the same shell.
const OF_TESTS: [&str; 9] = [
    "ZONAL_AZURITE",
    "ZONAL_FAKE_GCS",
    "ZONAL_KILL_ROUNDS",
    "ZONAL_KILL_SEED",
    "ZONAL_NBD_CLIENTS",
    "ZONAL_SIM_SEED",
    "ZONAL_SIM_SEEDS",
    "ZONAL_TEST_BLOCK_DEVICE",
    "ZONAL_VERSITYGW",
];

/// Refuses the first unknown variable with the prefix, and names the nearest known one.
pub(super) fn refuse_unknown(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(), ConfigError> {
    let known = known();
    for (name, value) in variables {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let is_fine = !name.starts_with(PREFIX)
            || known.iter().any(|(variable, _)| *variable == *name)
            || OF_TESTS.contains(&&*name)
            || is_of_a_service(&name, &value);
        if !is_fine {
            let flag = format!("--{}", name[PREFIX.len()..].to_lowercase().replace('_', "-"));
            if let Some((_, advice)) = WRONG_FLAGS.iter().find(|(wrong, _)| *wrong == flag) {
                let why = format!("unknown environment variable {name}: {advice}");
                return Err(ConfigError::new("", why));
            }
            let distance = |text: &str| strsim::damerau_levenshtein(text, &name);
            let either =
                |(variable, flag): &&(String, String)| distance(variable).min(distance(flag));
            let nearest = known.iter().min_by_key(either).expect("there are flags");
            // Another word is nearer to no variable than to any other.
            let is_near = either(&nearest) <= (name.len() - PREFIX.len()) / 2;
            let why = match is_near {
                true => format!("unknown environment variable {name}; did you mean {}?", nearest.0),
                false => format!("unknown environment variable {name}: remove it (see --help)"),
            };
            return Err(ConfigError::new("", why));
        }
    }
    Ok(())
}

/// All known variables, each with the name that its flag suggests.
fn known() -> Vec<(String, String)> {
    let commands = [
        Flags::augment_args(Command::new("serve")),
        BlockFlags::augment_args(Command::new("block")),
    ];
    let names = commands.iter().flat_map(Command::get_arguments).filter_map(|flag| {
        let suggested = flag.get_long()?.replace('-', "_").to_uppercase();
        Some((flag.get_env()?.to_str()?.to_owned(), format!("{PREFIX}{suggested}")))
    });
    names.collect()
}

/// Kubernetes sets variables for every service, named after the service. A service named `zonal`
/// leads to `ZONAL_SERVICE_HOST`, `ZONAL_SERVICE_PORT_S3`, `ZONAL_PORT=tcp://10.0.0.1:9000` and
/// `ZONAL_PORT_9000_TCP_ADDR`.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let numbered = name.split_once("_PORT_").is_some_and(|(_, rest)| {
        let (number, rest) = rest.split_once('_').unwrap_or((rest, ""));
        number.parse::<u16>().is_ok()
            && ["TCP", "UDP", "SCTP"].iter().any(|it| rest.starts_with(it))
    });
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT") && value.contains("://")
        || numbered
}
