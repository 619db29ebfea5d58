//! Query string of a request, decoded into pairs.

use std::borrow::Cow;

use crate::sigv4::{PAIRS_EXPECTED, decode_query_value, query_pairs};

/// Decoded parameters in request order. A parameter without `=` has an empty value.
#[derive(Debug, Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The percent-encoding of the query is broken, or it does not decode to UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadQuery;

impl<'a> Query<'a> {
    /// Parses the raw query, without the `?`.
    ///
    /// # Errors
    /// A `%` without two hexadecimal digits after it, or bytes that are not UTF-8.
    pub fn parse(raw: Option<&'a str>) -> Result<Self, BadQuery> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let mut pairs = Vec::with_capacity(PAIRS_EXPECTED);
        for (name, value) in query_pairs(raw) {
            let name = decode_query_value(name).ok_or(BadQuery)?;
            pairs.push((name, decode_query_value(value).ok_or(BadQuery)?));
        }
        Ok(Self { pairs })
    }

    /// Value of the first parameter with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// True if a parameter has this name, with or without a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All parameters as pairs of name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Keeps only the parameters whose names satisfy `is_wanted`.
    pub fn filtered(mut self, is_wanted: impl Fn(&str) -> bool) -> Self {
        self.pairs.retain(|(name, _)| is_wanted(name));
        self
    }

    /// True if `names` contains the name of every parameter.
    pub fn has_only(&self, names: &[&str]) -> bool {
        self.iter().all(|(name, _)| names.contains(&name))
    }
}

/// True if a parameter is part of the operation. False for the parameters of a signature
/// (`X-Amz-*`) and for `x-id`, which only repeats the operation's name.
pub fn says_what(parameter: &str) -> bool {
    !parameter.starts_with("X-Amz-") && parameter != "x-id"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(raw: &str) -> Option<Vec<(String, String)>> {
        let query = Query::parse(Some(raw)).ok()?;
        Some(query.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn parameters_are_decoded_in_order() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("acl"), Some(vec![pair("acl", "")]));
        assert_eq!(
            pairs("prefix=a%2Fb+c&x=1=2&&%61=%2B"),
            Some(vec![pair("prefix", "a/b c"), pair("x", "1=2"), pair("a", "+")])
        );
        assert_eq!(pairs(""), Some(vec![]));
    }

    #[test]
    fn broken_encodings_are_refused() {
        assert_eq!(pairs("a=%"), None);
        assert_eq!(pairs("%zz=1"), None);
        assert_eq!(pairs("a=%FF+"), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(wanted in prop::collection::vec((".{1,6}", ".{0,6}"), 0..5)) {
            use crate::sigv4::encode_query_value as encode;
            let raw: Vec<_> =
                wanted.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
            prop_assert_eq!(pairs(&raw.join("&")), Some(wanted));
        }

        #[test]
        fn any_query_is_read_or_refused(raw in "([a-z=&+%0-9é]|%[0-9a-f]{2}){0,20}") {
            let is_whole = |escape: &str| {
                escape.get(..2).is_some_and(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()))
            };
            let is_read = pairs(&raw).is_some();
            prop_assert!(!is_read || raw.split('%').skip(1).all(is_whole));
        }
    }
}
