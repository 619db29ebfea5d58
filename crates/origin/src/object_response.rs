//! GetObject response: the head of an object and bytes of it, from one request.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use http::{HeaderMap, StatusCode, response};
use zonal_base::RangeSpec;
use zonal_s3::range::{digits, parse_content_range};

use crate::body::{OriginBody, RangeHead};
use crate::error::OriginError;
use crate::object::ObjectHead;
use crate::s3::get::text;

/// The head of an object, and bytes of it.
#[derive(Debug)]
pub struct ObjectResponse {
    /// Metadata of the object.
    pub head: ObjectHead,
    /// False if a HEAD request may tell more: a partial response lacks the checksums of the whole
    /// object.
    pub is_complete: bool,
    /// The bytes in `body`. An origin without ranges sends more than was asked for.
    pub range: Range<u64>,
    /// The bytes, or an error.
    pub body: OriginBody,
}

/// The head of a response, checked against the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) head: ObjectHead,
    pub(crate) is_complete: bool,
    pub(crate) range: Range<u64>,
}

impl Described {
    fn new(size: u64, headers: &HeaderMap, (range, is_complete): (Range<u64>, bool)) -> Self {
        let mut head = ObjectHead::from_headers(size, headers);
        // A checksum that was not requested may be that of a part.
        head.headers.retain(|(name, _)| is_complete || !is_of_whole_object(name));
        Self { head, is_complete, range }
    }

    pub(crate) fn range_head(&self) -> RangeHead {
        RangeHead {
            bytes: self.range.end - self.range.start,
            etag: self.head.etag.clone(),
            object_size: Some(self.head.size),
        }
    }

    pub(crate) fn with(self, body: OriginBody) -> ObjectResponse {
        let Self { head, is_complete, range } = self;
        ObjectResponse { head, is_complete, range, body }
    }

    /// The response for an object that has none of the requested bytes.
    pub(crate) fn of_no_bytes(head: ObjectHead) -> Self {
        let range = head.size..head.size;
        Self { head, is_complete: true, range }
    }
}

/// Checks a successful response to a request for `asked` of the version `if_match`. `None`: the
/// response does not state the size of the object.
pub(crate) fn describe(
    parts: &response::Parts,
    asked: &RangeSpec,
    if_match: Option<&str>,
) -> Result<Option<Described>, OriginError> {
    let headers = &parts.headers;
    check_etag(headers, if_match)?;
    let length = text(headers, CONTENT_LENGTH).map(|length| digits(&length).ok_or(length));
    let length = length.transpose().map_err(|length| {
        OriginError::invalid_response(format!("an illegal Content-Length {length:?}"))
    })?;
    match parts.status {
        StatusCode::OK => {
            Ok(length
                .map(|size| Described::new(size, headers, (0..size, *asked == RangeSpec::Whole))))
        }
        StatusCode::PARTIAL_CONTENT if *asked != RangeSpec::Whole => {
            let told = text(headers, CONTENT_RANGE).unwrap_or_default();
            let Some((range, size)) = parse_content_range(&told) else {
                let what = format!("206 with Content-Range {told:?}");
                return Err(OriginError::invalid_response(what));
            };
            let Some(size) = size else { return Ok(None) };
            if range != asked.in_object(size) {
                return Err(OriginError::invalid_response(format!(
                    "a request for {asked:?} was answered with {told:?}"
                )));
            }
            let bytes = range.end - range.start;
            if let Some(length) = length.filter(|length| *length != bytes) {
                let what = format!("Content-Length {length} for a range of {bytes} bytes");
                return Err(OriginError::invalid_response(what));
            }
            Ok(Some(Described::new(size, headers, (range, false))))
        }
        status => Err(OriginError::invalid_response(format!("{status} to a read"))),
    }
}

fn is_of_whole_object(name: &str) -> bool {
    name.starts_with("x-amz-checksum-") || name == "x-amz-mp-parts-count"
}

fn check_etag(headers: &HeaderMap, if_match: Option<&str>) -> Result<(), OriginError> {
    match (if_match, text(headers, ETAG)) {
        (Some(_), None) => {
            Err(OriginError::invalid_response("an answer about a version without an ETag"))
        }
        (Some(asked), Some(told)) if asked != told => Err(OriginError::Changed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn described(
        (status, headers): (u16, &[(&str, &str)]),
        asked: &RangeSpec,
    ) -> Result<Option<Described>, OriginError> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        describe(&response.body(()).unwrap().into_parts().0, asked, None)
    }

    #[test]
    fn a_partial_response_is_the_requested_part_and_its_head_is_incomplete() {
        let checksum = ("x-amz-checksum-crc32", "AAAAAA==");
        let told = |range, length| {
            [("content-range", range), ("content-length", length), checksum, ("x-amz-meta-a", "1")]
        };
        let asked = RangeSpec::Int(4..20);
        let part = described((206, &told("bytes 4-9/10", "6")), &asked).unwrap().unwrap();
        assert_eq!((part.range, part.head.size, part.is_complete), (4..10, 10, false));
        assert_eq!(part.head.headers.len(), 1, "{:?}", part.head.headers);
        let suffix = RangeSpec::Suffix(3);
        let part = described((206, &told("bytes 7-9/10", "3")), &suffix).unwrap().unwrap();
        assert_eq!(part.range, 7..10);
        for (range, length) in
            [("bytes 4-9/30", "6"), ("bytes 3-9/10", "7"), ("bytes 4-9/10", "7"), ("", "6")]
        {
            let lie = described((206, &told(range, length)), &asked);
            assert!(matches!(lie, Err(OriginError::InvalidResponse { .. })), "{range} {length}");
        }
        assert_eq!(described((206, &told("bytes 4-9/*", "6")), &asked), Ok(None));
        let to_whole = described((206, &told("bytes 4-9/10", "6")), &RangeSpec::Whole);
        assert!(matches!(to_whole, Err(OriginError::InvalidResponse { .. })));
    }

    #[test]
    fn an_origin_without_ranges_sends_the_whole_object() {
        let whole = [("content-length", "10"), ("x-amz-checksum-crc32", "AAAAAA==")];
        let whole = (200, &whole[..]);
        let seen = described(whole, &RangeSpec::Int(4..6)).unwrap().unwrap();
        assert_eq!((seen.range, seen.is_complete), (0..10, false), "no checksums were asked for");
        assert!(seen.head.headers.is_empty(), "{:?}", seen.head.headers);
        let seen = described(whole, &RangeSpec::Whole).unwrap().unwrap();
        assert_eq!((seen.range, seen.is_complete), (0..10, true));
        assert_eq!(described((200, &[]), &RangeSpec::Whole), Ok(None), "chunked");
        let lie = described((200, &[("content-length", "x")]), &RangeSpec::Whole);
        assert!(matches!(lie, Err(OriginError::InvalidResponse { .. })));
        assert!(described((204, &[]), &RangeSpec::Whole).is_err());
    }
}
