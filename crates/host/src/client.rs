//! Client handle of a node: usable from any task of any tokio runtime, and cancel-safe.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zonal_base::{Bytes, RangeSpec, ZoneId};
use zonal_cache::{
    ChunkRules, FreshnessPolicy, Head, HeadSource, InvalidationTarget, LookupError, ObjectName,
    Opened, OriginFault, ReadError, ReadHints, RemoveError, Residency, RetentionClass, STRIPE,
};
use zonal_policy::SampleRank;

use crate::chunks::{ChunkLimits, ChunkRefused};
use crate::clock::monotonic;
use crate::get::{Chosen, Get, with_head};
use crate::pipe::pipe;
use crate::request::Request;
use crate::routes::Routes;
use crate::striped_read::{Remainder, StripeAhead, StripedRead};
use crate::stripes::{PROBED_STRIPES_MAX, stripes_of};
use crate::{EventCursor, ShardEvents, ShardStats, ShardZones, ZoneInspection};

/// Handle to all caches of a node. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    shards: Arc<[mpsc::Sender<Request>]>,
    routes: Arc<Routes>,
    chunk_limits: ChunkLimits,
}

impl Client {
    pub(crate) fn new(
        shards: Vec<mpsc::Sender<Request>>,
        routes: Arc<Routes>,
        chunk_limits: ChunkLimits,
    ) -> Self {
        Self { shards: shards.into(), routes, chunk_limits }
    }

    /// Opens an object: finds the version to serve, within the freshness that `trust` allows.
    ///
    /// # Errors
    /// When there is no such object, or none that the cache may serve.
    pub async fn open(
        &self,
        object: &ObjectName,
        trust: impl Into<FreshnessPolicy>,
        retention: RetentionClass,
    ) -> Result<Opened, LookupError> {
        let (reply, answer) = oneshot::channel();
        let trust = trust.into();
        let open = Request::Open { object: object.clone(), trust, retention, reply };
        self.home(object).send(open).await.map_err(|_| LookupError::Gone)?;
        answer.await.unwrap_or(Err(LookupError::Gone))
    }

    /// Opens an object and reads the range that `range_of` chooses of its version. `range` is what
    /// the client requests of any version: if the object is not cached, one request to the origin
    /// brings the head and these bytes. Takes a single request to the head's shard for all bytes in
    /// the first stripe. Resolves when the first bytes have arrived, or there are none.
    ///
    /// # Errors
    /// As [`Client::open`], and for the bytes as [`Client::read`].
    pub async fn get(
        &self,
        object: &ObjectName,
        (trust, retention): (impl Into<FreshnessPolicy>, RetentionClass),
        range: RangeSpec,
        range_of: impl Fn(&Head) -> Range<u64> + Send + 'static,
    ) -> Result<(Opened, Result<StripedRead, ReadError>), LookupError> {
        let asked_at = monotonic();
        let ((to, from), (reply, mut answer)) = (pipe(), oneshot::channel());
        let range_of = Box::new(range_of);
        let (trust, mut keeping) = (trust.into(), keeping(retention));
        let asked = object.clone();
        let get = Get { object: asked, trust, keeping, range, range_of, reply, to, asked_at };
        self.home(object).send(Request::Get(get)).await.map_err(|_| LookupError::Gone)?;
        let mut reading = StripedRead::from_pipe(from, asked_at);
        let first = reading.begin().await;
        // The shard sends this reply before the pipe has bytes or an end.
        let chosen = answer.try_recv().unwrap_or(Err(LookupError::Gone))?;
        let Chosen { opened, range, ahead } = chosen;
        let begun = match opened.found {
            // All bytes come from the body of one response.
            HeadSource::Uncacheable(_) => range.clone(),
            _ => with_head(&range),
        };
        let reading = match first {
            _ if begun.is_empty() => {
                keeping.is_confirmed = opened.found.is_confirmed();
                self.read_for((keeping, ahead), object, &opened.head, range).await
            }
            Ok(()) => {
                keeping.is_confirmed = true;
                let others = begun.end..range.end;
                reading.all_cached &=
                    ahead.is_none() && self.stripes_cached(object, &opened.head, &others, 1).await;
                let rest = self.rest(object, &opened.head, others, (keeping, ahead));
                reading.continue_with(begun.end - begun.start, rest);
                Ok(reading)
            }
            Err(error) => {
                self.note_refusal(object, &opened.head, error);
                Err(error)
            }
        };
        Ok((opened, reading))
    }

    /// Reads a range of one version. Resolves when the first bytes have arrived, or there are none.
    /// So the caller can handle [`ReadError::Changed`] by opening again before it starts a
    /// response.
    ///
    /// # Errors
    /// When even the first bytes cannot be read.
    pub async fn read(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
        retention: RetentionClass,
    ) -> Result<StripedRead, ReadError> {
        self.read_for((keeping(retention), None), object, head, range).await
    }

