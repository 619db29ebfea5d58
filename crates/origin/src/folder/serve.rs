//! A tiny S3 server: finds out which operation a request is, and carries it out.

use http::header::{ETAG, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::read::{FileBody, FileRange, head_of};
use super::{FolderOrigin, blocking, list};
use crate::answer::{self, not_implemented};
use crate::aws_chunked;
use crate::body::{BoxBody, full_body};
use crate::checksum;
use crate::error::OriginError;
use crate::hashed;
use crate::listing::{self, ListRequest};
use crate::object::ObjectName;
use crate::origin::RequestId;
use crate::places::Place;
use crate::query::{Query, says_what};
use crate::range::Slice;
use crate::reading::{self, Reading};
use crate::sigv4::decode_path;

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
        let request = checksum::checked(hashed::checked(aws_chunked::decode_any(request)?)?);
        let uri = request.uri().clone();
        let path = uri.path();
        let path = decode_path(path.strip_prefix('/').unwrap_or(path));
        let path =
            path.ok_or_else(|| answer::invalid_argument("the key is not UTF-8".to_owned()))?;
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        let object = ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
        let query = Query::parse(uri.query())?.filtered(says_what);
        match (object.bucket.is_empty(), object.key.is_empty()) {
            (true, _) => self.serve_service(request.method(), &query).await,
            (false, true) => self.serve_bucket(request.method(), &object.bucket, &query).await,
            (false, false) => self.serve_object(request, (&object, &query), place).await,
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
                self.bucket_folder(bucket).await.map(|_| answer::empty(StatusCode::OK))
            }
            Method::GET if query.has("location") => {
                self.bucket_folder(bucket).await.map(|_| answer::location())
            }
            Method::GET => self.serve_list(bucket, query).await,
            _ => Err(not_implemented("this operation on a bucket")),
        }
    }

    async fn serve_list(&self, bucket: &str, query: &Query<'_>) -> Answer {
        let folder = self.bucket_folder(bucket).await?;
        let request = ListRequest::of(bucket, query)?;
        let xml = blocking(move || Ok(listing::to_xml(&request, &list::walk(&folder, &request)?)));
        let xml = xml.await.map_err(|error| answer::from_io(&error))?;
        Ok(answer::with_xml(StatusCode::OK, xml))
    }

    async fn serve_object(
        &self,
        request: Request<BoxBody>,
        (object, query): (&ObjectName, &Query<'_>),
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
                self.delete(object, request.headers()).await?;
                Ok(answer::empty(StatusCode::NO_CONTENT))
            }
            _ => Err(not_implemented("this operation on an object")),
        }
    }

    async fn serve_read(&self, headers: &HeaderMap, object: &ObjectName, place: Place) -> Answer {
        let opened = self.open_object(object).await?;
        let head = head_of(&opened.version, &object.key);
        let Reading { response, slice } = reading::of(headers, &head)?;
        let range = match slice {
            None => return Ok(response.map(|()| full_body(""))),
            Some(Slice::Part(range)) => range,
            Some(_) => 0..head.size,
        };
        let body = FileBody::new(FileRange::new(opened, range), self.stats.clone(), place);
        Ok(response.map(|()| body.boxed_unsync()))
    }
}
