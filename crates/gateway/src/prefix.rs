//! Rules by prefix of the object's name.

use zonal_base::Nanos;
use zonal_host::{Asking, Care, Freshness, ObjectName, Trust};

/// Rules by prefix, and one for everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRules<T> {
    /// The longest prefix first.
    by_prefix: Vec<(String, T)>,
    default: T,
}

/// How fresh answers must be.
pub type FreshnessRules = PrefixRules<FreshnessRule>;

/// What is kept.
pub type KeepRules = PrefixRules<Keep>;

/// How fresh answers about an object must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessRule {
    /// Its version, for who reads its bytes.
    pub object: Freshness,
    /// What HEAD is answered; `None`: as `object`.
    pub head: Option<Freshness>,
    /// For how long it is remembered that there is no such object. 0: not at all.
    pub missing: Nanos,
    /// For how long after its version was fresh it is served when the origin fails. 0: not at all.
    pub stale_if_error: Nanos,
}

impl From<Freshness> for FreshnessRule {
    /// The same for GET and HEAD, and nothing else.
    fn from(object: Freshness) -> Self {
        Self { object, head: None, missing: Nanos(0), stale_if_error: Nanos(0) }
    }
}

impl FreshnessRule {
    /// What a GET trusts.
    #[must_use]
    pub const fn of_get(self) -> Trust {
        let Self { object: head, missing: absence, stale_if_error: stale, .. } = self;
        Trust { head, absence, stale, asking: Asking::Allowed }
    }

    /// What a HEAD trusts.
    pub(crate) fn of_head(self) -> Trust {
        Trust { head: self.head.unwrap_or(self.object), ..self.of_get() }
    }

    /// Whether no version is ever served that the origin did not confirm for it.
    pub(crate) fn always_asks(self) -> bool {
        self.object.always_asks()
            && self.head.is_none_or(Freshness::always_asks)
            && self.stale_if_error == Nanos(0)
    }
}

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
    use super::*;

    #[test]
    fn the_longest_prefix_that_fits_counts() {
        let [short, long] = [1, 2].map(|n| Freshness::Ttl(Nanos::secs(n)));
        let rules = PrefixRules::all(Freshness::Immutable)
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
