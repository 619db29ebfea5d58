//! `x-amz-copy-source`: parsed strictly, and rewritten in one canonical form.
//!
//! S3 takes `BUCKET/KEY` and `/BUCKET/KEY`, percent-encoded, with an optional `?versionId=V`.
//! Origins accept more: a URL with a host, a fragment, two slashes. A value that some origin could
//! read in another way than the gateway is refused.

use zonal_host::ObjectName;
use zonal_s3::Query;
use zonal_s3::sigv4::{decode_path, encode_path, encode_query_value};

use crate::ids;
use crate::target::is_bucket_name;

/// Source of a copy: an object, or one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopySource {
    pub(crate) object: ObjectName,
    version: Option<String>,
}

/// Why a copy source is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadCopySource {
    /// The percent-encoding is invalid.
    Encoding,
    /// The bucket name is invalid.
    Bucket,
    /// The object key is missing.
    Object,
    /// The value is ambiguous.
    Form,
}

impl CopySource {
    pub(crate) fn parse(text: &str) -> Result<Self, BadCopySource> {
        // A `?` in a key is encoded, so the first plain one begins the version.
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        // Some origins decode the whole value before they split it. Then an encoded slash separates
        // like a plain one. The gateway splits the same way.
        let path = decode_path(path).ok_or(BadCopySource::Encoding)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if !is_bucket_name(bucket) {
            return Err(BadCopySource::Bucket);
        }
        if key.is_empty() {
            return Err(BadCopySource::Object);
        }
        if key.chars().any(char::is_control) {
            return Err(BadCopySource::Form);
        }
        let version = match query {
            None => None,
            Some(query) => {
                let version = version_of(query).filter(|version| !ids::is_path_traversal(version));
                Some(version.ok_or(BadCopySource::Form)?)
            }
        };
        Ok(Self { object: ObjectName::new(bucket, key), version })
    }

    /// Every object that an origin may read: some origins decode the whole value before they split
    /// it, and find a version in the key.
    pub(crate) fn readings(&self) -> impl Iterator<Item = ObjectName> {
        let cut = self.object.key().split_once(VERSION_IN_KEY);
        let cut = cut.map(|(key, _)| ObjectName::new(self.object.bucket(), key));
        cut.into_iter().chain([self.object.clone()])
    }

    /// Every version id that an origin may read: the stated one, and one found in the key.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &str> {
        let in_key = self.object.key().split_once(VERSION_IN_KEY).map(|(_, version)| version);
        self.version.as_deref().into_iter().chain(in_key)
    }

    /// The canonical form, which is forwarded.
    pub(crate) fn to_header(&self) -> String {
        let mut header = format!("{}/{}", self.object.bucket(), encode_path(self.object.key()));
        if let Some(version) = &self.version {
            header.push_str("?versionId=");
            header.push_str(&encode_query_value(version));
        }
        header
    }
}

/// Start of a version id in the key, for origins that decode the whole value before they split it.
const VERSION_IN_KEY: &str = "?versionId=";

/// The version id. No other parameter is allowed.
fn version_of(query: &str) -> Option<String> {
    let query = Query::parse(Some(query)).ok()?;
    let mut pairs = query.iter();
    let version = pairs.next().filter(|(name, value)| *name == "versionId" && !value.is_empty());
    let (_, version) = version.filter(|_| pairs.next().is_none())?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str, &str)>) {
        let source = CopySource::parse(text).ok();
        let got = source.as_ref().map(|source| (source.object.bucket(), source.object.key()));
        assert_eq!(got, expected.map(|(bucket, key, _)| (bucket, key)), "{text:?}");
        let header = source.map(|source| source.to_header());
        assert_eq!(header.as_deref(), expected.map(|(_, _, header)| header), "{text:?}");
    }

    #[test]
    fn a_source_is_a_bucket_and_a_key_and_perhaps_a_version() {
        check("lake/a", Some(("lake", "a", "lake/a")));
        check("/lake/a/b", Some(("lake", "a/b", "lake/a/b")));
        check("lake/a%20b+c%3F", Some(("lake", "a b+c?", "lake/a%20b%2Bc%3F")));
        check("lake/a b", Some(("lake", "a b", "lake/a%20b")));
        check("%2Flake%2Fa", Some(("lake", "a", "lake/a")));
        check("lake%2Fa", Some(("lake", "a", "lake/a")));
        check("lake//a", Some(("lake", "/a", "lake//a")));
        check("lake/a?versionId=7", Some(("lake", "a", "lake/a?versionId=7")));
        check("lake/a#b", Some(("lake", "a#b", "lake/a%23b")));
        check("lake/a%3FversionId=7", Some(("lake", "a?versionId=7", "lake/a%3FversionId%3D7")));
        check("lake/a:b@c", Some(("lake", "a:b@c", "lake/a%3Ab%40c")));
    }

    #[test]
    fn what_an_origin_could_read_in_another_way_is_refused() {
        for text in [
            "",
            "/",
            "lake",
            "lake/",
            "//lake/private/a",
            "//lake:80/private/a",
            "//user@lake/private/a",
            "x:/private/a",
            "http://lake/private/a",
            "lake:80/a",
            "arn:aws:s3:us-east-1:1:accesspoint/p/object/a",
            " lake/a",
            "\\lake\\a",
            "../lake/a",
            "lake/a?",
            "lake/a?versionId",
            "lake/a?versionId=",
            "lake/a?versionid=7",
            "lake/a?versionId=7&versionId=8",
            "lake/a?versionId=7&x=1",
            "lake/a?b?versionId=7",
            "lake/a?versionId=../../b",
            "lake/%zz",
            "lake/%FF",
            "lake/a%00",
            "lake/a%0Ab",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_version_may_be_found_in_a_key() {
        let keys = |text| {
            let source = CopySource::parse(text).unwrap();
            source.readings().map(|object| object.key().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys("lake/a?versionId=7"), ["a"]);
        assert_eq!(keys("lake/a%3FversionId=7"), ["a", "a?versionId=7"]);
        assert_eq!(
            keys("lake/a%3fversionId%3D7%3FversionId=8"),
            ["a", "a?versionId=7?versionId=8"]
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, bad) in [
            ("lake/%zz", BadCopySource::Encoding),
            ("", BadCopySource::Bucket),
            ("my-buc@k&()t/a", BadCopySource::Bucket),
            ("lake:80/a", BadCopySource::Bucket),
            ("lake", BadCopySource::Object),
            ("/lake/", BadCopySource::Object),
            ("lake/a?", BadCopySource::Form),
        ] {
            assert_eq!(CopySource::parse(text), Err(bad), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(text in "(/|lake|a|%2F|%3F|\\?versionId=|[a-z:@#?%+&=. ]|\\PC){0,12}") {
            if let Ok(source) = CopySource::parse(&text) {
                prop_assert_eq!(CopySource::parse(&source.to_header()), Ok(source));
            }
        }
    }
}
