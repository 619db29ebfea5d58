//! Result of an operation, before it becomes an HTTP response.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, response};
use zonal_origin::ErrorCode;
use zonal_s3::S3Error;

use crate::body::Source;
use crate::bypass::Bypass;
use crate::request_id::RequestId;
use crate::stats::CacheStatus;

/// Result of an operation.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) source: Source,
    pub(crate) outcome: Option<CacheStatus>,
    /// Reason of a cache bypass, if the origin answered.
    pub(crate) bypass: Option<Bypass>,
    pub(crate) refusal: Option<S3Error>,
    /// Error code of a refusal by the origin, if it is known.
    pub(crate) code: Option<ErrorCode>,
}

impl Answer {
    pub(crate) const fn new(
        status: StatusCode,
        headers: HeaderMap,
        source: Source,
        outcome: Option<CacheStatus>,
    ) -> Self {
        Self { status, headers, source, outcome, bypass: None, refusal: None, code: None }
    }

    /// The origin's response to a forwarded request, with the reason of the bypass.
    pub(crate) fn of_origin(mut parts: response::Parts, source: Source, bypass: Bypass) -> Self {
        let code = parts.extensions.remove();
        let answer = Self::new(parts.status, parts.headers, source, Some(CacheStatus::Bypass));
        Self { code, bypass: Some(bypass), ..answer }
    }

    pub(crate) fn error_code(&self) -> Option<&str> {
        let ours = self.refusal.as_ref().map(|error| error.code);
        ours.or(self.code.as_ref().map(|ErrorCode(code)| code.as_str()))
    }

    /// A refusal that the cache decided itself, with headers of its own.
    pub(crate) fn refusal(error: S3Error, headers: HeaderMap, outcome: CacheStatus) -> Self {
        let answer = Self::new(error.status, headers, Source::Empty, Some(outcome));
        Self { refusal: Some(error), ..answer }
    }
}

impl From<S3Error> for Answer {
    fn from(error: S3Error) -> Self {
        let (headers, source) = (HeaderMap::new(), Source::Empty);
        let status = error.status;
        Self { refusal: Some(error), ..Self::new(status, headers, source, None) }
    }
}

/// Adds the request id to a response, and the XML document to a refusal.
pub(crate) fn named(mut answer: Answer, id: RequestId, uri: &Uri, method: &Method) -> Answer {
    let headers = &mut answer.headers;
    // A request id of the origin is kept: the origin's document contains it, and its operator asks
    // for it.
    headers.entry(REQUEST_ID).or_insert_with(|| id.to_header());
    if let Some(error) = &answer.refusal {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        if method != Method::HEAD {
            let document = error.to_xml(uri.path(), id.as_str());
            headers.insert(CONTENT_LENGTH, document.len().into());
            answer.source = Source::Document(Bytes::from(document));
        }
    }
    answer
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
