//! The access keys of clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::access::AccessRules;

/// Access keys with their secrets and access rules.
#[derive(Clone, Default)]
pub struct AccessKeys {
    keys: BTreeMap<String, Key>,
}

#[derive(Clone)]
struct Key {
    secret: String,
    rules: Arc<AccessRules>,
}

impl AccessKeys {
    /// Adds a key. A later key with the same name replaces it.
    #[must_use]
    pub fn with(mut self, access_key: &str, secret_key: &str, rules: AccessRules) -> Self {
        let key = Key { secret: secret_key.to_owned(), rules: Arc::new(rules) };
        self.keys.insert(access_key.to_owned(), key);
        self
    }

    /// The secret and the access rules of a key.
    pub(super) fn get(&self, access_key: &str) -> Option<(&str, &Arc<AccessRules>)> {
        self.keys.get(access_key).map(|key| (key.secret.as_str(), &key.rules))
    }
}

impl fmt::Debug for AccessKeys {
    /// Prints the names of the keys, never a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}
