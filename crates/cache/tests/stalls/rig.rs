//! Test host in virtual time: a RAM device, and an origin that sends few bodies at once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes as Frame;
use zonal_base::{Blocks, Bytes, Checksum, Nanos, PoolClass, RangeSpec, Ticket, index};
use zonal_cache::{
    Cache, Consumer, Fetch, Fetched, FirstMissing, Freshness, Gone, Head, HeadSource, InitialFetch,
    InvalidationTarget, ObjectName, OriginFault, OriginHead, OtherStripes, PendingInvalidations,
    Piece, Ports, PrefetchSlots, ReadError, ReadHints, RetentionClass, Settings, StreamId,
};
use zonal_device::ram::{RamDevice, RamOptions};
use zonal_device::{DeviceKind, Geometry, ZonedDevice};
use zonal_policy::SampleRank;
use zonal_runtime::{Buffers, Event, Executor, Port};
use zonal_zonelog::{Generations, Identity, OpenMode};

const CRC: Checksum = Checksum(crc32c::crc32c_append);

/// Size of an object in bytes: one stripe. Their contents differ.
pub(crate) const OBJECT_BYTES: u64 = 32 << 20;

/// Size of an object whose second stripe is on another shard, in bytes.
const LARGE_BYTES: u64 = 2 * OBJECT_BYTES;

fn size_of(object: &ObjectName) -> u64 {
    if object.key().starts_with("large") { LARGE_BYTES } else { OBJECT_BYTES }
}

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 32,
    zone_size: Blocks(1024),
    zone_capacity: Blocks(1024),
    max_open_zones: None,
    max_active_zones: None,
};

const RAM: RamOptions = RamOptions {
    seed: 0,
    queue_depth: 256,
    latency: Nanos::micros(100),
    latency_spread: Nanos(0),
    slow_reads: Nanos(0),
};

/// Rate of each body: 64 KiB every 100 µs, faster than any reader.
const FRAME_BYTES: u64 = 64 << 10;
pub(crate) const FRAME_TIME: Nanos = Nanos::micros(100);

/// The origin sends one byte of some objects in this time.
const TRICKLE_TIME: Nanos = Nanos::secs(5);

fn is_trickling(object: &ObjectName) -> bool {
    object.key().starts_with("trickle")
}

/// Value of all bytes in one frame of an object.
fn frame(object: &ObjectName, at: u64) -> u8 {
    let seed = object.key().bytes().fold(0u64, |sum, byte| sum + u64::from(byte));
    ((at / FRAME_BYTES + seed) % 251).to_le_bytes()[0]
}

pub(crate) struct Rig {
    executor: Executor,
    ports: Ports,
    device: RamDevice,
    pub(crate) origin: Origin,
    pub(crate) cache: Cache,
    pub(crate) now: Nanos,
    /// True while the device accepts no command.
    pub(crate) device_hangs: bool,
}

/// Simulated origin: requests in flight, and when it answers.
pub(crate) struct Origin {
    /// Connection slots: bodies sent at once; more requests wait in line.
    places: usize,
    /// True while it answers 503 to each HEAD.
    pub(crate) is_down: bool,
    pub(crate) bodies: BTreeMap<StreamId, (ObjectName, Range<u64>)>,
    line: VecDeque<(Ticket, ObjectName, Range<u64>)>,
    answers: VecDeque<(Nanos, Ticket, Fetched)>,
    /// Number of HEAD requests.
    pub(crate) heads_asked: u64,
    /// Number of range requests, and of those with `If-Match`.
    pub(crate) asked: u64,
    pub(crate) asked_if_match: u64,
    pub(crate) sent_bytes: u64,
}

