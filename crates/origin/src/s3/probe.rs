//! Health probe: checks that an S3 service answers and accepts Zonal's credentials.
//!
//! The probe is ListBuckets: its answer depends on no object, and its refusal has a document with
//! the reason. A key that may not list buckets passes the probe too.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::S3Origin;
use crate::error::{ErrorResponse, OriginError, Wait};

/// For this time after a successful probe, a refusal without a document is taken to concern the
/// object. 10 s: at most 0.1 probes per second, even if every second HEAD is denied.
const LET_IN_FOR: Duration = Duration::from_secs(10);

/// Start of the ListBuckets document, after a declaration that is shorter than [`LIST_HEAD_BYTES`].
const LIST: &[u8] = b"<ListAllMyBucketsResult";

/// Bytes of the list that are examined.
const LIST_HEAD_BYTES: usize = 1024;

impl S3Origin {
    /// Sends ListBuckets.
    ///
    /// # Errors
    /// The origin cannot be reached, refuses the credentials, or is not an S3 endpoint.
    pub async fn probe(&self) -> Result<(), OriginError> {
        self.stats.probes.add(1);
        let _permit = self.concurrency.for_head().await;
        let after = self.limits.answer;
        let stalled = OriginError::Stalled { waited_for: Wait::Answer, after };
        let asked = tokio::time::timeout(after, self.ask_for_buckets()).await;
        self.stats.counted(asked.unwrap_or(Err(stalled)))
    }

    /// True if requests are anonymous.
    fn is_nobody(&self) -> bool {
        self.keys.load().are_anonymous()
    }

    async fn ask_for_buckets(&self) -> Result<(), OriginError> {
        let url = self.endpoint.url("", "", None).expect("every endpoint has a root");
        match self.attempt(Request::get(url).body(()).expect("made of valid parts")).await {
            // Anonymous requests get web pages and redirections.
            Ok(_) | Err(OriginError::Redirected { .. }) if self.is_nobody() => Ok(()),
            Ok(response) => match is_list(response).await {
                true => Ok(()),
                false => Err(OriginError::invalid_response(
                    "its bucket list is malformed: is it an S3 endpoint?",
                )),
            },
            Err(error) => match error.refusal() {
                Some(_) if error.is_trouble() => Err(error),
                Some(refusal) if refusal.code.is_empty() && !self.is_nobody() => {
                    Err(wordless(refusal))
                }
                Some(_) => Ok(()),
                None => Err(error),
            },
        }
    }

    /// Checks that a refusal of a forwarded request comes from an S3 service that accepts Zonal's
    /// credentials. Otherwise returns an error.
    pub(super) async fn check_speaker(
        &self,
        method: &Method,
        meaning: &OriginError,
    ) -> Result<(), OriginError> {
        let Some(refusal) = meaning.refusal().filter(|_| !self.is_nobody()) else {
            return Ok(());
        };
        if !refusal.code.is_empty() {
            if !meaning.is_trouble() {
                self.stats.note_well();
            }
            return Ok(());
        }
        match (method, refusal.status) {
            (&Method::HEAD, status) => self.check_let_in(status).await,
            (_, 400 | 403 | 404) => Err(wordless(refusal)),
            _ => Ok(()),
        }
    }

    /// Checks the credentials by a probe, at most every [`LET_IN_FOR`]. The answer to HEAD has no
    /// document, so its refusal may concern the object or the credentials.
    async fn check_let_in(&self, status: u16) -> Result<(), OriginError> {
        if let Some(trouble @ OriginError::CredentialsRejected(_)) = self.stats.trouble() {
            return Err(trouble);
        }
        if !matches!(status, 400 | 403) {
            return Ok(());
        }
        let mut let_in_at = self.let_in_at.lock().await;
        if let_in_at.is_some_and(|at| at.elapsed() < LET_IN_FOR) {
            return Ok(());
        }
        match self.probe().await {
            Err(error @ (OriginError::CredentialsRejected(_) | OriginError::Redirected { .. })) => {
                Err(error)
            }
            Err(_) => Ok(()),
            Ok(()) => {
                *let_in_at = Some(Instant::now());
                Ok(())
            }
        }
    }
}

/// Error for a refusal that lacks its S3 error document.
fn wordless(refusal: &ErrorResponse) -> OriginError {
    let status = refusal.status;
    OriginError::invalid_response(format!(
        "status {status} without an S3 error: is it an S3 endpoint?"
    ))
}

async fn is_list(response: Response<Incoming>) -> bool {
    let (mut body, mut begin) = (response.into_body(), Vec::new());
    while begin.len() < LIST_HEAD_BYTES {
        let Some(Ok(frame)) = body.frame().await else { break };
        begin.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    begin.truncate(LIST_HEAD_BYTES);
    begin.windows(LIST.len()).any(|window| window == LIST)
}
