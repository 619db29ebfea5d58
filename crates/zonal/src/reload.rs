//! SIGHUP: reads the configuration again while requests go on, and applies all of it or nothing.
//!
//! Access keys with what each may do, the keys that origins are asked with and the authorities that vouch for them, the certificate, domains, vendors' headers, who is let in at the admin endpoint, freshness and what is
//! kept take effect with the next request, chunk sizes with the next object that comes from the origin,
//! the level of the log at once, and the access log goes on in a new file.
//! What is built into a running process does not change: a configuration that changes it is refused, with the keys
//! that want a restart.

use zonal_gateway::{Access, AccessKeys, AccessRules, Terms};

use crate::config::{AccessTo, Config, Flags, Key, KeyPair};

/// Reads the configuration as the start did, and compares.
pub(crate) struct Reloader<'a> {
    flags: &'a Flags,
    /// What the process was started with.
    started_with: &'a Config,
    /// The pair of the data directory, when the configuration names none.
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

    /// Whether there is a file that may have changed: without one, nothing could be read again.
    pub(crate) fn has_files(&self) -> bool {
        let Config { secret_key_file, certificate, door, more_keys, origins, keep, log, .. } =
            self.started_with;
        matches!(log.access, Some(AccessTo::File(_)))
            || self.flags.config.is_some()
            || secret_key_file.is_some()
            || certificate.is_some()
            || door.has_files()
            || keep.is_pins_file_named
            || !more_keys.is_empty()
            || origins.iter().any(|origin| origin.has_file)
    }

    /// The configuration as it is written now, with the terms that it comes to, or why it cannot be taken.
    pub(crate) fn read(&self) -> Result<(Config, Terms), String> {
        let now = Config::load(self.flags).map_err(|error| error.to_string())?;
        let fixed = self.started_with.fixed_that_differ(&now);
        if !fixed.is_empty() {
            return Err(format!("{}: a change takes a restart", fixed.join(", ")));
        }
        let terms = terms(&now, self.kept_keys.as_ref());
        Ok((now, terms))
    }
}

/// The terms that a configuration comes to.
pub(crate) fn terms(config: &Config, kept_keys: Option<&KeyPair>) -> Terms {
    let everything = AccessRules::all(Access::ReadWrite);
    let pair = config.keys.as_ref().or(kept_keys);
    let pair = pair.map(|pair| (pair, &everything));
    let more = config.more_keys.iter().map(|Key { pair, rules }| (pair, rules));
    let access_keys = pair.into_iter().chain(more).fold(
        AccessKeys::default(),
        |keys, (KeyPair { access_key, secret_key }, rules)| {
            keys.with(access_key, secret_key, rules.clone())
        },
    );
    Terms {
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