impl Origin {
    fn start(&mut self, now: Nanos, ticket: Ticket, fetch: Fetch) {
        match fetch {
            Fetch::Head { .. } if self.is_down => {
                self.heads_asked += 1;
                self.answer(now, ticket, Fetched::Failed(OriginFault::Unreachable));
            }
            Fetch::Head { object } => {
                self.heads_asked += 1;
                let etag = "\"v1\"".into();
                let head = OriginHead { size: size_of(&object), etag, ..OriginHead::default() };
                self.answer(now, ticket, Fetched::Head(head));
            }
            Fetch::Get { object, range, version } => {
                self.asked += 1;
                self.asked_if_match += u64::from(version.is_some());
                let range = range.in_object(size_of(&object));
                self.line.push_back((ticket, object, range));
            }
            Fetch::More { stream } => {
                let is_slow = self.bodies.get(&stream).is_some_and(|(of, _)| is_trickling(of));
                let more = self.more(stream);
                let at = now + if is_slow { TRICKLE_TIME } else { FRAME_TIME };
                self.answer_at(at, ticket, more);
            }
            Fetch::Close { stream } => {
                self.bodies.remove(&stream);
                self.answer(now, ticket, Fetched::End);
            }
        }
        while self.bodies.len() < self.places
            && let Some((ticket, object, range)) = self.line.pop_front()
        {
            let stream = StreamId(ticket.0);
            let etag = "\"v1\"".into();
            let size = size_of(&object);
            self.bodies.insert(stream, (object, range.clone()));
            let head = OriginHead { size, etag, ..OriginHead::default() };
            self.answer(now, ticket, Fetched::Object { head, range, stream });
        }
    }

    fn more(&mut self, stream: StreamId) -> Fetched {
        let Some((object, range)) = self.bodies.get_mut(&stream) else { return Fetched::End };
        let mut end = range.end.min((range.start / FRAME_BYTES + 1) * FRAME_BYTES);
        if is_trickling(object) {
            end = range.start + 1;
        }
        let bytes = vec![frame(object, range.start); index(end - range.start)];
        range.start = end;
        self.sent_bytes += bytes.len() as u64;
        if range.is_empty() {
            self.bodies.remove(&stream);
        }
        Fetched::Data(bytes.into())
    }

    fn answer(&mut self, now: Nanos, ticket: Ticket, fetched: Fetched) {
        self.answer_at(now + FRAME_TIME, ticket, fetched);
    }

    fn answer_at(&mut self, at: Nanos, ticket: Ticket, fetched: Fetched) {
        let place = self.answers.partition_point(|(other, ..)| *other <= at);
        self.answers.insert(place, (at, ticket, fetched));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.answers.front().map(|(at, ..)| *at)
    }
}

/// The shard of second stripes, which tells what it lacks when the test lets it.
#[derive(Default)]
pub(crate) struct OtherShard {
    /// The bytes that it lacks.
    pub(crate) lacks: RefCell<Option<Range<u64>>>,
    /// Number of questions.
    pub(crate) asked: Cell<u32>,
    may_answer: Cell<bool>,
    answer: Event,
}

impl OtherShard {
    pub(crate) fn answer(&self) {
        self.may_answer.set(true);
        self.answer.notify_all();
    }
}

impl OtherStripes for OtherShard {
    fn first_missing<'a>(
        &'a self,
        _object: &'a ObjectName,
        _head: &'a Arc<Head>,
        range: Range<u64>,
    ) -> FirstMissing<'a> {
        assert!(OBJECT_BYTES <= range.start && range.end <= LARGE_BYTES, "{range:?}");
        self.asked.set(self.asked.get() + 1);
        Box::pin(async move {
            while !self.may_answer.get() {
                self.answer.wait().await;
            }
            self.lacks.borrow().clone()
        })
    }
}

impl Rig {
    /// Creates a cache in front of an origin with `places` connection slots.
    pub(crate) fn new(places: usize) -> Self {
        Self::with_backlog(places, Bytes::mib(32))
    }

    /// Like [`Rig::new`], with a limit on the write backlog.
    pub(crate) fn with_backlog(places: usize, backlog_max: Bytes) -> Self {
        let origin = Origin {
            places,
            is_down: false,
            bodies: BTreeMap::new(),
            line: VecDeque::new(),
            answers: VecDeque::new(),
            heads_asked: 0,
            asked: 0,
            asked_if_match: 0,
            sent_bytes: 0,
        };
        Self::start((RamDevice::new(GEOMETRY, RAM), origin), backlog_max, secs(1))
    }

    /// Starts a cache on the same device, at a time of the clock that may be earlier.
    #[must_use]
    pub(crate) fn restarted_at(mut self, now: Nanos) -> Self {
        self.assert_at_rest();
        // The device has to forget when its last writes ended: that is later than `now`.
        let mut device = RamDevice::new(GEOMETRY, RAM);
        device.revert(&self.device.image());
        Self::start((device, self.origin), Bytes::mib(32), now)
    }

