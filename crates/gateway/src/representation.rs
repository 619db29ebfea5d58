//! Response head of a GET or HEAD: status, range and headers, decided from the object's head before any byte is read.
//!
//! 1. Conditions: 304 or 412.
//! 2. The range: 206, 416, or the whole object.
//! 3. The headers of the version, with what the request overrides.

use std::ops::Range;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, ETAG, EXPIRES, HeaderName,
    HeaderValue, LAST_MODIFIED,
};
use http::{HeaderMap, StatusCode};
use zonal_host::Head;
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::conditions::{self, Verdict, Version};
use zonal_s3::range::{self, Slice};

/// What to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// 304.
    NotModified,
    /// 200 with the whole object.
    Whole,
    /// 206 with these bytes.
    Part(Range<u64>),
    /// 206 with the only part, which is the whole object.
    OnlyPart,
    /// 412, with the condition that failed.
    PreconditionFailed(&'static str),
    /// 416, with the range that was asked for.
    Unsatisfiable(String),
}

/// Decides what a request with these headers gets of this version.
pub(crate) fn decide(request: &HeaderMap, head: &Head, now: SystemTime) -> Decision {
    let version = Version { etag: &head.etag, last_modified: &head.last_modified };
    match conditions::evaluate(request, version, now) {
        Verdict::Failed(condition) => return Decision::PreconditionFailed(condition),
        Verdict::NotModified => return Decision::NotModified,
        Verdict::Proceed => {}
    }
    let Some(requested) = conditions::range_header(request, version) else {
        return Decision::Whole;
    };
    match range::resolve(requested, head.size) {
        Slice::Whole => Decision::Whole,
        Slice::Part(range) => Decision::Part(range),
        Slice::Unsatisfiable => Decision::Unsatisfiable(requested.to_owned()),
    }
}

/// Whether only the origin can answer for the first part of an object: it may have been uploaded in several parts, or it is
/// empty, which some servers answer 200 and others 206. S3 has the MD5 of the bytes, or another number of as many digits, for
/// the ETag of an object that was not uploaded in parts, and adds the number of parts to that of one that was.
pub(crate) fn needs_origin_for_part(head: &Head) -> bool {
    head.size == 0 || !has_etag_of_one_part(head)
}

fn has_etag_of_one_part(head: &Head) -> bool {
    let digits = head.etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    digits.is_some_and(|digits| {
        digits.len() == MD5_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

const MD5_DIGITS: usize = 32;

impl Decision {
    /// The same of the only part of an object.
    pub(crate) fn of_part(self) -> Self {
        match self {
            Self::Whole => Self::OnlyPart,
            other => other,
        }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Whole => StatusCode::OK,
            Self::Part(_) | Self::OnlyPart => StatusCode::PARTIAL_CONTENT,
            Self::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
            Self::Unsatisfiable(_) => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    /// The bytes of the object that a GET is answered with.
    pub(crate) fn range(&self, head: &Head) -> Range<u64> {
        match self {
            Self::Whole | Self::OnlyPart => 0..head.size,
            Self::Part(range) => range.clone(),
            Self::NotModified | Self::PreconditionFailed(_) | Self::Unsatisfiable(_) => 0..0,
        }
    }

    /// The document that explains a refusal.
    pub(crate) fn error(&self, head: &Head) -> Option<S3Error> {
        match self {
            Self::PreconditionFailed(condition) => Some(S3Error::precondition_failed(condition)),
            Self::Unsatisfiable(requested) => Some(S3Error::invalid_range(requested, head.size)),
            Self::NotModified | Self::Whole | Self::Part(_) | Self::OnlyPart => None,
        }
    }

    /// The headers that describe the version, and how much of it comes.
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
            Self::NotModified | Self::Whole | Self::Part(_) | Self::OnlyPart => {}
        }
        headers.insert(ETAG, text(&head.etag));
        if !head.last_modified.is_empty() {
            headers.insert(LAST_MODIFIED, text(&head.last_modified));
        }
        // The checksum of the whole object on a part of it would make SDKs refuse the answer.
        let with_checksum = matches!(self, Self::Whole | Self::OnlyPart) && wants_checksum;
        for (name, value) in &head.headers {
            let handed_on = match self {
                Self::NotModified => CACHE_CONTROL == **name || EXPIRES == **name,
                _ => !name.starts_with("x-amz-checksum-") || with_checksum,
            };
            if let (true, Ok(name)) = (handed_on, HeaderName::from_bytes(name.as_bytes())) {
                headers.append(name, text(value));
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
        if let Self::Part(_) | Self::OnlyPart = self {
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, head.size);
            headers.insert(CONTENT_RANGE, text(&value));
        }
        headers
    }
}

/// Headers beyond those of the version: length, range, ETag, date, and what every answer carries.
const HEADERS_EXPECTED: usize = 12;

/// What came from the origin as a header can be one again; bytes that cannot are left out.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""))
}

/// The headers that a request sets in its answer, by `response-*` parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides(Vec<(HeaderName, HeaderValue)>);

/// The headers that can be set.
const OVERRIDABLE: [HeaderName; 6] = [
    CACHE_CONTROL,
    http::header::CONTENT_DISPOSITION,
    http::header::CONTENT_ENCODING,
    http::header::CONTENT_LANGUAGE,
    http::header::CONTENT_TYPE,
    EXPIRES,
];

impl Overrides {
    /// Reads them; a value that no header can carry is refused.
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
