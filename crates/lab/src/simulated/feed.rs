//! Load generator: drawn keys, a trace replay, B-tree pages or CacheBench requests.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use zonal_base::{BLOCK_BYTES, Bytes, Nanos, Rng};
use zonal_zonelog::Record;

use crate::cachebench::{Operation, PoolRequest, Requests};
use crate::made::BTree;
use crate::trace::{self, Op, Reader, TraceError};
use crate::{Draw, Pace, Recorded};

/// Load that all readers of a cache share.
pub(crate) enum Load {
    /// Number of keys, and their distribution.
    Drawn(u64, Draw),
    /// Trace replay.
    Recorded(Box<Recording>),
    /// Page reads of a B-tree, without end.
    Pages(Box<BTree>),
    /// Requests of CacheBench.
    Pool(Box<Pool>),
}

/// Requests of CacheBench. A get reads a whole object. A set writes elsewhere, so here it removes
/// the object.
pub(crate) struct Pool {
    pub(crate) requests: Requests,
    pub(crate) chance: Rng,
    pub(crate) all: u64,
    pub(crate) left: u64,
    /// Time that each request costs the reader, before the reader sends it.
    pub(crate) cost: Nanos,
}

/// Next request of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) what: What,
    /// Earliest start, as time since the start of the load. `None`: at once.
    pub(crate) due: Option<Nanos>,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Get of a key.
    Key(u64),
    /// Get of an object: its size in whole blocks, and the first byte and the number of bytes that
    /// are asked for.
    Object(u64, Bytes, (u64, u64)),
    /// Removal of an object.
    Removal(u64),
}

/// A load, and the position of the readers in it.
pub(crate) struct Feed(Source);

enum Source {
    Drawn { all: u64, left: Cell<u64>, draw: Draw },
    Recorded(Box<RefCell<Recording>>),
    Pages(Box<RefCell<BTree>>),
    Pool(Box<RefCell<Pool>>),
}

impl Pool {
    fn next(&mut self) -> Option<Ask> {
        self.left = self.left.checked_sub(1)?;
        let PoolRequest { operation, key } = self.requests.next(&mut self.chance);
        let what = match operation {
            Operation::Get => {
                let size = as_stored(self.requests.bytes(key));
                What::Object(key, size, (0, size.0))
            }
            Operation::Set => What::Removal(key),
        };
        Some(Ask { what, due: None })
    }
}

impl Feed {
    pub(crate) fn new(load: Load) -> Self {
        Self(match load {
            Load::Drawn(all, draw) => Source::Drawn { all, left: Cell::new(all), draw },
            Load::Recorded(recording) => Source::Recorded(Box::new(RefCell::new(*recording))),
            Load::Pages(tree) => Source::Pages(Box::new(RefCell::new(*tree))),
            Load::Pool(pool) => Source::Pool(Box::new(RefCell::new(*pool))),
        })
    }

    /// Next request. `chance` is the random generator of the reader, and draws the keys.
    pub(crate) fn next(&self, chance: &mut Rng) -> Option<Ask> {
        match &self.0 {
            Source::Drawn { left, draw, .. } => {
                left.set(left.get().checked_sub(1)?);
                Some(Ask { what: What::Key(draw.key(chance)), due: None })
            }
            Source::Recorded(recording) => recording.borrow_mut().next(),
            Source::Pages(tree) => {
                let page = tree.borrow_mut().next_page(chance);
                Some(Ask { what: What::Key(page), due: None })
            }
            Source::Pool(pool) => pool.borrow_mut().next(),
        }
    }

    /// Time that each request costs the reader, before the reader sends it.
    pub(crate) fn cost(&self) -> Option<Nanos> {
        match &self.0 {
            Source::Pool(pool) => Some(pool.borrow().cost),
            _ => None,
        }
    }

    /// Finished fraction, from 0 to 1.
    pub(crate) fn done(&self) -> f64 {
        match &self.0 {
            Source::Drawn { all, left, .. } => 1.0 - left.get() as f64 / (*all).max(1) as f64,
            Source::Recorded(recording) => recording.borrow().done(),
            Source::Pages(_) => 0.0,
            Source::Pool(pool) => {
                let Pool { all, left, .. } = &*pool.borrow();
                1.0 - *left as f64 / (*all).max(1) as f64
            }
        }
    }

    /// Error that ended the load early.
    pub(crate) fn failure(&self) -> Option<String> {
        match &self.0 {
            Source::Drawn { .. } | Source::Pages(_) | Source::Pool(_) => None,
            Source::Recorded(recording) => recording.borrow().failure.clone(),
        }
    }

    /// Lookups in the B-tree whose pages are read. 0 for other loads.
    pub(crate) fn lookups(&self) -> u64 {
        match &self.0 {
            Source::Pages(tree) => tree.borrow().lookups(),
            Source::Drawn { .. } | Source::Recorded(_) | Source::Pool(_) => 0,
        }
    }
}

/// Requests per read of the file.
const BATCH: usize = 32 << 10;

/// Largest number of requests held of one second. A longer second is spread part by part.
const SECOND_MAX: usize = 1 << 20;

/// Position in a trace, which is read as requests are needed.
pub(crate) struct Recording {
    recorded: Recorded,
    reader: Reader,
    /// Size of every object, where the format has no sizes.
    size_of_all: Option<Bytes>,
    /// Requests of the file that may be read. `left` counts those not read yet.
    all: u64,
    left: u64,
    held: Vec<trace::Request>,
    /// Index in `held` of the next request. `copy` is its next copy.
    at: usize,
    copy: u32,
    /// Range in `held` of the second that contains `at`.
    second: Range<usize>,
    /// Times of the first request and of the last one read, in seconds.
    times_s: Option<(u32, u32)>,
    /// Due time of the previous request. No request is due before it.
    due: Nanos,
    failure: Option<String>,
}