    fn start(
        (mut device, mut origin): (RamDevice, Origin),
        backlog_max: Bytes,
        now: Nanos,
    ) -> Self {
        let executor = Executor::new(1 << 16);
        executor.advance(now);
        let classes = [
            PoolClass { blocks: Blocks(2), count: 64 },
            PoolClass { blocks: Blocks(64), count: 256 },
            // For recovery, which reads whole segments.
            PoolClass { blocks: Blocks(512), count: 4 },
        ];
        let ports = Ports {
            device: Port::new(),
            origin: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::new(executor.spawner(), &classes),
            checksum: CRC,
            generations: Generations::default(),
            prefetch_slots: PrefetchSlots::new(usize::MAX),
        };
        let identity = Identity { log: [7; 16], shard: 0, shard_count: 1 };
        let mut settings = Settings::for_device(&GEOMETRY);
        let policy: zonal_policy::Spec = "zone-fifo".parse().expect("a policy of ours");
        let rules = policy.rules(&settings.layout(&GEOMETRY), Bytes(0));
        settings.log.backlog_max = backlog_max;
        let mode = (rules, OpenMode::Recover);
        let start = Cache::start(ports.clone(), GEOMETRY, settings, identity, mode);
        let started = Rc::new(RefCell::new(None));
        let slot = started.clone();
        executor.spawner().spawn(async move { *slot.borrow_mut() = Some(start.await) });
        let mut host = Host {
            executor: &executor,
            ports: &ports,
            device: &mut device,
            device_hangs: false,
            now,
        };
        while started.borrow().is_none() {
            host.step(&mut origin);
        }
        let now = host.now;
        let cache = started.take().expect("looked at just now").expect("it starts");
        Self { executor, ports, device, origin, cache, now, device_hangs: false }
    }

