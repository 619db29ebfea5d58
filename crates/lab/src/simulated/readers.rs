//! Readers: each requests bytes, verifies them, and sends the next request at once or when it is
//! due.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use zonal_base::{BLOCK_BYTES, Nanos, Rng, Tag, index, mix64};
use zonal_cache::{
    Cache, Consumer, Freshness, Gone, HeadSource, InitialFetch, ObjectName, Opened, Piece,
    PieceSource, ReadError, ReadHints, RetentionClass, STRIPE,
};
use zonal_policy::SampleRank;
use zonal_runtime::{Clock, Executor};
use zonal_watch::{Request, Watched};

use super::SimulationSettings;
use super::feed::{Feed, Load, What};
use super::measures::Measures;
use super::origin::{Called, OBJECT, Wanted};

pub(super) struct Readers {
    get: u64,
    tasks: usize,
    seeds: RefCell<Rng>,
    lots: RefCell<Rng>,
    wanted: Wanted,
    clock: Clock,
    /// Names of the objects that hold keys, by number, created on first use.
    names: RefCell<Vec<ObjectName>>,
    tally: RefCell<Tally>,
    measures: RefCell<Option<Measures>>,
    watched: RefCell<Watched>,
    /// Bytes that the cache had read from and written to the drive at the last answered get.
    of_drive: Cell<(u64, u64)>,
}

/// Readers that started together.
pub(super) struct Entered {
    pub(super) feed: Feed,
    pub(super) running: Cell<usize>,
}

/// Names of key objects that are kept: 1 PiB of keys.
const NAMES_MAX: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Tally {
    gets: u64,
    hits: u64,
    bytes: u64,
    /// The first error.
    wrong: Option<String>,
}

/// Consumer of a get's bytes in one stripe. It verifies their tags and drops them.
struct Want {
    readers: Rc<Readers>,
    /// State of the get.
    seen: Rc<Cell<GetOutcome>>,
    object: Called,
    /// Size of the object's version in bytes.
    size: u64,
    /// Offset of the next byte.
    at: u64,
}

/// Answer to a get.
#[derive(Clone, Copy, Debug)]
struct Came {
    bytes: u64,
    /// No request went to the origin.
    is_hit: bool,
    /// Time of the first bytes; `None` if there were none.
    first_byte: Option<Nanos>,
    /// The slowest source of the bytes.
    from: PieceSource,
}

/// State of a get.
#[derive(Clone, Copy, Debug, Default)]
struct GetOutcome {
    asked_origin: bool,
    first_byte: Option<Nanos>,
    from: Option<PieceSource>,
    /// Stripes that are complete.
    ended: u64,
    /// The origin has another version.
    is_changed: bool,
}

/// Why a read has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// The origin has another version.
    Changed,
    /// The error is in the tally.
    Failed,
}

/// Attempts to read an object that changes.
const TRIES: u32 = 8;

impl Readers {
    pub(super) fn new(settings: &SimulationSettings, wanted: Wanted, clock: Clock) -> Self {
        Self {
            get: settings.get.0,
            tasks: settings.tasks,
            seeds: RefCell::new(Rng::new(settings.seed)),
            lots: RefCell::new(Rng::new(mix64(settings.seed))),
            wanted,
            clock,
            names: RefCell::default(),
            tally: RefCell::default(),
            measures: RefCell::default(),
            watched: RefCell::default(),
            of_drive: Cell::default(),
        }
    }

    pub(super) fn measure(&self, cache: &Cache, measures: Measures) {
        self.of_drive.set(of_drive(cache));
        *self.measures.borrow_mut() = Some(measures);
    }

    pub(super) fn show(&self, watched: &Watched) {
        *self.watched.borrow_mut() = watched.clone();
    }

    pub(super) fn take_measures(&self) -> Option<Measures> {
        self.measures.take()
    }

