//! Request target: the service, a bucket or an object, in path style (`/bucket/key`) or
//! virtual-hosted style ([`Domains`](crate::Domains)).
//!
//! Keys are bytes that happen to be UTF-8. Nothing is normalised, so `a//b`, `./a`, `../a` and `a/`
//! are four distinct keys, and a `+` is a plus.

use std::borrow::Cow;

use zonal_s3::sigv4::decode_path;

/// Target of a request, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/`.
    Service,
    /// `/bucket` or `/bucket/`.
    Bucket(Cow<'a, str>),
    /// `/bucket/key`.
    Object {
        /// One to [`BUCKET_BYTES_MAX`] letters, digits, dots, dashes and underscores.
        bucket: Cow<'a, str>,
        /// Object key, decoded. Not empty.
        key: Cow<'a, str>,
    },
}

/// Why a path names no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadTarget {
    /// The path does not start with `/`, has invalid percent-encoding, or does not decode to UTF-8.
    Uri,
    /// Invalid bucket name. Names that contain a `/` must be refused: they would alias objects of
    /// another bucket.
    BucketName,
}

/// Longest bucket name in bytes, from the time before S3 required DNS names.
const BUCKET_BYTES_MAX: usize = 255;

impl<'a> Target<'a> {
    /// Parses the raw path of a path-style request.
    pub(crate) fn parse(raw_path: &'a str) -> Result<Self, BadTarget> {
        let path = raw_path.strip_prefix('/').ok_or(BadTarget::Uri)?;
        if path.is_empty() {
            return Ok(Self::Service);
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        Self::new(decode_path(bucket).ok_or(BadTarget::Uri)?, key)
    }

    /// Parses the raw path of a virtual-hosted request: the whole path is the key.
    pub(crate) fn within(bucket: String, raw_path: &'a str) -> Result<Self, BadTarget> {
        Self::new(bucket.into(), raw_path.strip_prefix('/').ok_or(BadTarget::Uri)?)
    }

    /// The bucket of the target, if it has one.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object { bucket, .. } => Some(bucket),
        }
    }

    fn new(bucket: Cow<'a, str>, key: &'a str) -> Result<Self, BadTarget> {
        if !is_bucket_name(&bucket) {
            return Err(BadTarget::BucketName);
        }
        if key.is_empty() {
            return Ok(Self::Bucket(bucket));
        }
        Ok(Self::Object { bucket, key: decode_path(key).ok_or(BadTarget::Uri)? })
    }
}

/// True for a legal bucket name.
#[must_use]
pub fn is_bucket_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    name.len() <= BUCKET_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object<'a>(bucket: &'a str, key: &'a str) -> Result<Target<'a>, BadTarget> {
        Ok(Target::Object { bucket: bucket.into(), key: key.into() })
    }

    #[track_caller]
    fn check(raw: &str, expected: Result<Target<'_>, BadTarget>) {
        assert_eq!(Target::parse(raw), expected, "{raw:?}");
    }

    #[test]
    fn a_path_is_a_bucket_and_a_key() {
        check("/", Ok(Target::Service));
        check("/b1", Ok(Target::Bucket("b1".into())));
        check("/b1/", Ok(Target::Bucket("b1".into())));
        check("/b1/k", object("b1", "k"));
        check("/b.1-x_Y/dir/k", object("b.1-x_Y", "dir/k"));
    }

    #[test]
    fn keys_are_decoded_and_otherwise_left_alone() {
        check("/b/a%20b+c", object("b", "a b+c"));
        check("/b/%E6%97%A5%2F%2e", object("b", "日/."));
        check("/b//", object("b", "/"));
        check("/b//a//b/", object("b", "/a//b/"));
        check("/b/./a/../c", object("b", "./a/../c"));
        check("/b/%2E%2E/c", object("b", "../c"));
        check("/b/a%00", object("b", "a\0"));
        check("/b/%25zz", object("b", "%zz"));
    }

    #[test]
    fn a_path_is_all_key_when_the_host_names_the_bucket() {
        let within = |raw| Target::within("b".to_owned(), raw);
        assert_eq!(within("/"), Ok(Target::Bucket("b".into())));
        assert_eq!(within("/c/k%20"), object("b", "c/k "));
        assert_eq!(within("//k"), object("b", "/k"));
        assert_eq!(within("/../c/k"), object("b", "../c/k"));
        assert_eq!(within("*"), Err(BadTarget::Uri));
        assert_eq!(within("/%FF"), Err(BadTarget::Uri));
        for bucket in ["", ".", "a/b", "a@b", "-b"] {
            assert_eq!(Target::within(bucket.to_owned(), "/k"), Err(BadTarget::BucketName));
        }
    }

    #[test]
    fn broken_encodings_are_refused() {
        for raw in ["", "*", "b/k", "/b/%", "/b/%z0", "/b/%4", "/b/%+1", "/b/%FF", "/%FF/k"] {
            check(raw, Err(BadTarget::Uri));
        }
    }

    #[test]
    fn a_bucket_name_cannot_reach_into_another_bucket() {
        for raw in ["//k", "/a%2Fb/k", "/../k", "/./k", "/.b/k", "/a b/k", "/a%00/k", "/-b/k"] {
            check(raw, Err(BadTarget::BucketName));
        }
        check(&format!("/{}/k", "b".repeat(256)), Err(BadTarget::BucketName));
    }

    proptest! {
        #[test]
        fn a_name_is_found_as_it_was_encoded(bucket in "[a-z0-9][a-z0-9._-]{2,8}[a-z0-9]", key in ".{1,12}") {
            let path = format!("/{bucket}/{}", zonal_s3::sigv4::encode_path(&key));
            let (bucket, key) = (bucket.into(), key.into());
            prop_assert_eq!(Target::parse(&path), Ok(Target::Object { bucket, key }));
        }

        #[test]
        fn no_path_makes_a_bucket_of_another_name(path in "/([a-z./%_-]|%2[ef]|%[0-9a-f]{2}|\\PC){0,16}|.*") {
            if let Ok(Target::Object { bucket, .. } | Target::Bucket(bucket)) = Target::parse(&path) {
                let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                prop_assert!(bucket.chars().all(legal) && !bucket.starts_with('.'));
            }
        }
    }
}
