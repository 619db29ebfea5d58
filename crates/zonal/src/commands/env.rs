//! `zonal env`: shell commands that point AWS clients in a shell at a `zonal serve`.
//!
//! 1. Load the part of the server's configuration that clients need: address, region, key pair.
//! 2. Unset the variables of this shell that would override it.
//! 3. Export the endpoint, the region and the key pair.

use std::fmt::Write;

use zonal_cli::{Failure, print};

use crate::banner::{self, quoted, quoted_path, url};
use crate::config::{ClientConfig, ClientFlags, ClientKeys};
use crate::data_dir;

/// Print shell commands that point AWS clients at Zonal: eval "$(zonal env)"
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: ClientFlags,
}

const EXAMPLES: &str = "\
Examples:
  eval \"$(zonal env)\"                               the defaults of zonal serve, in its directory
  eval \"$(zonal env --config /etc/zonal/zonal.toml)\"

Run it in a shell of its own: it replaces AWS settings in that shell. Use the flags that zonal serve was started with.";

/// AWS variables that take precedence over the exported ones, or contradict them. Only those that
/// the shell has are unset.
const OVERRIDES: [&str; 8] = [
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_ENDPOINT_URL_S3",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
];

/// Of them, those that belong to the key pair. They stay where the origin's keys are used.
const OF_KEYS: [&str; 4] =
    ["AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"];

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let text = commands(args).inspect_err(|_| {
        // A failure to print it adds nothing to the failure that is reported.
        let _ = print::text(FAILED);
    })?;
    print::text(&text)
}

/// What a failed run prints: without it `eval` would succeed, and a script would go on with the
/// shell's other AWS settings.
const FAILED: &str = "false\n";

fn commands(args: &Args) -> Result<String, Failure> {
    let config = ClientConfig::load(&args.flags).map_err(Failure::request)?;
    let keys = match &config.keys {
        ClientKeys::Pair(keys) => Some(keys.clone()),
        ClientKeys::Generated(data_dir) => Some(data_dir::stored_keys(data_dir)?),
        ClientKeys::OfOrigin => None,
    };
    let mut text = String::new();
    let is_kept = |name: &&str| keys.is_none() && OF_KEYS.contains(name);
    for name in OVERRIDES.iter().filter(|name| !is_kept(name)) {
        if std::env::var_os(name).is_some() {
            let _ = writeln!(text, "unset {name}");
        }
    }
    let mut export = |name: &str, value: &str| {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    };
    if let Some(keys) = &keys {
        export("AWS_ACCESS_KEY_ID", &keys.access_key);
        export("AWS_SECRET_ACCESS_KEY", &keys.secret_key);
        export("AWS_REGION", &config.region);
        export("AWS_DEFAULT_REGION", &config.region);
    }
    let scheme = banner::scheme(config.certificate.as_deref());
    export("AWS_ENDPOINT_URL", &url(scheme, config.listen));
    if let Some(path) = &config.certificate {
        eprintln!(
            "zonal: HTTPS: if the system does not trust the certificate, also run: export AWS_CA_BUNDLE={}",
            quoted_path(path)
        );
    }
    Ok(text)
}
