//! Which operation of S3 a request is, and what the gateway does about it.

use http::{HeaderMap, HeaderName, Method};
use zonal_origin::Query;

use crate::auth::PRESIGN_PARAMETERS;
use crate::error::S3Error;
use crate::target::Target;

/// The operations that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// GET of an object.
    GetObject,
    /// HEAD of an object.
    HeadObject,
    /// GET of the service: its buckets.
    ListBuckets,
    /// GET of a bucket: its objects.
    ListObjects,
    /// PUT of an object with its bytes.
    PutObject,
    /// PUT of an object from another one.
    CopyObject,
    /// PUT of a part, with its bytes or from another object.
    UploadPart,
    /// The parts become an object.
    CompleteMultipartUpload,
    /// DELETE of an object.
    DeleteObject,
    /// POST of a list of objects to delete.
    DeleteObjects,
    /// One object gets the name of another.
    RenameObject,
    /// Any other request that changes an object: its tags, its access list, its storage class.
    ChangeObject,
    /// Any other request that changes no object.
    Other,
}

/// What the gateway does with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    /// Serve it, from the cache where possible.
    Serve,
    /// Ask every origin for its part of the answer.
    Gather,
    /// Forward it; the object in its path changes, for RenameObject the source too.
    ForwardWrite,
    /// Forward it; the objects in its body change.
    ForwardDeletes,
    /// Forward it; no object changes.
    Forward,
}

impl Operation {
    /// How many there are.
    pub const COUNT: usize = 13;

    /// All, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] = [
        Self::GetObject,
        Self::HeadObject,
        Self::ListBuckets,
        Self::ListObjects,
        Self::PutObject,
        Self::CopyObject,
        Self::UploadPart,
        Self::CompleteMultipartUpload,
        Self::DeleteObject,
        Self::DeleteObjects,
        Self::RenameObject,
        Self::ChangeObject,
        Self::Other,
    ];

    /// S3's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetObject => "GetObject",
            Self::HeadObject => "HeadObject",
            Self::ListBuckets => "ListBuckets",
            Self::ListObjects => "ListObjects",
            Self::PutObject => "PutObject",
            Self::CopyObject => "CopyObject",
            Self::UploadPart => "UploadPart",
            Self::CompleteMultipartUpload => "CompleteMultipartUpload",
            Self::DeleteObject => "DeleteObject",
            Self::DeleteObjects => "DeleteObjects",
            Self::RenameObject => "RenameObject",
            Self::ChangeObject => "ChangeObject",
            Self::Other => "Other",
        }
    }

    pub(crate) const fn handling(self) -> Handling {
        match self {
            Self::GetObject | Self::HeadObject => Handling::Serve,
            Self::ListBuckets => Handling::Gather,
            Self::PutObject
            | Self::CopyObject
            | Self::CompleteMultipartUpload
            | Self::DeleteObject
            | Self::RenameObject
            | Self::ChangeObject => Handling::ForwardWrite,
            Self::DeleteObjects => Handling::ForwardDeletes,
            Self::ListObjects | Self::UploadPart | Self::Other => Handling::Forward,
        }
    }

    /// Finds the operation.
    pub(crate) fn of(
        method: &Method,
        target: &Target<'_>,
        query: &Query<'_>,
        headers: &HeaderMap,
    ) -> Result<Self, S3Error> {
        match (method.as_str(), target) {
            ("GET", Target::Object { .. }) => Ok(read(Self::GetObject, query)),
            ("HEAD", Target::Object { .. }) => Ok(read(Self::HeadObject, query)),
            ("GET", Target::Service) if only(query, &LISTING_BUCKETS) => Ok(Self::ListBuckets),
            ("GET", Target::Bucket(_)) if only(query, &LISTING) => Ok(Self::ListObjects),
            ("PUT", Target::Object { .. }) => Ok(put(query, headers)),
            ("DELETE", Target::Object { .. }) if query.has("uploadId") => Ok(Self::Other),
            ("DELETE", Target::Object { .. }) if only(query, &["versionId"]) => {
                Ok(Self::DeleteObject)
            }
            ("POST", Target::Object { .. }) => Ok(post(query)),
            ("POST", Target::Bucket(_)) => post_bucket(query, headers),
            ("DELETE", Target::Object { .. }) => Ok(Self::ChangeObject),
            ("GET" | "HEAD" | "PUT" | "DELETE" | "POST" | "OPTIONS", _) => Ok(Self::Other),
            _ => Err(S3Error::method_not_allowed()),
        }
    }
}

