//! Response head of a GET or HEAD: status, range and headers, decided from the object's head before
//! any byte is read.
//!
//! 1. Conditions: 304 or 412.
//! 2. The range: 206, 416, or the whole object.
//! 3. The headers of the version, with the overrides of the request.

use std::ops::Range;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, ETAG, EXPIRES, HeaderName,
    HeaderValue, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, StatusCode};
use zonal_base::RangeSpec;
use zonal_host::Head;
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::conditions::{self, ConditionResult, StoredVersion};
use zonal_s3::range::{self, ResolvedRange};

use crate::part_ranges::{PARTS_COUNT, Part};

/// Outcome of conditions and range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// 304.
    NotModified,
    /// 200 with the whole object.
    Whole,
    /// 206 with these bytes.
    Part(Range<u64>),
    /// 206 with a part of the upload.
    NumberedPart(Part),
    /// 412. The value is the condition that failed.
    PreconditionFailed(&'static str),
    /// 416. The value is the requested range.
    Unsatisfiable(String),
}

/// Evaluates the conditions and the range of a request against a version.
pub(crate) fn decide(request: &HeaderMap, head: &Head, now: SystemTime) -> Decision {
    let version = StoredVersion { etag: &head.etag, last_modified: &head.last_modified };
    match conditions::evaluate(request, version, now) {
        ConditionResult::Failed(condition) => return Decision::PreconditionFailed(condition),
        ConditionResult::NotModified => return Decision::NotModified,
        ConditionResult::Proceed => {}
    }
    let Some(requested) = conditions::range_header(request, version) else {
        return Decision::Whole;
    };
    match range::resolve(requested, head.size) {
        ResolvedRange::Whole => Decision::Whole,
        ResolvedRange::Part(range) => Decision::Part(range),
        ResolvedRange::Unsatisfiable => Decision::Unsatisfiable(requested.to_owned()),
    }
}

/// The bytes that a request asks for, before the version is known.
pub(crate) fn requested(request: &HeaderMap) -> RangeSpec {
    let header = request.get(RANGE).and_then(|range| range.to_str().ok());
    // Bytes that no object has: the refusal has the size of the object.
    header.map_or(Some(RangeSpec::Whole), range::requested).unwrap_or(RangeSpec::Int(0..0))
}

impl Decision {
    /// The same outcome for a request for this part. Such a request has no range.
    pub(crate) fn of_part(self, part: Option<&Part>) -> Self {
        match (self, part) {
            (Self::Whole, Some(part)) => Self::NumberedPart(part.clone()),
            (other, _) => other,
        }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Whole => StatusCode::OK,
            Self::Part(_) | Self::NumberedPart(_) => StatusCode::PARTIAL_CONTENT,
            Self::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
            Self::Unsatisfiable(_) => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    /// Bytes of the object in the response to a GET.
    pub(crate) fn range(&self, head: &Head) -> Range<u64> {
        match self {
            Self::Whole => 0..head.size,
            Self::Part(range) | Self::NumberedPart(Part { range, .. }) => range.clone(),
            Self::NotModified | Self::PreconditionFailed(_) | Self::Unsatisfiable(_) => 0..0,
        }
    }

    /// Error document of a refusal.
    pub(crate) fn error(&self, head: &Head) -> Option<S3Error> {
        match self {
            Self::PreconditionFailed(condition) => Some(S3Error::precondition_failed(condition)),
            Self::Unsatisfiable(requested) => Some(S3Error::invalid_range(requested, head.size)),
            Self::NotModified | Self::Whole | Self::Part(_) | Self::NumberedPart(_) => None,
        }
    }

    /// Headers that describe the version and the range.
    pub(crate) fn headers(
        &self,
        head: &Head,
        overrides: &Overrides,
        wants_checksum: bool,
    ) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED + head.headers.len());
        match self {
            Self::PreconditionFailed(_) => return headers,
            Self::Unsatisfiable(_) => {
                headers.insert(CONTENT_RANGE, text(&format!("bytes */{}", head.size)));
                return headers;
            }
            Self::NotModified | Self::Whole | Self::Part(_) | Self::NumberedPart(_) => {}
        }
        if !head.etag.is_empty() {
            headers.insert(ETAG, text(&head.etag));
        }
        if !head.last_modified.is_empty() {
            headers.insert(LAST_MODIFIED, text(&head.last_modified));
        }
        if !head.version_id.is_empty() && *self != Self::NotModified {
            headers.insert(VERSION_ID, text(&head.version_id));
        }
        // An SDK would reject a partial response with the checksum of the whole object.
        let is_whole = match self {
            Self::NumberedPart(part) => part.count.is_none(),
            other => *other == Self::Whole,
        };
        let with_checksum = is_whole && wants_checksum;
        for (name, value) in &head.headers {
            let handed_on = match self {
                Self::NotModified => CACHE_CONTROL == **name || EXPIRES == **name,
                _ => !name.starts_with("x-amz-checksum-") || with_checksum,
            };
            if let (true, Ok(name)) = (handed_on, HeaderName::from_bytes(name.as_bytes())) {
                headers.append(name, bytes(value));
            }
        }
        if *self == Self::NotModified {
            return headers;
        }
        for (name, value) in &overrides.0 {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let range = self.range(head);
        headers.insert(CONTENT_LENGTH, (range.end - range.start).into());
        if let Self::Part(_) | Self::NumberedPart(_) = self {
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, head.size);
            headers.insert(CONTENT_RANGE, text(&value));
        }
        if let Self::NumberedPart(Part { count: Some(count), .. }) = self {
            headers.insert(PARTS_COUNT, (*count).into());
        }
        headers
    }
}

/// Capacity for headers beyond those of the version: length, range, ETag, date, and those of every
/// response.
const HEADERS_EXPECTED: usize = 12;

const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// A header value of the origin as a header value. One that is not legal becomes empty.
fn text(value: &str) -> HeaderValue {
    bytes(value.as_bytes())
}

fn bytes(value: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(value).unwrap_or(HeaderValue::from_static(""))
}

/// Response headers that the request sets with `response-*` parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides(Vec<(HeaderName, HeaderValue)>);

/// Headers that can be overridden.
const OVERRIDABLE: [HeaderName; 6] = [
    CACHE_CONTROL,
    http::header::CONTENT_DISPOSITION,
    http::header::CONTENT_ENCODING,
    http::header::CONTENT_LANGUAGE,
    http::header::CONTENT_TYPE,
    EXPIRES,
];

impl Overrides {
    /// Parses the overrides. A value that is illegal in a header is refused.
    pub(crate) fn of(query: &Query<'_>) -> Result<Self, S3Error> {
        let mut overrides = Vec::new();
        for (parameter, value) in query.iter() {
            let Some(name) = parameter.strip_prefix("response-") else { continue };
            let unusable = || {
                S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", "Invalid response header.")
                    .with("ArgumentName", parameter)
                    .with("ArgumentValue", value)
            };
            let name = OVERRIDABLE.iter().find(|known| *known == name).ok_or_else(unusable)?;
            let value = HeaderValue::from_str(value).map_err(|_| unusable())?;
            overrides.push((name.clone(), value));
        }
        Ok(Self(overrides))
    }
}

#[cfg(test)]
mod tests;