    /// Starts all readers. Together they run the whole load.
    pub(super) fn enter(
        self: &Rc<Self>,
        executor: &Executor,
        cache: &Cache,
        load: Load,
    ) -> Rc<Entered> {
        let entered = Rc::new(Entered { feed: Feed::new(load), running: Cell::new(self.tasks) });
        let entered_at = self.clock.now();
        for _ in 0..self.tasks {
            let mut rng = Rng::new(self.seeds.borrow_mut().next_u64());
            let (readers, cache) = (self.clone(), cache.clone());
            let (clock, entered) = (self.clock.clone(), entered.clone());
            executor.spawner().spawn(async move {
                while let Some(ask) = entered.feed.next(&mut rng) {
                    let due = ask.due.map(|due| entered_at + due);
                    if let Some(due) = due {
                        clock.sleep_until(due).await;
                    }
                    if let Some(cost) = entered.feed.cost() {
                        clock.sleep_until(clock.now() + cost).await;
                    }
                    // A late request has waited since it was due: no reader was free to send it.
                    let begun = due.unwrap_or_else(|| clock.now());
                    readers.answer(&cache, ask.what, begun).await;
                }
                entered.running.set(entered.running.get() - 1);
            });
        }
        entered
    }

    /// Gets, hits and bytes since the last call.
    pub(super) fn take_tally(&self) -> Result<(u64, u64, u64), String> {
        let Tally { gets, hits, bytes, wrong } = self.tally.take();
        wrong.map_or(Ok((gets, hits, bytes)), Err)
    }

    async fn answer(self: &Rc<Self>, cache: &Cache, what: What, begun: Nanos) {
        let came = match what {
            What::Key(key) => {
                let per_object = OBJECT.0 / self.get;
                let (number, at) = (key / per_object, key % per_object * self.get);
                self.part(cache, number, at..at + self.get).await
            }
            What::Object(id, size, asked) => {
                self.wanted.enter(id, size);
                let came = self.object(cache, Called::Own(id), size.0, asked).await;
                self.wanted.leave(id);
                came
            }
            What::Removal(id) => {
                let object = Called::Own(id).name();
                if let Err(error) = cache.remove(&object).await {
                    self.note(&format!("{object}: {error}"));
                }
                return;
            }
        };
        if let Some(came) = came {
            self.count(cache, came, begun);
        }
    }

    /// Reads from an object of this size: the first byte and the number of bytes are `asked`. If
    /// the cache knows another size, it revalidates with the origin.
    async fn object(
        self: &Rc<Self>,
        cache: &Cache,
        object: Called,
        size: u64,
        asked: (u64, u64),
    ) -> Option<Came> {
        let name = object.name();
        let mut opened = self.open(cache, &name, Freshness::Immutable).await?;
        // Others may read another version meanwhile, and the origin has one at a time. A client
        // begins again, as often as is likely to help.
        for _ in 0..TRIES {
            if opened.head.size != size {
                opened = self.open(cache, &name, Freshness::Revalidate).await?;
            }
            let (first, bytes) =
                if opened.head.size == size { asked } else { (0, opened.head.size) };
            match self.read(cache, object, (&name, &opened), first..first + bytes).await {
                Ok(mut came) => {
                    came.is_hit &= opened.found == HeadSource::Hit;
                    return Some(came);
                }
                Err(Unread::Changed) => {
                    opened = self.open(cache, &name, Freshness::Revalidate).await?;
                }
                Err(Unread::Failed) => return None,
            }
        }
        None
    }

    /// Reads a range of an object that holds keys.
    async fn part(self: &Rc<Self>, cache: &Cache, number: u64, range: Range<u64>) -> Option<Came> {
        let name = self.name(number);
        let opened = self.open(cache, &name, Freshness::Immutable).await?;
        let read = self.read(cache, Called::OfKeys(number), (&name, &opened), range).await;
        if let Err(Unread::Changed) = read {
            self.note(&format!("{name}: changed, but objects of keys never do"));
        }
        read.ok()
    }

    async fn open(&self, cache: &Cache, name: &ObjectName, fresh: Freshness) -> Option<Opened> {
        match cache.open(name, fresh, RetentionClass::Usual).await {
            Ok(opened) => Some(opened),
            Err(error) => {
                self.note(&format!("{name}: {error:?}"));
                None
            }
        }
    }