fn read(operation: Operation, query: &Query<'_>) -> Operation {
    let selects = |name: &str| name.starts_with("response-");
    let plain = query.iter().all(|(name, _)| {
        selects(name) || is_neutral(name) || matches!(name, "versionId" | "partNumber")
    });
    if plain { operation } else { Operation::Other }
}

fn put(query: &Query<'_>, headers: &HeaderMap) -> Operation {
    let copies =
        headers.contains_key(&COPY_SOURCE) || has_ignoring_case(query, COPY_SOURCE.as_str());
    if query.has("uploadId") {
        Operation::UploadPart
    } else if query.has("renameObject") {
        Operation::RenameObject
    } else if !only_hoisted(query) {
        Operation::ChangeObject
    } else if copies {
        Operation::CopyObject
    } else {
        Operation::PutObject
    }
}

fn post(query: &Query<'_>) -> Operation {
    if query.has("uploadId") {
        Operation::CompleteMultipartUpload
    } else if query.has("uploads") || query.has("select") {
        Operation::Other
    } else {
        Operation::ChangeObject
    }
}

/// A form that a browser posts names its key in the form: the gateway would not know what changes.
fn post_bucket(query: &Query<'_>, headers: &HeaderMap) -> Result<Operation, S3Error> {
    let content_type = headers.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes());
    let is_form = content_type.is_some_and(|value| {
        value.len() >= FORM.len() && value[..FORM.len()].eq_ignore_ascii_case(FORM)
    });
    if query.has("delete") {
        Ok(Operation::DeleteObjects)
    } else if is_form || only_hoisted(query) {
        Err(S3Error::not_implemented("POST of forms is not implemented: use PUT."))
    } else {
        Ok(Operation::Other)
    }
}

/// Whether the request names no subresource beyond `names`.
pub(crate) fn only(query: &Query<'_>, names: &[&str]) -> bool {
    query.iter().all(|(name, _)| is_neutral(name) || names.contains(&name))
}

/// Whether the request names no subresource, apart from headers that a presigned URL carries in its query.
fn only_hoisted(query: &Query<'_>) -> bool {
    query.iter().all(|(name, _)| is_neutral(name) || is_amz(name))
}

/// Parameters that change nothing about what is asked: the signature, and the name that SDKs add.
fn is_neutral(name: &str) -> bool {
    matches!(name, "x-id" | "X-Amz-Content-Sha256" | "X-Amz-Security-Token")
        || PRESIGN_PARAMETERS.contains(&name)
}

fn is_amz(name: &str) -> bool {
    name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-amz-"))
}