    /// Advances the virtual time by `time`.
    pub(crate) fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        self.run(until, || false);
        self.now = until;
        self.executor.advance(until);
    }

    /// Runs until the reader has its whole object. Returns the time.
    #[track_caller]
    pub(crate) fn finish(&mut self, reader: &Reader) -> Nanos {
        let until = self.now + Nanos::secs(600);
        self.run(until, || reader.has_ended());
        assert!(reader.has_ended(), "a reader waits for ever");
        self.now
    }

    fn run(&mut self, until: Nanos, done: impl Fn() -> bool) {
        let Self { executor, ports, device, now, device_hangs, .. } = self;
        let device_hangs = *device_hangs;
        let mut host = Host { executor, ports, device, device_hangs, now: *now };
        while host.turn(&mut self.origin) || !done() && host.wait(&self.origin, until) {}
        self.now = host.now;
    }

    /// Starts a reader of a whole object. It accepts no bytes before [`Reader::take`].
    pub(crate) fn read(&mut self, key: &str) -> Reader {
        let object = ObjectName::new("b", key);
        let reader = Reader { taps: Rc::default(), object: object.clone() };
        let (cache, tap) = (self.cache.clone(), Tap(reader.taps.clone(), object.clone()));
        self.executor.spawner().spawn(async move {
            let opened = cache.open(&object, Freshness::Immutable, RetentionClass::Usual).await;
            let head: Arc<Head> = opened.expect("the origin has it").head;
            let keeping = ReadHints {
                retention: RetentionClass::Usual,
                is_confirmed: true,
                rank: SampleRank::of(0),
            };
            cache
                .read(&object, &head, (0..OBJECT_BYTES, InitialFetch::None), keeping, Box::new(tap))
                .await;
        });
        reader
    }

    /// Looks up the heads of `count` objects. The returned cell counts the answers.
    pub(crate) fn open(&mut self, count: usize) -> Rc<Cell<usize>> {
        let answered = Rc::new(Cell::new(0));
        for n in 0..count {
            let (cache, answered) = (self.cache.clone(), answered.clone());
            self.executor.spawner().spawn(async move {
                let object = ObjectName::new("b", &format!("opened-{n}"));
                cache
                    .open(&object, Freshness::Immutable, RetentionClass::Usual)
                    .await
                    .expect("the origin has it");
                answered.set(answered.get() + 1);
            });
        }
        answered
    }

    /// Starts to open an object under this rule, for these bytes or the head alone. The returned
    /// cell has the source of the head.
    pub(crate) fn start_open(
        &mut self,
        key: &str,
        freshness: Freshness,
        bytes: Option<Range<u64>>,
    ) -> Rc<Cell<Option<HeadSource>>> {
        let wanted = bytes.clone().unwrap_or_default();
        self.start_open_for(key, freshness, (bytes, wanted))
    }

    /// Like [`Rig::start_open`], for a reader that gets other bytes once the version is known.
    pub(crate) fn start_open_for(
        &mut self,
        key: &str,
        freshness: Freshness,
        bytes_and_wanted: (Option<Range<u64>>, Range<u64>),
    ) -> Rc<Cell<Option<HeadSource>>> {
        self.spawn_open((key, freshness), bytes_and_wanted, None)
    }

    /// Like [`Rig::start_open`], beside another shard that has the second stripe.
    pub(crate) fn start_open_beside(
        &mut self,
        key: &str,
        freshness: Freshness,
        bytes: Range<u64>,
        other: &Rc<OtherShard>,
    ) -> Rc<Cell<Option<HeadSource>>> {
        let wanted = (Some(bytes.clone()), bytes);
        self.spawn_open((key, freshness), wanted, Some(other.clone()))
    }

    fn spawn_open(
        &mut self,
        (key, freshness): (&str, Freshness),
        (bytes, wanted): (Option<Range<u64>>, Range<u64>),
        other: Option<Rc<OtherShard>>,
    ) -> Rc<Cell<Option<HeadSource>>> {
        let (cache, object) = (self.cache.clone(), ObjectName::new("b", key));
        let found = Rc::new(Cell::new(None));
        let slot = found.clone();
        self.executor.spawner().spawn(async move {
            let opened = match bytes {
                None => cache.open(&object, freshness, RetentionClass::Usual).await,
                Some(bytes) => {
                    let (range, range_of) = (RangeSpec::Int(bytes), |_: &Head| wanted.clone());
                    let hints = ReadHints {
                        retention: RetentionClass::Usual,
                        is_confirmed: false,
                        rank: SampleRank::of(0),
                    };
                    let others = other.as_deref().map(|other| other as &dyn OtherStripes);
                    let reader = zonal_cache::Reader { range, range_of: &range_of, hints, others };
                    let opened = cache.open_to_read(&object, freshness.into(), &reader).await;
                    opened.map(|read| read.opened)
                }
            };
            slot.set(Some(opened.expect("the origin has it").found));
        });
        found
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &str) {
        let (cache, object) = (self.cache.clone(), ObjectName::new("b", key));
        let removed = Rc::new(Cell::new(false));
        let done = removed.clone();
        self.executor.spawner().spawn(async move {
            cache.remove(&object).await.expect("the device is well");
            done.set(true);
        });
        self.run(self.now + secs(600), || removed.get());
        assert!(removed.get(), "it is removed");
    }

    /// Opens an object under this rule. Returns whether it is served.
    pub(crate) fn is_served(&mut self, key: &str, freshness: Freshness) -> bool {
        let (cache, object) = (self.cache.clone(), ObjectName::new("b", key));
        let opened = Rc::new(Cell::new(None));
        let slot = opened.clone();
        self.executor.spawner().spawn(async move {
            slot.set(Some(cache.open(&object, freshness, RetentionClass::Usual).await.is_ok()));
        });
        self.run(self.now + secs(600), || opened.get().is_some());
        opened.get().expect("it is answered")
    }

    /// Replays removals that were recorded while a device was away. Returns the device's time.
    #[track_caller]
    pub(crate) fn replay(&mut self, count: usize) -> Nanos {
        let pending = Rc::new(PendingInvalidations::default());
        pending.open();
        for n in 0..count {
            let object = InvalidationTarget::Object(ObjectName::new("b", &format!("removed-{n}")));
            pending.note(&object).expect("it is recorded");
        }
        let (cache, of_task) = (self.cache.clone(), pending.clone());
        let replayed = Rc::new(Cell::new(false));
        let (done, begun) = (replayed.clone(), self.now);
        self.executor.spawner().spawn(async move {
            cache.replay_invalidations(&of_task).await.expect("the device is well");
            done.set(true);
        });
        let until = self.now + secs(600);
        self.run(until, || replayed.get());
        assert!(replayed.get() && pending.count() == 0, "{} are left", pending.count());
        self.now.since(begun)
    }

    /// Number of running tasks.
    pub(crate) fn tasks(&self) -> u32 {
        self.executor.spawner().running_count()
    }

    /// Asserts that nothing is in flight and no buffer or body is left after a minute.
    #[track_caller]
    pub(crate) fn assert_at_rest(&mut self) {
        self.pass(secs(60));
        assert_eq!((self.cache.under_way(), self.buffers_in_use()), (0, 0), "left over");
        assert!(self.origin.bodies.is_empty(), "a body was not closed");
    }

    /// Number of buffers in use.
    pub(crate) fn buffers_in_use(&self) -> u64 {
        self.ports.buffers.pool().in_use()
    }
}

