//! The admission path: a complete piece goes to flash, or is refused and counted. Nobody waits for it.

use alloc::rc::Rc;
use core::cell::RefCell;

use zonal_base::Bytes;
use zonal_policy::{Budget, Probation};
use zonal_zonelog::{Key, Record, Stream, Urgency};

use crate::cache::Inner;
use crate::fill::FillPiece;
use crate::index::{Found, chunk_id};
use crate::recover::PIECE;

/// What is worth a flash write.
pub(crate) struct Admission {
    probation: RefCell<Option<Probation>>,
    budget: Option<Budget>,
}

impl Admission {
    pub(crate) const fn new(probation: Option<Probation>, budget: Option<Budget>) -> Self {
        Self { probation: RefCell::new(probation), budget }
    }

    /// From now on not everything is wanted.
    pub(crate) fn note_full_flash(&self) {
        self.probation.borrow_mut().as_mut().into_iter().for_each(Probation::note_full_flash);
    }

    fn wants(&self, key: Key, len: Bytes) -> bool {
        let mut probation = self.probation.borrow_mut();
        probation.as_mut().is_none_or(|probation| probation.miss(chunk_id(key), len))
    }

    fn affords(&self, len: Bytes, asked_for: Bytes, written: Bytes) -> bool {
        self.budget.is_none_or(|budget| budget.affords(len, asked_for, written))
    }
}

impl Inner {
    /// Writes a piece to flash and publishes it. Until then it is served from memory.
    pub(crate) async fn admit(self: Rc<Self>, piece: Rc<FillPiece>) {
        let len = u64::from(piece.len);
        let is_worth_it = self.is_worth_writing(&piece);
        let admitted = is_worth_it && self.write_piece(&piece).await;
        self.count(|stats| match (is_worth_it, admitted) {
            (false, _) => stats.turned_away_bytes += len,
            (true, false) => stats.refused_bytes += len,
            (true, true) => stats.admitted_bytes += len,
        });
        // Readers wait for memory, too: what is held for them is never the last of it.
        let blocks = Bytes(u64::from(piece.len)).blocks_ceil();
        if admitted || self.ports.buffers.pool().is_short(blocks) {
            return self.end_filling(&piece);
        }
        // A task of its own: who waits until everything is on flash does not wait for readers.
        let inner = self.clone();
        self.ports.spawner.spawn(async move {
            piece.wait_for_reader().await;
            inner.end_filling(&piece);
        });
    }

    fn is_worth_writing(&self, piece: &FillPiece) -> bool {
        let (len, log) = (Bytes(piece.len.into()), self.log.stats());
        let asked_for = Bytes(self.stats.borrow().served_bytes);
        self.admission.affords(len, asked_for, Bytes(log.device_written_bytes))
            && self.admission.wants(piece.key, len)
    }

    async fn write_piece(&self, piece: &FillPiece) -> bool {
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
        let record = Record { key: piece.key, kind: PIECE, len: piece.len, data, generation };
        let Ok(placed) = self.log.append(Stream::Fill, record, Urgency::Linger).await else {
            return false;
        };
        let checks = placed.descriptor().checks;
        let found = Found::new(placed.extent(), PIECE, checks);
        self.holdings.publish(piece.key, &found, self.now())
    }
}
