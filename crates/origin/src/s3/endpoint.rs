//! S3 endpoint address, and the URLs of buckets and objects.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};
use zonal_s3::sigv4::encode_path;

/// Addressing style: place of the bucket name in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// `http://host/bucket/key`: supported by every endpoint.
    PathStyle,
    /// `http://bucket.host/key`: preferred by AWS.
    VirtualHosted,
}

/// Scheme, host and addressing style of an S3 service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    addressing: Addressing,
}

/// The text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    /// The rejected text.
    pub text: String,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an endpoint: write http://HOST[:PORT] or https://HOST[:PORT]",
            self.text
        )
    }
}

impl std::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Parses `http://HOST[:PORT]` or `https://HOST[:PORT]`, with path-style addressing.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let fail = || EndpointError { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| fail())?;
        let parts = uri.into_parts();
        let no_path = parts.path_and_query.is_none_or(|path| path == "/");
        match (parts.scheme, parts.authority) {
            (Some(scheme), Some(authority))
                if no_path
                    && (scheme == Scheme::HTTP || scheme == Scheme::HTTPS)
                    && !authority.as_str().contains('@') =>
            {
                Ok(Self { scheme, authority, addressing: Addressing::PathStyle })
            }
            _ => Err(fail()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl Endpoint {
    /// Changes the addressing style.
    #[must_use]
    pub fn addressed(self, addressing: Addressing) -> Self {
        Self { addressing, ..self }
    }

    pub(super) const fn addressing(&self) -> Addressing {
        self.addressing
    }

    /// URL scheme, HTTP or HTTPS.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// True if `host`, the `Host` value of a request, is this endpoint.
    pub(super) fn is_at(&self, host: &str) -> bool {
        self.authority.as_str().eq_ignore_ascii_case(host)
    }

    /// The URL of a raw path and query at this endpoint. `None` if they form no URL.
    pub(super) fn url_as_it_is(&self, path_and_query: &str) -> Option<Uri> {
        let builder = Uri::builder().scheme(self.scheme.clone());
        builder.authority(self.authority.clone()).path_and_query(path_and_query).build().ok()
    }

    /// The URL of an object; of the bucket if the key is empty, of the service if the bucket is
    /// empty. `None` for a name that no S3 bucket can have: it could change the host or the path of
    /// the URL.
    pub(super) fn url(&self, bucket: &str, key: &str, query: Option<&str>) -> Option<Uri> {
        let mut authority = self.authority.to_string();
        let mut path = String::from("/");
        if !bucket.is_empty() {
            self.address(bucket, &mut authority, &mut path)?;
            path.push_str(&encode_path(key));
        }
        if let Some(query) = query {
            path.push('?');
            path.push_str(query);
        }
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(authority)
            .path_and_query(path)
            .build()
            .ok()
    }

    fn address(&self, bucket: &str, authority: &mut String, path: &mut String) -> Option<()> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if !bucket.bytes().all(allowed)
            || bucket.starts_with('.')
            || bucket.len() > MAX_BUCKET_BYTES
        {
            return None;
        }
        match self.addressing {
            Addressing::PathStyle => {
                path.push_str(bucket);
                path.push('/');
            }
            Addressing::VirtualHosted => authority.insert_str(0, &format!("{bucket}.")),
        }
        Some(())
    }
}

/// Longest bucket name that S3 ever allowed, in bytes (us-east-1 before 2018).
const MAX_BUCKET_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, addressing: Addressing, bucket: &str, key: &str, expected: Option<&str>) {
        let endpoint = text.parse::<Endpoint>().unwrap().addressed(addressing);
        let url = endpoint.url(bucket, key, None).map(|url| url.to_string());
        assert_eq!(url.as_deref(), expected, "{bucket:?} {key:?}");
    }

    #[test]
    fn a_bucket_and_a_key_become_a_url() {
        use Addressing::{PathStyle, VirtualHosted};
        let local = "http://127.0.0.1:7070";
        check(local, PathStyle, "b", "a/b c+d", Some("http://127.0.0.1:7070/b/a/b%20c%2Bd"));
        check(local, PathStyle, "b", "/a//..", Some("http://127.0.0.1:7070/b//a//.."));
        check(local, PathStyle, "b", "", Some("http://127.0.0.1:7070/b/"));
        check(local, PathStyle, "", "", Some("http://127.0.0.1:7070/"));
        let aws = "https://s3.eu-west-1.amazonaws.com/";
        check(aws, VirtualHosted, "b", "k", Some("https://b.s3.eu-west-1.amazonaws.com/k"));
        check(aws, VirtualHosted, "", "", Some("https://s3.eu-west-1.amazonaws.com/"));
    }

    #[test]
    fn a_bucket_never_becomes_another_host_or_path() {
        for bucket in ["evil.com/", "a@b", "a#", "a?b", "..", "a b", "a/b", "a:80", "%2e"] {
            check("http://h", Addressing::VirtualHosted, bucket, "k", None);
            check("http://h", Addressing::PathStyle, bucket, "k", None);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "host",
            "host:80",
            "ftp://host",
            "http://",
            "http://h/path",
            "http://u:p@h",
            "http://h?q",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }
}
