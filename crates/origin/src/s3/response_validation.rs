//! Response validation: refuses answers that cannot belong to the forwarded request.
//!
//! The content of an answer is the origin's business. But a client must be able to detect the end
//! of an answer, must not get another part of an object than it requested, and must not get a
//! success that its request cannot have.

use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE,
    TRANSFER_ENCODING,
};
use http::{HeaderValue, Method, Response, StatusCode, request, response};
use http_body::Body;
use zonal_s3::Query;
use zonal_s3::range::{ResolvedRange, digits, parse_content_range, resolve};

use super::get::text;
use crate::error::OriginError;

/// Conditional headers of a read, one of which makes 304 a possible answer.
const CONDITIONS: [HeaderName; 2] = [IF_NONE_MATCH, IF_MODIFIED_SINCE];

/// Conditional headers of a copy, which apply to its source. If they do not hold, S3 answers 412,
/// versitygw 304.
const COPY_CONDITIONS: [HeaderName; 2] = [
    HeaderName::from_static("x-amz-copy-source-if-none-match"),
    HeaderName::from_static("x-amz-copy-source-if-modified-since"),
];

/// The properties of a forwarded request that its answer must fit.
pub(super) struct ForwardedRequest {
    pub(super) method: Method,
    /// The request has conditions, so 304 is a possible answer.
    pub(super) has_conditions: bool,
    /// First header with white space other than spaces: servers disagree on how to sign such a
    /// header.
    pub(super) spaced: Option<HeaderName>,
    range: Option<String>,
    is_of_part: bool,
}

/// Finds a header with white space other than spaces. SigV4 collapses runs of spaces. Some servers,
/// MinIO among them, also treat tabs and Unicode white space as spaces.
fn spaced(headers: &HeaderMap) -> Option<HeaderName> {
    let is_other = |c: char| c.is_whitespace() && c != ' ';
    let is_spaced = |value: &HeaderValue| {
        // Fast path: most values are printable ASCII.
        let is_plain = value.as_bytes().iter().all(|byte| (b' '..0x7F).contains(byte));
        !is_plain && String::from_utf8_lossy(value.as_bytes()).contains(is_other)
    };
    headers.iter().find(|(_, value)| is_spaced(value)).map(|(name, _)| name.clone())
}

impl ForwardedRequest {
    pub(super) fn of(parts: &request::Parts) -> Self {
        let headers = &parts.headers;
        let query = Query::parse(parts.uri.query()).unwrap_or_default();
        let method = parts.method.clone();
        let is_read = is_read(&method);
        let conditions = if is_read { &CONDITIONS } else { &COPY_CONDITIONS };
        Self {
            has_conditions: conditions.iter().any(|name| headers.contains_key(name)),
            range: text(headers, RANGE).filter(|_| is_read),
            is_of_part: is_read && query.has("partNumber"),
            spaced: spaced(headers),
            method,
        }
    }

