//! Which rule of freshness an object is under.

use zonal_host::{Freshness, ObjectName};

/// Rules by prefix, and one for everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshnessRules {
    /// The longest prefix first.
    by_prefix: Vec<(String, Freshness)>,
    default: Freshness,
}

impl FreshnessRules {
    /// The same rule for everything.
    #[must_use]
    pub const fn all(default: Freshness) -> Self {
        Self { by_prefix: Vec::new(), default }
    }

    /// Objects whose bucket, slash and key begin with `prefix` are under `rule`, unless a longer prefix
    /// fits. Of two rules for one prefix the later counts.
    #[must_use]
    pub fn with(mut self, prefix: &str, rule: Freshness) -> Self {
        self.by_prefix.retain(|(known, _)| known != prefix);
        let at = self.by_prefix.partition_point(|(known, _)| prefix.len() <= known.len());
        self.by_prefix.insert(at, (prefix.to_owned(), rule));
        self
    }

    /// The rule for an object.
    #[must_use]
    pub fn of(&self, object: &ObjectName) -> Freshness {
        let fitting = self.by_prefix.iter().find(|(prefix, _)| object.as_str().starts_with(prefix));
        fitting.map_or(self.default, |(_, rule)| *rule)
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
