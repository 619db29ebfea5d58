//! GetObject response head: conditions and range, given the head of the object.

use std::time::SystemTime;

use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED};
use http::{Response, StatusCode, response};
use zonal_s3::conditions::{self, ConditionResult};
use zonal_s3::range::{self, ResolvedRange};

use crate::error::OriginError;
use crate::object::ObjectHead;

/// A response head, without the bytes.
pub struct ReadAnswer {
    /// Status and headers.
    pub response: Response<()>,
    /// The bytes of its body. `None`: no body (304).
    pub slice: Option<ResolvedRange>,
}

/// Evaluates the conditions and the range of a read.
///
/// # Errors
/// A condition fails (412), or the range lies after the end (416).
pub fn read_answer(headers: &HeaderMap, head: &ObjectHead) -> Result<ReadAnswer, OriginError> {
    let asked_of = conditions::StoredVersion {
        etag: head.etag.as_deref().unwrap_or_default(),
        last_modified: head.last_modified.as_deref().unwrap_or_default(),
    };
    let mut response = describing(head);
    match conditions::evaluate(headers, asked_of, SystemTime::now()) {
        ConditionResult::Failed(_) => return Err(OriginError::Changed),
        ConditionResult::NotModified => {
            response = response.status(StatusCode::NOT_MODIFIED);
            let response = response.body(()).expect("made of valid parts");
            return Ok(ReadAnswer { response, slice: None });
        }
        ConditionResult::Proceed => {}
    }
    let header = conditions::range_header(headers, asked_of);
    let slice = header.map_or(ResolvedRange::Whole, |header| range::resolve(header, head.size));
    let bytes = match &slice {
        ResolvedRange::Unsatisfiable => return Err(OriginError::RangeNotSatisfiable),
        ResolvedRange::Whole => head.size,
        ResolvedRange::Part(range) => {
            let (first, last) = (range.start, range.end - 1);
            let content_range = format!("bytes {first}-{last}/{}", head.size);
            response = response.status(StatusCode::PARTIAL_CONTENT);
            response = response.header(CONTENT_RANGE, content_range);
            range.end - range.start
        }
    };
    let response = response.header(CONTENT_LENGTH, bytes).body(()).expect("made of valid parts");
    Ok(ReadAnswer { response, slice: Some(slice) })
}

fn describing(head: &ObjectHead) -> response::Builder {
    let mut response = Response::builder().header(ACCEPT_RANGES, "bytes");
    let named = [(ETAG, &head.etag), (LAST_MODIFIED, &head.last_modified)];
    for (name, value) in named {
        if let Some(value) = value {
            response = response.header(name, value);
        }
    }
    for (name, value) in &head.headers {
        response = response.header(name, value);
    }
    response
}
