//! Who reads and writes: readers of every speed and patience, writers through the gateway and past it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use zonal_base::{Lba, Nanos, Rng, ZoneId};
use zonal_cache::{Cache, Consumer, Freshness, Gone, ObjectName, OpenError, Piece, ReadError};
use zonal_device::Geometry;
use zonal_runtime::{Clock, Event, Sleep, Spawner};

use crate::oracle::{Answered, Content, Tag, judge};
use crate::origin::{Objects, names};
use crate::world::Fault;

/// What all actors of one world share.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    pub(crate) spawner: Spawner,
    pub(crate) objects: Objects,
    pub(crate) violation: Rc<RefCell<Option<String>>>,
    pub(crate) acting: Rc<Cell<u32>>,
    pub(crate) tally: Rc<RefCell<Tally>>,
    pub(crate) largest: u64,
}

/// What a history did: a simulation that does nothing finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    pub(crate) reads_cached: u64,
    pub(crate) reads_failed: u64,
    pub(crate) writes: u64,
}

impl Stage {
    /// Starts `actor`; the history waits for its end.
    pub(crate) fn enter(&self, actor: impl Future<Output = ()> + 'static) {
        self.acting.set(self.acting.get() + 1);
        let acting = self.acting.clone();
        self.spawner.spawn(async move {
            actor.await;
            acting.set(acting.get() - 1);
        });
    }

