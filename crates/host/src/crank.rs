//! Shard event loop: runs the engine's executor and its device and origin ports inside one tokio task.
//!
//! A turn: set the clock; take requests; run ready tasks; submit what the device port holds, all of it with
//! one system call; start what the origin port holds; take the device's answers. When nothing moved, the
//! task sleeps until a request, an answer or a deadline wakes it. Nothing spins.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use zonal_base::Nanos;
use zonal_cache::{Cache, Doomed, Missed, RemoveError};
use zonal_runtime::{Buffers, Executor};

use crate::alarm::Alarm;
use crate::client::Located;
use crate::clock::RealClock;
use crate::device_driver::DeviceDriver;
use crate::origin::OriginDriver;
use crate::peers::Peers;
use crate::pipe::PipeWriter;
use crate::request::{Rejoin, Request, with_head};
use crate::shard::ShardAddress;
use crate::standing::{Record, Standing};
use crate::{ReadError, ShardStats};

/// How long engine tasks work in one turn, before sockets get theirs.
const TURN: Nanos = Nanos::micros(250);

/// Polls of engine tasks between two looks at the clock. Most take about 1 us; one that looks at a piece's checksum
/// or copies it, 100 us.
const POLLS_PER_LOOK: usize = 16;

/// Requests taken in one turn.
const REQUESTS_PER_TURN: usize = 64;

/// Engine tasks that one request may start: itself, its fetch, and an admission for each piece of a stripe
/// would be more, but those end by themselves. Requests are refused when not even this is left.
const TASKS_PER_REQUEST: usize = 64;

/// Engine tasks that end with their executor: each pool of buffers, the cache's and the log's, has one.
const LASTING_TASKS: u32 = 2;

/// Engine tasks of a shard.
pub(crate) const TASKS_MAX: usize = 1 << 16;

/// Everything that one shard's thread turns.
pub(crate) struct Crank {
    pub(crate) place: ShardAddress,
    pub(crate) peers: Peers,
    pub(crate) executor: Executor,
    pub(crate) clock: RealClock,
    pub(crate) device: DeviceDriver,
    pub(crate) origin: OriginDriver,
    pub(crate) buffers: Buffers,
    /// `None`: they go to the next life of the share.
    pub(crate) requests: Option<mpsc::Receiver<Request>>,
    /// Set once the cache has started; requests wait until then.
    pub(crate) cache: Option<Cache>,
    pub(crate) alarm: Alarm,
    pub(crate) standing: Arc<Standing>,
    pub(crate) missed: Rc<Missed>,
    /// Whoever waits until the device is closed.
    pub(crate) releases: Vec<oneshot::Sender<()>>,
    /// The device is there again.
    pub(crate) rejoin: Option<Rejoin>,
    pub(crate) is_stopped: bool,
    /// The log was told that there is no room for pins.
    pub(crate) has_told: bool,
}