    /// Refuses a success or a 304 that does not fit the request.
    pub(super) fn check<B: Body>(&self, answer: &Response<B>) -> Result<(), OriginError> {
        let (status, headers) = (answer.status(), answer.headers());
        let is_possible = match status {
            StatusCode::OK => true,
            StatusCode::NOT_MODIFIED => self.has_conditions,
            StatusCode::PARTIAL_CONTENT => self.range.is_some() || self.is_of_part,
            StatusCode::CREATED | StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                !is_read(&self.method)
            }
            _ => false,
        };
        if !is_possible {
            return Err(OriginError::invalid_response(format!("{status} to {}", self.method)));
        }
        let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
        let length = lengths.next();
        if lengths.any(|other| Some(other) != length) {
            return Err(OriginError::invalid_response("two Content-Length headers"));
        }
        let has_end = answer.body().is_end_stream() || self.method == Method::HEAD;
        if !has_end && length.is_none() && !headers.contains_key(TRANSFER_ENCODING) {
            return Err(OriginError::invalid_response("a response whose end cannot be detected"));
        }
        match &self.range {
            Some(range) if status == StatusCode::PARTIAL_CONTENT => check_range(range, headers),
            _ => Ok(()),
        }
    }

    /// As `check`, for an answer of any status. Also refuses redirections.
    pub(super) fn check_as_signed<B: Body>(&self, answer: &Response<B>) -> Result<(), OriginError> {
        match answer.status() {
            StatusCode::NOT_MODIFIED => self.check(answer),
            status if status.is_success() => self.check(answer),
            status if status.is_redirection() => Err(OriginError::Redirected { region: None }),
            status if status.is_informational() => {
                Err(OriginError::invalid_response(format!("{status}, which is not a final status")))
            }
            _ => Ok(()),
        }
    }

    /// Removes checksum headers from a partial answer: SDKs refuse a part with the checksum of the
    /// whole object.
    pub(super) fn take_off_checksums(&self, answer: &mut response::Parts) {
        if answer.status != StatusCode::PARTIAL_CONTENT || self.is_of_part {
            return;
        }
        let names = answer.headers.keys();
        let checksums: Vec<_> =
            names.filter(|name| name.as_str().starts_with("x-amz-checksum-")).cloned().collect();
        for name in checksums {
            answer.headers.remove(name);
        }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Compares the received range with the requested one. A request that is not one well-formed range
/// is left to the client and the origin.
fn check_range(asked: &str, headers: &HeaderMap) -> Result<(), OriginError> {
    // Applies S3's rules to the largest possible object, to find out whether the header is one
    // range.
    let ResolvedRange::Part(_) = resolve(asked, u64::MAX) else { return Ok(()) };
    let told = text(headers, CONTENT_RANGE).unwrap_or_default();
    let invalid_response = || {
        OriginError::invalid_response(format!("a request for {asked} was answered with {told:?}"))
    };
    let (range, size) = parse_content_range(&told).ok_or_else(invalid_response)?;
    let is_it = match size {
        Some(size) => resolve(asked, size) == ResolvedRange::Part(range.clone()),
        // Without the object size, the start of a suffix range is unknown.
        None => match resolve(asked, u64::MAX) {
            ResolvedRange::Part(widest) if widest.end < u64::MAX => range == widest,
            ResolvedRange::Part(widest) => asked.contains("=-") || range.start == widest.start,
            ResolvedRange::Whole | ResolvedRange::Unsatisfiable => true,
        },
    };
    let length = text(headers, CONTENT_LENGTH);
    let is_as_long = length.is_none_or(|length| digits(&length) == Some(range.end - range.start));
    if is_it && is_as_long { Ok(()) } else { Err(invalid_response()) }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::{Empty, Full};

    use super::*;

    /// Takes method, query and headers of the request, then status and headers of the answer.
    #[track_caller]
    fn check(
        (method, query, headers): (&str, &str, &[(&str, &str)]),
        (status, told): (u16, &[(&str, &str)]),
        fits: bool,
    ) {
        let mut request = Request::builder().method(method).uri(format!("http://h/b/k?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let asked = ForwardedRequest::of(&request.body(()).unwrap().into_parts().0);
        let mut answer = Response::builder().status(status);
        for (name, value) in told {
            answer = answer.header(*name, *value);
        }
        let result = if told.is_empty() {
            asked.check(&answer.body(Empty::<&[u8]>::new()).unwrap())
        } else {
            asked.check(&answer.body(Full::new(&b"body"[..])).unwrap())
        };
        assert_eq!(result.is_ok(), fits, "{method} {headers:?}: {status} {told:?}: {result:?}");
    }

    const PLAIN: (&str, &str, &[(&str, &str)]) = ("GET", "", &[]);
    const RANGED: (&str, &str, &[(&str, &str)]) = ("GET", "", &[("range", "bytes=2-5")]);

    #[test]
    fn a_success_fits_the_method() {
        check(PLAIN, (200, &[("content-length", "4")]), true);
        check(PLAIN, (206, &[("content-length", "4")]), false);
        check(("GET", "partNumber=1", &[]), (206, &[("content-length", "4")]), true);
        for status in [201, 202, 203, 204, 205, 207] {
            check(PLAIN, (status, &[]), false);
            check(("HEAD", "", &[]), (status, &[]), false);
            check(("PUT", "", &[]), (status, &[]), [201, 202, 204].contains(&status));
        }
        check(("PUT", "", RANGED.2), (206, &[("content-range", "bytes 2-5/9")]), false);
    }

    #[test]
    fn whoever_has_it_already_can_be_told_so() {
        let named = [("if-none-match", "\"e\"")];
        let copied = [("x-amz-copy-source-if-none-match", "\"e\"")];
        for (method, headers, fits) in [
            ("GET", &named, true),
            ("HEAD", &named, true),
            ("PUT", &copied, true),
            ("PUT", &named, false),
            ("GET", &copied, false),
        ] {
            check((method, "", headers), (304, &[]), fits);
        }
        check(PLAIN, (304, &[]), false);
        check(("PUT", "", &[]), (304, &[]), false);
    }

    #[test]
    fn an_answer_has_an_end() {
        check(PLAIN, (200, &[("content-type", "text/plain")]), false);
        check(PLAIN, (200, &[("transfer-encoding", "chunked")]), true);
        check(("HEAD", "", &[]), (200, &[("content-type", "text/plain")]), true);
        check(PLAIN, (200, &[("content-length", "4"), ("content-length", "5")]), false);
        check(PLAIN, (200, &[("content-length", "4"), ("content-length", "4")]), true);
    }

    #[test]
    fn a_part_is_the_one_that_was_asked_for() {
        let told = |range, length| [("content-range", range), ("content-length", length)];
        check(RANGED, (206, &told("bytes 2-5/9", "4")), true);
        check(RANGED, (206, &told("bytes 2-5/*", "4")), true);
        check(RANGED, (206, &told("bytes 2-4/5", "3")), true);
        check(RANGED, (200, &told("", "9")), true);
        check(RANGED, (206, &told("bytes 2-5/9", "5")), false);
        for range in ["bytes 3-6/9", "bytes 2-4/9", "bytes 2-6/9", "bytes 0-8/9", "bytes 2-4/*", ""]
        {
            check(RANGED, (206, &told(range, "4")), false);
        }
        let last = ("GET", "", &[("range", "bytes=-4")][..]);
        check(last, (206, &told("bytes 5-8/9", "4")), true);
        check(last, (206, &told("bytes 4-7/9", "4")), false);
        check(last, (206, &told("bytes 5-8/*", "4")), true);
        let from = ("GET", "", &[("range", "bytes=5-")][..]);
        check(from, (206, &told("bytes 5-8/9", "4")), true);
        check(from, (206, &told("bytes 6-8/*", "3")), false);
        let two = ("GET", "", &[("range", "bytes=0-1,4-5")][..]);
        check(
            two,
            (206, &[("content-type", "multipart/byteranges"), ("content-length", "4")]),
            true,
        );
    }
}
