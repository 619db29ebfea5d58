//! Forwarding: sends a request to the origin, signed anew, and streams both bodies.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use zonal_origin::{OriginError, PassThroughSigned};
use zonal_s3::S3Error;
use zonal_s3::{BodyError, BoxBody};

use crate::answer::Answer;
use crate::auth::Payload;
use crate::body::Source;
use crate::bypass::Bypass;
use crate::concurrency_limits::Requester;
use crate::error;
use crate::gateway::Gateway;
use crate::request_id::RequestId;
use crate::stats::Stats;

/// Forwards a request that changes no object, for the given reason of a bypass.
pub(crate) async fn forward(
    gateway: &Gateway,
    request: Request<BoxBody>,
    bypass: Bypass,
) -> Result<Answer, S3Error> {
    let _place = match request.body().is_end_stream() {
        true => None,
        false => Some(gateway.place_for(&request, None).await?),
    };
    // Boxed while it runs: a connection keeps room for the largest future of its requests, also
    // while it is idle.
    let response = Box::pin(gateway.origins().forward(request)).await.map_err(failed)?;
    Ok(handed_on(response, bypass))
}

/// The origin's response, unchanged.
pub(crate) fn handed_on(response: Response<BoxBody>, bypass: Bypass) -> Answer {
    let (parts, body) = response.into_parts();
    Answer::of_origin(parts, Source::Origin(body), bypass)
}

/// The rewritten request for the origin.
pub(crate) fn outgoing(
    gateway: &Gateway,
    (id, requester): (RequestId, Requester),
    mut request: Parts,
    body: Incoming,
    payload: Payload,
) -> Request<BoxBody> {
    request.extensions.insert(requester);
    request.extensions.insert(zonal_origin::RequestId(id.as_str().into()));
    // A presigned URL can state the hash in its query. The verified value counts, wherever it was.
    let stated = HeaderValue::from_str(payload.stated()).expect("a hash or one of S3's words");
    request.headers.insert(PAYLOAD_HASH, stated);
    if let Payload::Chunks(_, chain) = payload {
        request.extensions.insert(*chain);
    }
    let upload = Upload::new(gateway, &request, body);
    Request::from_parts(request, upload.boxed_unsync())
}

/// The request for the origin as its client signed it.
pub(crate) fn as_signed(
    gateway: &Gateway,
    (bucket, requester): (&str, Requester),
    mut request: Parts,
    body: Incoming,
) -> Request<BoxBody> {
    request.extensions.insert(requester);
    request.extensions.insert(PassThroughSigned { bucket: bucket.into() });
    let upload = Upload::new(gateway, &request, body);
    Request::from_parts(request, upload.boxed_unsync())
}

/// Header with the signed payload hash. The origin client verifies the body against it.
pub(crate) const PAYLOAD_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// The error response when the origin gave none.
pub(crate) fn failed(error: OriginError) -> S3Error {
    match error {
        OriginError::InvalidRequest(error) => error,
        OriginError::Throttled { .. } => S3Error::slow_down(),
        // Concerns the bucket or the upload. An object's 404 is forwarded as the origin sent it.
        OriginError::NotFound(refusal) if refusal.code == S3Error::no_such_upload().code => {
            S3Error::no_such_upload()
        }
        OriginError::NotFound(refusal) => {
            S3Error { message: refusal.message.into(), ..S3Error::no_such_bucket() }
        }
        OriginError::Denied(refusal) => {
            S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", refusal.message)
        }
        OriginError::Unreachable { .. }
        | OriginError::NoCredentials { .. }
        | OriginError::Stalled { .. } => S3Error::unavailable(error.to_string()),
        OriginError::CredentialsRejected(refusal) => error::bad_gateway(format!(
            "The origin rejected the cache's credentials ({}). The request is valid: the operator \
             of the cache must correct the credentials.",
            refusal.code
        )),
        OriginError::Untrusted { cause } => error::bad_gateway(format!(
            "The cache does not trust the certificate of its origin ({cause}). The request is \
             valid: the operator of the cache must correct this."
        )),
        _ => error::bad_gateway(error.to_string()),
    }
}

/// Minimum average speed of an upload while Zonal waits for the client: 1 KiB/s. Ten parallel parts
/// over a line of 128 kbit/s are faster.
const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 1 << 10;

/// Whether a request body is being sent to the origin, in the extensions of its request. An origin
/// may answer before it has taken the body. The client has to learn from the response that its
/// connection ends then: the rest of the body is never read.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadProgress(Arc<AtomicBool>);

impl UploadProgress {
    pub(crate) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Request body on its way to the origin. It fails when the client is silent for too long at once,
/// or for too long in total for the bytes it has sent. Time that the origin takes does not count.
struct Upload {
    body: Incoming,
    patience: Duration,
    silence: Option<Silence>,
    /// Sum of all earlier waits.
    waited: Duration,
    received_bytes: u64,
    progress: UploadProgress,
    stats: Arc<Stats>,
}

/// A wait for the client that is in progress.
struct Silence {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

/// The client sent nothing, or too little, for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("upload timeout: the client sent its request body too slowly")
    }
}

impl Error for Silent {}

impl Upload {
    fn new(gateway: &Gateway, request: &Parts, body: Incoming) -> Self {
        let (patience, stats) = (gateway.config().limits.upload, gateway.stats().clone());
        let progress = request.extensions.get::<UploadProgress>().cloned().unwrap_or_default();
        progress.0.store(!body.is_end_stream(), Ordering::Relaxed);
        let waited = Duration::ZERO;
        Self { body, patience, silence: None, waited, received_bytes: 0, progress, stats }
    }

    /// Pending while the client may still be waited for.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Silent> {
        let earned = Duration::from_secs(self.received_bytes / UPLOAD_BYTES_PER_SECOND_MIN);
        let left = (self.patience + earned).saturating_sub(self.waited).min(self.patience);
        let silence = self.silence.get_or_insert_with(|| {
            let since = Instant::now();
            Silence { since, end: Box::pin(sleep_until(since + left)) }
        });
        silence.end.as_mut().poll(cx).map(|()| Silent)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.poll_patience(cx).map(|silent| Some(Err(silent.into())));
        };
        if let Some(silence) = self.silence.take() {
            self.waited += silence.since.elapsed();
        }
        if let Some(Ok(frame)) = &frame {
            self.received_bytes += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.progress.0.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.stats.received_bytes.add(self.received_bytes);
    }
}
