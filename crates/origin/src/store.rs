//! Read-only buckets on object stores with another protocol than S3.
//!
//! A [`ReadOnlyStore`] serves one container of its kind. Its answers are HTTP heads and bodies,
//! with S3's header names for user metadata. This module checks them as it does the answers of an
//! S3 endpoint. `serve` implements the other S3 requests of clients: conditions, lists, HeadBucket.

mod serve;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode, response};
use zonal_base::RangeSpec;
use zonal_s3::object_list::Entry;
use zonal_s3::{BoxBody, full_body};

use crate::body::{OriginBody, RangeHead};
use crate::concurrency::ConcurrencyLimits;
use crate::error::{ErrorResponse, OriginError, Wait};
use crate::limits::OriginLimits;
use crate::object::{ObjectHead, ObjectName};
use crate::object_response::{Described, ObjectResponse, describe};
use crate::origin::{ObjectStore, StoreFuture};
use crate::reads::Reads;
use crate::s3::get;
use crate::serving::{no_such_bucket, no_such_key};
use crate::stats::Stats;

/// One container of an object store. Every call is one attempt; the caller retries and has
/// timeouts.
///
/// Errors are as at an S3 endpoint: [`OriginError`] states the caller's action for each variant.
pub trait ReadOnlyStore: fmt::Debug + Send + Sync {
    /// HEAD: a 200 without a body, whose Content-Length is the object's size.
    fn head<'a>(&'a self, key: &'a str) -> StoreFuture<'a, response::Parts>;

    /// GET: the whole object with 200, or a range with 206. `if_match` pins a version, by its ETag
    /// as the store sent it.
    fn get<'a>(
        &'a self,
        key: &'a str,
        range: RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, Response<BoxBody>>;

    /// True if the store can be asked for the last bytes of an object ([`RangeSpec::Suffix`]).
    fn has_suffix_ranges(&self) -> bool;

    /// A page of keys in ascending order. A store without lists answers 501.
    fn list<'a>(&'a self, wanted: PageRequest<'a>) -> StoreFuture<'a, KeyPage>;

    /// Health probe: checks that the store answers and accepts the credentials.
    fn probe(&self) -> StoreFuture<'_, ()>;
}

/// List request for one page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// Only keys with this prefix are listed.
    pub prefix: &'a str,
    /// Groups keys into common prefixes. Empty: keys are not grouped.
    pub delimiter: &'a str,
    /// Start of the page.
    pub begin: PageStart<'a>,
    /// Entries on the page at most.
    pub max_entries: usize,
}

