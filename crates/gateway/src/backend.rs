//! Origin adapter of the cache: fetches heads, and ranges of one version.

use std::sync::Arc;

use bytes::Bytes;
use zonal_base::RangeSpec;
use zonal_host::{
    Backend, BodyStream, BoxFuture, Head, ObjectBody, ObjectName, OriginFault, OriginHead,
};
use zonal_origin::{ObjectHead, ObjectResponse, OriginBody, OriginError, Origins, Wait};

/// Origin access for the cache.
#[derive(Clone, Debug)]
pub struct OriginBackend(Arc<Origins>);

impl OriginBackend {
    /// Creates an adapter that fetches from `origins`.
    #[must_use]
    pub const fn new(origins: Arc<Origins>) -> Self {
        Self(origins)
    }
}

impl Backend for OriginBackend {
    fn head(&self, object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        Box::pin(async move {
            let head = self.0.head(&named(&object)).await.map_err(|error| match error {
                OriginError::NotFound(refusal) if refusal.code.is_empty() => {
                    OriginFault::HeadNotFound
                }
                error => fault(&error),
            })?;
            Ok(head_of(head, true))
        })
    }

    fn get_object(
        &self,
        object: ObjectName,
        range: RangeSpec,
        version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        Box::pin(async move {
            let if_match = version.as_ref().map(|version| &*version.etag);
            let answer = self.0.get_object(&named(&object), &range, if_match).await;
            let ObjectResponse { head, is_complete, range, body } =
                answer.map_err(|error| fault(&error))?;
            let head = head_of(head, is_complete);
            Ok(ObjectBody { head, range, body: Box::new(Stream(body)) })
        })
    }
}

fn head_of(head: ObjectHead, is_complete: bool) -> OriginHead {
    let headers = head.headers.into_iter();
    OriginHead {
        size: head.size,
        etag: head.etag.unwrap_or_default().into(),
        version_id: head.version_id.unwrap_or_default().into(),
        last_modified: head.last_modified.unwrap_or_default().into(),
        headers: headers.map(|(name, value)| (name.into(), value.as_bytes().into())).collect(),
        is_partial: !is_complete,
    }
}

struct Stream(OriginBody);

impl BodyStream for Stream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move {
            let next = self.0.next().await?;
            Some(next.map_err(|error| fault(&error)))
        })
    }
}

fn named(object: &ObjectName) -> zonal_origin::ObjectName {
    zonal_origin::ObjectName {
        bucket: object.bucket().into(),
        key: object.key().into(),
        version: object.version().map(Into::into),
    }
}

/// Maps an origin error to the fault classes of the cache: one class for each way to react.
fn fault(error: &OriginError) -> OriginFault {
    match error {
        OriginError::NotFound(refusal) if refusal.code == "NoSuchKey" => OriginFault::NoSuchKey,
        OriginError::NotFound(_) => OriginFault::NotFound,
        OriginError::Denied(_) | OriginError::CredentialsRejected(_) => OriginFault::Denied,
        // A range beyond the end belongs to another version.
        OriginError::Changed | OriginError::RangeNotSatisfiable => OriginFault::Changed,
        OriginError::Throttled { .. } => OriginFault::Busy,
        OriginError::Failed(refusal) => OriginFault::Status(refusal.status),
        OriginError::Redirected { .. } => OriginFault::Status(MOVED),
        OriginError::Unreachable { .. }
        | OriginError::NoCredentials { .. }
        | OriginError::Untrusted { .. }
        | OriginError::Stalled { waited_for: Wait::Answer, .. } => OriginFault::Unreachable,
        OriginError::Stalled { waited_for: Wait::Body, .. }
        | OriginError::Truncated { .. }
        | OriginError::InvalidRequest(_) => OriginFault::Broken,
        OriginError::InvalidResponse { .. } => OriginFault::Lied,
    }
}

/// HTTP status of a redirect to another region.
const MOVED: u16 = 301;
