//! Manifests that are written for their own sake: after removals, at a graceful stop, and before a
//! reset.
//!
//! A header tells what is durable in other zones, and nothing of its own segment. So a tombstone is
//! safe from the loss of its zone once a manifest in another zone knows its segment. On a quiet log
//! no other zone is written to. Then a manifest of its own follows, at most [`LISTED_WITHIN`] later.

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};
use zonal_device::DeviceError;

use crate::log::Inner;
use crate::mutation::Mutation;
use crate::writer::Writer;
use crate::{Log, Stream, Urgency};

/// Time from a tombstone to the write of a manifest that knows its segment. One manifest serves all
/// tombstones of that time.
const LISTED_WITHIN: Nanos = Nanos::secs(1);

/// Tombstones that no manifest in another zone may know.
#[derive(Default)]
pub(crate) struct Unlisted {
    /// Their zones.
    zones: BTreeSet<ZoneId>,
    /// A task writes the manifest later, or is writing it.
    has_task: bool,
    is_writing: bool,
}

impl Log {
    /// Prepares for a stop: flushes the device, and notes the end of the log in two zones, so that
    /// the loss of either is noticed. Requires: nothing is being appended.
    ///
    /// A device that fails shows it at the next command.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.end_of_listing().await;
        let is_unused = inner.state.borrow().generation_min() == u64::MAX
            && inner.state.borrow().tombstones.is_empty();
        if inner.flush().await.is_err() || is_unused {
            return;
        }
        inner.finish_full_writers().await;
        let mut first = None;
        for _ in 0..2 {
            let apart = inner.zones_for_manifest().into_iter().find(|zone| Some(*zone) != first);
            let zone = apart.or_else(|| inner.open_for_manifest(0));
            let Some(zone) = zone else { return };
            // A failed write has its consequences there.
            let _ = inner.write_manifest_to(zone, Urgency::Durable).await;
            first = Some(zone);
        }
    }
}

impl Inner {
    /// Registers a tombstone on flash, and lets a manifest follow.
    pub(crate) fn list_soon(self: &Rc<Self>, zone: ZoneId) {
        let unlisted = &mut self.state.borrow_mut().unlisted;
        unlisted.zones.insert(zone);
        if !core::mem::replace(&mut unlisted.has_task, true) {
            self.ports.spawner.spawn(self.clone().list_removals());
        }
    }

    /// Lets a manifest follow that knows the tombstones that recovery found. A crash may have come
    /// before the manifest of the last ones was written.
    pub(crate) fn list_found(self: &Rc<Self>) {
        let zones: Vec<ZoneId> = {
            let state = self.state.borrow();
            let zones = (0..).map(ZoneId).zip(&state.zones);
            zones.filter(|(_, zone)| !zone.tombstones.is_empty()).map(|(zone, _)| zone).collect()
        };
        zones.into_iter().for_each(|zone| self.list_soon(zone));
    }

    async fn list_removals(self: Rc<Self>) {
        loop {
            let clock = &self.ports.clock;
            clock.sleep_until(clock.now() + LISTED_WITHIN).await;
            let zones = core::mem::take(&mut self.state.borrow_mut().unlisted.zones);
            if zones.is_empty() || self.state.borrow().is_gone {
                break;
            }
            self.state.borrow_mut().unlisted.is_writing = true;
            let left = self.list(zones).await;
            let is_listed = left.is_empty();
            {
                let unlisted = &mut self.state.borrow_mut().unlisted;
                unlisted.is_writing = false;
                unlisted.zones.extend(left);
            }
            self.reclaim_wanted.notify_all();
            if !is_listed {
                self.reclaim_wanted.wait().await;
            }
        }
        self.state.borrow_mut().unlisted.has_task = false;
    }

    /// Writes manifests until each of `zones` is known in another one. Returns the zones for which
    /// there was no room.
    async fn list(self: &Rc<Self>, mut zones: BTreeSet<ZoneId>) -> BTreeSet<ZoneId> {
        if self.settings.has(Mutation::RemovalsUnlisted) || self.flush().await.is_err() {
            return zones;
        }
        while !zones.is_empty() && !self.state.borrow().is_gone {
            let open = self.zones_for_manifest();
            let apart = open.iter().copied().find(|zone| !zones.contains(zone));
            let any = || open.first().copied().filter(|_| 1 < zones.len());
            let Some(zone) = apart.or_else(any).or_else(|| self.open_for_manifest(1)) else {
                break;
            };
            if self.write_manifest_to(zone, Urgency::Durable).await.is_ok() {
                zones.retain(|unlisted| *unlisted == zone);
            }
        }
        zones
    }

    /// Waits until no manifest is being written for removals, and lets no other follow.
    async fn end_of_listing(&self) {
        while self.state.borrow().unlisted.is_writing {
            self.reclaim_wanted.wait().await;
        }
        self.state.borrow_mut().unlisted.zones.clear();
    }

    /// Opens an empty zone, if more than `reserve` are empty.
    fn open_for_manifest(&self, reserve: usize) -> Option<ZoneId> {
        let mut state = self.state.borrow_mut();
        if state.empty.len() <= reserve {
            return None;
        }
        let (now, capacity) = (self.ports.clock.now(), self.geometry.zone_capacity);
        let streams = [Stream::Rewrite, Stream::Fill].into_iter();
        streams.flat_map(|stream| state.open_zone(now, stream, capacity)).next()
    }

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
            let _ = self.write_manifest_to(*zone, Urgency::Now).await;
        }
    }

    async fn write_manifest_to(
        self: &Rc<Self>,
        zone: ZoneId,
        urgency: Urgency,
    ) -> Result<(), DeviceError> {
        self.open_segment(zone);
        let written = {
            let mut state = self.state.borrow_mut();
            let writer = state.writers.get_mut(&zone).expect("open zones have a writer");
            let segment = writer.open.as_mut().expect("opened just now");
            segment.hurry(urgency);
            segment.fate.clone()
        };
        self.kick(zone);
        written.decided().await
    }
}