impl Crank {
    /// Turns until `done` is ready.
    pub(crate) async fn turn_until<T>(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        std::future::poll_fn(|cx| {
            // Registered before the last look, so that nothing that happens in between is missed.
            self.executor.host_waker(cx.waker());
            let moved = self.turn(cx);
            if let Some(output) = done(self) {
                return Poll::Ready(output);
            }
            if moved || self.executor.has_ready() {
                // Woken when sockets were looked at: there may be more to do here for as long as they wait.
                let _ = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
            self.sleep(cx)
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
        moved |= self.device.submit(now);
        moved |= self.origin.start_all();
        moved
    }

    /// True when there was something to do for them.
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

    /// Once: from then on the metrics tell how much it is.
    fn tell_of_pins(&mut self) {
        let is_news = |cache: &&Cache| !self.has_told && cache.unpinned() != zonal_base::Bytes(0);
        let Some(cache) = self.cache.as_ref().filter(is_news) else { return };
        let ShardAddress { device, shard, .. } = self.place;
        tracing::warn!(
            device,
            shard,
            pinned = %cache.pinned(),
            "no more can be pinned (keep.pinned): what is to be pinned beyond it is cached as everything else"
        );
        self.has_told = true;
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

    /// Whatever waits for the device goes on without it, and so does all that comes.
    pub(crate) fn isolate(&mut self) {
        self.device.abandon();
        if let Some(cache) = &self.cache {
            cache.log().give_up();
        }
        self.missed.open();
    }

    /// True when nobody is served any more, and nothing is asked of the device.
    pub(crate) fn is_wound_up(&self) -> bool {
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

    /// Carries out what concerns the device; other requests come back.
    fn obey(&mut self, cache: &Cache, request: Request) -> Option<Request> {
        match request {
            Request::Isolate => self.isolate(),
            Request::Release { reply } => self.releases.push(reply),
            Request::Rejoin(rejoin) => self.rejoin = Some(rejoin),
            Request::SetHomes(homes) => cache.set_homes(homes),
            Request::SetChunks(rules) => cache.set_chunks(rules),
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
            Request::Open { object, trust, care, reply } => spawner.spawn(async move {
                let _ = reply.send(cache.open(&object, trust, care).await);
            }),
            Request::Get { object, trust, keeping, range_of, reply, to } => {
                let peers = self.peers.clone();
                spawner.spawn(async move {
                    // Nobody waits for the reply yet: whoever asked is woken by the first bytes, or the end of the pipe.
                    let opened = match cache.open(&object, trust, keeping.care).await {
                        Ok(opened) => opened,
                        Err(error) => return drop(reply.send(Err(error))),
                    };
                    let (head, range) = (opened.head.clone(), range_of(&opened));
                    let begun = with_head(&range);
                    // Both requests to the origin leave together.
                    if let Some(ahead) = cache.note_asked(&object, &head, &range) {
                        peers.prefetch(&cache, &object, &head, &ahead);
                    }
                    let _ = reply.send(Ok((opened, range)));
                    if !begun.is_empty() {
                        cache.read(&object, &head, begun, keeping, Box::new(to)).await;
                    }
                })
            }
            Request::Read { object, head, range, keeping, to } => spawner.spawn(async move {
                cache.read(&object, &head, range, keeping, Box::new(to)).await;
            }),
            Request::Prefetch { object, head, range, wasted } => {
                cache.prefetch(&object, &head, &range, &wasted);
            }
            Request::Probe { object, head, range, reply } => {
                let _ = reply.send(cache.is_cached(&object, &head, &range));
            }
            Request::Locate { object, head, range, reply } => {
                let whereabouts = cache.whereabouts(&object, &head, &range);
                let (backlog, backlog_max) = (cache.log().backlog(), cache.log().backlog_max());
                let _ = reply.send(Located { whereabouts, backlog, backlog_max });
            }
            Request::SetCare { object, head, range, care, reply } => {
                cache.set_care(&object, &head, &range, care);
                let _ = reply.send(());
            }
            Request::NoteEtag { object } => cache.note_etag(&object),
            Request::Remove { doomed, reply } => self.start_removal(cache, doomed, reply),
            Request::Settle { reply } => spawner.spawn(async move {
                cache.settle().await;
                let _ = reply.send(());
            }),
            Request::Stats { reply } => {
                let _ = reply.send(self.stats(&cache));
            }
            Request::Keep { roster, reply } => spawner.spawn(async move {
                let _ = reply.send(cache.keep_roster(&roster).await);
            }),
            Request::Isolate
            | Request::Release { .. }
            | Request::Rejoin(_)
            | Request::SetHomes(_)
            | Request::SetChunks(_)
            | Request::Stop => {}
        }
    }

    fn start_removal(&self, cache: Cache, doomed: Doomed, reply: Removed) {
        let away = Away { standing: self.standing.clone(), missed: self.missed.clone() };
        self.executor.spawner().spawn(async move {
            let removed = match cache.remove_any(&doomed).await {
                Err(RemoveError) => away.note(&doomed).await,
                removed => removed,
            };
            let _ = reply.send(removed);
        });
    }

    fn stats(&self, cache: &Cache) -> ShardStats {
        ShardStats {
            device: self.place.device,
            shard: self.place.shard,
            cache: cache.stats(),
            log: cache.log().stats(),
            zones: cache.log().zone_counts(),
            zone_capacity: cache.log().geometry().zone_capacity.bytes(),
            backlog: cache.log().backlog(),
            pinned: cache.pinned(),
            pinned_max: cache.pinned_max(),
            records: cache.record_count(),
            index_memory: cache.index_memory(),
            held_memory: cache.held_memory(),
            unread: cache.unread(),
            open_scans: cache.open_scans(),
            buffers_in_use: self.buffers.pool().in_use(),
            is_gone: cache.log().is_gone(),
            is_isolated: self.device.is_abandoned(),
            // One shard tells it for all.
            isolations: if self.place.shard == 0 { self.standing.isolations() } else { 0 },
            reads_timed_out: self.device.device().map_or(0, |of| of.waits().reads_timed_out),
            removals_missed: self.missed.count() as u64,
        }
    }

    /// Arranges to be woken by the device or the next deadline.
    fn sleep<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let now = self.executor.clock().now();
        let deadlines = [self.device.sleep(cx, &self.clock), self.executor.next_deadline()];
        if let Some(due) = deadlines.into_iter().flatten().min() {
            self.alarm.set(cx, due, now);
        }
        Poll::Pending
    }
}

/// Who waits for a removal.
type Removed = oneshot::Sender<Result<(), RemoveError>>;

/// What becomes of a removal that the device cannot be told of.
struct Away {
    standing: Arc<Standing>,
    missed: Rc<Missed>,
}

impl Away {
    /// Noted, it holds as long as this process lives. It is acknowledged when it will hold after that, too.
    async fn note(&self, doomed: &Doomed) -> Result<(), RemoveError> {
        self.missed.note(doomed)?;
        if self.missed.has_overflowed() {
            self.standing.note_overflow();
        }
        match self.standing.decided().await {
            Record::Away => Ok(()),
            Record::In | Record::Undecided | Record::Unknown => Err(RemoveError),
        }
    }
}

fn refuse(request: Request) {
    match request {
        Request::Open { reply, .. } => {
            let _ = reply.send(Err(zonal_cache::LookupError::Overloaded));
        }
        Request::Get { reply, .. } => {
            let _ = reply.send(Err(zonal_cache::LookupError::Overloaded));
        }
        Request::Read { to, .. } => refuse_read(to),
        // Dropping the reply says it.
        _ => {}
    }
}

fn refuse_read(mut to: PipeWriter) {
    use zonal_cache::{Consumer, Piece};
    to.accept(Piece::Failed(ReadError::Overloaded));
}
