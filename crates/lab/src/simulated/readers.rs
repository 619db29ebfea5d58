//! Readers in closed loops: each asks for a chunk, looks at what comes, and asks for the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use zonal_base::{BLOCK_BYTES, Rng, Tag};
use zonal_cache::{Cache, Care, Consumer, Freshness, Gone, ObjectName, Piece};
use zonal_runtime::Executor;

use super::Settings;
use super::origin::{OBJECT, name_of, tag_at};
use crate::Draw;

pub(super) struct Readers {
    chunk: u64,
    tasks: usize,
    seeds: RefCell<Rng>,
    /// By number; made when they are first asked for.
    names: RefCell<Vec<ObjectName>>,
    tally: RefCell<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    gets: u64,
    hits: u64,
    /// The first thing that went wrong.
    wrong: Option<String>,
}

/// What one get wants, and where its bytes go: nowhere, once their tags were looked at.
struct Want {
    readers: Rc<Readers>,
    object: u64,
    /// The next byte that is to come.
    at: u64,
}

impl Readers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            chunk: settings.chunk.0,
            tasks: settings.tasks,
            seeds: RefCell::new(Rng::new(settings.seed)),
            names: RefCell::default(),
            tally: RefCell::default(),
        }
    }

    /// Starts all readers; together they get `count` chunks. How many still run is in the cell.
    pub(super) fn enter(
        self: &Rc<Self>,
        executor: &Executor,
        cache: &Cache,
        (count, draw): (u64, Draw),
    ) -> Rc<Cell<usize>> {
        let (left, running) = (Rc::new(Cell::new(count)), Rc::new(Cell::new(self.tasks)));
        for _ in 0..self.tasks {
            let mut rng = Rng::new(self.seeds.borrow_mut().next_u64());
            let (readers, cache) = (self.clone(), cache.clone());
            let (left, running) = (left.clone(), running.clone());
            executor.spawner().spawn(async move {
                while let Some(rest) = left.get().checked_sub(1) {
                    left.set(rest);
                    readers.get(&cache, draw.key(&mut rng)).await;
                }
                running.set(running.get() - 1);
            });
        }
        running
    }

    /// Gets done and hits among them, since the last time.
    pub(super) fn take_tally(&self) -> Result<(u64, u64), String> {
        let Tally { gets, hits, wrong } = self.tally.take();
        wrong.map_or(Ok((gets, hits)), Err)
    }

    async fn get(self: &Rc<Self>, cache: &Cache, chunk: u64) {
        let per_object = OBJECT.0 / self.chunk;
        let (number, at) = (chunk / per_object, chunk % per_object * self.chunk);
        let object = self.name(number);
        let head = match cache.open(&object, Freshness::Immutable, Care::Usual).await {
            Ok(opened) => opened.head,
            Err(error) => return self.note(&format!("{object}: {error:?}")),
        };
        let want = Want { readers: self.clone(), object: number, at };
        cache.read(&object, &head, at..at + self.chunk, Care::Usual, Box::new(want)).await;
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
        match piece {
            Piece::Start { all_cached, .. } => {
                self.readers.tally.borrow_mut().hits += u64::from(all_cached);
            }
            Piece::Data(bytes) => self.look_at(&bytes),
            Piece::End => self.readers.tally.borrow_mut().gets += 1,
            Piece::Failed(error) => {
                self.readers.note(&format!("object {}: {error:?}", self.object));
            }
        }
    }
}
