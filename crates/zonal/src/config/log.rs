//! Log settings: validates level, format and access log.

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::check::{Checked, path, text};
use super::{AccessTo, ConfigError, Log, LogFormat};

/// Crates for which a level can be set: Zonal's own, and dependencies that log.
const CRATES: [&str; 24] = [
    "hyper_util",
    "object_store",
    "zonal",
    "zonal_admin",
    "zonal_api",
    "zonal_base",
    "zonal_block",
    "zonal_cache",
    "zonal_cli",
    "zonal_device",
    "zonal_emulator",
    "zonal_export",
    "zonal_credentials",
    "zonal_folder",
    "zonal_gateway",
    "zonal_host",
    "zonal_hostdev",
    "zonal_origin",
    "zonal_policy",
    "zonal_runtime",
    "zonal_s3",
    "zonal_shaper",
    "zonal_stores",
    "zonal_zonelog",
];

pub(super) fn checked(
    format: &Option<String>,
    of_level: &Option<String>,
    access: &Option<String>,
    record: &Option<String>,
) -> Checked<Log> {
    let format = match text(format) {
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => {
            return Err(ConfigError::new("log.format", format!("{other:?}: write text or json")));
        }
    };
    let level = level(text(of_level)).map_err(|why| ConfigError::new("log.level", why))?;
    let access = match text(access) {
        "" => None,
        "-" => Some(AccessTo::StandardOutput),
        path => Some(AccessTo::File(path.into())),
    };
    let record = path(record);
    if let (Some(AccessTo::File(access)), Some(record)) = (&access, &record)
        && access == record
    {
        let why = format!("{} is the access log: name another file", record.display());
        return Err(ConfigError::new("log.record", why));
    }
    Ok(Log { format, level, access, record })
}

fn level(text: &str) -> Result<Targets, String> {
    // `Targets` would take any word without an equals sign for the name of a crate.
    let words = text.split(',').filter(|word| !word.contains('='));
    let are_levels = words.map(str::parse::<LevelFilter>).all(|word| word.is_ok());
    let level: Targets = text.parse().ok().filter(|_| are_levels).ok_or_else(|| {
        format!("{text:?}: write error, warn, info, debug or trace, or info,zonal_host=debug")
    })?;
    for (target, _) in level.iter() {
        let name = target.split("::").next().unwrap_or_default();
        if !CRATES.contains(&name) {
            let distance = |one: &&str| strsim::damerau_levenshtein(one, name);
            let nearest = CRATES.into_iter().min_by_key(distance).expect("there are crates");
            return Err(format!("{text:?}: unknown log target {name}; did you mean {nearest}?"));
        }
    }
    // The SDK's crates log answers with credentials, requests with tokens, and the output of programs.
    // `zonal_credentials` logs why a provider failed.
    Ok(level.with_target("aws_", LevelFilter::OFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_ours_is_known() {
        const OF_EXPERIMENTS: [&str; 6] = ["bench", "lab", "laboratory", "sim", "slots", "watch"];
        let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| !OF_EXPERIMENTS.contains(&&**name)) {
            let name = if name == "zonal" { name } else { format!("zonal_{name}") };
            assert!(CRATES.contains(&&*name), "{name}");
        }
    }

    #[test]
    fn the_sdk_logs_nothing() {
        use tracing::Level;
        let of = |text: &str| level(text).unwrap();
        assert!(!of("trace").would_enable("aws_smithy_runtime::client::http", &Level::ERROR));
        assert!(of("trace").would_enable("zonal_credentials::renewal", &Level::TRACE));
    }

    /// Regression: a misspelt crate was accepted, and had no effect.
    #[test]
    fn what_does_not_log_is_refused() {
        let why = level("info,zonal_hst=debug").unwrap_err();
        assert_eq!(
            why,
            "\"info,zonal_hst=debug\": unknown log target zonal_hst; did you mean zonal_host?"
        );
        for text in ["info,zonal_host=debug", "zonal_host::keeper=trace", "warn,object_store=debug"]
        {
            assert!(level(text).is_ok(), "{text}");
        }
    }
}
