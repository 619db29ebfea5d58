//! Cache state: applies requests to objects and regions. No method here waits.

use std::collections::VecDeque;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Rng};

use super::items::{ItemLocation, Items, NOWHERE, QUEUED};
use super::layout::Layout;
use super::regions::{Regions, Stage};
use super::{CacheLibSettings, Placing};
use crate::cachebench::{Operation, PoolRequest, Requests};
use crate::trace::spread;

pub(super) struct State {
    requests: Requests,
    rng: Rng,
    items: Items,
    pub(super) regions: Regions,
    pub(super) layout: Layout,
    objects_per_item: u32,
    touches_per_change: u32,
    region: Bytes,
    region_count: u32,
    stable: Bytes,
    /// Objects that wait for a region.
    queue: VecDeque<u32>,
    queued: Bytes,
    /// Region that objects are gathered in. `gathered` is the number of bytes they take.
    gathering: Option<u32>,
    gathered: Bytes,
    /// Regions in memory: gathered, full or being written.
    pub(super) in_memory: u32,
    in_memory_max: u32,
    /// Full regions whose fill time has not passed yet.
    pub(super) to_fill: VecDeque<u32>,
    /// Regions that wait for their write.
    pub(super) to_write: VecDeque<u32>,
    pub(super) evicting: usize,
    /// True when a region was taken since [`State::take_took_region`].
    took_region: bool,
    /// Bytes of regions that were written. `moved` counts the bytes of moved regions.
    pub(super) written: u64,
    pub(super) moved: u64,
    when_aged: Option<(u64, u64)>,
    aged: Bytes,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) memory_hits: u64,
    /// Bytes of objects that gets requested in the stable stage. `when_stable` is the bytes written
    /// and moved before that stage.
    pub(super) got: u64,
    when_stable: Option<u64>,
}

/// Effect of a request on the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Changes the index.
    Change,
    /// Updates the recency of a region.
    Touch,
    Nothing,
}

/// A read of an object from a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlashRead {
    pub(super) region: u32,
    /// Offset from the start of the region.
    pub(super) offset: Blocks,
    pub(super) blocks: Blocks,
}

/// CacheLib's overhead per object in bytes: in memory, and in a region. In a region, objects begin
/// at multiples of [`ALIGNED`].
const IN_MEMORY: u32 = 32;
const IN_REGION: u32 = 40;
const ALIGNED: u32 = 512;

/// Backpressure: above this many bytes of queued objects, threads wait. CacheLib has memory for 6
/// GB of them and then refuses more. But the published rates are those of a cache whose threads
/// wait for its writes. The limit changes only how soon they wait.
const QUEUED_MAX: Bytes = Bytes::mib(64);

/// Open zones for region writes: as in the paper's code.
const OPEN_ZONES: u32 = 8;

/// Free zones that only the collector may take.
const KEPT_FREE: u32 = 1;

/// Target number of clean regions: eight as in the paper's configuration, and one for regions as
/// large as a zone. In between it is as many as fit in a gigabyte: the paper publishes no figure.
/// At most twice as many are in memory.
pub(super) fn clean_regions(region: Bytes) -> u32 {
    let fit = Bytes::mib(1024).0 / region.0.max(1);
    zonal_base::low_u32(zonal_base::index(fit.clamp(1, 8)))
}