fn has_ignoring_case(query: &Query<'_>, wanted: &str) -> bool {
    query.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

/// What a copy reads.
pub(crate) const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const FORM: &[u8] = b"multipart/form-data";

/// The parameters of ListBuckets.
const LISTING_BUCKETS: [&str; 4] = ["bucket-region", "continuation-token", "max-buckets", "prefix"];

/// The parameters of ListObjects and ListObjectsV2.
pub(crate) const LISTING: [&str; 9] = [
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "list-type",
    "marker",
    "max-keys",
    "prefix",
    "start-after",
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(
        method: &str,
        uri: &str,
        header: Option<(&'static str, &'static str)>,
    ) -> Option<Operation> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(p, q)| (p, Some(q)));
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let target = Target::parse(path).unwrap();
        let query = Query::parse(query).unwrap();
        Operation::of(&method.parse().unwrap(), &target, &query, &headers).ok()
    }

    #[track_caller]
    fn check(expected: Operation, requests: &[(&str, &str)]) {
        for (method, uri) in requests {
            assert_eq!(of(method, uri, None), Some(expected), "{method} {uri}");
        }
    }

    #[test]
    fn reads_of_objects_are_served() {
        check(
            Operation::GetObject,
            &[
                ("GET", "/b/k"),
                ("GET", "/b/k?x-id=GetObject"),
                ("GET", "/b/k?versionId=1"),
                ("GET", "/b/k?partNumber=2"),
                ("GET", "/b/k?response-content-type=a%2Fb"),
                ("GET", "/b/k?X-Amz-Signature=0&X-Amz-Expires=1"),
            ],
        );
        check(Operation::ListBuckets, &[("GET", "/"), ("GET", "/?prefix=a&max-buckets=1")]);
        check(Operation::HeadObject, &[("HEAD", "/b/k"), ("HEAD", "/b/k?partNumber=1")]);
    }

    #[test]
    fn what_is_not_the_object_itself_is_handed_on() {
        check(
            Operation::Other,
            &[
                ("GET", "/b/k?acl"),
                ("GET", "/b/k?tagging"),
                ("GET", "/b/k?attributes"),
                ("GET", "/b/k?uploadId=1"),
                ("GET", "/b/k?torrent"),
                ("GET", "/b/k?unknown=1"),
                ("HEAD", "/b/k?acl"),
                ("GET", "/?acl"),
                ("GET", "/b?location"),
                ("GET", "/b?uploads"),
                ("HEAD", "/b"),
                ("PUT", "/b"),
                ("PUT", "/b?versioning"),
                ("DELETE", "/b"),
                ("DELETE", "/b/k?uploadId=1"),
                ("POST", "/b/k?uploads"),
                ("POST", "/b/k?select&select-type=2"),
                ("POST", "/b?metadataConfiguration"),
                ("OPTIONS", "/b/k"),
            ],
        );
        check(Operation::ListObjects, &[("GET", "/b"), ("GET", "/b/?list-type=2&prefix=a%2F")]);
    }

    #[test]
    fn whatever_changes_an_object_is_known_as_a_write() {
        check(Operation::PutObject, &[("PUT", "/b/k"), ("PUT", "/b/k?x-amz-acl=private")]);
        check(Operation::CopyObject, &[("PUT", "/b/k?X-Amz-Copy-Source=b%2Fo")]);
        assert_eq!(
            of("PUT", "/b/k", Some(("x-amz-copy-source", "b/o"))),
            Some(Operation::CopyObject)
        );
        check(Operation::UploadPart, &[("PUT", "/b/k?partNumber=1&uploadId=2")]);
        check(Operation::CompleteMultipartUpload, &[("POST", "/b/k?uploadId=2")]);
        check(Operation::DeleteObject, &[("DELETE", "/b/k"), ("DELETE", "/b/k?versionId=1")]);
        check(Operation::DeleteObjects, &[("POST", "/b?delete"), ("POST", "/b/?delete=")]);
        check(Operation::RenameObject, &[("PUT", "/b/k?renameObject")]);
        check(
            Operation::ChangeObject,
            &[
                ("PUT", "/b/k?tagging"),
                ("PUT", "/b/k?acl"),
                ("PUT", "/b/k?retention&versionId=1"),
                ("PUT", "/b/k?unknown"),
                ("DELETE", "/b/k?tagging"),
                ("POST", "/b/k?restore"),
                ("POST", "/b/k"),
            ],
        );
        for operation in Operation::ALL {
            let harmless = [Operation::ListObjects, Operation::UploadPart, Operation::Other];
            let forwarded = operation.handling() == Handling::Forward;
            assert_eq!(forwarded, harmless.contains(&operation), "{operation:?}");
        }
    }

    #[test]
    fn forms_and_foreign_methods_are_refused() {
        assert_eq!(of("POST", "/b", None), None);
        let form = Some(("content-type", "Multipart/Form-Data; boundary=x"));
        assert_eq!(of("POST", "/b?x=1", form), None);
        for method in ["PATCH", "TRACE", "CONNECT", "BREW"] {
            assert_eq!(of(method, "/b/k", None), None);
        }
    }

    #[test]
    fn the_counters_have_a_place_for_each() {
        for (n, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, n);
        }
    }
}
