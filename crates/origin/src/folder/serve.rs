//! A tiny S3 server: finds out which operation a request is, and carries it out.

use std::collections::BTreeMap;
use std::ops::Range;

use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, IF_MATCH, IF_NONE_MATCH,
    LAST_MODIFIED, RANGE,
};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::answer::{self, not_implemented};
use super::list::{ListRequest, Version as ListVersion};
use super::read::{FileBody, FileRange, head_of};
use super::version::Version;
use super::{FolderOrigin, blocking, bucket, list};
use crate::aws_chunked;
use crate::body::{BoxBody, full_body};
use crate::error::OriginError;
use crate::hashed;
use crate::object::ObjectName;
use crate::origin::RequestId;
use crate::places::Place;
use crate::sigv4::{decode_path, decode_query_value, query_pairs};

pub(super) type Answer = Result<Response<BoxBody>, OriginError>;

impl FolderOrigin {
    /// Answers `request` as S3 would. Its path is `/BUCKET/KEY`; an answer of any status is `Ok`.
    ///
    /// # Errors
    /// The file system or the request's body failed.
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        self.stats.forwards.add(1);
        let place = self.places.for_forward(&request).await?;
        let is_head = request.method() == Method::HEAD;
        let resource = request.uri().path().to_owned();
        let request_id = request.extensions().get::<RequestId>().cloned();
        let answer = match self.stats.counted(self.serve(request, place).await) {
            Err(error @ (OriginError::Unreachable { .. } | OriginError::BadUpload { .. })) => {
                return Err(error);
            }
            Err(error) => {
                let request_id = request_id.map(|RequestId(id)| id).unwrap_or_default();
                answer::of_error(&error, &resource, &request_id)
            }
            Ok(answer) => answer,
        };
        // An answer to HEAD has the headers of its body only.
        Ok(if is_head { answer.map(|_| full_body("")) } else { answer })
    }

    async fn serve(&self, request: Request<BoxBody>, place: Place) -> Answer {
        let request = hashed::checked(aws_chunked::decode_any(request)?)?;
        let path = request.uri().path();
        let path = decode_path(path.strip_prefix('/').unwrap_or(path));
        let path =
            path.ok_or_else(|| answer::invalid_argument("the key is not UTF-8".to_owned()))?;
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        let object = ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
        let query = Query::parse(request.uri().query().unwrap_or_default());
        match (object.bucket.is_empty(), object.key.is_empty()) {
            (true, _) => self.serve_service(request.method(), &query).await,
            (false, true) => self.serve_bucket(request.method(), &object.bucket, &query).await,
            (false, false) => self.serve_object(request, (&object, &query), place).await,
        }
    }

    async fn serve_service(&self, method: &Method, query: &Query) -> Answer {
        if method != Method::GET || !query.has_only(&[]) {
            return Err(not_implemented("this operation on the service"));
        }
        self.list_buckets().await
    }

    async fn serve_bucket(&self, method: &Method, bucket: &str, query: &Query) -> Answer {
        match *method {
            Method::PUT if query.has_only(&[]) => self.make_bucket(bucket).await,
            Method::HEAD if query.has_only(&[]) => {
                self.bucket_folder(bucket).await.map(|_| answer::empty(StatusCode::OK))
            }
            Method::GET if query.has("location") => {
                let location = |_| answer::with_xml(StatusCode::OK, bucket::location_xml());
                self.bucket_folder(bucket).await.map(location)
            }
            Method::GET => self.serve_list(bucket, query).await,
            _ => Err(not_implemented("this operation on a bucket")),
        }
    }

    async fn serve_list(&self, bucket: &str, query: &Query) -> Answer {
        let folder = self.bucket_folder(bucket).await?;
        let version = match query.get("list-type") {
            None => ListVersion::V1,
            Some("2") => ListVersion::V2,
            Some(_) => return Err(not_implemented("this kind of list")),
        };
        if !query.has_only(version.parameters()) {
            return Err(not_implemented("this operation on a bucket"));
        }
        let request = ListRequest::parse(version, bucket, query)?;
        let xml = blocking(move || list::objects_xml(&folder, &request)).await;
        let xml = xml.map_err(|error| answer::from_io(&error))?;
        Ok(answer::with_xml(StatusCode::OK, xml))
    }

    async fn serve_object(
        &self,
        request: Request<BoxBody>,
        (object, query): (&ObjectName, &Query),
        place: Place,
    ) -> Answer {
        let is_copy = request.headers().contains_key("x-amz-copy-source");
        if !is_copy && (query.has("uploads") || query.has("uploadId")) {
            return self.serve_multipart(request, object, query).await;
        }
        if is_copy || !query.has_only(&[]) {
            return Err(not_implemented("this operation on an object"));
        }
        match *request.method() {
            Method::GET | Method::HEAD => self.serve_read(request.headers(), object, place).await,
            Method::PUT => {
                let version = self.put(object, request).await?;
                let response = Response::builder().header(ETAG, version.etag());
                Ok(response.body(full_body("")).expect("made of valid parts"))
            }
            Method::DELETE => {
                self.delete(object).await?;
                Ok(answer::empty(StatusCode::NO_CONTENT))
            }
            _ => Err(not_implemented("this operation on an object")),
        }
    }

    async fn serve_read(&self, headers: &HeaderMap, object: &ObjectName, place: Place) -> Answer {
        let opened = self.open_object(object).await?;
        let version = opened.version;
        let etag = version.etag();
        let condition = |name: HeaderName| Some(headers.get(name)?.to_str().unwrap_or_default());
        if condition(IF_MATCH).is_some_and(|asked| !lists(asked, &etag)) {
            return Err(OriginError::Changed);
        }
        let mut response = head_response(&version, object);
        if condition(IF_NONE_MATCH).is_some_and(|asked| lists(asked, &etag)) {
            response = response.status(StatusCode::NOT_MODIFIED);
            return Ok(response.body(full_body("")).expect("made of valid parts"));
        }
        let range = match condition(RANGE) {
            None => None,
            Some(range) => parse_range(range, version.size)?,
        };
        if let Some(range) = &range {
            let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, version.size);
            response = response.status(StatusCode::PARTIAL_CONTENT);
            response = response.header(CONTENT_RANGE, content_range);
        }
        let range = range.unwrap_or(0..version.size);
        response = response.header(CONTENT_LENGTH, range.end - range.start);
        let body = FileBody::new(FileRange::new(opened, range), self.stats.clone(), place);
        Ok(response.body(body.boxed_unsync()).expect("made of valid parts"))
    }
}

