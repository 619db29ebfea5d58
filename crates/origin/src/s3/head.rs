//! HeadObject for the cache: the metadata of an object.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, IF_MATCH, RANGE};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body::Body;
use zonal_s3::range::{digits, parse_content_range};

use super::error_mapping::no_such_bucket;
use super::{S3Origin, check_version};
use crate::error::OriginError;
use crate::object::{ObjectHead, ObjectName};

/// MD5 of the empty string, which most S3 servers use as ETag of an empty object.
const ETAG_OF_NOTHING: &str = "\"d41d8cd98f00b204e9800998ecf8427e\"";

impl S3Origin {
    pub(crate) async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let url = self.url_of(object);
        let url = url.ok_or_else(|| no_such_bucket(&object.bucket))?;
        self.must_be_no_api(&object.bucket, &object.key).await?;
        let _permit = self.reads.placed(self.concurrency.for_head()).await?;
        let response =
            self.ask_with_checksums(|| self.asking(Method::HEAD, &url, &object.bucket)).await?;
        if response.status() != StatusCode::OK {
            return Err(OriginError::invalid_response(format!(
                "status {} to a HEAD request",
                response.status()
            )));
        }
        check_version(object.version.as_deref(), response.headers())?;
        check_stored_encoding(response.headers())?;
        let length = response.headers().get(CONTENT_LENGTH);
        let size = match length.map(|length| length.to_str().ok().and_then(digits)) {
            Some(Some(size)) => size,
            Some(None) => return Err(OriginError::invalid_response("an illegal Content-Length")),
            None => self.size_by_range(&url, &object.bucket).await?,
        };
        let head = ObjectHead::from_headers(size, response.headers());
        match &head.etag {
            Some(etag) if size == 0 && etag != ETAG_OF_NOTHING => {
                self.check_empty((&url, &object.bucket), etag).await?;
            }
            _ => {}
        }
        Ok(head)
    }

    /// Size of an object from the answer to a request for its first byte, for servers that leave
    /// `Content-Length` out of answers to HEAD.
    async fn size_by_range(&self, url: &Uri, bucket: &str) -> Result<u64, OriginError> {
        self.stats.gets.add(1);
        let first = || self.asking(Method::GET, url, bucket).header(RANGE, "bytes=0-0");
        let answer = match self.read(|| first().body(()).expect("made of valid parts")).await {
            Err(OriginError::RangeNotSatisfiable) => return Ok(0),
            answer => answer?,
        };
        let header = |name| answer.headers().get(name)?.to_str().ok();
        let size = match answer.status() {
            StatusCode::PARTIAL_CONTENT => {
                header(CONTENT_RANGE).and_then(parse_content_range).and_then(|(_, size)| size)
            }
            _ if answer.body().is_end_stream() => Some(0),
            _ => header(CONTENT_LENGTH).and_then(digits),
        };
        size.ok_or_else(|| OriginError::invalid_response("no answer states the size of an object"))
    }

    /// Verifies a size of 0 by a request for the first byte. For any other object, a later range
    /// read reveals the true size. For an empty object no range is ever read, and some servers
    /// state a size of 0 in every answer to HEAD.
    async fn check_empty(
        &self,
        (url, bucket): (&Uri, &str),
        etag: &str,
    ) -> Result<(), OriginError> {
        self.stats.gets.add(1);
        let first = || {
            self.asking(Method::GET, url, bucket).header(RANGE, "bytes=0-0").header(IF_MATCH, etag)
        };
        let asked = self.read(|| first().body(()).expect("made of what came in headers")).await;
        match asked {
            Err(OriginError::RangeNotSatisfiable) => Ok(()),
            Ok(answer) if answer.body().is_end_stream() => Ok(()),
            Ok(_) => Err(OriginError::invalid_response(
                "a HEAD response with 0 bytes for an object that is not empty",
            )),
            Err(error) => Err(error),
        }
    }
}

/// Refuses a compressed object that Google Cloud Storage decompresses for its S3 API: its size and
/// its ranges are those of the compressed bytes, which this API does not send.
pub(super) fn check_stored_encoding(headers: &HeaderMap) -> Result<(), OriginError> {
    let stored = headers.get("x-goog-stored-content-encoding");
    match stored.filter(|stored| *stored != "identity") {
        Some(stored) if headers.get(CONTENT_ENCODING) != Some(stored) => {
            Err(OriginError::invalid_response(
                "Google Cloud Storage decompresses this object for its S3 API: use an origin of \
                 the kind gcs:, which reads it as it is stored",
            ))
        }
        _ => Ok(()),
    }
}
