//! Part ranges: which bytes of an object `partNumber=N` means.
//!
//! An object that was uploaded at once is its own part 1. The parts of other objects may have any
//! size, so the origin is asked for the range of each part once (HEAD with `partNumber`), and the
//! answer is remembered for this version. Then a read of the part is a read of that range, from the
//! cache.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use http::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_MATCH};
use http::{Request, StatusCode};
use zonal_host::{Head, ObjectName};
use zonal_s3::sigv4::{EMPTY_SHA256, encode_path, encode_query_value};
use zonal_s3::{full_body, range};

use crate::bypass::BypassReason;
use crate::error;
use crate::forward::{PAYLOAD_HASH, failed};
use crate::gateway::Gateway;
use crate::read::{NotServed, Read};

/// Largest part number that S3 allows.
pub(crate) const PART_NUMBER_MAX: u16 = 10_000;

/// Ranges that are remembered, over all objects. With more, all are forgotten: each takes some 250
/// bytes with its names, 16 MiB in all, and another answer of the origin costs one HEAD.
const RANGES_MAX: usize = 64 << 10;

/// One part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes of the object. Never empty.
    pub(crate) range: Range<u64>,
    /// Number of parts of the object; `None` if it was not uploaded in parts.
    pub(crate) count: Option<u32>,
}

/// The ranges that the origin has told.
#[derive(Debug, Default)]
pub(crate) struct PartRanges(Mutex<HashMap<PartKey, Part>>);

/// A part of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PartKey {
    object: ObjectName,
    etag: Box<str>,
    size: u64,
    number: u16,
}

impl PartRanges {
    /// Part `number` of the version with this head, if it is known.
    pub(crate) fn of(&self, object: &ObjectName, head: &Head, number: u16) -> Option<Part> {
        if number == 1 && head.size != 0 && has_etag_of_one_part(head) {
            return Some(Part { range: 0..head.size, count: None });
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key(object, head, number)).cloned()
    }

    fn note(&self, object: &ObjectName, head: &Head, number: u16, part: &Part) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == RANGES_MAX {
            known.clear();
        }
        known.insert(key(object, head, number), part.clone());
    }
}

fn key(object: &ObjectName, head: &Head, number: u16) -> PartKey {
    PartKey { object: object.clone(), etag: head.etag.clone(), size: head.size, number }
}

