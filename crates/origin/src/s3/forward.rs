//! Forward path: any request other than cached heads and ranges, signed with Zonal's credentials.
//!
//! 1. Remove the headers of the client's connection and signature.
//! 2. Choose how to sign the payload. Signed chunks are decoded, because their chain starts at the
//!    client's signature. Payload hash and chain are verified as the body streams: an S3 endpoint
//!    may verify neither.
//! 3. Sign, send, and wait as long as the body moves.
//! 4. Read an error response. If it concerns Zonal's credentials or configuration instead of the
//!    request, return an error.
//! 5. Return an error if the answer does not fit the request (`fitting`).
//! 6. Return the answer, without the headers of Zonal's own connection.

use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, DATE, ETAG, EXPECT, HOST};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use zonal_s3::sigv4::{UNSIGNED_PAYLOAD, decode_path};
use zonal_s3::{BoxBody, S3Error, aws_chunked, full_body, hop_by_hop, payload_hash};

use super::S3Origin;
use super::error_mapping;
use super::error_mapping::no_such_bucket;
use super::response_validation::ForwardedRequest;
use super::upload::{Progress, tracked};
use crate::concurrency::Permit;
use crate::download::Download;
use crate::error::{ErrorCode, OriginError, Wait};
use crate::origin::{OfUpload, PassThroughSigned};

/// Outcome of a forwarded request.
enum Exchanged {
    Answer(Response<Incoming>),
    /// A refusal that concerns the client's request.
    Refusal(Response<BoxBody>),
}