impl Recording {
    /// Opens a trace. Where the format has no sizes, every object has the size of a chunk.
    ///
    /// # Errors
    /// When the file does not exist or cannot be read.
    pub(crate) fn open(recorded: &Recorded, chunk: Bytes) -> Result<Self, TraceError> {
        let all = recorded.requests.unwrap_or(u64::MAX);
        Ok(Self {
            recorded: recorded.clone(),
            reader: recorded.file().open()?,
            size_of_all: recorded.size_of_all(chunk),
            all,
            left: all,
            held: Vec::new(),
            at: 0,
            copy: 0,
            second: 0..0,
            times_s: None,
            due: Nanos(0),
            failure: None,
        })
    }

    fn next(&mut self) -> Option<Ask> {
        loop {
            if self.at == self.held.len() && !self.read_on() {
                return None;
            }
            let due = match self.recorded.pace {
                Pace::Full => None,
                Pace::Times(times) => Some(self.due(times)),
            };
            let request = self.held[self.at];
            let id = self.recorded.id_of(request.id, self.copy);
            self.copy += 1;
            if self.copy == self.recorded.copies {
                (self.at, self.copy) = (self.at + 1, 0);
            }
            if let Some(id) = id {
                return Some(Ask { what: self.what(id, &request), due });
            }
        }
    }

    fn what(&self, id: u64, request: &trace::Request) -> What {
        match (request.op, self.size_of_all) {
            (Op::Invalidate, _) => What::Removal(id),
            (Op::Read, Some(_)) if self.recorded.copies == 1 => What::Key(id),
            (Op::Read, size) => {
                What::Object(id, whole_blocks(size, request.size), blocks_read(size, request))
            }
        }
    }

    /// Due time of the next request. The requests of a second are spread evenly over it.
    fn due(&mut self, times: f64) -> Nanos {
        if self.second.end <= self.at {
            self.begin_second();
        }
        let (first, _) = self.times_s.expect("something was read");
        let seconds = f64::from(self.held[self.at].time_s.saturating_sub(first));
        let part = (self.at - self.second.start) as f64 / self.second.len() as f64;
        self.due = self.due.max(nanos((seconds + part) / times));
        self.due
    }

    /// Reads until the whole second of the next request is in `held`.
    fn begin_second(&mut self) {
        let time_s = self.held[self.at].time_s;
        let mut end = self.at;
        loop {
            let others = self.held[end..].iter().position(|request| request.time_s != time_s);
            end = others.map_or(self.held.len(), |at| end + at);
            if end < self.held.len() || SECOND_MAX <= end - self.at {
                break;
            }
            let known = end - self.at;
            let is_more = self.read_on();
            end = self.at + known;
            if !is_more {
                break;
            }
        }
        self.second = self.at..end;
    }

    /// Drops finished requests and reads more. False at the end of the trace.
    fn read_on(&mut self) -> bool {
        self.held.drain(..self.at);
        self.at = 0;
        self.second = 0..0;
        let mut more = Vec::with_capacity(BATCH);
        if let Err(failure) = self.reader.batch(&mut more, BATCH) {
            self.failure = Some(failure.to_string());
            more.clear();
        }
        more.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= more.len() as u64;
        if let Some((first, last)) = more.first().zip(more.last()) {
            let begun = self.times_s.map_or(first.time_s, |(begun, _)| begun);
            self.times_s = Some((begun, last.time_s));
        } else if self.failure.is_none() {
            self.failure = self.without_times();
        }
        let is_more = !more.is_empty();
        self.held.append(&mut more);
        is_more
    }

    /// Error for a paced replay in which all requests have the same time.
    fn without_times(&self) -> Option<String> {
        let (first, last) = self.times_s.filter(|_| self.recorded.pace != Pace::Full)?;
        let why = "all requests have the same time: omit pace";
        (first == last).then(|| self.reader.error(why.into()).to_string())
    }

    fn done(&self) -> f64 {
        let taken = (self.all - self.left) as f64 / self.all.max(1) as f64;
        taken.max(self.reader.done())
    }
}

/// Size of an object on flash: whole blocks, or packed with others if it is shorter than one.
/// Packed objects are bytes in a simulation too, and no tags: they need as much memory as flash.
fn as_stored(len: u32) -> Bytes {
    if Record::is_packed(len) { Bytes(len.into()) } else { whole_blocks(None, len.into()) }
}

/// Size of an object, rounded up to whole blocks.
fn whole_blocks(of_all: Option<Bytes>, own: u64) -> Bytes {
    let bytes = of_all.unwrap_or(Bytes(own));
    Bytes(bytes.blocks_ceil().0.max(1) * BLOCK_BYTES as u64)
}

/// First byte and number of bytes of a read, in whole blocks.
fn blocks_read(of_all: Option<Bytes>, request: &trace::Request) -> (u64, u64) {
    let all = whole_blocks(of_all, request.size).0;
    if of_all.is_some() || request.bytes == request.size {
        return (0, all);
    }
    let block = BLOCK_BYTES as u64;
    let first = request.offset / block * block;
    let end = request.offset.saturating_add(request.bytes).div_ceil(block) * block;
    let first = first.min(all - block);
    (first, end.clamp(first + block, all) - first)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are not negative"
)]
const fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests;
