//! Body pipe: a short bounded queue of pieces from an engine to a front end, across threads or
//! within one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use zonal_cache::{Consumer, Gone, Piece};

/// Capacity of the pipe, in pieces of data. With the piece being sent and the one being read by the
/// engine, a slow client holds four. Between two stripes of a long read, the next stripe's pipe
/// holds two more.
///
/// A start and an end hold no memory and do not count. So the engine need not wait for the reader
/// of a single piece, and the reader need not wake the engine.
const PIECES_MAX: usize = 2;

#[derive(Default)]
struct PipeState {
    queue: Mutex<Queue>,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    /// At most [`PIECES_MAX`] of data, a start and an end.
    pieces: VecDeque<Piece>,
    reader_gone: bool,
    writer_gone: bool,
}

/// Write end, for the engine.
pub(crate) struct PipeWriter(Arc<PipeState>);

/// Read end, for the front end.
pub(crate) struct PipeReader(Arc<PipeState>);

pub(crate) fn pipe() -> (PipeWriter, PipeReader) {
    let shared = Arc::new(PipeState::default());
    (PipeWriter(shared.clone()), PipeReader(shared))
}

impl PipeState {
    fn with<R>(&self, look: impl FnOnce(&mut Queue) -> R) -> R {
        // No code panics while it holds the lock.
        look(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Queue {
    fn data_count(&self) -> usize {
        self.pieces.iter().filter(|piece| matches!(piece, Piece::Data(..))).count()
    }
}

impl Consumer for PipeWriter {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let look = |queue: &mut Queue| match queue {
            Queue { reader_gone: true, .. } => Poll::Ready(Err(Gone)),
            queue if queue.data_count() < PIECES_MAX => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        };
        let first = self.0.with(look);
        if first.is_ready() {
            return first;
        }
        self.0.writer.register(cx.waker());
        self.0.with(look)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.0.writer.register(cx.waker());
        if self.0.with(|queue| queue.reader_gone) { Poll::Ready(Gone) } else { Poll::Pending }
    }

    fn accept(&mut self, piece: Piece) {
        // `Start` only announces the pieces to come. Waking the reader for it, maybe on another
        // thread, would be useless.
        let is_news = !matches!(piece, Piece::Start { .. });
        self.0.with(|queue| queue.pieces.push_back(piece));
        if is_news {
            self.0.reader.wake();
        }
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.with(|queue| queue.writer_gone = true);
        self.0.reader.wake();
    }
}

impl PipeReader {
    /// The next piece; `None` when the engine dropped its end without `End`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        let look = |queue: &mut Queue| match queue.pieces.pop_front() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if queue.writer_gone => Poll::Ready(None),
            None => Poll::Pending,
        };
        let mut next = self.0.with(look);
        if next.is_pending() {
            self.0.reader.register(cx.waker());
            next = self.0.with(look);
        }
        if next.is_ready() {
            self.0.writer.wake();
        }
        next
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        // Drop the pieces outside the lock: their buffers return to the pool.
        let left = self.0.with(|queue| {
            queue.reader_gone = true;
            std::mem::take(&mut queue.pieces)
        });
        drop(left);
        self.0.writer.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use bytes::Bytes;
    use zonal_cache::PieceSource;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(to: &mut PipeWriter, piece: Piece, engine: &Arc<Wakes>) -> bool {
        let waker = Waker::from(engine.clone());
        let is_ready = to.poll_ready(&mut Context::from_waker(&waker)).is_ready();
        if is_ready {
            to.accept(piece);
        }
        is_ready
    }

    const START: Piece = Piece::Start { all_cached: true, all_on_flash: true };
    const DATA: Piece = Piece::Data(Bytes::from_static(b"piece"), PieceSource::Flash);

    #[test]
    fn a_response_of_one_piece_wakes_its_reader_once_and_its_engine_never() {
        let ((mut to, mut from), engine, client) =
            (pipe(), Arc::<Wakes>::default(), Arc::<Wakes>::default());
        let waker = Waker::from(client.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(from.poll_next(&mut cx).is_pending());
        for piece in [START, DATA, Piece::End] {
            assert!(send(&mut to, piece, &engine));
        }
        drop(to);
        assert_eq!(client.0.load(Ordering::Relaxed), 1);
        for _ in 0..3 {
            assert!(from.poll_next(&mut cx).is_ready());
        }
        drop(from);
        assert_eq!(engine.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn two_pieces_of_data_fill_the_pipe_and_each_one_taken_makes_room() {
        let ((mut to, mut from), engine) = (pipe(), Arc::<Wakes>::default());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(send(&mut to, START, &engine));
        assert!(send(&mut to, DATA, &engine));
        assert!(send(&mut to, DATA, &engine));
        assert!(!send(&mut to, DATA, &engine));
        assert!(matches!(from.poll_next(&mut cx), Poll::Ready(Some(Piece::Start { .. }))));
        assert!(matches!(from.poll_next(&mut cx), Poll::Ready(Some(Piece::Data(..)))));
        assert_ne!(engine.0.load(Ordering::Relaxed), 0);
        assert!(send(&mut to, DATA, &engine));
        assert!(!send(&mut to, Piece::End, &engine));
        drop(from);
        assert!(matches!(to.poll_ready(&mut cx), Poll::Ready(Err(Gone))));
    }
}