impl S3Origin {
    /// Forwards `request`, or passes it through if it is marked [`PassThroughSigned`].
    pub(crate) async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        let permit = self.concurrency.for_forward(&request).await?;
        let answer = match request.extensions().get::<PassThroughSigned>() {
            Some(_) => self.pass_through(request, permit).await,
            None => self.hand_on(request, permit).await,
        };
        answer.inspect_err(|error| self.stats.count_error(error))
    }

    async fn hand_on(
        &self,
        request: Request<BoxBody>,
        permit: Permit,
    ) -> Result<Response<BoxBody>, OriginError> {
        let request = payload_hash::verify(aws_chunked::strip_signatures(request)?)?;
        let request = read_if_empty(request).await?;
        let (mut parts, body) = request.into_parts();
        hop_by_hop::remove(&mut parts.headers);
        for name in [AUTHORIZATION, HOST, EXPECT, DATE] {
            parts.headers.remove(name);
        }
        let payload_hash = parts.headers.get("x-amz-content-sha256");
        let payload_hash = payload_hash.and_then(|hash| hash.to_str().ok());
        let payload_hash = payload_hash.unwrap_or(UNSIGNED_PAYLOAD).to_owned();
        parts.headers.remove("x-amz-date");
        parts.headers.remove("x-amz-security-token");
        let (bucket, key) = bucket_and_key(parts.uri.path())?;
        let url = self.endpoint.url(&bucket, &key, parts.uri.query());
        parts.uri = url.ok_or_else(|| no_such_bucket(&bucket))?;
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        self.must_be_no_api(&bucket, &key).await?;
        let is_in_doubt = self.is_in_doubt(&bucket, &key);
        if is_in_doubt && !is_read {
            self.must_be_a_bucket(&bucket).await?;
        }
        if let Some(upload) = parts.extensions.get::<OfUpload>() {
            self.must_be_an_upload((&bucket, &key), &upload.id).await?;
        }
        let asked = ForwardedRequest::of(&parts);
        let keys = self.keys.load_full();
        let mut renewal = keys.watch();
        let can_repeat = is_read && body.is_end_stream() && keys.are_renewable();
        let again = can_repeat.then(|| parts.clone());
        let mut answer = self.exchange(&asked, (parts, body), &payload_hash).await;
        if let Err(error) = &answer
            && renewal.mends(error, again.is_some()).await
            && let Some(again) = again
        {
            answer = self.exchange(&asked, (again, full_body("")), &payload_hash).await;
        }
        let answer = match answer? {
            Exchanged::Answer(answer) => answer,
            Exchanged::Refusal(refusal) => return Ok(refusal),
        };
        asked.check(&answer)?;
        if is_in_doubt && is_read && !answer.headers().contains_key(ETAG) {
            self.must_be_a_bucket(&bucket).await?;
        }
        self.stats.note_well();
        let (mut parts, body) = answer.into_parts();
        asked.take_off_checksums(&mut parts);
        hop_by_hop::remove(&mut parts.headers);
        let body = Download::new(body, self.limits.stall, self.stats.clone(), permit);
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }

    /// Signs a request and sends it.
    ///
    /// # Errors
    /// No answer, or a refusal that concerns Zonal.
    async fn exchange(
        &self,
        asked: &ForwardedRequest,
        (mut parts, body): (Parts, BoxBody),
        payload_hash: &str,
    ) -> Result<Exchanged, OriginError> {
        self.keys.load().sign(&mut parts, payload_hash)?;
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        let answer = match is_read && body.is_end_stream() {
            true => self.send_read(parts).await?,
            false => self.send(parts, body).await?,
        };
        let is_modified = answer.status() != StatusCode::NOT_MODIFIED || !asked.has_conditions;
        if !answer.status().is_success() && is_modified {
            return self.refused(asked, answer).await.map(Exchanged::Refusal);
        }
        Ok(Exchanged::Answer(answer))
    }

    /// Reads an error response, and returns it if it concerns the client's request.
    async fn refused(
        &self,
        asked: &ForwardedRequest,
        answer: Response<Incoming>,
    ) -> Result<Response<BoxBody>, OriginError> {
        let after = self.limits.stall;
        let stalled = OriginError::Stalled { waited_for: Wait::Body, after };
        let read = tokio::time::timeout(after, error_mapping::read(answer)).await;
        let (mut parts, document) = read.map_err(|_| stalled)?;
        let too_long = || OriginError::invalid_response("an error document without end");
        let document = document.ok_or_else(too_long)?;
        self.stats.received_bytes.add(document.len() as u64);
        let meaning = error_mapping::meaning(&parts, &document);
        if let (OriginError::CredentialsRejected(refusal), Some(name)) = (&meaning, &asked.spaced)
            && refusal.code == "SignatureDoesNotMatch"
        {
            // Zonal's credentials are good: only this header is signed differently.
            return Err(error_mapping::unsignable(name));
        }
        if let OriginError::CredentialsRejected(_)
        | OriginError::Redirected { .. }
        | OriginError::InvalidResponse { .. } = meaning
        {
            return Err(meaning);
        }
        self.check_speaker(&asked.method, &meaning).await?;
        self.stats.count_error(&meaning);
        hop_by_hop::remove(&mut parts.headers);
        if let Some(refusal) = meaning.refusal().filter(|refusal| !refusal.code.is_empty()) {
            parts.extensions.insert(ErrorCode(refusal.code.clone()));
        }
        Ok(Response::from_parts(parts, full_body(document)))
    }

    /// Sends a read without a body, and sends it again once if it gets no answer: the origin may
    /// have closed an idle connection at the same time.
    async fn send_read(&self, parts: Parts) -> Result<Response<Incoming>, OriginError> {
        match self.send(parts.clone(), full_body("")).await {
            Err(OriginError::Unreachable { .. }) => {
                self.stats.retries.add(1);
                self.send(parts, full_body("")).await
            }
            answer => answer,
        }
    }

    pub(super) async fn send(
        &self,
        parts: Parts,
        body: BoxBody,
    ) -> Result<Response<Incoming>, OriginError> {
        let progress = Arc::new(Progress::default());
        let request = Request::from_parts(parts, tracked(body, &progress));
        let answer = self.send_watched(request, &progress).await;
        self.stats.sent_bytes.add(progress.sent_bytes());
        answer
    }

    /// Waits for the answer as long as the request's body moves, and `forward_answer` after that.
    async fn send_watched(
        &self,
        request: Request<BoxBody>,
        progress: &Progress,
    ) -> Result<Response<Incoming>, OriginError> {
        let mut answer = std::pin::pin!(self.client.load().request(request));
        let mut sent_bytes = 0;
        loop {
            let waited = tokio::time::timeout(self.limits.forward_answer, &mut answer).await;
            match waited {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => {
                    let ours = progress.failure().cloned();
                    return Err(ours.unwrap_or_else(|| error_mapping::broken(&error)));
                }
                Err(_) if progress.sent_bytes() != sent_bytes => sent_bytes = progress.sent_bytes(),
                Err(_) => {
                    let after = self.limits.forward_answer;
                    return Err(OriginError::Stalled { waited_for: Wait::Answer, after });
                }
            }
        }
    }
}

/// Reads a body with Content-Length 0 to its end. The HTTP client never polls such a body, so its
/// signature would not be verified.
async fn read_if_empty(request: Request<BoxBody>) -> Result<Request<BoxBody>, OriginError> {
    let length = request.headers().get(CONTENT_LENGTH);
    if length.is_none_or(|length| length != "0") || request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    body.collect()
        .await
        .map_err(|error| OriginError::InvalidRequest(S3Error::of_body(error.as_ref())))?;
    Ok(Request::from_parts(parts, full_body("")))
}

/// Splits a decoded path into bucket and key.
fn bucket_and_key(path: &str) -> Result<(String, String), OriginError> {
    let not_utf8 = || no_such_bucket(path);
    let path = decode_path(path.strip_prefix('/').unwrap_or(path)).ok_or_else(not_utf8)?;
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    Ok((bucket.to_owned(), key.to_owned()))
}