    fn accuse(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    async fn pause(&self, rng: &mut Rng, most: Nanos) {
        let at = self.clock.now() + Nanos(rng.below(most.0) + 1);
        self.clock.sleep_until(at).await;
    }

    /// Popular objects are drawn more often: the minimum of two draws.
    fn draw(&self, rng: &mut Rng) -> ObjectName {
        let names = names(&self.objects);
        let count = names.len() as u64;
        let at = rng.below(count).min(rng.below(count));
        names[usize::try_from(at).unwrap_or(0)].clone()
    }
}

/// Reads ranges of objects, one after the other.
pub(crate) async fn reader(stage: Stage, mut rng: Rng, reads: u64) {
    for _ in 0..reads {
        stage.pause(&mut rng, Nanos::millis(4)).await;
        let name = stage.draw(&mut rng);
        let freshness = match rng.below(4) {
            0 => Freshness::Immutable,
            1 => Freshness::Ttl(Nanos::millis(rng.below(200))),
            _ => Freshness::Revalidate { window: Nanos(rng.below(2) * 1_000_000) },
        };
        read(&stage, &mut rng, &name, freshness).await;
    }
}

/// Versions that may vanish under one read.
const OPENS_MAX: u32 = 4;

async fn read(stage: &Stage, rng: &mut Rng, name: &ObjectName, freshness: Freshness) {
    let begun = stage.objects.borrow()[name].clone();
    let mut freshness = freshness;
    for _ in 0..OPENS_MAX {
        let patience = Nanos(rng.below(30_000_000));
        let opening = stage.cache.open(name, freshness);
        let opened = match rng.one_in(12) {
            true => within(&stage.clock, patience, opening).await,
            false => Some(opening.await),
        };
        let head = match opened.unwrap_or(Err(OpenError::Overloaded)) {
            Ok(opened) => opened.head,
            Err(OpenError::NotFound) => {
                let object = &stage.objects.borrow()[name];
                if !object.was_deleted {
                    stage.accuse(format!("object {}: not found, but it was there", object.id));
                }
                return;
            }
            Err(_) => return,
        };
        if begun.tag != Tag::Strong {
            stage.accuse(format!("object {}: cached without a strong ETag", begun.id));
        }
        let range = draw_range(rng, head.size);
        let (consumer, heard) = Ear::new(stage.clock.clone(), rng);
        let (cache, reading, read_head) = (stage.cache.clone(), name.clone(), head.clone());
        let wanted = range.clone();
        // A task of its own, as in the real host; some are dropped in the middle.
        let drop_after = rng.one_in(12).then(|| Nanos(rng.below(4_000_000)));
        let clock = stage.clock.clone();
        stage.spawner.spawn(async move {
            let reading = cache.read(&reading, &read_head, wanted, Box::new(consumer));
            match drop_after {
                Some(patience) => drop(within(&clock, patience, reading).await),
                None => reading.await,
            }
        });
        let end = heard.end().await;
        let bytes = heard.bytes.borrow();
        let got = range.start..range.start + bytes.len() as u64;
        let is_whole = matches!(end, End::Whole);
        let answered = Answered {
            head: &head,
            range: if is_whole { range.clone() } else { got },
            bytes: &bytes,
            oldest_allowed: begun.oldest_allowed,
        };
        let verdict = judge(&stage.objects.borrow()[name], &answered);
        let mut tally = stage.tally.borrow_mut();
        tally.reads += 1;
        tally.reads_cached += u64::from(heard.all_cached.get());
        tally.reads_failed += u64::from(!is_whole);
        drop(tally);
        if let Err(what) = verdict {
            stage.accuse(what);
        }
        if !matches!(end, End::Failed(ReadError::Changed)) {
            return;
        }
        freshness = Freshness::Revalidate { window: Nanos(0) };
    }
}

fn draw_range(rng: &mut Rng, size: u64) -> std::ops::Range<u64> {
    if size == 0 || rng.one_in(5) {
        return 0..size;
    }
    let (a, b) = (rng.below(size), rng.below(size));
    a.min(b)..a.max(b) + 1
}

/// Overwrites, deletes and repairs objects: through the gateway, or behind its back.
pub(crate) async fn writer(stage: Stage, mut rng: Rng, writes: u64) {
    for _ in 0..writes {
        stage.pause(&mut rng, Nanos::millis(20)).await;
        let name = stage.draw(&mut rng);
        let size = draw_size(&mut rng, stage.largest);
        stage.tally.borrow_mut().writes += 1;
        match rng.below(7) {
            6 => {
                // The client of a write goes away: nothing is acknowledged.
                let patience = Nanos(rng.below(400_000));
                let _ = within(&stage.clock, patience, stage.cache.remove(&name)).await;
            }
            0 => drop(change(&stage, &name, |object| object.overwrite(size))),
            1 => purge_repaired(&stage, &mut rng, &name).await,
            2 => delete(&stage, &mut rng, &name).await,
            _ => overwrite(&stage, &mut rng, &name, size).await,
        }
    }
}

pub(crate) fn draw_size(rng: &mut Rng, largest: u64) -> u64 {
    match rng.below(8) {
        0 => rng.below(3),
        1 => rng.below(4096) + 1,
        _ => rng.below(largest) + 1,
    }
}

fn change<T>(
    stage: &Stage,
    name: &ObjectName,
    by: impl FnOnce(&mut crate::oracle::Object) -> T,
) -> Option<T> {
    stage.objects.borrow_mut().get_mut(name).map(by)
}

/// A PUT as the gateway does it: remove, forward, remove, acknowledge.
async fn overwrite(stage: &Stage, rng: &mut Rng, name: &ObjectName, size: u64) {
    if stage.cache.remove(name).await.is_err() {
        return;
    }
    stage.pause(rng, Nanos::millis(5)).await;
    let content = change(stage, name, |object| object.overwrite(size));
    stage.pause(rng, Nanos::millis(5)).await;
    acknowledge(stage, name, content).await;
}

async fn delete(stage: &Stage, rng: &mut Rng, name: &ObjectName) {
    if stage.cache.remove(name).await.is_err() {
        return;
    }
    stage.pause(rng, Nanos::millis(5)).await;
    let next = change(stage, name, |object| {
        object.now = None;
        object.was_deleted = true;
        Content { version: object.next_version, repair: 0, size: 0 }
    });
    acknowledge(stage, name, next).await;
    stage.pause(rng, Nanos::millis(20)).await;
    let size = draw_size(rng, stage.largest);
    change(stage, name, |object| object.now.is_none().then(|| object.overwrite(size)));
}

/// Bad bytes at the origin were replaced under the same ETag; the operator purges the cache.
async fn purge_repaired(stage: &Stage, rng: &mut Rng, name: &ObjectName) {
    let content = change(stage, name, crate::oracle::Object::repair).flatten();
    stage.pause(rng, Nanos::millis(5)).await;
    acknowledge(stage, name, content).await;
}

/// What comes of `future` if that comes in time; if not, it is dropped.
async fn within<T>(clock: &Clock, patience: Nanos, future: impl Future<Output = T>) -> Option<T> {
    let mut sleep = clock.sleep_until(clock.now() + patience);
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| None),
    })
    .await
}

