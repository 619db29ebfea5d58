//! Background garbage collection: keeps empty zones available, and rewrites the chunks of a victim
//! that the policy keeps (reinsertion).
//!
//! 1. Below the low watermark, reclaim victims that the policy picks, until the high watermark.
//! 2. Rewrite the roster, recently used heads, pinned records, and the pieces that the policy
//!    keeps.
//! 3. Remove all other records of the victim from the index.
//! 4. The log waits for reads in flight, rewrites needed tombstones, and resets the zone.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use zonal_base::{Bytes, Nanos, Payload, ZoneId};
use zonal_device::DeviceError;
use zonal_policy::ZoneFacts;
use zonal_zonelog::{Descriptor, Extent, Key, Reclaim, Record, Stream, Urgency};

use crate::cache::Inner;
use crate::chunk_store::Reinsertions;
use crate::index::IndexEntry;
use crate::mutation::Mutation;
use crate::pins;
use crate::records::{LATE_TRIES, Unread};
use crate::recover::{HEAD, kind_on_flash};

/// Concurrent rewrites: enough to fill segments with pieces of 64 KiB and more. Each holds a
/// buffer.
const REWRITES_AT_ONCE: usize = 16;

/// Pause after the log refused a victim: 10 ms, so that a log that refuses for ever costs no CPU.
const REFUSED_PAUSE: Nanos = Nanos::millis(10);

/// Records removed between two yields to other tasks: about 100 us.
const FORGET_AT_ONCE: usize = 512;

impl Inner {
    pub(crate) async fn reclaim_for_ever(self: Rc<Self>) {
        while !self.log.is_gone() {
            self.note_sealed_zones();
            if self.log.wants_reclaim() {
                self.memory.borrow_mut().note_full_flash();
                self.reclaim_up_to_high_watermark().await;
            } else {
                self.log.reclaim_wanted().await;
            }
        }
    }

    async fn reclaim_up_to_high_watermark(self: &Rc<Self>) {
        while !self.log.has_enough_empty_zones() && !self.log.is_gone() {
            self.note_sealed_zones();
            match self.victim() {
                Some((zone, pinned_max)) => self.empty_zone(zone, pinned_max).await,
                None => self.log.reclaim_wanted().await,
            }
        }
    }

    fn note_sealed_zones(self: &Rc<Self>) {
        let sealed = self.log.take_sealed();
        sealed.iter().for_each(|zone| self.holdings.seal(*zone, self.now()));
        if !sealed.is_empty() {
            self.remember_if_due();
        }
    }

    /// Full zones that reclaim can empty now.
    pub(crate) fn candidates(&self) -> Vec<ZoneFacts> {
        let facts = |facts: &zonal_zonelog::ZoneFacts| ZoneFacts {
            zone: facts.zone,
            sequence: facts.sequence,
            chunk_count: facts.record_count,
            bytes: Bytes(facts.record_bytes),
            pinned: self.holdings.pinned_of(facts.zone),
        };
        self.log.candidates().iter().map(facts).collect()
    }

    /// Picks the next victim. Returns it with the limit of bytes that are rewritten for pins.
    fn victim(&self) -> Option<(ZoneId, Bytes)> {
        let candidates = self.candidates();
        let zone = self.holdings.victim(&candidates)?;
        self.note_victim(zone, &candidates);
        let capacity = self.log.geometry().zone_capacity.bytes();
        Some((zone, pins::most_of_zone(&candidates, capacity)))
    }

    async fn empty_zone(self: &Rc<Self>, zone: ZoneId, pinned_max: Bytes) {
        // The selection comes before any wait, while the facts are those that the victim was picked
        // by.
        let wanted = self.holdings.wanted(zone, pinned_max);
        // The zone stays unchanged when its tombstones cannot be rewritten. The policy may pick it
        // again and be refused again, hence the pause.
        let Ok(reclaim) = self.log.begin_reclaim(zone).await else {
            return self.ports.clock.sleep_until(self.now() + REFUSED_PAUSE).await;
        };
        // Heads come before chunks: when room is short, heads matter more, because they lead to
        // chunks in many zones.
        self.keep_roster_of(zone).await;
        self.keep_heads(zone).await;
        self.keep_wanted(&reclaim, zone, &wanted).await;
        self.note_rewritten(zone);
        self.forget_zone(zone).await;
        self.holdings.note_emptied(zone);
        // The log retires a zone that cannot be reset; the cache has nothing to do then.
        let _ = reclaim.finish().await;
    }

    /// Rewrites the victim's heads that are in memory, which were used lately.
    async fn keep_heads(self: &Rc<Self>, zone: ZoneId) {
        let heads = self.holdings.hashes(zone, HEAD);
        for some in heads.chunks(REWRITES_AT_ONCE) {
            let rewrites = some.iter().map(|hash| self.keep_head(*hash));
            self.all_written(Stream::Rewrite, rewrites).await;
        }
    }

