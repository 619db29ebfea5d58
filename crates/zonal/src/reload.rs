//! Reload on SIGHUP: reads the configuration again while requests continue, and applies all of it
//! or nothing.
//!
//! Effective from the next request: access keys and their rules, origin credentials and certificate
//! authorities, the certificate, domains, vendor headers, access control of the admin endpoint,
//! freshness and retention rules. Effective from the next object fetched: chunk sizes. Effective at
//! once: the log level; the access log is reopened. All other keys need a restart: a configuration
//! that changes one is refused, and the error names these keys.

use zonal_gateway::{Access, AccessKeys, AccessRules, RuntimeConfig};

use crate::config::{AccessTo, Config, Flags, KeyEntry, KeyPair};

/// Reads the configuration as the start did, and compares both.
pub(crate) struct Reloader<'a> {
    flags: &'a Flags,
    /// The configuration of the start.
    started_with: &'a Config,
    /// The key pair of the data directory, if the configuration names none.
    kept_keys: Option<KeyPair>,
}

impl<'a> Reloader<'a> {
    pub(crate) const fn new(
        flags: &'a Flags,
        started_with: &'a Config,
        kept_keys: Option<KeyPair>,
    ) -> Self {
        Self { flags, started_with, kept_keys }
    }

    /// Whether any part of the configuration comes from a file. Without one, a reload cannot change
    /// anything.
    pub(crate) fn has_files(&self) -> bool {
        let Config {
            secret_key_file,
            certificate,
            admin_security,
            more_keys,
            origins,
            keep,
            log,
            ..
        } = self.started_with;
        matches!(log.access, Some(AccessTo::File(_)))
            || self.flags.config.is_some()
            || secret_key_file.is_some()
            || certificate.is_some()
            || admin_security.has_files()
            || keep.is_pins_file_named
            || !more_keys.is_empty()
            || origins.iter().any(|origin| origin.has_file)
    }

    /// The current configuration with its request rules, or the reason why it is refused.
    pub(crate) fn read(&self) -> Result<(Config, RuntimeConfig), String> {
        let now = Config::load(self.flags).map_err(|error| error.to_string())?;
        let fixed = self.started_with.fixed_that_differ(&now);
        if !fixed.is_empty() {
            return Err(format!("{}: restart to change this", fixed.join(", ")));
        }
        let runtime_config = runtime_config(&now, self.kept_keys.as_ref());
        Ok((now, runtime_config))
    }
}

/// Derives the request rules (keys, access, freshness, retention) from a configuration.
pub(crate) fn runtime_config(config: &Config, kept_keys: Option<&KeyPair>) -> RuntimeConfig {
    let everything = AccessRules::all(Access::ReadWrite);
    let pair = config.keys.as_ref().or(kept_keys);
    let pair = pair.map(|pair| (pair, &everything));
    let more = config.more_keys.iter().map(|KeyEntry { pair, rules }| (pair, rules));
    let access_keys = pair.into_iter().chain(more).fold(
        AccessKeys::default(),
        |keys, (KeyPair { access_key, secret_key }, rules)| {
            keys.with(access_key, secret_key, rules.clone())
        },
    );
    RuntimeConfig {
        access_keys,
        domains: config.domains.clone(),
        vendor_headers: config.vendor_headers.clone(),
        access: config.access.clone(),
        freshness: config.freshness.clone(),
        keep: config.keep.rules.clone(),
        pins: config.keep.pins.clone(),
        certificate: config.certificate.clone(),
    }
}
