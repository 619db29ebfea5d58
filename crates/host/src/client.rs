//! Client handle of a node: usable from any task of any tokio runtime, and cancel-safe.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zonal_cache::{
    Care, ChunkRules, Doomed, Head, Keeping, LookupError, ObjectName, Opened, ReadError,
    RemoveError, STRIPE, Trust, Whereabouts,
};
use zonal_policy::Lot;

use crate::ShardStats;
use crate::chunks::{ChunkLimits, ChunkRefused};
use crate::pipe::pipe;
use crate::reading::{Reading, Rest};
use crate::request::{Request, with_head};
use crate::routes::Routes;

/// The caches of a node as one. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    shards: Arc<[mpsc::Sender<Request>]>,
    routes: Arc<Routes>,
    chunk_limits: ChunkLimits,
}

/// Stripes of one range whose presence is looked up before the first byte: 2 GiB. Beyond that a range
/// counts as not cached.
const PROBED_STRIPES_MAX: u64 = 64;

impl Client {
    pub(crate) fn new(
        shards: Vec<mpsc::Sender<Request>>,
        routes: Arc<Routes>,
        chunk_limits: ChunkLimits,
    ) -> Self {
        Self { shards: shards.into(), routes, chunk_limits }
    }

    /// The version of `object` to serve, as far as what is known of it is trusted.
    ///
    /// # Errors
    /// When there is none, or none that the cache may serve.
    pub async fn open(
        &self,
        object: &ObjectName,
        trust: impl Into<Trust>,
        care: Care,
    ) -> Result<Opened, LookupError> {
        let (reply, answer) = oneshot::channel();
        let trust = trust.into();
        let open = Request::Open { object: object.clone(), trust, care, reply };
        self.home(object).send(open).await.map_err(|_| LookupError::Gone)?;
        answer.await.unwrap_or(Err(LookupError::Gone))
    }

    /// The version of `object` to serve, and those bytes of it that `range_of` wants. The two are one question to
    /// one shard, as far as the bytes lie with the head. Resolves when the first bytes are there, or there are
    /// none to come.
    ///
    /// # Errors
    /// As [`Client::open`], and for the bytes as [`Client::read`].
    pub async fn get(
        &self,
        object: &ObjectName,
        (trust, care): (impl Into<Trust>, Care),
        range_of: impl FnOnce(&Opened) -> Range<u64> + Send + 'static,
    ) -> Result<(Opened, Result<Reading, ReadError>), LookupError> {
        let ((to, from), (reply, mut answer)) = (pipe(), oneshot::channel());
        let range_of = Box::new(range_of);
        let (trust, keeping) = (trust.into(), keeping(care));
        let get = Request::Get { object: object.clone(), trust, keeping, range_of, reply, to };
        self.home(object).send(get).await.map_err(|_| LookupError::Gone)?;
        let mut reading = Reading::from_pipe(from);
        let first = reading.begin().await;
        // It was sent before the pipe had bytes or an end.
        let (opened, range) = answer.try_recv().unwrap_or(Err(LookupError::Gone))?;
        let begun = with_head(&range);
        let reading = match first {
            _ if begun.is_empty() => self.read_for(keeping, object, &opened.head, range).await,
            Ok(()) => {
                reading.all_cached &= self.stripes_cached(object, &opened.head, &range, 1).await;
                let rest = self.rest(object, &opened.head, begun.end..range.end, keeping);
                reading.continue_with(begun.end - begun.start, rest);
                Ok(reading)
            }
            Err(error) => Err(error),
        };
        Ok((opened, reading))
    }

    /// The bytes of `range` of one version. Resolves when the first are there (or there are none to come),
    /// so that [`ReadError::Changed`] can be answered by opening again before a response has begun.
    ///
    /// # Errors
    /// When not even the first bytes could be had.
    pub async fn read(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
        care: Care,
    ) -> Result<Reading, ReadError> {
        self.read_for(keeping(care), object, head, range).await
    }

    async fn read_for(
        &self,
        keeping: Keeping,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
    ) -> Result<Reading, ReadError> {
        let mut reading = Reading::of(self.rest(object, head, range.clone(), keeping));
        let second = range.start / STRIPE.0 + 1;
        let others_cached = self.stripes_cached(object, head, &range, second).await;
        reading.begin().await?;
        reading.all_cached &= others_cached;
        Ok(reading)
    }

    /// Whether a read of `range` would ask nothing of the origin, now.
    pub async fn is_cached(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
    ) -> bool {
        self.stripes_cached(object, head, &range, range.start / STRIPE.0).await
    }

    /// Where the bytes of `range` are now, and how far flash is behind on the shard that is furthest. `None` when
    /// a shard does not answer.
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

    /// Pins what of `range` is on flash, as far as there is room, or releases it. Nobody reads it; how the head is cared
    /// for is said when it is opened. A shard that has ended has nothing to pin.
    pub async fn set_care(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: Range<u64>,
        care: Care,
    ) {
        for (stripe, range) in stripes_of(&range) {
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            if to.send(Request::SetCare { object, head, range, care, reply }).await.is_ok() {
                let _ = answer.await;
            }
        }
    }

    /// Whether the node can follow these rules.
    ///
    /// # Errors
    /// With the first that it cannot.
    pub fn check_chunks(&self, rules: &ChunkRules) -> Result<(), ChunkRefused> {
        self.chunk_limits.check(rules)
    }

