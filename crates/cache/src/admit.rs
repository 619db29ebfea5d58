//! The admission path: a complete piece goes to flash, or is refused and counted. Nobody waits for it.

use alloc::rc::Rc;

use zonal_base::Bytes;
use zonal_zonelog::{Record, Stream, Urgency};

use crate::cache::Inner;
use crate::fill::FillPiece;
use crate::index::Found;
use crate::recover::PIECE;

impl Inner {
    /// Writes a piece to flash and publishes it. Until then it is served from memory.
    pub(crate) async fn admit(self: Rc<Self>, piece: Rc<FillPiece>) {
        let admitted = self.write_piece(&piece).await;
        self.count(|stats| match admitted {
            true => stats.admitted_bytes += u64::from(piece.len),
            false => stats.refused_bytes += u64::from(piece.len),
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
