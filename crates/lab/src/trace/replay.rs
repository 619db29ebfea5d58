//! Parallel trace replay: feeds one trace to several contenders on all cores.
//!
//! The trace is read and decompressed once. Each batch of requests is one task per contender. A
//! free core takes the task that is furthest behind, so all cores are busy as long as there are
//! contenders. One thread at a time runs a contender, and a contender sees every request in order.
//! The result therefore does not depend on the number of cores.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::future::Future;
use super::reader::Reader;
use super::{Contender, Op, ReplayTally, Request, Trace, TraceError};

/// Requests per batch: 768 KiB, which fit into a core's cache.
pub(super) const BATCH: usize = 16 << 10;

/// Batches in memory, 6 MiB: the maximum lead of the fastest contender over the slowest.
const WINDOW: usize = 8;

/// Replays a trace from its beginning on each contender, on all cores. Tallies are in the order of
/// the contenders.
///
/// Memory: 6 MiB plus the contenders; four more bytes per request if one of them needs the future.
/// The reading thread calls `on_progress` with the share done, from 0 to 1.
///
/// # Errors
/// When the trace cannot be read to its end, or has no reads.
pub fn replay(
    trace: &Trace,
    contenders: Vec<Box<dyn Contender>>,
    on_progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<ReplayTally>, TraceError> {
    replay_while(trace, contenders, &|done| {
        on_progress(done);
        true
    })
}

/// As [`replay()`], but ends early once `goes_on` returns false. The contenders have then replayed
/// the same first part of the trace, one batch at least.
pub(crate) fn replay_while(
    trace: &Trace,
    contenders: Vec<Box<dyn Contender>>,
    goes_on: &(dyn Fn(f64) -> bool + Sync),
) -> Result<Vec<ReplayTally>, TraceError> {
    // Without contenders the window would never drain.
    if contenders.is_empty() {
        return Ok(Vec::new());
    }
    let needs_future = contenders.iter().any(|contender| contender.needs_future());
    // With two passes, each counts as half of the progress.
    let (before, share) = if needs_future { (0.5, 0.5) } else { (0.0, 1.0) };
    let future = match needs_future {
        true => Future::of(trace, &|done| {
            goes_on(done * before);
        })?,
        false => Future::default(),
    };
    let seats = contenders
        .into_iter()
        .map(|contender| Seat { taken: 0, contender: Some((contender, ReplayTally::default())) });
    let source = Source { reader: trace.open()?, future, position: 0, has_reads: false };
    let stage = Stage {
        state: Mutex::new(State {
            seats: seats.collect(),
            window: VecDeque::new(),
            first: 0,
            source: Some(source),
            error: None,
            is_over: false,
            is_abandoned: false,
        }),
        changed: Condvar::new(),
        goes_on: &|done| goes_on(before + done * share),
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| stage.work());
        }
        stage.work();
    });
    stage.finish()
}

/// State shared by all threads.
struct Stage<'a> {
    state: Mutex<State>,
    changed: Condvar,
    goes_on: &'a (dyn Fn(f64) -> bool + Sync),
}

struct State {
    seats: Vec<Seat>,
    /// Batches that at least one contender has not taken yet.
    window: VecDeque<Arc<Vec<Request>>>,
    /// Number of the first batch in the window.
    first: usize,
    /// `None` while a thread reads, and at the end of the trace.
    source: Option<Source>,
    error: Option<TraceError>,
    /// The trace has ended.
    is_over: bool,
    /// A contender panicked.
    is_abandoned: bool,
}

struct Seat {
    /// Number of batches that this contender has taken.
    taken: usize,
    /// `None` while a thread runs the contender.
    contender: Option<(Box<dyn Contender>, ReplayTally)>,
}

struct Source {
    reader: Reader,
    future: Future,
    position: usize,
    has_reads: bool,
}

/// A task of a worker thread.
enum Piece {
    Read(Source),
    Run(usize, (Box<dyn Contender>, ReplayTally), Arc<Vec<Request>>),
}

impl State {
    /// Next task. Reading comes first, because every contender waits for it.
    fn piece(&mut self) -> Option<Piece> {
        if self.window.len() < WINDOW
            && let Some(source) = self.source.take()
        {
            return Some(Piece::Read(source));
        }
        let end = self.first + self.window.len();
        let ready = self.seats.iter_mut().enumerate();
        let ready = ready.filter(|(_, seat)| seat.contender.is_some() && seat.taken < end);
        let (at, seat) = ready.min_by_key(|(_, seat)| seat.taken)?;
        let batch = self.window[seat.taken - self.first].clone();
        seat.taken += 1;
        seat.contender.take().map(|contender| Piece::Run(at, contender, batch))
    }

    fn is_done(&self) -> bool {
        let end = self.first + self.window.len();
        let is_broken = self.is_abandoned || self.error.is_some();
        is_broken || self.is_over && self.seats.iter().all(|seat| seat.taken == end)
    }

    fn give_back(&mut self, at: usize, contender: (Box<dyn Contender>, ReplayTally)) {
        self.seats[at].contender = Some(contender);
        // A running contender holds its own reference to its batch.
        let behind = self.seats.iter().map(|seat| seat.taken).min().unwrap_or(self.first);
        self.window.drain(..behind - self.first);
        self.first = behind;
    }
}

impl Stage<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while it holds the state")
    }

    fn work(&self) {
        let _guard = Guard(self);
        let mut state = self.lock();
        while !state.is_done() {
            let Some(piece) = state.piece() else {
                state = self.changed.wait(state).expect("nobody panics while it holds the state");
                continue;
            };
            drop(state);
            match piece {
                Piece::Read(source) => self.read(source),
                Piece::Run(at, (mut contender, mut tally), batch) => {
                    contender.run(&batch, &mut tally);
                    drop(batch);
                    self.lock().give_back(at, (contender, tally));
                }
            }
            self.changed.notify_all();
            state = self.lock();
        }
    }

    fn read(&self, mut source: Source) {
        let mut batch = Vec::with_capacity(BATCH);
        let result = source.reader.batch(&mut batch, BATCH);
        source.future.tell(&mut batch, source.position);
        source.position += batch.len();
        source.has_reads |= batch.iter().any(|request| request.op == Op::Read);
        let goes_on = (self.goes_on)(source.reader.done());
        let mut state = self.lock();
        match result {
            Err(error) => state.error = Some(error),
            Ok(()) if batch.is_empty() && !source.has_reads => {
                state.error = Some(source.reader.without_reads(source.position));
            }
            Ok(()) if batch.is_empty() => state.is_over = true,
            Ok(()) => {
                state.window.push_back(Arc::new(batch));
                state.is_over = !goes_on;
                state.source = goes_on.then_some(source);
            }
        }
    }

    fn finish(self) -> Result<Vec<ReplayTally>, TraceError> {
        let state = self.state.into_inner().expect("nobody panics while it holds the state");
        if let Some(error) = state.error {
            return Err(error);
        }
        let tallies = state.seats.into_iter().filter_map(|seat| {
            let (contender, tally) = seat.contender?;
            Some(ReplayTally { flash: contender.flash(), ..tally })
        });
        Ok(tallies.collect())
    }
}

/// Panic guard: wakes the other threads when a contender panics, so that they stop waiting.
struct Guard<'a, 'b>(&'a Stage<'b>);

impl Drop for Guard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking()
            && let Ok(mut state) = self.0.state.lock()
        {
            state.is_abandoned = true;
        }
        self.0.changed.notify_all();
    }
}