/// The ETag of an object without parts is an MD5, or another value of 32 hexadecimal digits. The
/// ETag of a multipart object also has the number of parts.
fn has_etag_of_one_part(head: &Head) -> bool {
    let digits = head.etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    digits.is_some_and(|digits| {
        digits.len() == MD5_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

const MD5_DIGITS: usize = 32;

/// Part `number` of the version with this head, as it is known or as the origin tells. `None`: the
/// origin has another version now, so the head is outdated.
///
/// # Errors
/// The read is forwarded if the origin does not tell the range: there is no such part, the object
/// is empty, or the server does not know parts.
pub(crate) async fn find(
    gateway: &Gateway,
    read: &Read<'_>,
    head: &Head,
    number: u16,
) -> Result<Option<Part>, NotServed> {
    if let Some(known) = gateway.part_ranges().of(&read.name, head, number) {
        return Ok(Some(known));
    }
    if read.takes_only_what_is_cached() {
        return Err(error::not_cached().into());
    }
    let object = &read.name;
    let mut path = format!("/{}/{}", object.bucket(), encode_path(object.key()));
    path.push_str(&format!("?partNumber={number}"));
    if let Some(id) = object.version() {
        path.push_str(&format!("&versionId={}", encode_query_value(id)));
    }
    let etag = HeaderValue::from_str(&head.etag).map_err(|_| BypassReason::PartNumber);
    let mut question = Request::head(path)
        .header(PAYLOAD_HASH, EMPTY_SHA256)
        .header(IF_MATCH, etag.map_err(NotServed::Forward)?);
    if gateway.origins().is_paid(object.bucket()) {
        question = question.header("x-amz-request-payer", "requester");
    }
    let question = question.body(full_body("")).expect("what is encoded is legal in a path");
    let answer = Box::pin(gateway.origins().forward(question)).await.map_err(failed)?;
    let is_other = |etag: &HeaderValue| etag.as_bytes() != head.etag.as_bytes();
    let part = match answer.status() {
        StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => return Ok(None),
        status if status.is_success() && answer.headers().get(ETAG).is_some_and(is_other) => {
            return Ok(None);
        }
        StatusCode::PARTIAL_CONTENT => told(answer.headers(), head),
        _ => None,
    };
    let part = part.ok_or(NotServed::Forward(BypassReason::PartNumber))?;
    gateway.part_ranges().note(object, head, number, &part);
    Ok(Some(part))
}

/// The part that the headers of an answer describe, if they are about the version with this head.
fn told(headers: &HeaderMap, head: &Head) -> Option<Part> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let is_same = headers.get(ETAG).is_some_and(|etag| etag.as_bytes() == head.etag.as_bytes());
    let content_range = headers.get(CONTENT_RANGE).and_then(text)?;
    let (range, size) = range::parse_content_range(&content_range)?;
    let count = headers.get(PARTS_COUNT).and_then(text).and_then(|count| count.parse().ok());
    (is_same && size == Some(head.size)).then_some(Part { range, count })
}

/// Header with the number of parts.
pub(crate) const PARTS_COUNT: &str = "x-amz-mp-parts-count";

#[cfg(test)]
mod tests {
    use super::*;

    fn head(etag: &str, size: u64) -> Head {
        Head {
            size,
            etag: etag.into(),
            version_id: "".into(),
            last_modified: "".into(),
            headers: Vec::new(),
            salt: 0,
            chunk: None,
            is_partial: false,
        }
    }

    const MULTIPART: &str = "\"5d41402abc4b2a76b9719d911017c592-2\"";

    /// MinIO answers 206 for the first part of an empty object, versitygw 200.
    #[test]
    fn an_object_that_was_uploaded_at_once_is_its_first_part() {
        let (ranges, object) = (PartRanges::default(), ObjectName::new("b", "k"));
        let first = |etag, size| ranges.of(&object, &head(etag, size), 1);
        let md5 = "\"5d41402abc4b2a76b9719d911017c592\"";
        assert_eq!(first(md5, 5), Some(Part { range: 0..5, count: None }));
        assert_eq!(ranges.of(&object, &head(md5, 5), 2), None);
        assert_eq!(first(MULTIPART, 5), None);
        assert_eq!(first("\"not-an-md5\"", 5), None);
        assert_eq!(first("\"d41d8cd98f00b204e9800998ecf8427e\"", 0), None, "it is empty");
    }

    #[test]
    fn a_part_is_remembered_for_its_version() {
        let (ranges, object) = (PartRanges::default(), ObjectName::new("b", "k"));
        let part = Part { range: 5..9, count: Some(2) };
        ranges.note(&object, &head(MULTIPART, 9), 2, &part);
        assert_eq!(ranges.of(&object, &head(MULTIPART, 9), 2), Some(part));
        assert_eq!(ranges.of(&object, &head(MULTIPART, 9), 1), None);
        assert_eq!(ranges.of(&object, &head("\"other-2\"", 9), 2), None);
        assert_eq!(ranges.of(&object.with_version("v"), &head(MULTIPART, 9), 2), None);
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let (ranges, part) = (PartRanges::default(), Part { range: 0..1, count: None });
        for n in 0..=RANGES_MAX {
            ranges.note(&ObjectName::new("b", &n.to_string()), &head(MULTIPART, 9), 1, &part);
        }
        assert_eq!(ranges.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn an_answer_tells_a_part_of_its_own_version_only() {
        let told = |etag: &'static str, range: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_static(etag));
            headers.insert(CONTENT_RANGE, HeaderValue::from_static(range));
            headers.insert(PARTS_COUNT, HeaderValue::from_static("2"));
            told(&headers, &head(MULTIPART, 9))
        };
        let part = Part { range: 5..9, count: Some(2) };
        assert_eq!(told(MULTIPART, "bytes 5-8/9"), Some(part));
        assert_eq!(told("\"other-2\"", "bytes 5-8/9"), None);
        for range in ["bytes 5-8/10", "bytes 5-8/*", "bytes */9", "5-8/9"] {
            assert_eq!(told(MULTIPART, range), None, "{range}");
        }
    }
}
