//! The head path: what an object is, without reading it.

use http::header::CONTENT_LENGTH;
use http::{Request, StatusCode};

use super::S3Origin;
use super::answer::no_such_bucket;
use crate::error::OriginError;
use crate::object::{ObjectHead, ObjectName};

impl S3Origin {
    /// The head of `object`.
    ///
    /// # Errors
    /// What the origin refused, or an answer without a size.
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        self.stats.heads.add(1);
        self.stats.counted(self.checked_head(object).await)
    }

    async fn checked_head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let url = self.endpoint.url(&object.bucket, &object.key, None);
        let url = url.ok_or_else(|| no_such_bucket(&object.bucket))?;
        let _place = self.places.for_head().await;
        let response = self
            .read(|| {
                let request = Request::head(&url).header("x-amz-checksum-mode", "ENABLED");
                request.body(()).expect("made of valid parts")
            })
            .await?;
        if response.status() != StatusCode::OK {
            return Err(OriginError::lied(format!("HEAD was answered {}", response.status())));
        }
        let length = response.headers().get(CONTENT_LENGTH);
        let size = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let size = size.ok_or_else(|| OriginError::lied("HEAD without a Content-Length"))?;
        Ok(ObjectHead::from_headers(size, response.headers()))
    }
}
