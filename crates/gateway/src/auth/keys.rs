//! The access keys of clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::access::AccessRules;

/// Access keys with their secrets and access rules.
#[derive(Clone, Default)]
pub struct AccessKeys {
    keys: BTreeMap<String, Arc<AccessKey>>,
}

/// An access key with its secret and access rules.
pub(crate) struct AccessKey {
    pub(crate) name: Arc<str>,
    pub(super) secret: String,
    pub(crate) rules: AccessRules,
}

impl fmt::Debug for AccessKey {
    /// Prints the name, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl AccessKeys {
    /// Adds a key. A later key with the same name replaces it.
    #[must_use]
    pub fn with(mut self, access_key: &str, secret_key: &str, rules: AccessRules) -> Self {
        let (name, secret) = (access_key.into(), secret_key.to_owned());
        self.keys.insert(access_key.to_owned(), Arc::new(AccessKey { name, secret, rules }));
        self
    }

    /// The key with this name.
    pub(super) fn get(&self, access_key: &str) -> Option<&Arc<AccessKey>> {
        self.keys.get(access_key)
    }
}

impl fmt::Debug for AccessKeys {
    /// Prints the names of the keys, never a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}
