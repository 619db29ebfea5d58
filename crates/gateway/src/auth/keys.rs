//! The access keys that may come in.

use std::collections::BTreeMap;
use std::fmt;

/// Access keys and their secrets.
#[derive(Clone, Default)]
pub struct AccessKeys {
    secrets: BTreeMap<String, String>,
}

impl AccessKeys {
    /// A table with one key pair.
    #[must_use]
    pub fn one(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self { secrets: BTreeMap::from([(access_key.into(), secret_key.into())]) }
    }

    pub(super) fn secret(&self, access_key: &str) -> Option<&str> {
        self.secrets.get(access_key).map(String::as_str)
    }
}

impl fmt::Debug for AccessKeys {
    /// Never prints a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.secrets.keys()).finish()
    }
}