    /// Cuts objects by these rules as soon as they come from the origin. Those that are cached stay as they are.
    ///
    /// Requires: [`Client::check_chunks`] has nothing against them.
    pub async fn set_chunks(&self, rules: &Arc<ChunkRules>) {
        for shard in self.shards.iter() {
            // A shard that has ended fetches nothing.
            let _ = shard.send(Request::SetChunks(rules.clone())).await;
        }
    }

    /// The origin has answered with a strong ETag of an object that was taken to have none.
    pub fn note_etag(&self, object: &ObjectName) {
        // A shard that is busy is told by the next answer.
        let _ = self.home(object).try_send(Request::NoteEtag { object: object.clone() });
    }

    /// Removes what is cached under the name. Durable: once this returns, none of it is served any more,
    /// not even after a crash.
    ///
    /// # Errors
    /// When the removal is not on flash.
    pub async fn remove(&self, object: &ObjectName) -> Result<(), RemoveError> {
        let (reply, answer) = oneshot::channel();
        let remove = Request::Remove { doomed: Doomed::Object(object.clone()), reply };
        self.home(object).send(remove).await.map_err(|_| RemoveError)?;
        answer.await.unwrap_or(Err(RemoveError))
    }

    /// Removes what is cached under all names of a bucket whose keys begin with `prefix`; the empty one is that of all.
    /// As durable as [`Client::remove`].
    ///
    /// Requires: bucket, slash and prefix are no longer than [`PREFIX_BYTES_MAX`](crate::PREFIX_BYTES_MAX).
    ///
    /// # Errors
    /// When the removal is not on all flash.
    pub async fn remove_below(&self, bucket: &str, prefix: &str) -> Result<(), RemoveError> {
        let doomed = Doomed::below(bucket, prefix);
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            let remove = Request::Remove { doomed: doomed.clone(), reply };
            shard.send(remove).await.map_err(|_| RemoveError)?;
            answers.push(answer);
        }
        let mut outcome = Ok(());
        for answer in answers {
            outcome = outcome.and(answer.await.unwrap_or(Err(RemoveError)));
        }
        outcome
    }

    /// What every shard tells of itself. A shard that has ended tells nothing.
    pub async fn stats(&self) -> Vec<ShardStats> {
        let mut stats = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            if shard.send(Request::Stats { reply }).await.is_ok() {
                stats.extend(answer.await.ok());
            }
        }
        stats
    }

    /// Puts everything that was admitted on flash.
    pub async fn settle(&self) {
        let mut answers = Vec::with_capacity(self.shards.len());
        for shard in self.shards.iter() {
            let (reply, answer) = oneshot::channel();
            if shard.send(Request::Settle { reply }).await.is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            // A shard that ended has nothing to put on flash any more.
            let _ = answer.await;
        }
    }

    /// Shards of the node.
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
        keeping: Keeping,
    ) -> Rest {
        Rest { client: self.clone(), object: object.clone(), head: head.clone(), range, keeping }
    }

    fn home(&self, object: &ObjectName) -> &mpsc::Sender<Request> {
        self.stripe(object, 0)
    }

    pub(crate) fn stripe(&self, object: &ObjectName, stripe: u64) -> &mpsc::Sender<Request> {
        &self.shards[self.routes.shard(object, stripe)]
    }

    /// Whether what the range has of the stripes from `first` on is cached.
    async fn stripes_cached(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        range: &Range<u64>,
        first: u64,
    ) -> bool {
        let stripes = first..range.end.div_ceil(STRIPE.0);
        if stripes.is_empty() {
            return true;
        }
        if PROBED_STRIPES_MAX < stripes.end - stripes.start {
            return false;
        }
        for stripe in stripes {
            let start = range.start.max(stripe * STRIPE.0);
            let part = start..range.end.min((stripe + 1) * STRIPE.0);
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            let probe = Request::Probe { object, head, range: part, reply };
            if to.send(probe).await.is_err() || !answer.await.unwrap_or(false) {
                return false;
            }
        }
        true
    }
}

/// Of a read that begins: all its stripes, on whichever shards, are kept or left out together.
fn keeping(care: Care) -> Keeping {
    Keeping { care, lot: Lot::of(fastrand::u64(..)) }
}

/// The stripes that a range touches, each with its part of it.
fn stripes_of(range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let Range { start, end } = *range;
    let stripes = start / STRIPE.0..end.div_ceil(STRIPE.0);
    stripes
        .map(move |stripe| (stripe, start.max(stripe * STRIPE.0)..end.min((stripe + 1) * STRIPE.0)))
}

/// The answer of [`Client::locate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The bytes of the range.
    pub whereabouts: Whereabouts,
    /// Bytes admitted and not yet on flash, of everything.
    pub backlog: zonal_base::Bytes,
    /// What the backlog may grow to: beyond it, admissions are refused.
    pub backlog_max: zonal_base::Bytes,
}

impl Located {
    fn add(&mut self, other: Self) {
        self.whereabouts.on_flash += other.whereabouts.on_flash;
        self.whereabouts.pinned += other.whereabouts.pinned;
        self.whereabouts.in_memory += other.whereabouts.in_memory;
        if self.backlog <= other.backlog {
            (self.backlog, self.backlog_max) = (other.backlog, other.backlog_max);
        }
    }
}