    async fn read(
        self: &Rc<Self>,
        cache: &Cache,
        object: Called,
        (name, opened): (&ObjectName, &Opened),
        range: Range<u64>,
    ) -> Result<Came, Unread> {
        let seen = Rc::new(Cell::new(GetOutcome::default()));
        let keeping = ReadHints {
            is_confirmed: opened.found.is_confirmed(),
            retention: RetentionClass::Usual,
            rank: SampleRank::of(self.lots.borrow_mut().next_u64()),
        };
        let (mut rest, mut stripes) = (range.clone(), 0);
        while rest.start < rest.end {
            let end = rest.end.min((rest.start / STRIPE.0 + 1) * STRIPE.0);
            let (readers, seen) = (self.clone(), seen.clone());
            let size = opened.head.size;
            let want = Want { readers, seen, object, size, at: rest.start };
            let range = (rest.start..end, InitialFetch::None);
            cache.read(name, &opened.head, range, keeping, Box::new(want)).await;
            (rest.start, stripes) = (end, stripes + 1);
        }
        let seen = seen.get();
        match seen.ended == stripes {
            true => Ok(Came {
                bytes: range.end - range.start,
                is_hit: !seen.asked_origin,
                first_byte: seen.first_byte,
                from: seen.from.unwrap_or(PieceSource::Memory),
            }),
            false if seen.is_changed => Err(Unread::Changed),
            false => Err(Unread::Failed),
        }
    }

    fn count(&self, cache: &Cache, came: Came, begun: Nanos) {
        let (Came { bytes, is_hit, first_byte, from }, now) = (came, self.clock.now());
        let first_byte = first_byte.unwrap_or(now);
        let request = Request::Get { from, is_hit };
        let size = zonal_base::Bytes(bytes);
        self.watched.borrow().answered(request, size, first_byte.since(begun));
        let mut tally = self.tally.borrow_mut();
        tally.gets += 1;
        tally.hits += u64::from(is_hit);
        tally.bytes += bytes;
        if let Some(measures) = &mut *self.measures.borrow_mut() {
            measures.note_get(bytes, is_hit, (begun, now));
            let (read, written) = of_drive(cache);
            let (read_before, written_before) = self.of_drive.replace((read, written));
            let stretch = measures.stretch_at(now);
            stretch.read += read - read_before;
            stretch.written += written - written_before;
        }
    }

    fn name(&self, object: u64) -> ObjectName {
        if NAMES_MAX <= object {
            return Called::OfKeys(object).name();
        }
        if let Some(name) = self.names.borrow().get(index(object)) {
            return name.clone();
        }
        let mut names = self.names.borrow_mut();
        let have = names.len() as u64;
        names.extend((have..=object).map(|number| Called::OfKeys(number).name()));
        names[index(object)].clone()
    }

    fn note(&self, wrong: &str) {
        self.tally.borrow_mut().wrong.get_or_insert_with(|| wrong.into());
    }
}

fn of_drive(cache: &Cache) -> (u64, u64) {
    let stats = cache.log().stats();
    (stats.device_read_bytes, stats.device_written_bytes)
}

impl Want {
    fn look_at(&mut self, bytes: &Bytes) {
        let tag = bytes.first_chunk().copied().map(Tag::decode);
        let is_whole = self.at.is_multiple_of(BLOCK_BYTES as u64);
        if !is_whole || tag != Some(self.object.tag_at(self.size, self.at)) {
            self.readers.note(&format!("{}: wrong bytes at {}", self.object.name(), self.at));
        }
        self.at += bytes.len() as u64;
    }
}

impl Consumer for Want {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<Gone> {
        Poll::Pending
    }

    fn accept(&mut self, piece: Piece) {
        let mut seen = self.seen.get();
        match piece {
            Piece::Start { all_cached, .. } => seen.asked_origin |= !all_cached,
            Piece::Data(bytes, from) => {
                seen.from = seen.from.max(Some(from));
                seen.first_byte.get_or_insert_with(|| self.readers.clock.now());
                self.look_at(&bytes);
            }
            Piece::End => seen.ended += 1,
            Piece::Failed(ReadError::Changed) => seen.is_changed = true,
            Piece::Failed(error) => {
                self.readers.note(&format!("{}: {error:?}", self.object.name()));
            }
        }
        self.seen.set(seen);
    }
}