    async fn read_for(
        &self,
        (keeping, ahead): (ReadHints, Option<Box<StripeAhead>>),
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
    ) -> Result<StripedRead, ReadError> {
        let second = range.start / STRIPE.0 + 1;
        let others_cached =
            ahead.is_none() && self.stripes_cached(object, head, &range, second).await;
        let mut reading = StripedRead::of(self.rest(object, head, range, (keeping, ahead)));
        reading.begin().await?;
        reading.all_cached &= others_cached;
        Ok(reading)
    }

    /// True if a read of `range` would need no origin request now.
    pub async fn is_cached(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
    ) -> bool {
        self.stripes_cached(object, head, &range, range.start / STRIPE.0).await
    }

    /// Locates the bytes of `range`: on flash, pinned, or in memory. Also reports the largest write
    /// backlog of the shards involved. `None` when a shard does not answer.
    pub async fn locate(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
    ) -> Option<Located> {
        let mut all = Located::default();
        for (stripe, range) in stripes_of(&range) {
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            to.send(Request::Locate { object, head, range, reply }).await.ok()?;
            all.add(answer.await.ok()?);
        }
        Some(all)
    }

    /// Pins the cached bytes of `range` that are on flash, as far as the limit allows, or unpins
    /// them. Reads nothing. The head is pinned through [`Client::open`]. A shard that has ended has
    /// nothing to pin.
    pub async fn set_retention(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
        retention: RetentionClass,
    ) {
        for (stripe, range) in stripes_of(&range) {
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            if to.send(Request::SetCare { object, head, range, retention, reply }).await.is_ok() {
                let _ = answer.await;
            }
        }
    }

    /// Checks chunk size rules against the node's limits.
    ///
    /// # Errors
    /// The first rule that exceeds a limit.
    pub fn check_chunks(&self, rules: &ChunkRules) -> Result<(), ChunkRefused> {
        self.chunk_limits.check(rules)
    }

    /// Sets the chunk size rules for objects fetched from now on. Cached objects keep their chunks.
    ///
    /// Requires: [`Client::check_chunks`] accepts the rules.
    pub async fn set_chunks(&self, rules: &Arc<ChunkRules>) {
        for shard in self.shards.iter() {
            // A shard that has ended fetches nothing.
            let _ = shard.send(Request::SetChunks(rules.clone())).await;
        }
    }

    /// Tells the cache that the origin sent a strong ETag for an object known to have none.
    pub fn note_etag(&self, object: &ObjectName) {
        // The hint is dropped if the shard's queue is full: the next response repeats it.
        let _ = self.home(object).try_send(Request::NoteEtag { object: object.clone() });
    }

    /// Tells the cache when a read failed because the origin refused this version. The object is
    /// not served from then on before the origin has been asked again.
    pub(crate) fn note_refusal(&self, object: &ObjectName, head: &Arc<Head>, error: ReadError) {
        let is_refusal = match error {
            ReadError::Changed => true,
            ReadError::Origin(fault) => fault.is_not_found() || fault == OriginFault::Denied,
            ReadError::Overloaded | ReadError::Gone => false,
        };
        if !is_refusal {
            return;
        }
        // The hint is dropped if the shard's queue is full: the next refusal repeats it.
        let distrust = Request::Distrust { object: object.clone(), head: head.clone() };
        let _ = self.home(object).try_send(distrust);
    }

    /// Invalidates an object. Durable: once this returns, none of its cached bytes is served, even
    /// after a crash.
    ///
    /// # Errors
    /// When the removal is not durable on flash.
    pub async fn remove(&self, object: &ObjectName) -> Result<(), RemoveError> {
        let (reply, answer) = oneshot::channel();
        let remove = Request::Remove { target: InvalidationTarget::Object(object.clone()), reply };
        self.home(object).send(remove).await.map_err(|_| RemoveError)?;
        answer.await.unwrap_or(Err(RemoveError))
    }

