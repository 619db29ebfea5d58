//! Rules by prefix of the object name, matched by the longest prefix.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ObjectName;

/// Rules by prefix, and a default rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRules<T> {
    /// The longest prefix first.
    by_prefix: Vec<(String, T)>,
    default: T,
}

impl<T: Copy> PrefixRules<T> {
    /// One rule for all objects.
    #[must_use]
    pub const fn all(default: T) -> Self {
        Self { by_prefix: Vec::new(), default }
    }

    /// Adds `rule` for objects whose `bucket/key` begins with `prefix`; a longer prefix takes
    /// precedence. A second rule for the same prefix replaces the first.
    #[must_use]
    pub fn with(mut self, prefix: &str, rule: T) -> Self {
        self.by_prefix.retain(|(known, _)| known != prefix);
        let at = self.by_prefix.partition_point(|(known, _)| prefix.len() <= known.len());
        self.by_prefix.insert(at, (prefix.to_owned(), rule));
        self
    }

    /// The rule for an object.
    #[must_use]
    pub fn of(&self, object: &ObjectName) -> T {
        self.of_name(object.as_str())
    }

    fn of_name(&self, name: &str) -> T {
        let fitting = self.by_prefix.iter().find(|(prefix, _)| name.starts_with(prefix));
        fitting.map_or(self.default, |(_, rule)| *rule)
    }

    /// Rules that apply to some name with this prefix.
    pub fn within<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = T> + 'a {
        let longer = self.by_prefix.iter().filter(move |(known, _)| known.starts_with(prefix));
        longer.map(|(_, rule)| *rule).chain([self.of_name(prefix)])
    }

    /// True when one rule applies to all objects.
    #[must_use]
    pub const fn are_one(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// Rules with their prefixes, the longest prefix first, without the default.
    pub fn by_prefix(&self) -> impl Iterator<Item = (&str, T)> {
        self.by_prefix.iter().map(|(prefix, rule)| (prefix.as_str(), *rule))
    }

    /// All rules, the longest prefix first, the default last.
    pub fn rules(&self) -> impl Iterator<Item = T> + '_ {
        self.by_prefix().map(|(_, rule)| rule).chain([self.default])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_that_fits_counts() {
        let rules = PrefixRules::all(0)
            .with("lake/a/", 9)
            .with("lake/", 1)
            .with("lake/a/b", 2)
            .with("lake/a/", 1);
        for ((bucket, key), expected) in
            [(("lake", "x"), 1), (("lake", "a/x"), 1), (("lake", "a/bc"), 2), (("lake2", "a/x"), 0)]
        {
            let object = ObjectName::new(bucket, key);
            assert_eq!(rules.of(&object), expected, "{object}");
        }
    }
}