/// Start of a page.
#[derive(Clone, Copy, Debug)]
pub enum PageStart<'a> {
    /// The first key with the prefix.
    First,
    /// The first key after this name.
    After(&'a str),
    /// The token [`KeyPage::next`] of the page before.
    Next(&'a str),
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// Entries in ascending order of their names.
    pub entries: Vec<Entry>,
    /// Continuation token of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// Origin that serves a container as a read-only bucket.
#[derive(Debug)]
pub struct ReadOnlyOrigin {
    /// The store with its current credentials.
    store: ArcSwap<Box<dyn ReadOnlyStore>>,
    /// Bucket name that clients use.
    bucket: String,
    limits: OriginLimits,
    concurrency: ConcurrencyLimits,
    reads: Reads,
    stats: Arc<Stats>,
}

impl ReadOnlyOrigin {
    /// Serves `store` as `bucket`.
    #[must_use]
    pub fn new(store: Box<dyn ReadOnlyStore>, bucket: String, limits: OriginLimits) -> Self {
        let stats = Arc::<Stats>::default();
        // Permits of ranges and heads, and of forwarded downloads and other requests.
        let at_once = 2 * (limits.concurrent_reads + limits.concurrent_forwards);
        Self {
            store: ArcSwap::from_pointee(store),
            bucket,
            concurrency: ConcurrencyLimits::new(&limits),
            reads: Reads::new(at_once, &limits, stats.clone()),
            limits,
            stats,
        }
    }

    async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let _permit = self.reads.placed(self.concurrency.for_head()).await?;
        self.checked_head(object).await
    }

    async fn get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<OriginBody, OriginError> {
        let permit = self.reads.placed(self.concurrency.for_range()).await?;
        let (head, body) = self.checked_get(object, range, if_match).await?;
        Ok(OriginBody::of(body, self.limits.stall, head, self.stats.clone(), permit))
    }

    async fn get_object(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        self.check_bucket(&object.bucket)?;
        let permit = self.reads.placed(self.concurrency.for_range()).await?;
        let store = self.store.load_full();
        let range = match range {
            RangeSpec::Suffix(_) if !store.has_suffix_ranges() => {
                RangeSpec::Int(range.in_object(self.told_head(object, if_match).await?.size))
            }
            range => range.clone(),
        };
        let answer = match &range {
            RangeSpec::Int(range) if range.is_empty() => Err(OriginError::RangeNotSatisfiable),
            _ => self.asked(object, || store.get(&object.key, range.clone(), if_match)).await,
        };
        let (described, body) = match answer {
            Err(OriginError::RangeNotSatisfiable) => {
                (Described::of_no_bytes(self.told_head(object, if_match).await?), full_body(""))
            }
            answer => {
                let (parts, body) = answer?.into_parts();
                let described = describe(&parts, &range, if_match)?.ok_or_else(|| {
                    OriginError::invalid_response("a response without the size of the object")
                })?;
                // These stores have no headers that only a whole response carries.
                (Described { is_complete: true, ..described }, body)
            }
        };
        let range = described.range_head();
        let body = OriginBody::of(body, self.limits.stall, range, self.stats.clone(), permit);
        Ok(described.with(body))
    }

    /// The head of the object, if it is that of the version `if_match`.
    async fn told_head(
        &self,
        object: &ObjectName,
        if_match: Option<&str>,
    ) -> Result<ObjectHead, OriginError> {
        self.stats.heads.add(1);
        let head = self.checked_head(object).await?;
        match if_match.is_some_and(|asked| head.etag.as_deref() != Some(asked)) {
            true => Err(OriginError::Changed),
            false => Ok(head),
        }
    }

    async fn checked_head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        self.check_bucket(&object.bucket)?;
        let store = self.store.load_full();
        let parts = self.asked(object, || store.head(&object.key)).await?;
        if parts.status != StatusCode::OK {
            return Err(OriginError::invalid_response(format!(
                "status {} to a HEAD request",
                parts.status
            )));
        }
        let size = length_of(&parts)
            .ok_or_else(|| OriginError::invalid_response("a HEAD response without a size"))?;
        Ok(ObjectHead::from_headers(size, &parts.headers))
    }

    async fn checked_get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<(RangeHead, BoxBody), OriginError> {
        self.check_bucket(&object.bucket)?;
        let store = self.store.load_full();
        let get = || store.get(&object.key, RangeSpec::Int(range.clone()), if_match);
        let answer = self.asked(object, get).await?;
        let head = get::check(&answer, &range, if_match)?;
        Ok((head, answer.into_body()))
    }

    /// The whole body of the version with this head.
    async fn whole(&self, object: &ObjectName, head: &ObjectHead) -> Result<BoxBody, OriginError> {
        let if_match = head.strong_etag();
        let store = self.store.load_full();
        let answer =
            self.asked(object, || store.get(&object.key, RangeSpec::Whole, if_match)).await?;
        let (parts, body) = answer.into_parts();
        let now = ObjectHead::from_headers(length_of(&parts).unwrap_or(head.size), &parts.headers);
        if (now.size, &now.etag) != (head.size, &head.etag) {
            return Err(OriginError::Changed);
        }
        Ok(body)
    }

    fn check_bucket(&self, bucket: &str) -> Result<(), OriginError> {
        if bucket == self.bucket { Ok(()) } else { Err(no_such_bucket(bucket)) }
    }

    /// Sends a request for an object, with timeout and retries.
    async fn asked<'a, T>(
        &self,
        object: &ObjectName,
        ask: impl Fn() -> StoreFuture<'a, T>,
    ) -> Result<T, OriginError> {
        match self.reads.ask(|| self.in_time(ask())).await {
            Err(OriginError::NotFound(refusal)) => Err(not_found(&refusal, object)),
            answer => answer,
        }
    }

    async fn in_time<T>(&self, asked: StoreFuture<'_, T>) -> Result<T, OriginError> {
        let after = self.limits.answer;
        let stalled = OriginError::Stalled { waited_for: Wait::Answer, after };
        tokio::time::timeout(after, asked).await.unwrap_or(Err(stalled))
    }
}

impl ObjectStore for ReadOnlyOrigin {
    fn head<'a>(&'a self, object: &'a ObjectName) -> StoreFuture<'a, ObjectHead> {
        Box::pin(self.head(object))
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectName,
        range: Range<u64>,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, OriginBody> {
        Box::pin(self.get(object, range, if_match))
    }

    fn get_object<'a>(
        &'a self,
        object: &'a ObjectName,
        range: &'a RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, ObjectResponse> {
        Box::pin(self.get_object(object, range, if_match))
    }

    fn forward(&self, request: Request<BoxBody>) -> StoreFuture<'_, Response<BoxBody>> {
        Box::pin(self.forward(request))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.stats.probes.add(1);
            self.stats.counted(self.in_time(self.store.load_full().probe()).await)
        })
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn take_credentials(&self, other: &dyn ObjectStore) {
        let other: &dyn Any = other;
        if let Some(other) = other.downcast_ref::<Self>() {
            self.store.store(other.store.load_full());
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

/// Maps the store's own 404 code to the S3 code on which clients match.
fn not_found(refusal: &ErrorResponse, object: &ObjectName) -> OriginError {
    match &*refusal.code {
        "NoSuchBucket" | "ContainerNotFound" => no_such_bucket(&object.bucket),
        _ => no_such_key(&object.key),
    }
}

fn length_of(parts: &response::Parts) -> Option<u64> {
    parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
