//! Range body: the bytes of an object's range, as an origin sends them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use zonal_s3::{BodyError, BoxBody};

use crate::concurrency::Permit;
use crate::error::{OriginError, Wait};
use crate::stats::Stats;

/// The body of one range of one version: exactly the requested bytes, or an error.
///
/// Holds a concurrency permit of the origin until it is dropped.
#[derive(Debug)]
pub struct OriginBody {
    source: Source,
    missing_bytes: u64,
    etag: Option<String>,
    object_size: Option<u64>,
    /// How the source ended, while some bytes before its end were still to be returned.
    ended: Option<Result<(), OriginError>>,
    over: bool,
    stats: Arc<Stats>,
    _permit: Permit,
}

#[derive(Debug)]
pub(crate) enum Source {
    Http { body: Incoming, stall: Duration },
    Boxed { body: BoxBody, stall: Duration },
}

/// Metadata of a range, known before its first byte.
#[derive(Debug)]
pub struct RangeHead {
    /// Length of the range in bytes.
    pub bytes: u64,
    /// ETag of the version.
    pub etag: Option<String>,
    /// Size of the whole object in bytes.
    pub object_size: Option<u64>,
}

impl OriginBody {
    /// Wraps the body of a range. It fails if the origin sends nothing for `stall`, and holds
    /// `permit` until it is dropped.
    #[must_use]
    pub fn of(
        body: BoxBody,
        stall: Duration,
        head: RangeHead,
        stats: Arc<Stats>,
        permit: Permit,
    ) -> Self {
        Self::new(Source::Boxed { body, stall }, head, stats, permit)
    }

    pub(crate) fn new(source: Source, head: RangeHead, stats: Arc<Stats>, permit: Permit) -> Self {
        let RangeHead { bytes, etag, object_size } = head;
        Self {
            source,
            missing_bytes: bytes,
            etag,
            object_size,
            ended: None,
            over: false,
            stats,
            _permit: permit,
        }
    }

    /// ETag in the answer.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Size of the whole object in bytes, if the answer states it.
    #[must_use]
    pub const fn object_size(&self) -> Option<u64> {
        self.object_size
    }

    /// Bytes not received yet.
    #[must_use]
    pub const fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// The next bytes; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// [`OriginError::Truncated`], [`OriginError::Stalled`], [`OriginError::Changed`] or
    /// [`OriginError::InvalidResponse`]: the caller must discard the bytes it has received.
    pub async fn next(&mut self) -> Option<Result<Bytes, OriginError>> {
        if self.over {
            return None;
        }
        let next = self.read().await;
        match &next {
            Ok(Some(bytes)) => self.stats.received_bytes.add(bytes.len() as u64),
            Ok(None) => self.over = true,
            Err(error) => {
                self.over = true;
                self.stats.count_error(error);
            }
        }
        next.transpose()
    }

    async fn read(&mut self) -> Result<Option<Bytes>, OriginError> {
        let Some(bytes) = self.next_merged().await? else {
            return match self.missing_bytes {
                0 => Ok(None),
                missing_bytes => Err(OriginError::Truncated { missing_bytes }),
            };
        };
        let Some(missing) = self.missing_bytes.checked_sub(bytes.len() as u64) else {
            return Err(OriginError::invalid_response("more bytes than the range has"));
        };
        self.missing_bytes = missing;
        // The last bytes are held back until the source has ended without an error: an error at the
        // end must be known before the range is complete.
        if missing == 0 && self.source.next(0).await?.is_some() {
            return Err(OriginError::invalid_response("more bytes than the range has"));
        }
        Ok(Some(bytes))
    }

    /// The next bytes, with small frames merged. Waits only for the first frame.
    async fn next_merged(&mut self) -> Result<Option<Bytes>, OriginError> {
        let missing_bytes = self.missing_bytes;
        if let Some(ended) = self.ended.take() {
            return ended.map(|()| None);
        }
        let Some(first) = self.source.next(missing_bytes).await? else { return Ok(None) };
        if SMALL_BYTES <= first.len() || missing_bytes <= first.len() as u64 {
            return Ok(Some(first));
        }
        let mut merged = BytesMut::from(first);
        while merged.len() < MERGED_BYTES && (merged.len() as u64) < missing_bytes {
            let left = missing_bytes - merged.len() as u64;
            // The connection hands over one frame at a time, and only when its task runs.
            tokio::task::yield_now().await;
            let mut next = pin!(self.source.next(left));
            // A frame that has not arrived is left to the next call.
            match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                Poll::Ready(Ok(Some(bytes))) => merged.extend_from_slice(&bytes),
                Poll::Ready(ended) => {
                    self.ended = Some(ended.map(drop));
                    break;
                }
                Poll::Pending => break,
            }
        }
        Ok(Some(merged.freeze()))
    }
}

/// Frames below this size are merged with those that have arrived behind them. Some origins send a
/// few bytes in each HTTP chunk, and each piece costs a wake-up of the shard.
const SMALL_BYTES: usize = 4 << 10;

/// Largest merged piece.
const MERGED_BYTES: usize = 64 << 10;

impl Source {
    async fn next(&mut self, missing_bytes: u64) -> Result<Option<Bytes>, OriginError> {
        match self {
            Self::Http { body, stall } => next_bytes(body, *stall, missing_bytes).await,
            Self::Boxed { body, stall } => next_bytes(body, *stall, missing_bytes).await,
        }
    }
}

/// The next bytes of an HTTP body; skips empty frames and trailers.
async fn next_bytes(
    body: &mut (impl Body<Data = Bytes, Error: Into<BodyError>> + Unpin),
    stall: Duration,
    missing_bytes: u64,
) -> Result<Option<Bytes>, OriginError> {
    loop {
        let frame = tokio::time::timeout(stall, body.frame()).await;
        let Ok(frame) = frame else {
            return Err(OriginError::Stalled { waited_for: Wait::Body, after: stall });
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(OriginError::of_body(error.into(), missing_bytes)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                Ok(_) | Err(_) => {}
            },
        }
    }
}
