//! Health probe: whether an S3 service answers and accepts our credentials.
//!
//! The question is the list of buckets: its answer does not depend on any object, and a refusal of it has a
//! document that says why. A key that may not list is let in all the same.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::S3Origin;
use crate::error::{OriginError, Refusal, Wait};

/// For so long after the origin let us in, a refusal without words is taken to be the object's. 10 s: a tenth
/// of a request a second at most, also where every second HEAD is denied.
const LET_IN_FOR: Duration = Duration::from_secs(10);

/// What the list of buckets begins with, behind a declaration that is shorter than [`LIST_HEAD_BYTES`].
const LIST: &[u8] = b"<ListAllMyBucketsResult";

/// Of the list no more than this is looked at.
const LIST_HEAD_BYTES: usize = 1024;

impl S3Origin {
    /// Asks for the list of buckets.
    ///
    /// # Errors
    /// The origin cannot be reached, does not let us in, or is no S3 endpoint.
    pub async fn probe(&self) -> Result<(), OriginError> {
        self.stats.probes.add(1);
        let _permit = self.concurrency.for_head().await;
        let after = self.limits.answer;
        let stalled = OriginError::Stalled { waited_for: Wait::Answer, after };
        let asked = tokio::time::timeout(after, self.ask_for_buckets()).await;
        self.stats.counted(asked.unwrap_or(Err(stalled)))
    }

    /// Whether requests are sent without a signature.
    fn is_nobody(&self) -> bool {
        self.signer.load().is_none()
    }

    async fn ask_for_buckets(&self) -> Result<(), OriginError> {
        let url = self.endpoint.url("", "", None).expect("every endpoint has a root");
        match self.attempt(Request::get(url).body(()).expect("made of valid parts")).await {
            // Whoever is nobody gets pages and redirections for people.
            Ok(_) | Err(OriginError::Elsewhere { .. }) if self.is_nobody() => Ok(()),
            Ok(response) => match is_list(response).await {
                true => Ok(()),
                false => {
                    Err(OriginError::lied("its list of buckets is none: is it an S3 endpoint?"))
                }
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

    /// Fails when a forwarded request was not refused by an S3 service that let us in.
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

    /// An answer to HEAD has no words: whether it is the object that is denied or we is asked, now and then.
    async fn check_let_in(&self, status: u16) -> Result<(), OriginError> {
        if let Some(trouble @ OriginError::NotSignedIn(_)) = self.stats.trouble() {
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
            Err(error @ (OriginError::NotSignedIn(_) | OriginError::Elsewhere { .. })) => {
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

/// What a refusal is that should have a document and has none.
fn wordless(refusal: &Refusal) -> OriginError {
    let status = refusal.status;
    OriginError::lied(format!("status {status} without an S3 error: is it an S3 endpoint?"))
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
