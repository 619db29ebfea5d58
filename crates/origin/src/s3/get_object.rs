//! GetObject for the cache, before it knows the object: head and bytes in one request.
//!
//! 1. Request the whole object with its checksums, or a range of it.
//! 2. Check the response, and that the path is a bucket's if no ETag shows an object.
//! 3. Some origins do not tell the size: no `Content-Length`, or 416 to a range of an empty object.
//!    A HEAD request tells it then.

use http::header::{IF_MATCH, RANGE};
use http::{HeaderValue, Method, Response};
use hyper::body::Incoming;
use zonal_base::RangeSpec;
use zonal_s3::full_body;

use super::error_mapping::no_such_bucket;
use super::head::check_stored_encoding;
use super::{S3Origin, check_version};
use crate::body::{OriginBody, Source};
use crate::concurrency::Permit;
use crate::error::OriginError;
use crate::object::{ObjectHead, ObjectName};
use crate::object_response::{Described, ObjectResponse, describe};

impl S3Origin {
    pub(crate) async fn get_object(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        let (permit, response) = self.ask_for_bytes(object, range, if_match).await?;
        let response = match response {
            Err(OriginError::RangeNotSatisfiable) => {
                return self.without_bytes(object, if_match, permit).await;
            }
            response => response?,
        };
        check_version(object.version.as_deref(), response.headers())?;
        // Before the length is looked at: Google sends such an object without one.
        check_stored_encoding(response.headers())?;
        let (parts, body) = response.into_parts();
        let Some(described) = describe(&parts, range, if_match)? else {
            drop((body, permit));
            return self.of_told_size(object, range, if_match).await;
        };
        if described.head.etag.is_none() && self.is_in_doubt(&object.bucket, &object.key) {
            self.must_be_a_bucket(&object.bucket).await?;
        }
        let source = Source::Http { body, stall: self.limits.stall };
        let body = OriginBody::new(source, described.range_head(), self.stats.clone(), permit);
        Ok(described.with(body))
    }

    /// Requests bytes of an object, of the version `if_match` if there is one. Asks for the checksums
    /// of the whole object along with its bytes. A refused range leaves the permit to the caller.
    pub(super) async fn ask_for_bytes(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<(Permit, Result<Response<Incoming>, OriginError>), OriginError> {
        let url = self.url_of(object);
        let url = url.ok_or_else(|| no_such_bucket(&object.bucket))?;
        self.must_be_no_api(&object.bucket, &object.key).await?;
        // No origin can have sent an ETag that no header can carry: no version has it.
        let condition = if_match.map(HeaderValue::from_str).transpose();
        let condition = condition.map_err(|_| OriginError::Changed)?;
        let permit = self.reads.placed(self.concurrency.for_range()).await?;
        let request = || {
            let request = self.asking(Method::GET, &url, &object.bucket);
            match &condition {
                Some(etag) => request.header(IF_MATCH, etag),
                None => request,
            }
        };
        let response = match header(range) {
            None => self.ask_with_checksums(request).await,
            Some(range) => {
                let ranged = || request().header(RANGE, &range);
                self.read(|| ranged().body(()).expect("made of valid parts")).await
            }
        };
        Ok((permit, response))
    }

    /// The response for a range outside the object.
    async fn without_bytes(
        &self,
        object: &ObjectName,
        if_match: Option<&str>,
        permit: Permit,
    ) -> Result<ObjectResponse, OriginError> {
        self.stats.heads.add(1);
        let head = self.head(object).await?;
        if if_match.is_some_and(|asked| head.etag.as_deref() != Some(asked)) {
            return Err(OriginError::Changed);
        }
        Ok(self.of_no_bytes(head, permit))
    }

    fn of_no_bytes(&self, head: ObjectHead, permit: Permit) -> ObjectResponse {
        let described = Described::of_no_bytes(head);
        let source = Source::Boxed { body: full_body(""), stall: self.limits.stall };
        let body = OriginBody::new(source, described.range_head(), self.stats.clone(), permit);
        described.with(body)
    }

    /// The response of an origin that tells the size of an object only if asked for it.
    async fn of_told_size(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        self.stats.heads.add(1);
        let head = self.head(object).await?;
        let range = range.in_object(head.size);
        if range.is_empty() {
            let permit = self.reads.placed(self.concurrency.for_range()).await?;
            return Ok(self.of_no_bytes(head, permit));
        }
        self.stats.gets.add(1);
        let if_match = if_match.or(head.strong_etag());
        let body = self.get(object, range.clone(), if_match).await?;
        if body.object_size().is_some_and(|told| told != head.size) {
            return Err(OriginError::Changed);
        }
        Ok(ObjectResponse { head, is_complete: true, range, body })
    }
}

/// The `Range` header of a request. `None`: the whole object.
fn header(range: &RangeSpec) -> Option<String> {
    match range {
        RangeSpec::Whole => None,
        RangeSpec::Int(range) if range.end == u64::MAX => Some(format!("bytes={}-", range.start)),
        RangeSpec::Int(range) => Some(format!("bytes={}-{}", range.start, range.end - 1)),
        RangeSpec::Suffix(bytes) => Some(format!("bytes=-{bytes}")),
    }
}