    /// Invalidates all objects of a bucket whose keys begin with `prefix`; an empty prefix means
    /// the whole bucket. As durable as [`Client::remove`].
    ///
    /// Requires: bucket, slash and prefix are no longer than
    /// [`PREFIX_BYTES_MAX`](crate::PREFIX_BYTES_MAX).
    ///
    /// # Errors
    /// When the removal is not durable on all shards.
    pub async fn remove_below(&self, bucket: &str, prefix: &str) -> Result<(), RemoveError> {
        let target = InvalidationTarget::below(bucket, prefix);
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            let remove = Request::Remove { target: target.clone(), reply };
            shard.send(remove).await.map_err(|_| RemoveError)?;
            answers.push(answer);
        }
        let mut outcome = Ok(());
        for answer in answers {
            outcome = outcome.and(answer.await.unwrap_or(Err(RemoveError)));
        }
        outcome
    }

    /// Statistics of all shards. A shard that has ended is left out.
    pub async fn stats(&self) -> Vec<ShardStats> {
        self.ask_all(|reply| Request::Stats { reply }).await
    }

    /// Zones of all shards. A shard that has ended is left out.
    pub async fn zones(&self) -> Vec<ShardZones> {
        self.ask_all(|reply| Request::Zones { reply }).await
    }

    /// What is known of one zone of a device. `None`: no shard that answers has it.
    pub async fn zone(&self, device: usize, zone: ZoneId) -> Option<ZoneInspection> {
        let answers = self.ask_all(|reply| Request::Zone { device, zone, reply }).await;
        answers.into_iter().flatten().next()
    }

    /// Events of all shards that come after a cursor, which moves past them. A shard that has ended is
    /// left out.
    pub async fn events(&self, after: &mut EventCursor) -> Vec<ShardEvents> {
        let cursor = Arc::new(after.clone());
        let events = self.ask_all(|reply| Request::Events { after: cursor.clone(), reply }).await;
        events.iter().for_each(|events| after.pass(events));
        events
    }

    /// Answers of all shards, in their order. A shard that has ended is left out.
    async fn ask_all<T>(&self, request: impl Fn(oneshot::Sender<T>) -> Request) -> Vec<T> {
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            if shard.send(request(reply)).await.is_ok() {
                answers.extend(answer.await.ok());
            }
        }
        answers
    }

    /// Waits until all admitted bytes are on flash.
    pub async fn settle(&self) {
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            if shard.send(Request::Settle { reply }).await.is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            // A shard that ended has nothing left to write.
            let _ = answer.await;
        }
    }

    /// Reads and verifies everything on the flash of all shards, with at most `rate` bytes per second
    /// and device. [`Client::stats`] tells the progress and the result.
    pub async fn scrub(&self, rate: Bytes) {
        let stats = self.stats().await;
        let shards_of = |device| stats.iter().filter(|shard| shard.device == device).count();
        let mut answers = Vec::with_capacity(self.shards.len());
        for (shard, place) in self.shards.iter().zip(&stats) {
            let rate = Bytes(rate.0 / shards_of(place.device).max(1) as u64);
            let (reply, answer) = oneshot::channel();
            if shard.send(Request::Scrub { rate, reply }).await.is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            // A shard that ended has ended its scrub.
            let _ = answer.await;
        }
    }

    /// Number of shards of the node.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    pub(crate) async fn stop(&self) {
        for shard in self.shards.iter() {
            let _ = shard.send(Request::Stop).await;
        }
    }

    fn rest(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
        (keeping, ahead): (ReadHints, Option<Box<StripeAhead>>),
    ) -> Remainder {
        let (object, head) = (object.clone(), head.clone());
        Remainder { client: self.clone(), object, head, range, keeping, ahead }
    }

    pub(crate) fn shards(&self) -> &[mpsc::Sender<Request>] {
        &self.shards
    }

    fn home(&self, object: &ObjectName) -> &mpsc::Sender<Request> {
        self.stripe(object, 0)
    }

    pub(crate) fn stripe(&self, object: &ObjectName, stripe: u64) -> &mpsc::Sender<Request> {
        &self.shards[self.routes.shard(object, stripe)]
    }

    /// True if the part of the range from stripe `first` on is cached.
    async fn stripes_cached(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
        first: u64,
    ) -> bool {
        let rest = range.start.max(first.saturating_mul(STRIPE.0))..range.end;
        if PROBED_STRIPES_MAX * STRIPE.0 < rest.end.saturating_sub(rest.start) {
            return false;
        }
        for (stripe, range) in stripes_of(&rest) {
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            let probe = Request::Probe { object, head, range, reply };
            if to.send(probe).await.is_err() || !answer.await.unwrap_or(false) {
                return false;
            }
        }
        true
    }
}

/// Read hints with a new random admission rank, so that all stripes of a read are admitted or
/// rejected together, on every shard.
fn keeping(retention: RetentionClass) -> ReadHints {
    ReadHints { retention, is_confirmed: false, rank: SampleRank::of(fastrand::u64(..)) }
}

/// Result of [`Client::locate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Where the bytes of the range are.
    pub residency: Residency,
    /// Bytes admitted and not yet on flash, of all objects of the shard with the largest backlog.
    pub backlog: Bytes,
    /// Limit of that backlog: beyond it, admissions are refused.
    pub backlog_max: Bytes,
}

impl Located {
    fn add(&mut self, other: Self) {
        self.residency.on_flash += other.residency.on_flash;
        self.residency.pinned += other.residency.pinned;
        self.residency.in_memory += other.residency.in_memory;
        if self.backlog <= other.backlog {
            (self.backlog, self.backlog_max) = (other.backlog, other.backlog_max);
        }
    }
}
