//! In-memory state: zones, map, counters. Plain data without waiting.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, index};

use crate::close::Closing;
use crate::format::{Header, Key};
use crate::hot_retention::HotRetention;
use crate::layout::{Layout, PhysAddr, Zone};
use crate::map::{Map, MapEntry, Merge, Switched};
use crate::mutation::Mutation;
use crate::refused::RefusedSegment;
use crate::settings::{COLLECTION_ZONES, MapPlace};
use crate::shaper::Inner;
use crate::write::WriteQueue;
use crate::zones::Stream;
use crate::{BlockError, DamagedBlock, Scrub, ShaperStats, TenantStats, Tier};

/// Use of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// Holds no data and can be opened.
    Empty,
    /// Being written.
    Open,
    /// Full, or closed before it was full; can be emptied.
    Sealed,
    /// Being emptied by compaction or garbage collection.
    Emptying,
    /// Worn out or broken: never used again.
    Retired,
    /// Holds blocks that could not be read when the zone was emptied, and nothing else that is
    /// needed. It waits for them to be overwritten, or for a start that can read them.
    Unreadable,
}

const USES: usize = 6;

impl ZoneUse {
    const fn id(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Open => 1,
            Self::Sealed => 2,
            Self::Emptying => 3,
            Self::Retired => 4,
            Self::Unreadable => 5,
        }
    }
}

/// At most one zone of a tier in this many is kept because of unreadable blocks.
const KEPT_SHARE: u32 = 16;

/// State of one zone.
#[derive(Clone, Debug)]
pub(crate) struct ZoneFacts {
    usage: ZoneUse,
    /// Number of the zone's first segment: the order in which zones were opened.
    pub(crate) number: u64,
    /// Number of the last segment submitted to the zone; 0 if it was written before this start.
    pub(crate) last_number: u64,
    /// End of what was written, in blocks.
    pub(crate) written: u32,
    /// End and header checksum of the last completed segment with entries.
    pub(crate) last: (u32, u32),
    /// The same of the last one that a completed header repeats, and as it was at the last flush.
    pub(crate) repeated: (u32, u32),
    pub(crate) flushed: (u32, u32),
    /// No block in it is needed: new zone tables omit it, and it is reset once that is on flash.
    pub(crate) is_released: bool,
    /// Blocks that the map names.
    pub(crate) live: u32,
    /// Capacity tier: how many zones had been opened with this one; 0 if it was opened before this
    /// start.
    pub(crate) begun: u64,
    /// Reads in flight. A pinned zone is not reset.
    pub(crate) pins: u32,
    /// Who writes to it while it is open.
    pub(crate) stream: Stream,
    /// Buffer tier: trim bitmaps that cover the trims logged in this zone.
    pub(crate) trimmed: BTreeSet<Key>,
    /// Positions at which the header on the device does not count.
    pub(crate) detours: BTreeMap<u32, Detour>,
}

/// What counts in place of a header that recovery could not read.
#[derive(Clone, Debug)]
pub(crate) enum Detour {
    /// The header, rebuilt from its echo.
    Rebuilt(Header),
    /// Nothing up to this position.
    Skip(u32),
}

