//! HeadObject for the cache: the metadata of an object.

use http::header::{CONTENT_LENGTH, IF_MATCH, RANGE};
use http::{Method, StatusCode, Uri};
use http_body::Body;
use zonal_s3::range::digits;

use super::S3Origin;
use super::error_mapping::no_such_bucket;
use crate::error::OriginError;
use crate::object::{ObjectHead, ObjectName};

/// MD5 of the empty string, which most S3 servers use as ETag of an empty object.
const ETAG_OF_NOTHING: &str = "\"d41d8cd98f00b204e9800998ecf8427e\"";

impl S3Origin {
    pub(crate) async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let url = self.endpoint.url(&object.bucket, &object.key, None);
        let url = url.ok_or_else(|| no_such_bucket(&object.bucket))?;
        self.must_be_no_api(&object.bucket, &object.key).await?;
        let _permit = self.reads.placed(self.concurrency.for_head()).await?;
        let response = self
            .read(|| {
                let request = self.asking(Method::HEAD, &url, &object.bucket);
                let request = request.header("x-amz-checksum-mode", "ENABLED");
                request.body(()).expect("made of valid parts")
            })
            .await?;
        if response.status() != StatusCode::OK {
            return Err(OriginError::invalid_response(format!(
                "status {} to a HEAD request",
                response.status()
            )));
        }
        let length = response.headers().get(CONTENT_LENGTH);
        let size = length.and_then(|length| digits(length.to_str().ok()?));
        let size = size.ok_or_else(|| {
            OriginError::invalid_response("a HEAD response without Content-Length")
        })?;
        let head = ObjectHead::from_headers(size, response.headers());
        match &head.etag {
            Some(etag) if size == 0 && etag != ETAG_OF_NOTHING => {
                self.check_empty((&url, &object.bucket), etag).await?;
            }
            _ => {}
        }
        Ok(head)
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