fn head_response(version: &Version, object: &ObjectName) -> http::response::Builder {
    let head = head_of(version, &object.key);
    let mut response = Response::builder().header(ACCEPT_RANGES, "bytes");
    let named = [(ETAG, head.etag), (LAST_MODIFIED, head.last_modified)];
    for (name, value) in named {
        if let Some(value) = value {
            response = response.header(name, value);
        }
    }
    for (name, value) in head.headers {
        response = response.header(name, value);
    }
    response
}

/// True when a condition's list of ETags names this one, or any.
pub(super) fn lists(condition: &str, etag: &str) -> bool {
    let bare = |text: &str| text.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    condition.split(',').map(bare).any(|listed| listed == "*" || listed == bare(etag))
}

/// The bytes that a Range header asks for; `None` when it is to be ignored: RFC 9110 says so of what is
/// malformed, and allows it for several ranges.
fn parse_range(header: &str, size: u64) -> Result<Option<Range<u64>>, OriginError> {
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|range| range.split_once('-'))
    else {
        return Ok(None);
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(suffix)) if first.is_empty() => size.saturating_sub(suffix)..size,
        _ => return Ok(None),
    };
    if range.is_empty() { Err(OriginError::RangeNotSatisfiable) } else { Ok(Some(range)) }
}

/// The decoded parameters of a request that say what it wants.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Leaves out what signs a request or only names the operation once more. Of a name that comes
    /// twice, the last value counts.
    fn parse(raw_query: &str) -> Self {
        let decoded = query_pairs(raw_query).filter_map(|(name, value)| {
            Some((decode_query_value(name)?, decode_query_value(value)?))
        });
        Self(decoded.filter(|(name, _)| !name.starts_with("X-Amz-") && name != "x-id").collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn has_only(&self, names: &[&str]) -> bool {
        self.0.keys().all(|name| names.contains(&name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, size: u64, expected: Result<Option<Range<u64>>, OriginError>) {
        assert_eq!(parse_range(header, size), expected, "{header:?} of {size}");
    }

    #[test]
    fn a_range_is_closed_open_or_a_suffix() {
        check("bytes=0-0", 10, Ok(Some(0..1)));
        check("bytes=2-99", 10, Ok(Some(2..10)));
        check("bytes=2-", 10, Ok(Some(2..10)));
        check("bytes=-3", 10, Ok(Some(7..10)));
        check("bytes=-99", 10, Ok(Some(0..10)));
        check("bytes=10-", 10, Err(OriginError::RangeNotSatisfiable));
        check("bytes=-0", 10, Err(OriginError::RangeNotSatisfiable));
        check("bytes=-1", 0, Err(OriginError::RangeNotSatisfiable));
        for ignored in ["bytes=3-2", "bytes=0-1,3-4", "lines=1-2", "bytes=-", "bytes=a-b", ""] {
            check(ignored, 10, Ok(None));
        }
    }

    #[test]
    fn a_condition_lists_etags_with_or_without_quotes() {
        assert!(lists("\"a\"", "\"a\""));
        assert!(lists("\"b\", W/\"a\"", "\"a\""));
        assert!(lists("a", "\"a\""));
        assert!(lists("*", "\"a\""));
        assert!(!lists("\"b\"", "\"a\""));
    }
}
