//! Simulated client of a read: fast, slow or disconnecting.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use zonal_base::Nanos;
use zonal_cache::{Consumer, Gone, Piece, PieceSource, ReadError};
use zonal_runtime::{Clock, Event, Sleep};

use crate::history::ReadStep;

/// End of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Whole,
    Failed(ReadError),
    /// The client disconnected.
    Left,
}

/// Pieces that a client received.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) bytes: RefCell<Vec<u8>>,
    pub(crate) all_cached: Cell<bool>,
    pub(crate) all_on_flash: Cell<bool>,
    /// Time of the first bytes.
    pub(crate) first_byte: Cell<Option<Nanos>>,
    /// The slowest source of the bytes.
    pub(crate) from: Cell<Option<PieceSource>>,
    end: Cell<Option<End>>,
    ended: Event,
}

impl Heard {
    pub(crate) async fn end(&self) -> End {
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

pub(crate) struct ReadClient {
    heard: Rc<Heard>,
    clock: Clock,
    slowness: Nanos,
    /// Number of pieces after which the client disconnects.
    patience: Option<u64>,
    resting: Option<Pin<Box<Sleep>>>,
}

impl ReadClient {
    pub(crate) fn new(clock: Clock, step: &ReadStep) -> (Self, Rc<Heard>) {
        let heard = Rc::<Heard>::default();
        let (slowness, patience) = (step.slowness, step.pieces_max);
        let read_client = Self { heard: heard.clone(), clock, slowness, patience, resting: None };
        (read_client, heard)
    }
}

impl Consumer for ReadClient {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.patience == Some(0) {
            self.heard.set_end(End::Left);
            return Poll::Ready(Err(Gone));
        }
        match &mut self.resting {
            Some(sleep) => sleep.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<Gone> {
        Poll::Pending
    }

    fn accept(&mut self, piece: Piece) {
        self.patience = self.patience.map(|patience| patience - 1);
        let rest = self.clock.now() + self.slowness;
        self.resting = (Nanos(0) < self.slowness).then(|| Box::pin(self.clock.sleep_until(rest)));
        match piece {
            Piece::Start { all_cached, all_on_flash } => {
                self.heard.all_cached.set(all_cached);
                self.heard.all_on_flash.set(all_on_flash);
            }
            Piece::Data(bytes, from) => {
                let first = self.heard.first_byte.get().unwrap_or_else(|| self.clock.now());
                self.heard.first_byte.set(Some(first));
                self.heard.from.set(Some(from));
                self.heard.bytes.borrow_mut().extend_from_slice(&bytes);
            }
            Piece::End => self.heard.set_end(End::Whole),
            Piece::Failed(error) => self.heard.set_end(End::Failed(error)),
        }
    }
}

impl Drop for ReadClient {
    fn drop(&mut self) {
        if self.heard.end.get().is_none() {
            self.heard.set_end(End::Left);
        }
    }
}