/// Event loop of the test host.
struct Host<'a> {
    executor: &'a Executor,
    ports: &'a Ports,
    device: &'a mut RamDevice,
    device_hangs: bool,
    now: Nanos,
}

impl Host<'_> {
    fn step(&mut self, origin: &mut Origin) {
        if !self.turn(origin) {
            assert!(self.wait(origin, Nanos(u64::MAX)), "nothing is left that could happen");
        }
    }

    /// Runs one turn of the event loop. True when there was work.
    fn turn(&mut self, origin: &mut Origin) -> bool {
        let mut moved = 0 < self.executor.run(usize::MAX);
        while !self.device_hangs
            && let Some((ticket, command)) = self.ports.device.take()
        {
            moved = true;
            if let Err(command) = self.device.submit(self.now, ticket, command) {
                self.ports.device.put_back(ticket, command);
                break;
            }
        }
        while let Some((ticket, fetch)) = self.ports.origin.take() {
            moved = true;
            origin.start(self.now, ticket, fetch);
        }
        while let Some((ticket, completion)) = self.device.poll(self.now) {
            moved = true;
            self.ports.device.complete(ticket, completion);
        }
        while origin.next_event().is_some_and(|at| at <= self.now)
            && let Some((_, ticket, fetched)) = origin.answers.pop_front()
        {
            moved = true;
            self.ports.origin.complete(ticket, fetched);
        }
        moved
    }

    /// Advances the clock to the next event. False when there is none before `until`.
    fn wait(&mut self, origin: &Origin, until: Nanos) -> bool {
        let events = [self.executor.next_deadline(), self.device.next_event(), origin.next_event()];
        let next = events.into_iter().flatten().min().filter(|next| *next < until);
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        self.executor.advance(self.now);
        true
    }
}

/// Bytes that a reader has taken and may take.
#[derive(Default)]
struct Taps {
    may_take: Cell<u64>,
    taken: Cell<u64>,
    end: Cell<Option<Result<(), ReadError>>>,
    has_left: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Test's handle of a client whose speed the test controls.
pub(crate) struct Reader {
    taps: Rc<Taps>,
    object: ObjectName,
}

impl Reader {
    /// Allows the reader `bytes` more. It accepts the piece that crosses the limit whole.
    pub(crate) fn take(&self, bytes: u64) {
        self.taps.may_take.set(self.taps.may_take.get().saturating_add(bytes));
        if let Some(waker) = self.taps.waker.take() {
            waker.wake();
        }
    }

    /// The client hangs up.
    pub(crate) fn leave(&self) {
        self.taps.has_left.set(true);
        self.take(0);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taps.taken.get()
    }

    fn has_ended(&self) -> bool {
        self.taps.end.get().is_some()
    }

    #[track_caller]
    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.taps.end.get(), Some(Ok(())), "reading {}", self.object);
        assert_eq!(self.taken(), OBJECT_BYTES);
    }
}

/// The cache's side of the reader.
struct Tap(Rc<Taps>, ObjectName);

impl Consumer for Tap {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.0.has_left.get() {
            return Poll::Ready(Err(Gone));
        }
        if self.0.taken.get() < self.0.may_take.get() {
            return Poll::Ready(Ok(()));
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        if self.0.has_left.get() { Poll::Ready(Gone) } else { Poll::Pending }
    }

    fn accept(&mut self, piece: Piece) {
        match piece {
            Piece::Start { .. } => {}
            Piece::Data(bytes, _) => {
                self.check(&bytes);
                self.0.taken.set(self.0.taken.get() + bytes.len() as u64);
            }
            Piece::End => self.0.end.set(Some(Ok(()))),
            Piece::Failed(error) => self.0.end.set(Some(Err(error))),
        }
    }
}

impl Tap {
    #[track_caller]
    fn check(&self, bytes: &Frame) {
        let start = self.0.taken.get();
        for (at, byte) in (start..).zip(bytes).step_by(4096) {
            assert_eq!(*byte, frame(&self.1, at), "byte {at} of {}", self.1);
        }
    }
}

/// Converts seconds.
pub(crate) const fn secs(n: u64) -> Nanos {
    Nanos::secs(n)
}
