//! Shard event loop: runs the engine's executor and its device and origin ports inside one tokio
//! task.
//!
//! One iteration: set the clock, reap device completions, take requests, run ready tasks, submit
//! queued device commands with one system call, start queued origin requests. When nothing
//! happened, the task sleeps until a request, a completion or a deadline wakes it. It never
//! busy-waits. No iteration begins later than [`TURN`] after the last poll of the sockets.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use zonal_base::{LatencyHistogram, Nanos, ZoneId};
use zonal_cache::{
    Cache, CachedRange, Head, InitialFetch, InvalidationTarget, ObjectName, PendingInvalidations,
    RemoveError,
};
use zonal_runtime::{Buffers, Executor};

use crate::alarm::Alarm;
use crate::client::Located;
use crate::clock::RealClock;
use crate::device_driver::DeviceDriver;
use crate::device_health::{DeviceHealth, HealthRecord};
use crate::events::{EventCursor, ShardEvents};
use crate::listing::PlacedRange;
use crate::origin::OriginDriver;
use crate::peers::Peers;
use crate::pipe::PipeWriter;
use crate::request::{Rejoin, Request};
use crate::shard::ShardAddress;
use crate::{ReadError, ShardStats, ShardZones, ZoneInspection};

/// Time budget of engine tasks before sockets are polled.
const TURN: Nanos = Nanos::micros(250);

/// Shortest time between two warnings of damaged records.
const DAMAGE_TOLD_EVERY: Nanos = Nanos::secs(60);

/// Polls of engine tasks between two reads of the clock. Most take about 1 us; a poll that verifies
/// or copies a piece takes 100 us.
const POLLS_PER_LOOK: usize = 16;

/// Requests taken in one iteration.
const REQUESTS_PER_TURN: usize = 64;

/// Free task slots that a request needs, for itself, its fetch and some admissions; below that it
/// is refused. One admission per piece of a stripe would be more, but those tasks end by
/// themselves.
const TASKS_PER_REQUEST: usize = 64;

/// Engine tasks that live as long as the executor: one for each buffer pool, the cache's and the
/// log's.
const LASTING_TASKS: u32 = 2;

/// Maximum number of engine tasks of a shard.
pub(crate) const TASKS_MAX: usize = 1 << 16;

/// State of a shard's event loop.
pub(crate) struct ShardLoop {
    pub(crate) place: ShardAddress,
    /// The shard's first zone on its device.
    pub(crate) first_zone: ZoneId,
    pub(crate) peers: Peers,
    pub(crate) executor: Executor,
    pub(crate) clock: RealClock,
    pub(crate) device: DeviceDriver,
    pub(crate) origin: OriginDriver,
    pub(crate) buffers: Buffers,
    /// Request queue. `None` before the instance serves, and after it handed the queue to its
    /// successor.
    pub(crate) requests: Option<mpsc::Receiver<Request>>,
    /// The cache. `None` until it has started; requests wait until then.
    pub(crate) cache: Option<Cache>,
    pub(crate) alarm: Alarm,
    pub(crate) standing: Arc<DeviceHealth>,
    pub(crate) pending_invalidations: Rc<PendingInvalidations>,
    /// Times that GETs waited in the request queue.
    pub(crate) queue_latency: Arc<LatencyHistogram>,
    /// Callers that wait until the device is closed.
    pub(crate) releases: Vec<oneshot::Sender<()>>,
    /// A request to reopen the device, not handled yet.
    pub(crate) rejoin: Option<Rejoin>,
    pub(crate) is_stopped: bool,
    /// True after the warning that the limit of pinned bytes is reached.
    pub(crate) has_told: bool,
    /// Damaged records that were reported, and when; later ones are reported together.
    pub(crate) damage_told: (u64, Nanos),
}