/// State of the whole block device.
pub(crate) struct State {
    zones: Vec<ZoneFacts>,
    empty: [VecDeque<Zone>; 2],
    counts: [[u32; USES]; 2],
    pub(crate) map: Map,
    pub(crate) log: WriteQueue,
    pub(crate) rounds: HotRetention,
    /// Capacity zones opened since this start.
    pub(crate) zones_begun: u64,
    /// Blocks that throttled writers may still queue; negative if they took more than was granted.
    pub(crate) grants: i64,
    /// True when the grants are used up: writers wait until there are enough for a segment.
    pub(crate) is_paused: bool,
    /// Free blocks in the open zones of compaction and of garbage collection, in the order of
    /// `Cause`.
    pub(crate) mover_room: [u64; 2],
    /// Blocks of the victim zone that garbage collection has already processed.
    pub(crate) passed: u32,
    pub(crate) next_sequence: u64,
    pub(crate) next_number: u64,
    /// By tier: segments that durable marks may not pass, because they are not completed, were
    /// refused, or are not repeated by a completed header yet. Each with the number of the segment
    /// before it, and its zone.
    pub(crate) unsettled: [BTreeMap<u64, (u64, Zone)>; 2],
    pub(crate) refused: Vec<RefusedSegment>,
    /// By tier: number of the last submitted segment with entries.
    pub(crate) last_number: [u64; 2],
    /// By tier: number of the last segment that is flushed together with all before it.
    pub(crate) durable: [u64; 2],
    /// By tier: zones written since the last flush began.
    pub(crate) unflushed_zones: [BTreeSet<Zone>; 2],
    /// Epochs of the last zone table made, and of the last one flushed.
    pub(crate) epoch: u64,
    pub(crate) epoch_durable: u64,
    /// Segments with this number and above were made after the last flushed zone table.
    pub(crate) table_number: u64,
    pub(crate) closing: Closing,
    /// By tier: bytes written since the last flush.
    pub(crate) unflushed: [u64; 2],
    /// True while a start overwrites data that recovery did not trust. Until that is done,
    /// `durable` does not advance, so that another recovery does not trust them either.
    pub(crate) is_repairing: bool,
    pub(crate) tenant_stats: Vec<TenantStats>,
    /// By tenant: blocks that hold data. Too low while unmerged map changes count holes as
    /// overwritten data.
    pub(crate) mapped: Vec<i64>,
    pub(crate) stats: ShaperStats,
    pub(crate) last_corrupt: Option<DamagedBlock>,
    /// The scrub that is running, or the last one.
    pub(crate) scrub: Scrub,
    pub(crate) scrub_damaged: Vec<DamagedBlock>,
    /// By tier: writes that are repeated until the device takes them (`read_only`).
    pub(crate) held_writes: [u32; 2],
    pub(crate) failure: Option<BlockError>,
    /// Error that stopped all moves from the buffer to the capacity tier.
    pub(crate) halted: Option<BlockError>,
    /// True while compaction waits for an empty zone.
    pub(crate) is_waited_for: bool,
    /// Retired zones without needed content. They are named in the export table, and starts ignore
    /// them.
    pub(crate) retired: BTreeSet<Zone>,
    /// True when the export table on flash does not name all retired zones.
    pub(crate) is_table_stale: bool,
    /// Zones that map pages may use, and how many they use. `None` if the whole map is in memory.
    pub(crate) map_place: Option<MapPlace>,
    pub(crate) map_zones_held: u32,
}

impl State {
    pub(crate) fn new(layout: &Layout, map: Map, tenant_count: usize) -> Self {
        let blank = ZoneFacts {
            usage: ZoneUse::Empty,
            number: 0,
            last_number: 0,
            written: 0,
            last: (0, 0),
            repeated: (0, 0),
            flushed: (0, 0),
            is_released: false,
            live: 0,
            begun: 0,
            pins: 0,
            stream: Stream::User,
            trimmed: BTreeSet::new(),
            detours: BTreeMap::new(),
        };
        let mut counts = [[0; USES]; 2];
        for tier in Tier::ALL {
            counts[usize::from(tier.id())][ZoneUse::Empty.id()] = layout.place(tier).count;
        }
        Self {
            zones: alloc::vec![blank; index(u64::from(layout.zone_count()))],
            empty: Tier::ALL.map(|tier| layout.zones(tier).collect()),
            counts,
            map,
            log: WriteQueue::default(),
            rounds: HotRetention::new(layout),
            zones_begun: 0,
            grants: 0,
            is_paused: true,
            mover_room: [0; 2],
            passed: 0,
            next_sequence: 1,
            next_number: 1,
            unsettled: Default::default(),
            refused: Vec::new(),
            last_number: [0; 2],
            durable: [0; 2],
            unflushed_zones: Default::default(),
            epoch: 0,
            epoch_durable: 0,
            table_number: 0,
            closing: Closing::default(),
            unflushed: [0; 2],
            is_repairing: false,
            tenant_stats: alloc::vec![TenantStats::default(); tenant_count],
            mapped: alloc::vec![0; tenant_count],
            stats: ShaperStats::default(),
            last_corrupt: None,
            scrub: Scrub::default(),
            scrub_damaged: Vec::new(),
            held_writes: [0; 2],
            failure: None,
            halted: None,
            is_waited_for: false,
            retired: BTreeSet::new(),
            is_table_stale: false,
            map_place: None,
            map_zones_held: 0,
        }
    }

    pub(crate) fn zone(&self, zone: Zone) -> &ZoneFacts {
        &self.zones[index(u64::from(zone.0))]
    }

    pub(crate) fn zone_mut(&mut self, zone: Zone) -> &mut ZoneFacts {
        &mut self.zones[index(u64::from(zone.0))]
    }

    pub(crate) fn usage(&self, zone: Zone) -> ZoneUse {
        self.zone(zone).usage
    }

    pub(crate) fn count(&self, tier: Tier, usage: ZoneUse) -> u32 {
        self.counts[usize::from(tier.id())][usage.id()]
    }

    pub(crate) const fn counts(&self, tier: Tier) -> [u32; USES] {
        self.counts[tier.id() as usize]
    }

