//! Graceful stop, and manifests that are written for their own sake.
//!
//! A header tells what is durable in other zones, and nothing of its own segment. So a stop writes a
//! manifest to two zones, one after the other.

use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::ZoneId;

use crate::log::Inner;
use crate::writer::Writer;
use crate::{Log, Stream, Urgency};

impl Log {
    /// Prepares for a stop: flushes the device, and notes the end of the log in two zones, so that
    /// the loss of either is noticed. Requires: nothing is being appended.
    ///
    /// A device that fails shows it at the next command.
    pub async fn close(&self) {
        let inner = &self.inner;
        let is_unused = inner.state.borrow().generation_min() == u64::MAX
            && inner.state.borrow().tombstones.is_empty();
        if inner.flush().await.is_err() || is_unused {
            return;
        }
        inner.finish_full_writers().await;
        let mut first = None;
        for _ in 0..2 {
            let is_other = |zone: &ZoneId| Some(*zone) != first;
            let open = || {
                let mut state = inner.state.borrow_mut();
                let capacity = inner.geometry.zone_capacity;
                let streams = [Stream::Rewrite, Stream::Fill].into_iter();
                streams.flat_map(|stream| state.open_zone(stream, capacity)).next()
            };
            let zone = inner.zones_for_manifest().into_iter().find(is_other).or_else(open);
            let Some(zone) = zone else { return };
            inner.write_manifest_to(zone, Urgency::Durable).await;
            first = Some(zone);
        }
    }
}

impl Inner {
    /// Finishes the zones that take no segment any more. Their footers have a manifest, too, and
    /// their slots become free.
    async fn finish_full_writers(self: &Rc<Self>) {
        let full: Vec<ZoneId> = {
            let mut state = self.state.borrow_mut();
            let capacity = self.geometry.zone_capacity;
            let is_full =
                |writer: &Writer| writer.open.is_none() && !writer.takes_segment(0, capacity);
            let full = state.writers.iter_mut().filter(|(_, writer)| is_full(writer));
            full.map(|(zone, writer)| {
                writer.finishing = true;
                *zone
            })
            .collect()
        };
        for zone in full {
            self.kick(zone);
            while self.state.borrow().writers.contains_key(&zone) {
                self.reclaim_wanted.wait().await;
            }
        }
    }

    /// Zones that take a header with a manifest and no records. While no zone is empty, the room of
    /// rewrites is reserved for tombstones.
    fn zones_for_manifest(&self) -> Vec<ZoneId> {
        let state = self.state.borrow();
        let capacity = self.geometry.zone_capacity;
        let takes = |(_, writer): &(&ZoneId, &Writer)| {
            let has_room = writer.open.is_some() || writer.takes_segment(0, capacity);
            let is_reserved = writer.stream == Stream::Rewrite && state.empty.is_empty();
            !writer.finishing && has_room && !is_reserved
        };
        state.writers.iter().filter(takes).map(|(zone, _)| *zone).collect()
    }

    /// Writes the present manifest to another zone than the one that is about to be reset, in a
    /// segment that needs no records. Without room for it, a crash before the next write makes the
    /// next start take the reset for a loss.
    pub(crate) async fn write_manifest(self: &Rc<Self>) {
        if let Some(zone) = self.zones_for_manifest().first() {
            self.write_manifest_to(*zone, Urgency::Now).await;
        }
    }

    async fn write_manifest_to(self: &Rc<Self>, zone: ZoneId, urgency: Urgency) {
        self.open_segment(zone);
        let written = {
            let mut state = self.state.borrow_mut();
            let writer = state.writers.get_mut(&zone).expect("open zones have a writer");
            let segment = writer.open.as_mut().expect("opened just now");
            segment.hurry(urgency);
            segment.fate.clone()
        };
        self.kick(zone);
        // A failed write has its consequences there.
        let _ = written.decided().await;
    }
}
