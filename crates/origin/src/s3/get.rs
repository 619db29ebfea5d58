//! GetObject for the cache: a byte range of one version, checked against the request.
//!
//! 1. Request the range, with If-Match if the version is known.
//! 2. Check the answer: its status, Content-Range, length and ETag.
//! 3. Return the body; [`OriginBody`] counts its bytes.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use zonal_s3::range::{digits, parse_content_range};

use super::error_mapping::no_such_bucket;
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
        let url = self.url_of(object);
        let url = url.ok_or_else(|| no_such_bucket(&object.bucket))?;
        self.must_be_no_api(&object.bucket, &object.key).await?;
        // No origin can have sent an ETag that no header can carry: no version has it.
        let condition = if_match.map(HeaderValue::from_str).transpose();
        let condition = condition.map_err(|_| OriginError::Changed)?;
        let permit = self.reads.placed(self.concurrency.for_range()).await?;
        let response = self
            .read(|| {
                let range = format!("bytes={}-{}", range.start, range.end - 1);
                let request = self.asking(Method::GET, &url, &object.bucket);
                let mut request = request.header(RANGE, range);
                if let Some(etag) = &condition {
                    request = request.header(IF_MATCH, etag);
                }
                request.body(()).expect("made of valid parts")
            })
            .await?;
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
