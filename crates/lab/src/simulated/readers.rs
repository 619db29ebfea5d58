//! Readers in closed loops: each asks for some bytes, looks at what comes, and asks for the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use zonal_base::{BLOCK_BYTES, Nanos, Rng, Tag};
use zonal_cache::{Cache, Care, Consumer, Freshness, Gone, ObjectName, Piece, STRIPE};
use zonal_runtime::{Clock, Executor};

use super::Settings;
use super::measures::{Measures, Timed};
use super::origin::{OBJECT, name_of, tag_at};
use crate::Draw;

pub(super) struct Readers {
    get: u64,
    tasks: usize,
    seeds: RefCell<Rng>,
    /// By number; made when they are first asked for.
    names: RefCell<Vec<ObjectName>>,
    tally: RefCell<Tally>,
    measures: RefCell<Option<Measures>>,
}

/// Readers that were started together.
pub(super) struct Entered {
    /// Gets that nobody has begun.
    pub(super) left: Cell<u64>,
    pub(super) running: Cell<usize>,
}

#[derive(Debug, Default)]
struct Tally {
    gets: u64,
    hits: u64,
    /// The first thing that went wrong.
    wrong: Option<String>,
}

/// What one get wants of a stripe, and where its bytes go: nowhere, once their tags were looked at.
struct Want {
    readers: Rc<Readers>,
    /// What the get has come to.
    seen: Rc<Cell<Seen>>,
    object: u64,
    /// The next byte that is to come.
    at: u64,
}

/// What a get has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    asked_origin: bool,
    /// Stripes that came to their end.
    ended: u64,
}

impl Readers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            get: settings.get.0,
            tasks: settings.tasks,
            seeds: RefCell::new(Rng::new(settings.seed)),
            names: RefCell::default(),
            tally: RefCell::default(),
            measures: RefCell::default(),
        }
    }

    pub(super) fn measure(&self, measures: Measures) {
        *self.measures.borrow_mut() = Some(measures);
    }

    pub(super) fn take_measures(&self) -> Option<Measures> {
        self.measures.take()
    }

    /// Starts all readers; together they do `count` gets.
    pub(super) fn enter(
        self: &Rc<Self>,
        executor: &Executor,
        cache: &Cache,
        (count, draw): (u64, Draw),
    ) -> Rc<Entered> {
        let (left, running) = (Cell::new(count), Cell::new(self.tasks));
        let entered = Rc::new(Entered { left, running });
        for _ in 0..self.tasks {
            let mut rng = Rng::new(self.seeds.borrow_mut().next_u64());
            let (readers, cache) = (self.clone(), cache.clone());
            let clock = executor.clock().clone();
            let entered = entered.clone();
            executor.spawner().spawn(async move {
                while let Some(rest) = entered.left.get().checked_sub(1) {
                    entered.left.set(rest);
                    readers.get(&cache, draw.key(&mut rng), &clock).await;
                }
                entered.running.set(entered.running.get() - 1);
            });
        }
        entered
    }

    /// Gets done and hits among them, since the last time.
    pub(super) fn take_tally(&self) -> Result<(u64, u64), String> {
        let Tally { gets, hits, wrong } = self.tally.take();
        wrong.map_or(Ok((gets, hits)), Err)
    }

    async fn get(self: &Rc<Self>, cache: &Cache, key: u64, clock: &Clock) {
        let begun = clock.now();
        let per_object = OBJECT.0 / self.get;
        let (number, at) = (key / per_object, key % per_object * self.get);
        let object = self.name(number);
        let head = match cache.open(&object, Freshness::Immutable, Care::Usual).await {
            Ok(opened) => opened.head,
            Err(error) => return self.note(&format!("{object}: {error:?}")),
        };
        let seen = Rc::new(Cell::new(Seen::default()));
        let mut range = at..at + self.get;
        let stripes = self.get.div_ceil(STRIPE.0);
        while range.start < range.end {
            let end = range.end.min((range.start / STRIPE.0 + 1) * STRIPE.0);
            let (readers, seen) = (self.clone(), seen.clone());
            let want = Want { readers, seen, object: number, at: range.start };
            cache.read(&object, &head, range.start..end, Care::Usual, Box::new(want)).await;
            range.start = end;
        }
        if seen.get().ended == stripes {
            self.count(!seen.get().asked_origin, begun, clock.now());
        }
    }

    fn count(&self, is_hit: bool, begun: Nanos, now: Nanos) {
        let mut tally = self.tally.borrow_mut();
        tally.gets += 1;
        tally.hits += u64::from(is_hit);
        if let Some(measures) = &mut *self.measures.borrow_mut() {
            let took = now.since(begun);
            measures.time(Timed::Get, took);
            measures.time(if is_hit { Timed::Hit } else { Timed::Miss }, took);
            measures.stretch_at(now).got += self.get;
        }
    }

    fn name(&self, object: u64) -> ObjectName {
        if let Some(name) = self.names.borrow().get(zonal_base::index(object)) {
            return name.clone();
        }
        let mut names = self.names.borrow_mut();
        let have = names.len() as u64;
        names.extend((have..=object).map(name_of));
        names[zonal_base::index(object)].clone()
    }

    fn note(&self, wrong: &str) {
        self.tally.borrow_mut().wrong.get_or_insert_with(|| wrong.into());
    }
}

impl Want {
    fn look_at(&mut self, bytes: &Bytes) {
        let tag = bytes.first_chunk().copied().map(Tag::decode);
        let is_whole = self.at.is_multiple_of(BLOCK_BYTES as u64);
        if !is_whole || tag != Some(tag_at(self.object, self.at)) {
            self.readers.note(&format!("object {}: wrong bytes at {}", self.object, self.at));
        }
        self.at += bytes.len() as u64;
    }
}

impl Consumer for Want {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    fn accept(&mut self, piece: Piece) {
        let mut seen = self.seen.get();
        match piece {
            Piece::Start { all_cached, .. } => seen.asked_origin |= !all_cached,
            Piece::Data(bytes) => self.look_at(&bytes),
            Piece::End => seen.ended += 1,
            Piece::Failed(error) => {
                self.readers.note(&format!("object {}: {error:?}", self.object));
            }
        }
        self.seen.set(seen);
    }
}