    /// Rewrites pinned records, then the pieces that the policy keeps.
    async fn keep_wanted(&self, reclaim: &Reclaim, zone: ZoneId, wanted: &Reinsertions) {
        if wanted.pinned.is_empty() && wanted.by_policy.is_empty() {
            return;
        }
        // The index has only hashes of keys; the zone's own list has the keys.
        let Some(descriptors) = records_of(reclaim).await else { return };
        let nothing = Vec::new();
        let pinned = match self.settings.has(Mutation::PinDropped) {
            true => &nothing,
            false => &wanted.pinned,
        };
        for offsets in [pinned, &wanted.by_policy] {
            let is_wanted =
                |descriptor: &&Descriptor| offsets.binary_search(&descriptor.offset).is_ok();
            self.keep_some(zone, &descriptors.iter().filter(is_wanted).collect::<Vec<_>>()).await;
        }
    }

    async fn keep_some(&self, zone: ZoneId, descriptors: &[&Descriptor]) {
        for some in descriptors.chunks(REWRITES_AT_ONCE) {
            let extent = |descriptor: &&Descriptor| Extent {
                zone,
                offset: descriptor.offset,
                len: descriptor.len,
            };
            let rewrites =
                some.iter().map(|descriptor| self.rewrite(descriptor, extent(descriptor)));
            self.all_written(Stream::Rewrite, rewrites).await;
        }
    }

    /// Runs appends concurrently, and seals the segment as soon as all of them wait.
    pub(crate) async fn all_written<F: Future<Output = ()>>(
        &self,
        stream: Stream,
        appends: impl Iterator<Item = F>,
    ) {
        let mut under_way: Vec<Pin<Box<F>>> = appends.map(Box::pin).collect();
        poll_fn(|cx| {
            under_way.retain_mut(|append| append.as_mut().poll(cx).is_pending());
            if under_way.is_empty() {
                return Poll::Ready(());
            }
            self.log.seal(stream);
            Poll::Pending
        })
        .await;
    }

    async fn rewrite(&self, descriptor: &Descriptor, extent: Extent) {
        let key = descriptor.key;
        let Some(found) = self.holdings.find(key) else { return };
        if found.extent != extent {
            return;
        }
        let (found_kind, kind) = (found.kind, kind_on_flash(found.kind, found.mark));
        let Some(data) = self.read_to_keep(key, &found).await else { return };
        if found_kind == HEAD && self.is_void(data.as_bytes()) {
            return;
        }
        let len = extent.len;
        let generation = Some(descriptor.generation);
        let record = Record { key, kind, len, data, generation };
        let Ok(placed) = self.log.append(Stream::Rewrite, record, Urgency::Linger).await else {
            return;
        };
        self.note_placed(Stream::Rewrite, placed.extent());
        self.holdings.publish_moved(key, extent, placed.extent(), self.now());
    }

    /// Reads a record that is to be kept. Tries again when the device is late: the zone is reset
    /// afterwards, so a record that is not read now is lost.
    async fn read_to_keep(&self, key: Key, found: &IndexEntry) -> Option<Payload> {
        for _ in 0..LATE_TRIES {
            match self.read_to_rewrite(key, found.clone()).await {
                Err(Unread::Late) => {}
                data => return data.ok(),
            }
        }
        None
    }

    /// Removes all records of a zone from the index.
    async fn forget_zone(&self, zone: ZoneId) {
        while self.forget_some(zone) {
            zonal_runtime::yield_now().await;
        }
    }

    fn forget_some(&self, zone: ZoneId) -> bool {
        let (mut evicted, mut heads) = (0, self.heads.borrow_mut());
        let more = self.holdings.drain(zone, FORGET_AT_ONCE, |found, hash| {
            evicted += 1;
            // This head came into memory after the rewrites, or found no room. It leaves memory as
            // well: a copy in memory alone would be a miss after a restart only.
            if found.kind == HEAD {
                heads.remove_by_hash(hash);
            }
        });
        self.count(|stats| stats.evicted += evicted);
        more
    }

    async fn keep_head(self: &Rc<Self>, hash: u64) {
        let known = self.heads.borrow().by_hash(hash);
        let Some((key, known)) = known else { return };
        let watch = self.watch(&known.name, key);
        self.append_head(Stream::Rewrite, (&watch, watch.epoch()), &known).await;
    }
}

/// All records of the victim. Tries again when the device is late, as [`Inner::read_to_keep`] does.
async fn records_of(reclaim: &Reclaim) -> Option<Vec<Descriptor>> {
    for _ in 0..LATE_TRIES {
        match reclaim.records().await {
            Err(DeviceError::TimedOut) => {}
            records => return records.ok(),
        }
    }
    None
}
