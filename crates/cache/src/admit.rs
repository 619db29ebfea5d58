//! Admission path: decides whether a complete piece goes to flash, and writes it in the background.
//!
//! 1. It goes to flash, or waits in memory until it is known what it is worth, or is turned away.
//! 2. What waits goes there sooner when somebody reads it for whom it is to be on flash.
//! 3. What is turned away, and what flash has no room for, stays until its reader has it.

use alloc::rc::Rc;

use zonal_base::Bytes;
use zonal_policy::{Account, Budget, Means, Verdict};
use zonal_zonelog::{Key, Kind, Record, Stream, Urgency};

use crate::Head;
use crate::cache::Inner;
use crate::fetch::FillPiece;
use crate::index::IndexEntry;
use crate::pins::Care;
use crate::recover::{PIECE, PINNED};

impl Inner {
    /// Writes a piece to flash and publishes it, if it is worth it. Until then it is served from memory.
    pub(crate) async fn admit(self: Rc<Self>, piece: Rc<FillPiece>) {
        let (care, kind) = self.care_for(&piece);
        let verdict = match care {
            Care::Unkept => Verdict::TurnAway,
            Care::Usual => {
                self.memory.borrow_mut().miss(piece.key, Bytes(piece.len.into()), self.means())
            }
            Care::Warmed | Care::Pinned => Verdict::Admit,
        };
        let admitted = match verdict {
            Verdict::Admit => self.offer(&piece, care, kind).await,
            Verdict::TurnAway => {
                self.count_turned_away(&piece);
                false
            }
            Verdict::Wait => false,
        };
        // Readers wait for memory, too: what is held for them is never the last of it.
        let blocks = Bytes(u64::from(piece.len)).blocks_ceil();
        if admitted || self.ports.buffers.pool().is_short(blocks) {
            return self.let_go(&piece, verdict);
        }
        // A task of its own: who waits until everything is on flash does not wait for readers.
        let inner = self.clone();
        self.ports.spawner.spawn(async move {
            piece.wait_for_reader().await;
            inner.let_go(&piece, verdict);
        });
    }

    /// The piece has been read. One that waits is in memory of its own from now on.
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
            inner.offer(&piece, Care::Usual, PIECE).await;
            drop(writing);
        });
    }

    /// Somebody found a piece in memory for whom it is to be on flash. If it waits there, it is written at once, as far
    /// as flash has room for it.
    pub(crate) fn promote(self: &Rc<Self>, key: Key, head: &Head, care: Care) {
        let waiting = self.memory.borrow().waiting(key, head);
        let Some(piece) = waiting.filter(|piece| self.log.has_room(piece.len)) else { return };
        piece.fetch().raise_care(care);
        let (care, kind) = self.care_for(&piece);
        if care <= Care::Usual {
            return;
        }
        self.memory.borrow_mut().note_offered(key);
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            inner.offer(&piece, care, kind).await;
            drop(writing);
        });
    }

    /// Nobody waits in memory any longer: what was read meanwhile goes to flash.
    pub(crate) fn end_all_waiting(self: &Rc<Self>) {
        loop {
            let left = self.memory.borrow_mut().leave_at_end();
            let Some(left) = left else { return };
            self.end_waiting(left);
        }
    }

    /// Offers flash a piece that is worth it.
    async fn offer(&self, piece: &FillPiece, care: Care, kind: Kind) -> bool {
        let len = Bytes(piece.len.into());
        if care == Care::Usual && !self.affords(piece) {
            self.count_turned_away(piece);
            return false;
        }
        if care == Care::Usual && !self.is_in(piece) {
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

    /// How the piece is to be stored. A pin for which there is no room is stored as everything else.
    fn care_for(&self, piece: &FillPiece) -> (Care, Kind) {
        match piece.fetch().care() {
            Care::Pinned if self.holdings.has_room_for_pin(piece.len) => (Care::Pinned, PINNED),
            Care::Pinned => (Care::Usual, PIECE),
            care => (care, PIECE),
        }
    }

    fn affords(&self, piece: &FillPiece) -> bool {
        let affords = |budget: Budget| budget.affords(Bytes(piece.len.into()), self.account());
        self.budget.is_none_or(affords)
    }

    /// Whether it is among those that go to flash while more is to go there than it takes.
    fn is_in(&self, piece: &FillPiece) -> bool {
        let (lot, len) = (piece.fetch().lot(), Bytes(piece.len.into()));
        self.lots.borrow_mut().takes(lot, len, self.log.backlog())
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
        // A full queue means that flash is slower than the origin: better to lose this piece than to
        // make fetches, and with them readers, wait for flash.
        if self.log.is_gone() || !self.log.has_room(piece.len) {
            return false;
        }
        if !piece.is_current() {
            return false;
        }
        // Decided now: a removal that comes before it is placed is younger.
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
