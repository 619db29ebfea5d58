//! Object names and heads (metadata).

use http::HeaderMap;
use http::header::{ETAG, HeaderValue, LAST_MODIFIED};

/// Bucket, key and version of an object, percent-decoded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Bucket name.
    pub bucket: String,
    /// Object key: any UTF-8 text.
    pub key: String,
    /// Version ID; `None`: the current version. `null` is the version that a bucket without
    /// versioning keeps, and can be overwritten.
    pub version: Option<String>,
}

impl ObjectName {
    /// The current version of an object.
    #[must_use]
    pub fn new(bucket: &str, key: &str) -> Self {
        Self { bucket: bucket.to_owned(), key: key.to_owned(), version: None }
    }
}

/// Object metadata, as a HEAD request returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHead {
    /// Size of the whole object in bytes.
    pub size: u64,
    /// ETag exactly as sent, including quotes and `W/`. Without a strong ETag no version can be
    /// pinned; the caller decides how to serve such an object.
    pub etag: Option<String>,
    /// Version ID exactly as sent.
    pub version_id: Option<String>,
    /// `Last-Modified` exactly as sent.
    pub last_modified: Option<String>,
    /// Headers that clients receive unchanged, with lower-case names: content headers except the
    /// length, caching headers, and `x-amz-*` except those of a single request and the version ID.
    /// Sorted by name, so that heads compare equal in any order of headers.
    pub headers: Vec<(String, HeaderValue)>,
}

impl ObjectHead {
    /// The ETag, if it is strong and so can pin a version.
    #[must_use]
    pub fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// The metadata that response headers describe, for an object of `size` bytes.
    pub(crate) fn from_headers(size: u64, headers: &HeaderMap) -> Self {
        let handed_on = headers.iter().filter(|(name, _)| is_handed_on(name.as_str()));
        let mut handed_on: Vec<(String, HeaderValue)> =
            handed_on.map(|(name, value)| (name.as_str().to_owned(), value.clone())).collect();
        // A stable sort: values of one header keep their order.
        handed_on.sort_by(|(name, _), (other, _)| name.cmp(other));
        Self {
            size,
            etag: headers.get(ETAG).and_then(text),
            version_id: headers.get(VERSION_ID).and_then(text),
            last_modified: headers.get(LAST_MODIFIED).and_then(text),
            headers: handed_on,
        }
    }
}

fn is_handed_on(name: &str) -> bool {
    const OF_ONE_REQUEST: [&str; 4] =
        ["x-amz-request-id", "x-amz-id-2", "x-amz-bucket-region", "x-amz-request-charged"];
    const CONTENT: [&str; 6] = [
        "content-type",
        "content-encoding",
        "content-language",
        "content-disposition",
        "cache-control",
        "expires",
    ];
    let is_of_the_object = !OF_ONE_REQUEST.contains(&name) && name != VERSION_ID;
    CONTENT.contains(&name) || (name.starts_with("x-amz-") && is_of_the_object)
}

pub(crate) const VERSION_ID: &str = "x-amz-version-id";

fn text(value: &HeaderValue) -> Option<String> {
    str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, ObjectHead};

    fn head(headers: [(&'static str, &'static str); 3]) -> ObjectHead {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        ObjectHead::from_headers(1, &map)
    }

    /// versitygw sends headers in the order of a Go map, which changes with every answer. Heads
    /// that were compared in that order differed, so every revalidation took the object for
    /// changed, and the cache served no hits.
    #[test]
    fn heads_are_equal_in_whatever_order_the_headers_came() {
        let (kind, first, second) = (("content-type", "a/b"), ("x-amz-a", "1"), ("x-amz-b", "2"));
        assert_eq!(head([kind, first, second]), head([second, first, kind]));
        let (again, other) = (("x-amz-a", "2"), ("x-amz-a", "3"));
        assert_ne!(head([kind, again, other]), head([kind, other, again]));
    }

    /// A client pays nothing for a read from the cache.
    #[test]
    fn what_one_request_was_charged_for_is_not_the_objects() {
        let (kind, charged) = (("content-type", "a/b"), ("x-amz-request-charged", "requester"));
        let [other, more] = [("x-amz-request-id", "1"), ("x-amz-a", "1")];
        assert_eq!(head([kind, charged, more]), head([kind, other, more]));
    }
}
