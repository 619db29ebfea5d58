//! A trace, through several contenders at once.
//!
//! The trace is read and unpacked once. Each batch of requests is a piece of work for each contender, and whichever core is
//! free takes the piece that is furthest behind; so all cores have something to do as long as there are
//! contenders. A contender is in one hand at a time and sees every request in its order: what it returns does
//! not depend on the number of cores.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::future::Future;
use super::reader::Reader;
use super::{Contender, Request, Tally, Trace, TraceError};

/// Requests that are read at a time: 768 KiB, which fit into a core's cache.
pub(super) const BATCH: usize = 32 << 10;

/// Batches that are kept: the fastest contender is that far ahead of the slowest at most. 6 MiB in all.
const WINDOW: usize = 8;

/// Replays a trace on each contender, from its beginning, on all cores. Tallies are in the contenders' order.
///
/// Memory: 6 MiB and what the contenders take; if one of them needs the future, four bytes more for each request.
/// `on_progress` is told how much is done, from 0 to 1, by whichever thread reads.
///
/// # Errors
/// When the trace cannot be read to its end.
pub fn replay(
    trace: &Trace,
    contenders: Vec<Box<dyn Contender>>,
    on_progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Tally>, TraceError> {
    // Nobody would ever take what was read.
    if contenders.is_empty() {
        return Ok(Vec::new());
    }
    let needs_future = contenders.iter().any(|contender| contender.needs_future());
    // Two passes are two halves of the way.
    let (before, share) = if needs_future { (0.5, 0.5) } else { (0.0, 1.0) };
    let future = match needs_future {
        true => Future::of(trace, &|done| on_progress(done * before))?,
        false => Future::default(),
    };
    let seats = contenders
        .into_iter()
        .map(|contender| Seat { taken: 0, contender: Some((contender, Tally::default())) });
    let source = Source { reader: trace.open()?, future, position: 0 };
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
        on_progress: &|done| on_progress(before + done * share),
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| stage.work());
        }
        stage.work();
    });
    stage.finish()
}

/// What all threads share.
struct Stage<'a> {
    state: Mutex<State>,
    changed: Condvar,
    on_progress: &'a (dyn Fn(f64) + Sync),
}

struct State {
    seats: Vec<Seat>,
    /// Batches that some contender has not taken yet.
    window: VecDeque<Arc<Vec<Request>>>,
    /// The number of the first batch in the window.
    first: usize,
    /// `None` while somebody reads, and when there is no more.
    source: Option<Source>,
    error: Option<TraceError>,
    /// The trace has been read to its end, or cannot be read further.
    is_over: bool,
    /// A contender panicked.
    is_abandoned: bool,
}

struct Seat {
    /// Batches that this contender has taken.
    taken: usize,
    /// `None` while it is at work.
    contender: Option<(Box<dyn Contender>, Tally)>,
}

struct Source {
    reader: Reader,
    future: Future,
    position: usize,
}

/// A piece of work.
enum Piece {
    Read(Source),
    Run(usize, (Box<dyn Contender>, Tally), Arc<Vec<Request>>),
}

impl State {
    /// What there is to do now; reading first, because everybody waits for it.
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

    fn give_back(&mut self, at: usize, contender: (Box<dyn Contender>, Tally)) {
        self.seats[at].contender = Some(contender);
        // A seat that is at work holds its own batch.
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
        (self.on_progress)(source.reader.done());
        let mut state = self.lock();
        match result {
            Err(error) => state.error = Some(error),
            Ok(()) if batch.is_empty() => state.is_over = true,
            Ok(()) => {
                state.window.push_back(Arc::new(batch));
                state.source = Some(source);
            }
        }
    }

    fn finish(self) -> Result<Vec<Tally>, TraceError> {
        let state = self.state.into_inner().expect("nobody panics while it holds the state");
        if let Some(error) = state.error {
            return Err(error);
        }
        let tallies = state.seats.into_iter().filter_map(|seat| {
            let (contender, tally) = seat.contender?;
            Some(Tally { flash: contender.flash(), ..tally })
        });
        Ok(tallies.collect())
    }
}

/// A contender that panics must not leave the other threads waiting for it.
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