impl State {
    pub(super) fn new(settings: &CacheLibSettings) -> Self {
        let share = f64::from(settings.smaller) * f64::from(settings.objects_per_item);
        let memory =
            settings.memory.0 / u64::from(settings.smaller) / u64::from(settings.objects_per_item);
        let zone = settings.zone.0 / settings.region.0;
        let zone_regions = zonal_base::low_u32(zonal_base::index(zone));
        let is_mapped = settings.placing.is_mapped();
        // Regions with a fixed place need no map.
        let (mapped, zones) = if is_mapped { (settings.regions, settings.zones) } else { (0, 0) };
        let (open, kept_free) = match settings.placing {
            // The other free zones are only for moved regions.
            Placing::File => (1, settings.free_zones.0.saturating_sub(1)),
            _ => (OPEN_ZONES, KEPT_FREE),
        };
        Self {
            requests: settings.workload.requests(share),
            rng: Rng::new(settings.seed),
            items: Items::new(memory),
            regions: Regions::new(settings),
            layout: Layout::new(mapped, (zones, zone_regions), open, kept_free),
            objects_per_item: settings.objects_per_item,
            touches_per_change: settings.touches_per_change,
            region: settings.region,
            region_count: settings.regions,
            stable: settings.stable,
            queue: VecDeque::new(),
            queued: Bytes(0),
            gathering: None,
            gathered: Bytes(0),
            in_memory: 0,
            in_memory_max: 2 * clean_regions(settings.region),
            to_fill: VecDeque::new(),
            to_write: VecDeque::new(),
            evicting: 0,
            took_region: false,
            written: 0,
            moved: 0,
            when_aged: None,
            aged: settings.aged,
            gets: 0,
            hits: 0,
            memory_hits: 0,
            got: 0,
            when_stable: None,
        }
    }

    /// Bytes written to the drive since the stable stage began.
    pub(super) fn stable_written(&self) -> u64 {
        self.when_stable.map_or(0, |before| self.written + self.moved - before)
    }

    /// True when threads must wait for room in the queue.
    pub(super) fn is_full(&self) -> bool {
        QUEUED_MAX <= self.queued
    }

    /// True once after a clean region was taken.
    pub(super) const fn take_took_region(&mut self) -> bool {
        std::mem::replace(&mut self.took_region, false)
    }

    /// True when more regions must be evicted to reach `target` clean regions.
    pub(super) fn wants_clean(&self, target: usize) -> bool {
        self.regions.clean_count() + self.evicting < target.min(self.region_count as usize)
    }

    /// Bytes written and moved at the end of the warm-up, or until now.
    pub(super) fn written_and_moved(&self) -> (u64, u64) {
        self.when_aged.unwrap_or((self.written, self.moved))
    }

    /// Runs one changing request, and those that only update recency.
    pub(super) fn untimed_requests(&mut self) {
        let got = self.got;
        self.request(Effect::Change);
        for _ in 0..self.touches_per_change {
            self.request(Effect::Touch);
        }
        // These requests stand for as many as an item stands for objects.
        let all = u64::from(self.objects_per_item) / u64::from(1 + self.touches_per_change);
        self.got = got + (self.got - got) * all;
    }

    /// Runs one request. One in `objects_per_item` changes the index.
    pub(super) fn timed_request(&mut self) -> Option<FlashRead> {
        let number = self.rng.below(u64::from(self.objects_per_item));
        self.request(match number {
            0 => Effect::Change,
            number if number <= u64::from(self.touches_per_change) => Effect::Touch,
            _ => Effect::Nothing,
        })
    }

    /// Runs one request. Returns the flash read that it needs.
    fn request(&mut self, effect: Effect) -> Option<FlashRead> {
        let PoolRequest { operation, key } = self.requests.next(&mut self.rng);
        let found = self.items.find(key);
        if operation == Operation::Get && self.stable.0 <= self.written {
            self.gets += 1;
            self.hits += u64::from(found.is_some());
            self.memory_hits += u64::from(matches!(found, Some((_, ItemLocation::Memory))));
            self.got += u64::from(self.requests.bytes(key));
        }
        let read = match (operation, found) {
            (Operation::Get, Some((_, ItemLocation::Region(region)))) => self.read_of(key, region),
            _ => None,
        };
        match effect {
            Effect::Change => self.change(operation, key, found),
            Effect::Touch => {
                if let Some(FlashRead { region, .. }) = read {
                    self.touch(region);
                }
            }
            Effect::Nothing => {}
        }
        read
    }

    fn touch(&mut self, region: u32) {
        let zone = self.layout.place(region).map(|place| place.zone);
        self.regions.was_read(region, zone);
        self.age();
    }

