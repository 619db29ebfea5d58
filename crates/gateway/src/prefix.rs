//! Rules by prefix of the object's name.

use zonal_host::{Care, Freshness, ObjectName};

/// Rules by prefix, and one for everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRules<T> {
    /// The longest prefix first.
    by_prefix: Vec<(String, T)>,
    default: T,
}

/// How fresh a head must be to be served without asking the origin.
pub type FreshnessRules = PrefixRules<Freshness>;

/// What is kept.
pub type KeepRules = PrefixRules<Keep>;

/// What becomes of an object's bytes on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Admission and policy decide.
    Policy,
    /// They stay, as far as there is room for what is pinned.
    Pin,
    /// They are not kept: the origin answers.
    Never,
}

impl Keep {
    /// What a read asks of the cache; `None` when it does not ask.
    pub(crate) const fn care(self) -> Option<Care> {
        match self {
            Self::Policy => Some(Care::Usual),
            Self::Pin => Some(Care::Pinned),
            Self::Never => None,
        }
    }
}

impl<T: Copy> PrefixRules<T> {
    /// The same rule for everything.
    #[must_use]
    pub const fn all(default: T) -> Self {
        Self { by_prefix: Vec::new(), default }
    }

    /// Objects whose bucket, slash and key begin with `prefix` are under `rule`, unless a longer prefix
    /// fits. Of two rules for one prefix the later counts.
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

    /// The rules that count for some name which begins with `prefix`.
    pub(crate) fn within<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = T> + 'a {
        let longer = self.by_prefix.iter().filter(move |(known, _)| known.starts_with(prefix));
        longer.map(|(_, rule)| *rule).chain([self.of_name(prefix)])
    }

    /// Whether there is one rule for everything.
    pub(crate) const fn are_one(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// All rules, the longest prefix first, and the one for everything else last.
    pub fn rules(&self) -> impl Iterator<Item = T> + '_ {
        self.by_prefix.iter().map(|(_, rule)| *rule).chain([self.default])
    }
}

#[cfg(test)]
mod tests {
    use zonal_base::Nanos;

    use super::*;

    #[test]
    fn the_longest_prefix_that_fits_counts() {
        let (short, long) = (Freshness::Ttl(Nanos::secs(1)), Freshness::Ttl(Nanos::secs(2)));
        let rules = FreshnessRules::all(Freshness::Immutable)
            .with("lake/a/", Freshness::Immutable)
            .with("lake/", short)
            .with("lake/a/b", long)
            .with("lake/a/", long);
        for (key, expected) in [
            (("lake", "x"), short),
            (("lake", "a/x"), long),
            (("lake", "a/bc"), long),
            (("lake2", "a/x"), Freshness::Immutable),
        ] {
            let object = ObjectName::new(key.0, key.1);
            assert_eq!(rules.of(&object), expected, "{object}");
        }
    }
}
