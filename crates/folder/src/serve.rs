//! S3 server for a folder: dispatches requests to their operations.

use http::header::{ETAG, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use zonal_origin::serving::{self, Answer, ReadAnswer, not_implemented, refused};
use zonal_origin::{Download, ObjectName, OriginError, Permit};
use zonal_s3::object_list::{self, ListRequest};
use zonal_s3::range::ResolvedRange;
use zonal_s3::{BoxBody, Query, aws_chunked, checksum, full_body, payload_hash};

use crate::error::from_io;
use crate::read::{FileBody, FileRange, head_of};
use crate::{FolderOrigin, blocking, list};

impl FolderOrigin {
    /// Answers a forwarded request as S3 does.
    pub(crate) async fn forward(&self, request: Request<BoxBody>) -> Answer {
        let known = (&self.concurrency, &*self.stats);
        serving::answer_with(request, known, |request, permit| self.serve(request, permit), told)
            .await
    }

    async fn serve(&self, request: Request<BoxBody>, permit: Permit) -> Answer {
        let request = checksum::verify(payload_hash::verify(aws_chunked::decode(request)?)?);
        let uri = request.uri().clone();
        let (object, query) = serving::parse_target(&uri)?;
        match (object.bucket.is_empty(), object.key.is_empty()) {
            (true, _) => self.serve_service(request.method(), &query).await,
            (false, true) => self.serve_bucket(request.method(), &object.bucket, &query).await,
            (false, false) => self.serve_object(request, (&object, &query), permit).await,
        }
    }

    async fn serve_service(&self, method: &Method, query: &Query<'_>) -> Answer {
        if method != Method::GET || !query.has_only(&[]) {
            return Err(not_implemented("this operation on the service"));
        }
        self.list_buckets().await
    }

    async fn serve_bucket(&self, method: &Method, bucket: &str, query: &Query<'_>) -> Answer {
        match *method {
            Method::PUT if query.has_only(&[]) => self.make_bucket(bucket).await,
            Method::HEAD if query.has_only(&[]) => {
                self.bucket_folder(bucket).await.map(|_| serving::empty(StatusCode::OK))
            }
            Method::GET if query.has("location") => {
                self.bucket_folder(bucket).await.map(|_| serving::location())
            }
            Method::GET => self.serve_list(bucket, query).await,
            _ => Err(not_implemented("this operation on a bucket")),
        }
    }

    async fn serve_list(&self, bucket: &str, query: &Query<'_>) -> Answer {
        let folder = self.bucket_folder(bucket).await?;
        let request = ListRequest::of(bucket, query).map_err(refused)?;
        let xml =
            blocking(move || Ok(object_list::to_xml(&request, &list::walk(&folder, &request)?)));
        let xml = xml.await.map_err(|error| from_io(&error))?;
        Ok(serving::with_xml(StatusCode::OK, xml))
    }

    async fn serve_object(
        &self,
        request: Request<BoxBody>,
        (object, query): (&ObjectName, &Query<'_>),
        permit: Permit,
    ) -> Answer {
        let is_copy = request.headers().contains_key("x-amz-copy-source");
        if !is_copy && (query.has("uploads") || query.has("uploadId")) {
            return self.serve_multipart(request, object, query).await;
        }
        if is_copy || !query.has_only(&[]) {
            return Err(not_implemented("this operation on an object"));
        }
        match *request.method() {
            Method::GET | Method::HEAD => self.serve_read(request.headers(), object, permit).await,
            Method::PUT => {
                let version = self.put(object, request).await?;
                let response = Response::builder().header(ETAG, version.etag());
                Ok(response.body(full_body("")).expect("made of valid parts"))
            }
            Method::DELETE => {
                self.delete(object, request.headers()).await?;
                Ok(serving::empty(StatusCode::NO_CONTENT))
            }
            _ => Err(not_implemented("this operation on an object")),
        }
    }

    async fn serve_read(&self, headers: &HeaderMap, object: &ObjectName, permit: Permit) -> Answer {
        let opened = self.open_object(object).await?;
        let head = head_of(&opened.version, &object.key);
        let ReadAnswer { response, slice } = serving::read_answer(headers, &head)?;
        let range = match slice {
            None => return Ok(response.map(|()| full_body(""))),
            Some(ResolvedRange::Part(range)) => range,
            Some(_) => 0..head.size,
        };
        let body = Download::new(
            FileBody::new(FileRange::new(opened, range)),
            self.limits.stall,
            self.stats.clone(),
            permit,
        );
        Ok(response.map(|()| body.boxed_unsync()))
    }
}

/// Decides which errors become error responses. File system failures and failed request bodies are
/// errors of the origin call instead.
fn told(error: OriginError) -> Result<OriginError, OriginError> {
    match error {
        OriginError::Unreachable { .. } | OriginError::InvalidRequest(_) => Err(error),
        error => Ok(error),
    }
}
