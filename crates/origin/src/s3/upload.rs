//! Upload body: the client's request body on its way to the origin, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http_body_util::BodyExt;
use zonal_s3::{BoxBody, S3Error};

use crate::error::OriginError;

/// Progress of a body that is being sent, shared with the waiting sender.
#[derive(Debug, Default)]
pub(super) struct Progress {
    sent_bytes: AtomicU64,
    failure: OnceLock<OriginError>,
}

impl Progress {
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// The error of the client's body, if it failed.
    pub(super) fn failure(&self) -> Option<&OriginError> {
        self.failure.get()
    }
}

/// Wraps a body: counts its bytes, and keeps its first failure. HTTP trailers do not leave: hyper
/// sends only those that a `Trailer` header names, and [`hop_by_hop`](zonal_s3::hop_by_hop) removes
/// that header.
pub(super) fn tracked(body: BoxBody, progress: &Arc<Progress>) -> BoxBody {
    let (counted, failed) = (progress.clone(), progress.clone());
    body.inspect_frame(move |frame| {
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        counted.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    })
    .inspect_err(move |error| {
        // Only the first failure is kept.
        let _ = failed.failure.set(OriginError::InvalidRequest(S3Error::of_body(error.as_ref())));
    })
    .boxed_unsync()
}