    /// Empty zones of the tier, without those reserved for the map. Repairs at a start may use the
    /// reserved zones of the capacity tier: they free more zones than they take.
    pub(crate) fn empty_count(&self, tier: Tier) -> u32 {
        self.count(tier, ZoneUse::Empty).saturating_sub(self.zones_reserved_for_map(tier))
    }

    /// Empty zones of the tier that only the map may use.
    pub(crate) fn zones_reserved_for_map(&self, tier: Tier) -> u32 {
        match self.map_place {
            Some(place) if place.tier == tier && !(self.is_repairing && tier == Tier::Capacity) => {
                place.zones.saturating_sub(self.map_zones_held)
            }
            _ => 0,
        }
    }

    pub(crate) fn pins(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.pins)).sum()
    }

    /// Changes the use of a zone. Only this function does, so that the counts stay correct.
    pub(crate) fn set_usage(&mut self, layout: &Layout, zone: Zone, usage: ZoneUse) {
        let tier = usize::from(layout.tier_of(zone).id());
        let was = core::mem::replace(&mut self.zone_mut(zone).usage, usage);
        self.counts[tier][was.id()] -= 1;
        self.counts[tier][usage.id()] += 1;
        match usage {
            ZoneUse::Empty => {
                let facts = self.zone_mut(zone);
                assert!(facts.live == 0, "an empty zone has nothing that the map names");
                (facts.number, facts.last_number) = (0, 0);
                (facts.written, facts.is_released) = (0, false);
                (facts.last, facts.repeated, facts.flushed) = ((0, 0), (0, 0), (0, 0));
                facts.trimmed = BTreeSet::new();
                facts.detours = BTreeMap::new();
                self.forget_refused_in(zone);
                self.empty[tier].push_back(zone);
            }
            ZoneUse::Retired => self.stats.zones_retired += 1,
            _ => (),
        }
        if was == ZoneUse::Empty {
            self.empty[tier].retain(|other| *other != zone);
        }
    }

    /// Retires a zone that cannot be reset. Requires: nothing in it is needed.
    pub(crate) fn give_up(&mut self, layout: &Layout, zone: Zone) {
        self.set_usage(layout, zone, ZoneUse::Retired);
        self.is_table_stale |= self.retired.insert(zone);
    }

    /// Opens the zone that has been empty longest.
    pub(crate) fn open_zone(
        &mut self,
        layout: &Layout,
        (tier, stream): (Tier, Stream),
    ) -> Option<Zone> {
        if self.empty_count(tier) == 0 {
            return None;
        }
        let zone = self.empty[usize::from(tier.id())].front().copied()?;
        self.set_usage(layout, zone, ZoneUse::Open);
        self.zone_mut(zone).stream = stream;
        if tier == Tier::Capacity {
            self.zones_begun += 1;
            self.zone_mut(zone).begun = self.zones_begun;
        }
        Some(zone)
    }

    /// Opens a zone for map pages. It stays `Open`, so that compaction and collection never choose
    /// it.
    pub(crate) fn open_map_zone(&mut self, layout: &Layout) -> Option<Zone> {
        let empty = |tier: Tier| self.empty[usize::from(tier.id())].front().copied();
        let has_capacity_some = COLLECTION_ZONES < self.empty_count(Tier::Capacity);
        // A zone reserved for the map may have worn out while the log uses all others.
        let elsewhere = || has_capacity_some.then(|| empty(Tier::Capacity)).flatten();
        let zone = empty(self.map_place?.tier).or_else(elsewhere)?;
        self.set_usage(layout, zone, ZoneUse::Open);
        self.zone_mut(zone).stream = Stream::Map;
        self.map_zones_held += 1;
        Some(zone)
    }

    /// Records a zone found by recovery: number of its first segment, end of all that is written,
    /// and `last`: end and header checksum of its last segment with entries.
    pub(crate) fn adopt_zone(
        &mut self,
        layout: &Layout,
        zone: Zone,
        (number, written, last): (u64, u32, (u32, u32)),
    ) {
        let facts = self.zone_mut(zone);
        (facts.number, facts.written) = (number, written);
        // A start lets a header repeat it before anything else is written to the zone.
        (facts.last, facts.repeated) = (last, last);
        self.unflushed_zones[usize::from(layout.tier_of(zone).id())].insert(zone);
    }

    /// Counts a block on a map page that recovery built.
    pub(crate) fn adopt_spot(&mut self, layout: &Layout, tenant: u16, spot: PhysAddr) {
        self.map.paged_mut().expect("it has pages").name(spot);
        self.zone_mut(layout.locate(spot).0).live += 1;
        self.mapped[usize::from(tenant)] += 1;
    }

    /// Sets the map entry of `key` and updates the live counts. `known`: the previous
    /// address, if the caller knows it. Returns the address that is dead now, if it is known.
    pub(crate) fn publish(
        &mut self,
        layout: &Layout,
        tenant: u16,
        (key, known): (Key, Option<PhysAddr>),
        entry: MapEntry,
    ) -> PhysAddr {
        let was = self.map.set(key, entry, known);
        self.release(layout, was.spot);
        if !entry.is_hole() {
            let (zone, _) = layout.locate(entry.spot);
            self.zone_mut(zone).live += 1;
        }
        if key.kind().is_users() {
            let mapped = &mut self.mapped[usize::from(tenant)];
            *mapped += i64::from(!entry.is_hole());
            *mapped -= i64::from(was.is_mapped);
        }
        was.spot
    }

    /// Uncounts a dead block.
    fn release(&mut self, layout: &Layout, spot: PhysAddr) {
        if spot != PhysAddr::NONE {
            self.zone_mut(layout.locate(spot).0).live -= 1;
        }
    }

    /// True if the block at `from` is live: the map names it for `key`.
    pub(crate) fn still_names(&mut self, layout: &Layout, key: Key, from: PhysAddr) -> bool {
        let (is_live, released) = self.map.still_names(key, from);
        self.release(layout, released);
        is_live
    }

    /// Switches the map to a merged page that is on flash, and counts the dead blocks that this
    /// revealed.
    pub(crate) fn switch_page(&mut self, inner: &Inner, merge: &Merge, flash: (PhysAddr, u32)) {
        let paged = self.map.paged_mut().expect("it has pages");
        if inner.has(Mutation::ChangeForgotten) {
            paged.revert(merge);
        }
        let (export, _) = paged.first_of(merge.page);
        let Switched { released, holes } = paged.switch(merge, flash);
        for spot in released {
            self.release(&inner.layout, spot);
        }
        self.mapped[usize::from(inner.tenants[export])] += holes;
    }

    /// Lower bound of the sequences of entries that are not in the map yet.
    pub(crate) fn lowest_unpublished(&self) -> u64 {
        self.log.lowest_unpublished().unwrap_or(self.next_sequence)
    }

    /// The last segment of the tier that is settled together with all before it.
    pub(crate) fn last_settled(&self, tier: Tier) -> u64 {
        let tier = usize::from(tier.id());
        let first = self.unsettled[tier].first_key_value();
        first.map_or(self.last_number[tier], |(_, (previous, _))| *previous)
    }

    /// A completed header repeats this segment.
    pub(crate) fn note_repeated(&mut self, tier: Tier, number: u64) {
        if !self.is_refused(number) {
            self.unsettled[usize::from(tier.id())].remove(&number);
        }
    }

    /// Nothing more is written to the zone: what is on the device is all there will be.
    pub(crate) fn settle_zone(&mut self, layout: &Layout, zone: Zone) {
        let tier = usize::from(layout.tier_of(zone).id());
        let mut unsettled = core::mem::take(&mut self.unsettled[tier]);
        unsettled.retain(|number, (_, of)| *of != zone || self.is_refused(*number));
        self.unsettled[tier] = unsettled;
    }

    /// Why compaction and garbage collection must stop: a failure, a halt, or a shutdown.
    pub(crate) fn stopped(&self) -> Option<BlockError> {
        let closing = (self.closing != Closing::No).then_some(BlockError::Closing);
        self.failure.or(self.halted).or(closing)
    }

    /// True for a zone that can be emptied.
    pub(crate) fn may_empty(&self, zone: Zone) -> bool {
        match self.usage(zone) {
            ZoneUse::Sealed => true,
            // What could not be read was overwritten.
            ZoneUse::Unreadable => self.zone(zone).live == 0,
            _ => false,
        }
    }

    /// True if the tier can do without this zone. Blocks that cannot be read then stay where they
    /// are, instead of being given up.
    pub(crate) fn may_keep(&self, layout: &Layout, zone: Zone) -> bool {
        let tier = layout.tier_of(zone);
        self.count(tier, ZoneUse::Unreadable) < layout.place(tier).count / KEPT_SHARE
    }

    pub(crate) fn tenant_mut(&mut self, tenant: u16) -> &mut TenantStats {
        &mut self.tenant_stats[usize::from(tenant)]
    }

    /// Counts device writes of a tier.
    pub(crate) fn note_written(&mut self, tier: Tier, blocks: u64) {
        let bytes = blocks * BLOCK_BYTES as u64;
        self.unflushed[usize::from(tier.id())] += bytes;
        match tier {
            Tier::Buffer => self.stats.buffer_device_bytes += bytes,
            Tier::Capacity => self.stats.capacity_device_bytes += bytes,
        }
    }
}
