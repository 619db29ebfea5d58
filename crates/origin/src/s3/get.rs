//! GetObject for exactly one byte range, checked against the request.
//!
//! 1. Request the range, with If-Match if the version is known (`get_object`).
//! 2. Check the answer: its status, Content-Range, length and ETag.
//! 3. Return the body; [`OriginBody`] counts its bytes.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use http::{HeaderMap, Response, StatusCode};
use zonal_base::RangeSpec;
use zonal_s3::range::{digits, parse_content_range};

use super::{S3Origin, check_version};
use crate::body::{OriginBody, RangeHead, Source};
use crate::error::OriginError;
use crate::object::ObjectName;

impl S3Origin {
    pub(crate) async fn get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<OriginBody, OriginError> {
        let asked = RangeSpec::Int(range.clone());
        let (permit, response) = self.ask_for_bytes(object, &asked, if_match).await?;
        let response = response?;
        check_version(object.version.as_deref(), response.headers())?;
        let head = check(&response, &range, if_match)?;
        let source = Source::Http { body: response.into_body(), stall: self.limits.stall };
        Ok(OriginBody::new(source, head, self.stats.clone(), permit))
    }
}

/// Checks a successful answer against the requested range and version.
pub(crate) fn check<B>(
    response: &Response<B>,
    asked: &Range<u64>,
    if_match: Option<&str>,
) -> Result<RangeHead, OriginError> {
    if response.status() != StatusCode::PARTIAL_CONTENT {
        // A 200 is the whole object, or an error document with the wrong status.
        let status = response.status();
        return Err(OriginError::invalid_response(format!("{status} to a range request")));
    }
    let headers = response.headers();
    let etag = text(headers, ETAG);
    match (if_match, &etag) {
        (Some(_), None) => {
            return Err(OriginError::invalid_response("a range of a version without an ETag"));
        }
        (Some(asked), Some(etag)) if asked != etag => return Err(OriginError::Changed),
        _ => {}
    }
    let content_range = text(headers, CONTENT_RANGE).unwrap_or_default();
    let Some((range, object_size)) = parse_content_range(&content_range) else {
        return Err(OriginError::invalid_response(format!(
            "206 with Content-Range {content_range:?}"
        )));
    };
    if range != *asked {
        let ends_sooner = range.start == asked.start && object_size == Some(range.end);
        return Err(if ends_sooner && range.end < asked.end {
            // The object is smaller than the version for which the range was computed.
            OriginError::Changed
        } else {
            OriginError::invalid_response(format!(
                "a request for bytes {asked:?} was answered with {content_range:?}"
            ))
        });
    }
    let bytes = asked.end - asked.start;
    if let Some(length) = text(headers, CONTENT_LENGTH)
        && digits(&length) != Some(bytes)
    {
        let what = format!("Content-Length {length} for a range of {bytes} bytes");
        return Err(OriginError::invalid_response(what));
    }
    Ok(RangeHead { bytes, etag, object_size })
}

pub(crate) fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
