//! Pins set by an operator, in addition to the pins of the keep rules.

use std::collections::{BTreeSet, HashSet};

use zonal_host::ObjectName;

/// Pinned objects and prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    objects: HashSet<ObjectName>,
    /// Bucket, slash, and the beginning of the key.
    prefixes: BTreeSet<String>,
}

impl Pins {
    /// Pins an object. False if it was pinned already.
    pub fn pin(&mut self, object: ObjectName) -> bool {
        self.objects.insert(object)
    }

    /// Pins a prefix (bucket, slash, and the beginning of the key). False if it was pinned already.
    pub fn pin_below(&mut self, prefix: &str) -> bool {
        self.prefixes.insert(prefix.to_owned())
    }

    /// Unpins an object. False if it was not pinned by name.
    pub fn unpin(&mut self, object: &ObjectName) -> bool {
        self.objects.remove(object)
    }

    /// Unpins all prefixes and objects that begin with `prefix`. Returns the objects, sorted.
    pub fn unpin_below(&mut self, prefix: &str) -> Vec<ObjectName> {
        self.prefixes.retain(|known| !known.starts_with(prefix));
        let objects = self.objects.extract_if(|object| object.as_str().starts_with(prefix));
        let mut objects: Vec<ObjectName> = objects.collect();
        objects.sort_unstable();
        objects
    }

    /// A pinned prefix of the object, if there is one.
    pub fn prefix_of(&self, object: &ObjectName) -> Option<&str> {
        let fits = |prefix: &&String| object.as_str().starts_with(prefix.as_str());
        self.prefixes.iter().find(fits).map(String::as_str)
    }

    /// True if the object is pinned, by name or by prefix.
    pub(crate) fn have(&self, object: &ObjectName) -> bool {
        self.objects.contains(object) || self.prefix_of(object).is_some()
    }

    /// The pinned objects, sorted.
    pub fn objects(&self) -> Vec<&ObjectName> {
        let mut objects: Vec<&ObjectName> = self.objects.iter().collect();
        objects.sort_unstable();
        objects
    }

    /// The pinned prefixes, sorted.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.prefixes.iter().map(String::as_str)
    }

    /// Number of objects pinned by name.
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// Number of pinned prefixes.
    pub fn prefix_count(&self) -> usize {
        self.prefixes.len()
    }

    /// True if nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.prefixes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str) -> ObjectName {
        ObjectName::new("b", key)
    }

    #[test]
    fn an_object_is_pinned_by_its_name_or_a_prefix_of_it() {
        let mut pins = Pins::default();
        assert!(pins.pin(object("a")) && !pins.pin(object("a")) && pins.pin_below("b/p/"));
        for (key, is_pinned) in [("a", true), ("ab", false), ("p/x", true), ("p", false)] {
            assert_eq!(pins.have(&object(key)), is_pinned, "{key}");
        }
        assert!(!pins.have(&ObjectName::new("c", "a")));
        assert!(pins.unpin(&object("a")) && !pins.unpin(&object("p/x")));
        assert!(!pins.have(&object("a")) && pins.have(&object("p/x")), "the prefix still does");
    }

    #[test]
    fn what_is_named_below_a_prefix_goes_with_it() {
        let mut pins = Pins::default();
        for key in ["p/b", "p/a", "q"] {
            pins.pin(object(key));
        }
        for prefix in ["b/p/", "b/p/c/", "b/"] {
            pins.pin_below(prefix);
        }
        assert_eq!(pins.unpin_below("b/p/"), [object("p/a"), object("p/b")]);
        assert_eq!((pins.objects(), pins.prefixes().collect()), (vec![&object("q")], vec!["b/"]));
        assert_eq!(pins.unpin_below("b/"), [object("q")]);
        assert!(pins.is_empty());
    }
}
