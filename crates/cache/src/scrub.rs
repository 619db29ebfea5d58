//! Scrub: reads everything on flash that counts, and verifies it before a client needs it.
//!
//! 1. Zone by zone, read the headers or the footer, and compare them with what was written.
//! 2. Read each record that the index has in the zone, one at a time, and verify its checksums. A
//!    damaged record leaves the index: the next read fetches it from the origin.
//! 3. Pauses bound the rate. Nothing is pinned during a pause, so zones can be reclaimed.
//! 4. A stop of the shard ends the scrub.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use zonal_base::{Bytes, Nanos, ZoneId};
use zonal_runtime::Pace;
use zonal_zonelog::{Descriptor, Extent, Kind, Log};

use crate::Cache;
use crate::cache::Inner;
use crate::records::{LATE_TRIES, Unread};

/// Damaged zones that a scrub remembers.
const DAMAGED_ZONES_MAX: usize = 1000;

/// Records looked up between two yields to other tasks: about 100 us.
const LOOK_AT_ONCE: usize = 1024;

/// A scrub of one shard: how far it is, and what it has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// True until it ends.
    pub is_running: bool,
    /// It ended before it had verified everything: the device failed or was late, or the shard
    /// stopped.
    pub is_broken_off: bool,
    /// Zones of the shard.
    pub zones: u32,
    /// Zones that are verified, or hold nothing.
    pub zones_done: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Records that were verified.
    pub records: u64,
    /// Records that are damaged or cannot be read.
    pub damaged_records: u64,
    /// Zones with damaged headers or a damaged footer.
    pub damaged_metadata: u64,
    /// The first zones with damage: a thousand at most.
    pub damaged_zones: Vec<ZoneId>,
}

/// Why a scrub ends before it has verified everything.
struct BrokenOff;

/// Resets the flag of a scrub that is dropped.
struct Running<'a>(&'a Inner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.scrub.borrow_mut().is_running = false;
    }
}

impl Cache {
    /// Reads and verifies everything that counts on this shard's flash, with at most `rate` bytes
    /// per second. Does nothing if a scrub is running.
    pub async fn scrub(&self, rate: Bytes) {
        let inner = &self.inner;
        let zones = inner.log.geometry().zone_count;
        if inner.scrub.borrow().is_running {
            return;
        }
        inner.scrub.replace(Scrub { is_running: true, zones, ..Scrub::default() });
        let _running = Running(inner);
        let mut pace = Pace::new(&inner.ports.clock, rate);
        for zone in inner.log.geometry().zones() {
            if inner.scrub_zone(zone, &mut pace).await.is_err() {
                inner.scrub.borrow_mut().is_broken_off = true;
                return;
            }
            inner.scrub.borrow_mut().zones_done += 1;
        }
    }

    /// Ends a running scrub, before the shard stops or its device is given up.
    pub fn end_scrub(&self) {
        self.inner.end_scrub();
    }

    /// The scrub that is running, or the last one.
    #[must_use]
    pub fn scrub_progress(&self) -> Scrub {
        self.inner.scrub.borrow().clone()
    }
}

impl Inner {
    async fn scrub_zone(self: &Rc<Self>, zone: ZoneId, pace: &mut Pace) -> Result<(), BrokenOff> {
        let begun = self.now();
        let listing = self.list_zone(zone).await.map_err(|_| BrokenOff)?;
        if !listing.is_intact {
            self.scrub.borrow_mut().damaged_metadata += 1;
            self.note_damaged_zone(zone);
        }
        self.pause(pace, begun, listed_bytes(&listing.records)).await?;
        let records = listing.records.iter().filter(|record| record.kind != Kind::TOMBSTONE);
        for (number, descriptor) in records.enumerate() {
            if number % LOOK_AT_ONCE == LOOK_AT_ONCE - 1 {
                zonal_runtime::yield_now().await;
            }
            let begun = self.now();
            let Some(bytes) = self.scrub_record(zone, descriptor).await? else { continue };
            self.pause(pace, begun, bytes).await?;
        }
        Ok(())
    }

    /// Verifies a record, if the index has it at this place. Returns the bytes that were read.
    async fn scrub_record(
        &self,
        zone: ZoneId,
        descriptor: &Descriptor,
    ) -> Result<Option<Bytes>, BrokenOff> {
        let (key, len) = (descriptor.key, descriptor.len);
        let extent = Extent { zone, offset: descriptor.offset, len };
        let mut tries = 1..LATE_TRIES;
        loop {
            let Some(found) = self.holdings.find(key).filter(|found| found.extent == extent) else {
                return Ok(None);
            };
            let Ok(blocks) = self.blocks_of_whole(key, extent) else { return Ok(None) };
            let buffer = self.ports.buffers.take(blocks).await;
            let Ok(mut reading) = self.start_whole(key, found, buffer) else { return Ok(None) };
            let Err(error) = reading.done().await else { break };
            if self.log.is_gone() {
                return Err(BrokenOff);
            }
            match self.note_unread(key, extent, error) {
                Unread::Late if tries.next().is_some() => {}
                Unread::Late => return Err(BrokenOff),
                Unread::Gone => {
                    self.scrub.borrow_mut().damaged_records += 1;
                    self.note_damaged_zone(zone);
                    break;
                }
            }
        }
        self.scrub.borrow_mut().records += 1;
        Ok(Some(Log::read_blocks(extent, &(0..len)).bytes()))
    }

    fn note_damaged_zone(&self, zone: ZoneId) {
        let damaged = &mut self.scrub.borrow_mut().damaged_zones;
        if damaged.last() != Some(&zone) && damaged.len() < DAMAGED_ZONES_MAX {
            damaged.push(zone);
        }
    }

    /// Waits until the next piece may be read, or the scrub is to end.
    async fn pause(&self, pace: &mut Pace, begun: Nanos, read: Bytes) -> Result<(), BrokenOff> {
        self.scrub.borrow_mut().read_bytes += read.0;
        let mut ended = pin!(self.scrub_ended.wait());
        let mut pause = pin!(pace.pause(begun, read));
        poll_fn(|cx| {
            if self.scrub.borrow().is_broken_off || self.log.is_gone() {
                return Poll::Ready(Err(BrokenOff));
            }
            // Registers the waker; the flag tells the end.
            let _ = ended.as_mut().poll(cx);
            pause.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    pub(crate) fn end_scrub(&self) {
        let mut scrub = self.scrub.borrow_mut();
        scrub.is_broken_off |= scrub.is_running;
        drop(scrub);
        self.scrub_ended.notify_all();
    }
}

/// Bytes that list records, approximately: their descriptors.
fn listed_bytes(records: &[Descriptor]) -> Bytes {
    const DESCRIPTOR: u64 = 36;
    let of_record = |record: &Descriptor| DESCRIPTOR + 4 * record.checks.as_slice().len() as u64;
    Bytes(records.iter().map(of_record).sum())
}