    fn read_of(&self, key: u64, region: u32) -> Option<FlashRead> {
        if region == QUEUED {
            return None;
        }
        let block = BLOCK_BYTES as u64;
        let in_region = self.region.0 / block;
        // Offset in its block: a multiple of 512 bytes.
        let begin = spread(!key) % (block / u64::from(ALIGNED)) * u64::from(ALIGNED);
        let end = begin + u64::from(self.requests.bytes(key) + IN_REGION);
        let blocks = end.div_ceil(block).min(in_region);
        let offset = spread(key) % (in_region - blocks + 1);
        Some(FlashRead { region, offset: Blocks(offset), blocks: Blocks(blocks) })
    }

    fn change(&mut self, operation: Operation, key: u64, found: Option<(u32, ItemLocation)>) {
        let item = match found {
            Some((item, _)) => item,
            None => self.items.add(key, self.requests.bytes(key) + IN_MEMORY),
        };
        match (operation, found) {
            (Operation::Get, Some((_, ItemLocation::Region(region)))) if region != QUEUED => {
                self.touch(region);
            }
            // A set invalidates the copy in the region.
            (Operation::Set, Some(_)) if self.items.region(item) != QUEUED => {
                self.items.set_region(item, NOWHERE);
            }
            _ => {}
        }
        self.items.use_in_memory(item);
        while let Some(item) = self.items.push_out() {
            if self.items.region(item) == NOWHERE {
                self.gather(item);
            }
        }
    }

    fn age(&mut self) {
        let Self { regions, layout, .. } = self;
        regions.age(
            |region| layout.place(region).map(|place| place.zone),
            |zone| layout.valid_in(zone),
        );
    }

    /// Adds an object to the region that is being gathered, or queues the object.
    fn gather(&mut self, item: u32) {
        if self.gathering.is_none() {
            self.gathering = self.begin_region();
        }
        let bytes = self.room_of(item);
        let Some(region) = self.gathering else {
            self.items.set_region(item, QUEUED);
            self.queue.push_back(item);
            self.queued.0 += bytes.0;
            return;
        };
        self.items.set_region(item, region);
        self.regions.put(region, item);
        self.gathered.0 += bytes.0;
        if self.region <= self.gathered {
            // The excess counts against the next region: an item stands for objects of both.
            self.gathered.0 -= self.region.0;
            self.to_fill.push_back(region);
            self.gathering = None;
        }
    }

    /// Bytes in a region of all objects that the item stands for.
    fn room_of(&self, item: u32) -> Bytes {
        let bytes = self.requests.bytes(self.items.key(item)) + IN_REGION;
        let room = bytes.next_multiple_of(ALIGNED);
        Bytes(u64::from(room) * u64::from(self.objects_per_item))
    }

    fn begin_region(&mut self) -> Option<u32> {
        if self.in_memory_max <= self.in_memory {
            return None;
        }
        let region = self.regions.take_clean()?;
        self.in_memory += 1;
        self.took_region = true;
        Some(region)
    }

    /// Gathers queued objects first, once a region is clean or memory has room for one.
    pub(super) fn gather_queued(&mut self) {
        while self.gathering.is_some() || self.can_begin_region() {
            let Some(item) = self.queue.pop_front() else { return };
            self.queued.0 -= self.room_of(item).0;
            // The object may have been set again meanwhile. CacheLib stores the queued copy all the
            // same.
            self.gather(item);
        }
    }

    fn can_begin_region(&self) -> bool {
        self.in_memory < self.in_memory_max && 0 < self.regions.clean_count()
    }

    /// The region is on the drive.
    pub(super) fn was_written(&mut self, region: u32) {
        self.regions.was_written(region);
        self.age();
        self.in_memory -= 1;
        self.written += self.region.0;
        if self.stable.0 <= self.written {
            self.when_stable.get_or_insert(self.written + self.moved);
        }
        if self.when_aged.is_none() && self.aged.0 <= self.written {
            self.when_aged = Some((self.written, self.moved));
        }
    }

    /// Forgets the items of an evicted region.
    pub(super) fn was_evicted(&mut self, region: u32) {
        for item in self.regions.was_evicted(region) {
            if self.items.region(item) == region {
                self.items.lose_region(item);
            }
        }
    }

    /// True when the region can be read from the drive.
    pub(super) fn is_on_drive(&self, region: u32) -> bool {
        matches!(self.regions.stage(region), Stage::Written | Stage::Evicting)
    }
}