async fn acknowledge(stage: &Stage, name: &ObjectName, content: Option<Content>) {
    if stage.cache.remove(name).await.is_ok()
        && let Some(content) = content
    {
        change(stage, name, |object| object.acknowledged(content));
    }
}

/// Breaks the device now and then.
pub(crate) async fn saboteur(
    stage: Stage,
    mut rng: Rng,
    geometry: Geometry,
    faults: Rc<RefCell<Vec<Fault>>>,
    count: u64,
) {
    for _ in 0..count {
        stage.pause(&mut rng, Nanos::millis(120)).await;
        let zone = ZoneId(zonal_base::low_u32(zonal_base::index(
            rng.below(u64::from(geometry.zone_count)),
        )));
        let start = geometry.zone_start(zone);
        let lba = Lba(start.0 + rng.below(geometry.zone_capacity.0));
        let fault = match rng.below(24) {
            0 => Fault::Gone,
            1 => Fault::Offline(zone),
            2..6 => Fault::FailNextWrite(zone),
            6..14 => Fault::Unreadable(lba),
            _ => Fault::FlipBit(lba, u32::from(rng.next_u64().to_le_bytes()[0])),
        };
        faults.borrow_mut().push(fault);
    }
}

/// How a read ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Whole,
    Failed(ReadError),
    /// The reader went away.
    Left,
}

/// What a reader heard.
#[derive(Default)]
struct Heard {
    bytes: RefCell<Vec<u8>>,
    all_cached: Cell<bool>,
    end: Cell<Option<End>>,
    ended: Event,
}

impl Heard {
    async fn end(&self) -> End {
        loop {
            if let Some(end) = self.end.get() {
                return end;
            }
            self.ended.wait().await;
        }
    }

    fn set_end(&self, end: End) {
        self.end.set(Some(end));
        self.ended.notify_all();
    }
}

/// A reader's ear: fast, slow, or about to go away.
struct Ear {
    heard: Rc<Heard>,
    clock: Clock,
    /// Pause after each piece.
    slowness: Nanos,
    /// Pieces after which the reader goes away.
    patience: u64,
    resting: Option<Pin<Box<Sleep>>>,
}

impl Ear {
    fn new(clock: Clock, rng: &mut Rng) -> (Self, Rc<Heard>) {
        let heard = Rc::<Heard>::default();
        let slowness = if rng.one_in(4) { Nanos(rng.below(3_000_000)) } else { Nanos(0) };
        let patience = if rng.one_in(10) { rng.below(6) } else { u64::MAX };
        let ear = Self { heard: heard.clone(), clock, slowness, patience, resting: None };
        (ear, heard)
    }
}

impl Consumer for Ear {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.patience == 0 {
            self.heard.set_end(End::Left);
            return Poll::Ready(Err(Gone));
        }
        match &mut self.resting {
            Some(sleep) => sleep.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }

    fn accept(&mut self, piece: Piece) {
        self.patience -= 1;
        let rest = self.clock.now() + self.slowness;
        self.resting = (Nanos(0) < self.slowness).then(|| Box::pin(self.clock.sleep_until(rest)));
        match piece {
            Piece::Start { all_cached, .. } => self.heard.all_cached.set(all_cached),
            Piece::Data(bytes) => self.heard.bytes.borrow_mut().extend_from_slice(&bytes),
            Piece::End => self.heard.set_end(End::Whole),
            Piece::Failed(error) => self.heard.set_end(End::Failed(error)),
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if self.heard.end.get().is_none() {
            self.heard.set_end(End::Left);
        }
    }
}
