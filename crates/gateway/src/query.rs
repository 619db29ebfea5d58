//! The query string of a request, decoded into pairs.

use std::borrow::Cow;

use crate::target::decode;

/// The parameters in the order of the request; a parameter without `=` has an empty value.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The percent-encoding of the query is broken, or it does not decode to UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadQuery;

impl<'a> Query<'a> {
    /// Reads what stood behind the `?`.
    pub(crate) fn parse(raw: Option<&'a str>) -> Result<Self, BadQuery> {
        let mut pairs = Vec::new();
        for pair in raw.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode_plus(name)?, decode_plus(value)?));
        }
        Ok(Self { pairs })
    }

    /// The value of the first parameter of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Whether there is a parameter of this name, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All parameters, names first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

/// In a query, unlike in a path, a `+` stands for a space.
fn decode_plus(raw: &str) -> Result<Cow<'_, str>, BadQuery> {
    if !raw.contains('+') {
        return decode(raw).ok_or(BadQuery);
    }
    let spaced = raw.replace('+', " ");
    decode(&spaced).map(|text| Cow::Owned(text.into_owned())).ok_or(BadQuery)
}

#[cfg(test)]
mod tests {
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
}
