//! Admission path: decides whether a complete piece goes to flash, and writes it in the background.
//!
//! 1. The piece is written to flash, waits in memory for a second read, or is refused.
//! 2. A waiting piece is written sooner when a reader with a higher retention class reads it.
//! 3. A refused piece, or one that flash has no room for, stays in memory until its reader has it.

use alloc::rc::Rc;

use zonal_base::Bytes;
use zonal_policy::{Account, Means, Verdict, WriteBudget};
use zonal_zonelog::{Key, Kind, Record, Stream, Urgency};

use crate::Head;
use crate::cache::Inner;
use crate::fetch::FillPiece;
use crate::index::IndexEntry;
use crate::pins::RetentionClass;
use crate::recover::{PIECE, PINNED};

impl Inner {
    /// Decides on a piece, and writes and publishes an admitted one. Until then readers get it from
    /// memory.
    pub(crate) async fn admit(self: Rc<Self>, piece: Rc<FillPiece>) {
        let (retention, kind) = self.care_for(&piece);
        let verdict = match retention {
            RetentionClass::Unkept => Verdict::TurnAway,
            RetentionClass::Usual => {
                self.memory.borrow_mut().miss(piece.key, Bytes(piece.len.into()), self.means())
            }
            RetentionClass::Warmed | RetentionClass::Pinned => Verdict::Admit,
        };
        let admitted = match verdict {
            Verdict::Admit => self.offer(&piece, retention, kind).await,
            Verdict::TurnAway => {
                self.count_turned_away(&piece);
                false
            }
            Verdict::Wait => false,
        };
        // A piece is not held for its reader when memory is short: other readers wait for buffers.
        let blocks = Bytes(u64::from(piece.len)).blocks_ceil();
        if admitted || self.ports.buffers.pool().is_short(blocks) {
            return self.let_go(&piece, verdict);
        }
        // A task of its own, not a writing task: a graceful stop must not wait for readers.
        let inner = self.clone();
        self.ports.spawner.spawn(async move {
            piece.wait_for_reader().await;
            inner.let_go(&piece, verdict);
        });
    }

    /// Ends the piece's time in the fetch table. A waiting piece moves to the DRAM tier.
    fn let_go(self: &Rc<Self>, piece: &Rc<FillPiece>, verdict: Verdict) {
        if verdict == Verdict::Wait && piece.is_current() {
            self.memory.borrow_mut().wait(piece);
        }
        self.end_filling(piece);
        while let Some(left) = self.leave_memory() {
            self.end_waiting(left);
        }
    }

    fn leave_memory(&self) -> Option<(Rc<FillPiece>, Verdict)> {
        self.memory.borrow_mut().leave()
    }

    fn end_waiting(self: &Rc<Self>, (piece, verdict): (Rc<FillPiece>, Verdict)) {
        if verdict != Verdict::Admit {
            return self.count_turned_away(&piece);
        }
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            inner.offer(&piece, RetentionClass::Usual, PIECE).await;
            drop(writing);
        });
    }

    /// Writes a piece that waits in memory at once, because a reader of a higher retention class
    /// read it. Does nothing if the write queue is full.
    pub(crate) fn promote(self: &Rc<Self>, key: Key, head: &Head, retention: RetentionClass) {
        let waiting = self.memory.borrow().waiting(key, head);
        let Some(piece) = waiting.filter(|piece| self.log.has_room(piece.len)) else { return };
        piece.fetch().raise_care(retention);
        let (retention, kind) = self.care_for(&piece);
        if retention <= RetentionClass::Usual {
            return;
        }
        self.memory.borrow_mut().note_offered(key);
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            inner.offer(&piece, retention, kind).await;
            drop(writing);
        });
    }

    /// Ends the wait of all pieces in memory, at a graceful stop: pieces that were read meanwhile
    /// go to flash.
    pub(crate) fn end_all_waiting(self: &Rc<Self>) {
        loop {
            let left = self.memory.borrow_mut().leave_at_end();
            let Some(left) = left else { return };
            self.end_waiting(left);
        }
    }

    /// Writes an admitted piece, if budget, sampling and the write queue allow it.
    async fn offer(&self, piece: &FillPiece, retention: RetentionClass, kind: Kind) -> bool {
        let len = Bytes(piece.len.into());
        if retention == RetentionClass::Usual && !self.affords(piece) {
            self.count_turned_away(piece);
            return false;
        }
        if retention == RetentionClass::Usual && !self.is_in(piece) {
            self.count(|stats| stats.refused_bytes += len.0);
            return false;
        }
        let is_written = self.write_piece(piece, kind).await;
        self.count(|stats| match is_written {
            true => stats.admitted_bytes += len.0,
            false => stats.refused_bytes += len.0,
        });
        is_written
    }

    /// Retention class and record kind of a piece. A pin without room is stored without a pin.
    fn care_for(&self, piece: &FillPiece) -> (RetentionClass, Kind) {
        match piece.fetch().retention() {
            RetentionClass::Pinned if self.holdings.has_room_for_pin(piece.len) => {
                (RetentionClass::Pinned, PINNED)
            }
            RetentionClass::Pinned => (RetentionClass::Usual, PIECE),
            retention => (retention, PIECE),
        }
    }

    fn affords(&self, piece: &FillPiece) -> bool {
        let affords = |budget: WriteBudget| budget.affords(Bytes(piece.len.into()), self.account());
        self.budget.is_none_or(affords)
    }

    /// Admission sampling: true when the piece's rank is admitted at the present backlog.
    fn is_in(&self, piece: &FillPiece) -> bool {
        let (rank, len) = (piece.fetch().rank(), Bytes(piece.len.into()));
        self.throttle.borrow_mut().takes(rank, len, self.log.backlog())
    }

    fn means(&self) -> Means {
        self.budget.map_or(Means::Ample, |budget| budget.means(self.account()))
    }

    fn account(&self) -> Account {
        Account {
            asked_for: Bytes(self.stats.borrow().served_bytes),
            elapsed: self.now().since(self.started_at),
            written: Bytes(self.log.stats().device_written_bytes),
        }
    }

    fn count_turned_away(&self, piece: &FillPiece) {
        self.count(|stats| stats.turned_away_bytes += u64::from(piece.len));
    }

    async fn write_piece(&self, piece: &FillPiece, kind: Kind) -> bool {
        // A full write queue means that flash is slower than the origin. The piece is dropped:
        // waiting would make fetches, and with them readers, wait for flash.
        if self.log.is_gone() || !self.log.has_room(piece.len) {
            return false;
        }
        if !piece.is_current() {
            return false;
        }
        // The generation is assigned now, so that a removal that comes before the placement is
        // newer.
        let generation = Some(self.log.next_generation());
        let Some(data) = piece.payload() else { return false };
        let data = match Record::is_packed(piece.len) {
            true => data.slice(0..piece.len as usize),
            false => data,
        };
        let record = Record { key: piece.key, kind, len: piece.len, data, generation };
        let Ok(placed) = self.log.append(Stream::Fill, record, Urgency::Linger).await else {
            return false;
        };
        let checks = placed.descriptor().checks.clone();
        let found = IndexEntry::new(placed.extent(), kind, checks);
        self.holdings.publish(piece.key, found, self.now())
    }
}