impl ShardLoop {
    /// Runs the event loop until `done` returns a value.
    ///
    /// Iterations follow each other as long as there is work and time. Yielding after each one
    /// would cost a system call, because the runtime polls the sockets before it continues here.
    pub(crate) async fn run_until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        std::future::poll_fn(|cx| {
            let begun = self.clock.now();
            loop {
                // Register the waker before the last check, so that no event in between is lost.
                self.executor.host_waker(cx.waker());
                let moved = self.turn(cx);
                if let Some(output) = done(self) {
                    return Poll::Ready(output);
                }
                if !moved && !self.executor.has_ready() {
                    return self.sleep(cx);
                }
                if TURN <= self.clock.now().since(begun) {
                    // Other tasks and the sockets are next; there may be more work afterwards.
                    let _ = pin!(yield_now()).poll(cx);
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        self.executor.advance(now);
        let mut moved = self.device.take_answers(now);
        self.look_for_trouble();
        moved |= self.take_requests(cx);
        moved |= self.run_tasks(now);
        self.tell_of_pins();
        self.tell_of_damage(now);
        moved |= self.device.submit(&self.clock);
        moved |= self.origin.start_all();
        moved
    }

    /// Runs ready engine tasks within the time budget. True if any ran.
    fn run_tasks(&self, begun: Nanos) -> bool {
        let mut polls = 0;
        loop {
            let more = self.executor.run(POLLS_PER_LOOK);
            polls += more;
            if more < POLLS_PER_LOOK || TURN <= self.clock.now().since(begun) {
                return 0 < polls;
            }
        }
    }

    /// Warns once; from then on the metrics show how much could not be pinned.
    fn tell_of_pins(&mut self) {
        let is_news = |cache: &&Cache| !self.has_told && cache.unpinned() != zonal_base::Bytes(0);
        let Some(cache) = self.cache.as_ref().filter(is_news) else { return };
        let ShardAddress { device, shard, .. } = self.place;
        tracing::warn!(
            device,
            shard,
            pinned = %cache.pinned(),
            "pin limit reached (keep.pinned): further objects are cached without a pin"
        );
        self.has_told = true;
    }

    /// Warns of damaged records, at most once a minute. Each was read from the origin instead.
    fn tell_of_damage(&mut self, now: Nanos) {
        let Some(cache) = &self.cache else { return };
        let (damaged, (told, told_at)) = (cache.damaged(), self.damage_told);
        if damaged == told || now < told_at + DAMAGE_TOLD_EVERY {
            return;
        }
        let ShardAddress { device, shard, .. } = self.place;
        tracing::warn!(
            device,
            shard,
            records = damaged - told,
            "records on flash are damaged: they are read from the origin"
        );
        self.damage_told = (damaged, now);
    }

    fn look_for_trouble(&mut self) {
        if let Some(trouble) = self.device.trouble() {
            self.standing.report(trouble);
            self.isolate();
        }
        if !self.releases.is_empty() && self.device.is_idle() {
            self.device.close();
            for released in self.releases.drain(..) {
                let _ = released.send(());
            }
        }
    }

    /// Stops the use of the device: commands in flight fail, requests are served from the origin,
    /// and removals are recorded for replay.
    pub(crate) fn isolate(&mut self) {
        self.device.isolate();
        if let Some(cache) = &self.cache {
            cache.log().give_up();
            cache.end_scrub();
        }
        self.pending_invalidations.open();
    }

    /// True when no request is being served and no device command is in flight.
    pub(crate) fn is_drained(&self) -> bool {
        self.executor.spawner().running_count() <= LASTING_TASKS && self.device.is_idle()
    }

    fn take_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(cache) = self.cache.clone() else { return false };
        for taken in 0..REQUESTS_PER_TURN {
            let Some(requests) = &mut self.requests else { return false };
            match requests.poll_recv(cx) {
                Poll::Ready(Some(Request::Stop) | None) => {
                    self.is_stopped = true;
                    return true;
                }
                Poll::Ready(Some(request)) => self.start(&cache, request),
                Poll::Pending => return 0 < taken,
            }
        }
        true
    }

    /// Handles requests about the device and settings, and those of operators. Returns any other
    /// request.
    fn obey(&mut self, cache: &Cache, request: Request) -> Option<Request> {
        match request {
            Request::Isolate => self.isolate(),
            Request::Release { reply } => self.releases.push(reply),
            Request::Rejoin(rejoin) => self.rejoin = Some(rejoin),
            Request::SetPlacementEpochs(homes) => cache.set_placement_epochs(homes),
            Request::SetChunks(rules) => cache.set_chunks(rules),
            request => return self.report(cache, request),
        }
        None
    }

    /// Handles requests of operators. Returns any other request.
    fn report(&self, cache: &Cache, request: Request) -> Option<Request> {
        match request {
            Request::Stats { reply } => drop(reply.send(self.stats(cache))),
            Request::Zones { reply } => drop(reply.send(self.zones(cache))),
            Request::Zone { device, zone, reply } => {
                drop(reply.send(self.zone(cache, (device, zone))));
            }
            Request::Events { after, reply } => drop(reply.send(self.events(cache, &after))),
            Request::Ranges { object, head, range, reply } => {
                drop(reply.send(self.ranges(cache, (&object, &head), &range)));
            }
            Request::List { prefix, to, reply } => {
                let cache = cache.clone();
                self.executor.spawner().spawn(async move {
                    let is_wanted = || !to.is_closed();
                    let tell = async |object| to.send(object).await.is_ok();
                    let _ = reply.send(cache.list(&prefix, is_wanted, tell).await);
                });
            }
            Request::Sample { size, to, reply } => {
                let (cache, draw) = (cache.clone(), self.executor.clock().now().0);
                self.executor.spawner().spawn(async move {
                    let tell = async |object| to.send(object).await.is_ok();
                    let _ = reply.send(cache.sample(size, draw, tell).await);
                });
            }
            Request::Find { object, reply } => {
                let cache = cache.clone();
                self.executor.spawner().spawn(async move {
                    let _ = reply.send(cache.find(&object).await);
                });
            }
            request => return Some(request),
        }
        None
    }

    fn start(&mut self, cache: &Cache, request: Request) {
        let Some(request) = self.obey(cache, request) else { return };
        let spawner = self.executor.spawner();
        if !spawner.has_room(TASKS_PER_REQUEST) {
            return refuse(request);
        }
        let cache = cache.clone();
        match request {
            Request::Open { object, trust, retention, reply } => spawner.spawn(async move {
                let _ = reply.send(cache.open(&object, trust, retention).await);
            }),
            Request::Get(get) => {
                let asked_at = self.clock.at(get.asked_at);
                self.queue_latency.record(self.executor.clock().now().since(asked_at));
                spawner.spawn(get.run(cache, self.origin.clone(), self.peers.clone()));
            }
            Request::Read { object, head, range, keeping, body, to } => {
                let begun = body.map_or(InitialFetch::None, |body| self.origin.adopt(*body));
                spawner.spawn(async move {
                    cache.read(&object, &head, (range, begun), keeping, Box::new(to)).await;
                });
            }
            Request::Prefetch { object, head, range, wasted } => {
                cache.prefetch(&object, &head, &range, &wasted);
            }
            Request::Probe { object, head, range, reply } => {
                let _ = reply.send(cache.is_cached(&object, &head, &range));
            }
            // In a task: reads that were requested before have begun their fetches by then.
            Request::FindMissing { object, head, range, reply } => spawner.spawn(async move {
                let _ = reply.send(cache.first_missing(&object, &head, &range));
            }),
            Request::Locate { object, head, range, reply } => {
                let residency = cache.residency(&object, &head, &range);
                let (backlog, backlog_max) = (cache.log().backlog(), cache.log().backlog_max());
                let _ = reply.send(Located { residency, backlog, backlog_max });
            }
            Request::SetCare { object, head, range, retention, reply } => {
                cache.set_retention(&object, &head, &range, retention);
                let _ = reply.send(());
            }
            Request::NoteEtag { object } => cache.note_etag(&object),
            Request::Distrust { object, head } => spawner.spawn(async move {
                cache.distrust(&object, &head).await;
            }),
            Request::Remove { target, reply } => self.start_removal(cache, target, reply),
            Request::Settle { reply } => spawner.spawn(async move {
                cache.settle().await;
                let _ = reply.send(());
            }),
            Request::Scrub { rate, reply } => spawner.spawn(async move {
                cache.scrub(rate).await;
                let _ = reply.send(());
            }),
            Request::Keep { roster, reply } => spawner.spawn(async move {
                let _ = reply.send(cache.keep_roster(&roster).await);
            }),
            Request::Isolate
            | Request::Release { .. }
            | Request::Rejoin(_)
            | Request::SetPlacementEpochs(_)
            | Request::SetChunks(_)
            | Request::Stats { .. }
            | Request::Zones { .. }
            | Request::Zone { .. }
            | Request::Events { .. }
            | Request::Ranges { .. }
            | Request::List { .. }
            | Request::Sample { .. }
            | Request::Find { .. }
            | Request::Stop => {}
        }
    }

    fn start_removal(&self, cache: Cache, target: InvalidationTarget, reply: Removed) {
        let away = OfflineRemovals {
            standing: self.standing.clone(),
            pending_invalidations: self.pending_invalidations.clone(),
        };
        self.executor.spawner().spawn(async move {
            let removed = match cache.remove_any(&target).await {
                Err(RemoveError) => away.note(&target).await,
                removed => removed,
            };
            let _ = reply.send(removed);
        });
    }

    fn zones(&self, cache: &Cache) -> ShardZones {
        ShardZones::of_cache((self.place.device, self.place.shard), self.first_zone, cache)
    }

    fn zone(&self, cache: &Cache, (device, zone): (usize, ZoneId)) -> Option<ZoneInspection> {
        let in_shard =
            zone.0.checked_sub(self.first_zone.0).filter(|_| device == self.place.device);
        let details = cache.zone(ZoneId(in_shard?))?;
        let zone_capacity = cache.log().geometry().zone_capacity.bytes();
        let ShardAddress { shard, .. } = self.place;
        Some(ZoneInspection { shard, first_zone: self.first_zone, zone_capacity, details })
    }

    fn events(&self, cache: &Cache, after: &EventCursor) -> ShardEvents {
        let ShardAddress { device, shard, .. } = self.place;
        let health = if shard == 0 { self.standing.events() } else { Vec::new() };
        ShardEvents {
            device,
            shard,
            first_zone: self.first_zone,
            zones: cache.events(after.next_of(device, shard)),
            health: after.health_after(device, health),
        }
    }

    fn ranges(
        &self,
        cache: &Cache,
        (object, head): (&ObjectName, &Head),
        range: &Range<u64>,
    ) -> Vec<PlacedRange> {
        let placed = |CachedRange { bytes, zone, is_pinned }| PlacedRange {
            bytes,
            device: self.place.device,
            zone: zone.map(|zone| ZoneId(self.first_zone.0 + zone.0)),
            is_pinned,
        };
        cache.ranges(object, head, range).into_iter().map(placed).collect()
    }

    fn stats(&self, cache: &Cache) -> ShardStats {
        ShardStats {
            buffers_in_use: self.buffers.pool().in_use(),
            is_isolated: self.device.is_isolated(),
            // The number is per device, so only its first shard reports it.
            isolations: if self.place.shard == 0 { self.standing.isolations() } else { 0 },
            reads_timed_out: self.device.device().map_or(0, |of| of.waits().reads_timed_out),
            removals_missed: self.pending_invalidations.count() as u64,
            commands: self.device.device().map(|device| device.latencies().clone()),
            queue: self.queue_latency.clone(),
            ..ShardStats::of_cache((self.place.device, self.place.shard), cache)
        }
    }

    /// Registers for a wake-up by the device or at the next deadline.
    fn sleep<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let now = self.executor.clock().now();
        let deadlines = [self.device.sleep(cx, &self.clock), self.executor.next_deadline()];
        if let Some(due) = deadlines.into_iter().flatten().min() {
            self.alarm.set(cx, due, now);
        }
        Poll::Pending
    }
}

/// Reply channel of a removal.
type Removed = oneshot::Sender<Result<(), RemoveError>>;

/// Handles removals while the device is offline.
struct OfflineRemovals {
    standing: Arc<DeviceHealth>,
    pending_invalidations: Rc<PendingInvalidations>,
}

impl OfflineRemovals {
    /// Records a removal in memory for replay. It is acknowledged only if the other devices know
    /// that this device is offline, so that it also holds after a restart.
    async fn note(&self, target: &InvalidationTarget) -> Result<(), RemoveError> {
        self.pending_invalidations.note(target)?;
        if self.pending_invalidations.has_overflowed() {
            self.standing.note_overflow();
        }
        match self.standing.decided().await {
            HealthRecord::Away => Ok(()),
            HealthRecord::In | HealthRecord::Undecided | HealthRecord::Unknown => Err(RemoveError),
        }
    }
}

fn refuse(request: Request) {
    match request {
        Request::Open { reply, .. } => {
            let _ = reply.send(Err(zonal_cache::LookupError::Overloaded));
        }
        Request::Get(get) => {
            let _ = get.reply.send(Err(zonal_cache::LookupError::Overloaded));
        }
        Request::Read { to, .. } => refuse_read(to),
        // Dropping the reply channel reports the refusal.
        _ => {}
    }
}

fn refuse_read(mut to: PipeWriter) {
    use zonal_cache::{Consumer, Piece};
    to.accept(Piece::Failed(ReadError::Overloaded));
}
