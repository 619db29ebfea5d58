//! In-memory state: zones, map, counters. Plain data without waiting.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use zonal_base::{BLOCK_BYTES, index, low_u32};

use crate::again::Rounds;
use crate::close::Closing;
use crate::format::{DATA_BLOCKS, Key, Kind};
use crate::layout::{Layout, Spot, Zone};
use crate::map::{Map, Merge, Switched};
use crate::planted::Planted;
use crate::settings::{COLLECTION_ZONES, MapPlace, collection_mark};
use crate::shaper::Inner;
use crate::write::Log;
use crate::{BlockError, ShaperStats, TenantStats, Tier};

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneUse {
    /// Nothing in it; can be opened.
    Empty,
    /// Being filled.
    Open,
    /// Filled, or given up half full; can be emptied.
    Sealed,
    /// Being emptied.
    Emptying,
    /// Worn out or broken: never used again.
    Retired,
}

const USES: usize = 5;

impl ZoneUse {
    const fn id(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Open => 1,
            Self::Sealed => 2,
            Self::Emptying => 3,
            Self::Retired => 4,
        }
    }
}

/// One zone.
#[derive(Clone, Debug)]
pub(crate) struct ZoneFacts {
    usage: ZoneUse,
    /// Number of its first segment: the order in which zones were begun.
    pub(crate) number: u64,
    /// Number of its last segment that was put on its way; 0 for those that an earlier opening wrote.
    pub(crate) last_number: u64,
    /// Blocks up to the end of its last segment, and the checksum of that segment's header.
    pub(crate) written: u32,
    pub(crate) sum: u32,
    /// The same of the last segment that was flushed.
    pub(crate) flushed: (u32, u32),
    /// Nothing in it counts any more: no zone table has it from now on, and it is reset when that is on flash.
    pub(crate) is_released: bool,
    /// Blocks that the map names.
    pub(crate) live: u32,
    /// Of the capacity tier: how many had been begun then, this one included; 0 if an earlier opening did.
    pub(crate) begun: u64,
    /// Reads under way.
    pub(crate) pins: u32,
    /// Of the buffer: pages in which blocks were trimmed by entries that stand here.
    pub(crate) trimmed: BTreeSet<Key>,
    /// Segments that the device refused here, and of which it may have kept a part: recovery must not trust them.
    torn: Vec<u64>,
}

/// All of it.
pub(crate) struct State {
    zones: Vec<ZoneFacts>,
    empty: [VecDeque<Zone>; 2],
    counts: [[u32; USES]; 2],
    pub(crate) map: Map,
    pub(crate) log: Log,
    pub(crate) rounds: Rounds,
    /// Zones of the capacity tier that were begun.
    pub(crate) zones_begun: u64,
    /// Blocks that may yet be taken in while compaction is behind; below 0 for what was taken beyond.
    pub(crate) grants: i64,
    /// All that was granted has been used: nobody is let in before there is enough for a segment.
    pub(crate) is_paused: bool,
    /// Blocks that are left in the zones that compaction writes to, and in those of collection.
    pub(crate) mover_room: [u64; 2],
    /// Blocks that collection is done with in the zone that it empties.
    pub(crate) passed: u32,
    pub(crate) next_sequence: u64,
    pub(crate) next_number: u64,
    /// Segments whose write is not answered, or was refused, by tier; of each the number of the one before it.
    pub(crate) unanswered: [BTreeMap<u64, u64>; 2],
    /// By tier: the last segment that was put on its way.
    pub(crate) last_number: [u64; 2],
    /// By tier: the last segment that is flushed, with all before it.
    pub(crate) durable: [u64; 2],
    /// By tier: zones that were written since the last flush began.
    pub(crate) unflushed_zones: [BTreeSet<Zone>; 2],
    /// Of the last zone table that was made, and of the last one that is flushed.
    pub(crate) epoch: u64,
    pub(crate) epoch_durable: u64,
    /// Segments of this number and above were made after the last one that is flushed.
    pub(crate) table_number: u64,
    pub(crate) closing: Closing,
    /// Bytes written since the last flush, by tier.
    pub(crate) unflushed: [u64; 2],
    /// What recovery did not trust is being written over: until that is done, the next one must not trust it either.
    pub(crate) is_repairing: bool,
    pub(crate) tenant_stats: Vec<TenantStats>,
    /// By tenant: blocks that hold data. Too few while a merge has not told that what was overwritten had been a hole.
    pub(crate) mapped: Vec<i64>,
    pub(crate) stats: ShaperStats,
    pub(crate) failure: Option<BlockError>,
    /// Why nothing goes from the buffer to the capacity tier any more, if so.
    pub(crate) halted: Option<BlockError>,
    /// Compaction waits for an empty zone.
    pub(crate) is_waited_for: bool,
    /// Zones that cannot be emptied any more, and in which nothing counts: a start does without them.
    pub(crate) given_up: BTreeSet<Zone>,
    /// The table on flash does not name all of them yet.
    pub(crate) is_table_stale: bool,
    /// Zones that the map may have, and how many it has. None if all of it is in memory.
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
            sum: 0,
            flushed: (0, 0),
            is_released: false,
            live: 0,
            begun: 0,
            pins: 0,
            trimmed: BTreeSet::new(),
            torn: Vec::new(),
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
            log: Log::default(),
            rounds: Rounds::new(layout),
            zones_begun: 0,
            grants: 0,
            is_paused: true,
            mover_room: [0; 2],
            passed: 0,
            next_sequence: 1,
            next_number: 1,
            unanswered: Default::default(),
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
            failure: None,
            halted: None,
            is_waited_for: false,
            given_up: BTreeSet::new(),
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

    /// Empty zones of the tier, but for those that are kept for the map. A start may take those: it gives back more than it takes.
    pub(crate) fn empty_count(&self, tier: Tier) -> u32 {
        let kept = match self.map_place {
            Some(place) if place.tier == tier && !self.is_repairing => {
                place.zones.saturating_sub(self.map_zones_held)
            }
            _ => 0,
        };
        self.count(tier, ZoneUse::Empty).saturating_sub(kept)
    }

    pub(crate) fn pins(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.pins)).sum()
    }

    /// The only way to change what a zone is used for.
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
                (facts.written, facts.sum) = (0, 0);
                (facts.flushed, facts.is_released) = ((0, 0), false);
                facts.trimmed = BTreeSet::new();
                for number in core::mem::take(&mut facts.torn) {
                    self.unanswered[tier].remove(&number);
                }
                self.empty[tier].push_back(zone);
            }
            ZoneUse::Retired => self.stats.zones_retired += 1,
            _ => (),
        }
        if was == ZoneUse::Empty {
            self.empty[tier].retain(|other| *other != zone);
        }
    }

    /// The zone cannot be emptied. Requires: nothing in it counts any more.
    pub(crate) fn give_up(&mut self, layout: &Layout, zone: Zone) {
        self.set_usage(layout, zone, ZoneUse::Retired);
        self.is_table_stale |= self.given_up.insert(zone);
    }

    /// Takes the zone that has been empty longest.
    pub(crate) fn open_zone(&mut self, layout: &Layout, tier: Tier) -> Option<Zone> {
        if self.empty_count(tier) == 0 {
            return None;
        }
        let zone = self.empty[usize::from(tier.id())].front().copied()?;
        self.set_usage(layout, zone, ZoneUse::Open);
        if tier == Tier::Capacity {
            self.zones_begun += 1;
            self.zone_mut(zone).begun = self.zones_begun;
        }
        Some(zone)
    }

    /// The same for the map, which keeps it as it is: open, and nobody's victim.
    pub(crate) fn open_map_zone(&mut self, layout: &Layout) -> Option<Zone> {
        let empty = |tier: Tier| self.empty[usize::from(tier.id())].front().copied();
        let has_capacity_some = COLLECTION_ZONES < self.empty_count(Tier::Capacity);
        // One that was kept may have been worn out, and the log have the others.
        let elsewhere = || has_capacity_some.then(|| empty(Tier::Capacity)).flatten();
        let zone = empty(self.map_place?.tier).or_else(elsewhere)?;
        self.set_usage(layout, zone, ZoneUse::Open);
        self.map_zones_held += 1;
        Some(zone)
    }

    /// What recovery found in a zone: number of its first segment, end and checksum of its last one.
    pub(crate) fn adopt_zone(&mut self, layout: &Layout, zone: Zone, found: (u64, u32, u32)) {
        let facts = self.zone_mut(zone);
        (facts.number, facts.written, facts.sum) = found;
        self.unflushed_zones[usize::from(layout.tier_of(zone).id())].insert(zone);
    }

    /// Recovery found a block of a page of the map.
    pub(crate) fn adopt_spot(&mut self, layout: &Layout, tenant: u16, spot: Spot) {
        self.map.paged_mut().expect("it has pages").name(spot);
        self.zone_mut(layout.locate(spot).0).live += 1;
        self.mapped[usize::from(tenant)] += 1;
    }

    /// The map says from now on that `key` lies at `spot`. `known`: where it lay, for whoever knows it. What is dead from now on, if
    /// that is known, comes back.
    pub(crate) fn publish(
        &mut self,
        layout: &Layout,
        tenant: u16,
        (key, known): (Key, Option<Spot>),
        spot: Spot,
    ) -> Spot {
        let was = self.map.set(key, spot, known);
        self.release(layout, was.spot);
        if spot != Spot::NONE {
            let (zone, _) = layout.locate(spot);
            self.zone_mut(zone).live += 1;
        }
        if matches!(key.kind(), Kind::Data | Kind::Lost) {
            let mapped = &mut self.mapped[usize::from(tenant)];
            *mapped += i64::from(spot != Spot::NONE);
            *mapped -= i64::from(was.is_mapped);
        }
        was.spot
    }

    /// A block is dead.
    fn release(&mut self, layout: &Layout, spot: Spot) {
        if spot != Spot::NONE {
            self.zone_mut(layout.locate(spot).0).live -= 1;
        }
    }

    /// True when what lies there is live.
    pub(crate) fn still_names(&mut self, layout: &Layout, key: Key, from: Spot) -> bool {
        let (is_live, released) = self.map.still_names(key, from);
        self.release(layout, released);
        is_live
    }

    /// A page of the map is on flash: what it hid is known now.
    pub(crate) fn switch_page(&mut self, inner: &Inner, merge: &Merge, flash: (Spot, u32)) {
        let paged = self.map.paged_mut().expect("it has pages");
        if inner.has(Planted::ChangeForgotten) {
            paged.revert(merge);
        }
        let (export, _) = paged.first_of(merge.page);
        let Switched { released, holes } = paged.switch(merge, flash);
        for spot in released {
            self.release(&inner.layout, spot);
        }
        self.mapped[usize::from(inner.tenants[export])] += holes;
    }

    /// A segment was refused: until its zone is empty, whatever is flushed, it is not among what recovery may trust.
    pub(crate) fn note_torn(&mut self, zone: Zone, number: u64) {
        self.zone_mut(zone).torn.push(number);
        self.stats.write_errors += 1;
    }

    /// The lowest sequence that an entry may have which is not in the map yet.
    pub(crate) fn lowest_unpublished(&self) -> u64 {
        self.log.lowest_unpublished().unwrap_or(self.next_sequence)
    }

    /// The last segment of the tier that was answered, with all before it.
    pub(crate) fn last_answered(&self, tier: Tier) -> u64 {
        let tier = usize::from(tier.id());
        let first = self.unanswered[tier].first_key_value();
        first.map_or(self.last_number[tier], |(_, previous)| *previous)
    }

    /// Why nothing is moved any more, if so.
    pub(crate) fn stopped(&self) -> Option<BlockError> {
        let closing = (self.closing != Closing::No).then_some(BlockError::Closing);
        self.failure.or(self.halted).or(closing)
    }

    /// Compaction works while fewer zones of the buffer are empty than this.
    fn compaction_mark(&self, inner: &Inner) -> u32 {
        (inner.log_zones() / 10).max(2)
    }

    pub(crate) fn wants_compaction(&self, inner: &Inner) -> bool {
        self.empty_count(Tier::Buffer) < self.compaction_mark(inner)
            && 0 < self.count(Tier::Buffer, ZoneUse::Sealed)
                + self.count(Tier::Buffer, ZoneUse::Emptying)
    }

    /// The oldest zone of the buffer that is not written any more.
    pub(crate) fn compaction_victim(&self, inner: &Inner) -> Option<Zone> {
        let sealed = inner.layout.zones(Tier::Buffer);
        let sealed = sealed.filter(|zone| self.usage(*zone) == ZoneUse::Sealed);
        sealed.min_by_key(|zone| (self.zone(*zone).number, *zone))
    }

    pub(crate) fn wants_collection(&self, inner: &Inner) -> bool {
        if collection_mark(inner.streams_per_mover()) < self.empty_count(Tier::Capacity) {
            return false;
        }
        0 < self.count(Tier::Capacity, ZoneUse::Emptying) || self.collection_victim(inner).is_some()
    }

    /// The zone of the capacity tier that is emptied next, by the rule of `collect`. None if nothing worth it would be
    /// gained; while compaction waits for a zone, one block is.
    pub(crate) fn collection_victim(&self, inner: &Inner) -> Option<Zone> {
        let sealed = inner.layout.zones(Tier::Capacity);
        let sealed = sealed.filter(|zone| self.usage(*zone) == ZoneUse::Sealed);
        let is_table_due = self.is_waited_for && self.pays_for_table(inner);
        let rated = sealed.filter_map(|zone| {
            let (ZoneFacts { number, .. }, capacity) =
                (self.zone(zone), inner.layout.zone_capacity(zone).0);
            let moved = self.moved_blocks(zone)
                + match self.is_written_since_table(zone) && !is_table_due {
                    true => u64::from(inner.layout.zone_table_blocks()),
                    false => RELEASE_BLOCKS,
                };
            let least = if self.is_waited_for { 1 } else { capacity / WORTHWHILE };
            let gained = capacity.checked_sub(moved).filter(|gained| least <= *gained)?;
            let worth = worth(gained, self.next_number - number, moved);
            Some((worth, Reverse((*number, zone))))
        });
        rated.max().map(|(_, Reverse((_, zone)))| zone)
    }

    /// True when a zone table, after which any zone is released for a block, lets collection gain more than it takes. Twice as much: the table
    /// before it is dead then, and must not pay for the next.
    fn pays_for_table(&self, inner: &Inner) -> bool {
        let zones = inner.layout.zones(Tier::Capacity);
        let zones = zones.filter(|zone| {
            self.usage(*zone) == ZoneUse::Sealed && self.is_written_since_table(*zone)
        });
        let gained = |zone: Zone| {
            let moved = self.moved_blocks(zone) + RELEASE_BLOCKS;
            inner.layout.zone_capacity(zone).0.saturating_sub(moved)
        };
        2 * u64::from(inner.layout.zone_table_blocks()) < zones.map(gained).sum()
    }

    /// What lives in a zone, with the headers that it takes elsewhere.
    fn moved_blocks(&self, zone: Zone) -> u64 {
        let live = self.zone(zone).live;
        u64::from(live + live.div_ceil(low_u32(DATA_BLOCKS)))
    }

    pub(crate) fn tenant_mut(&mut self, tenant: u16) -> &mut TenantStats {
        &mut self.tenant_stats[usize::from(tenant)]
    }

    /// A tier was given so much.
    pub(crate) fn note_written(&mut self, tier: Tier, blocks: u64) {
        let bytes = blocks * BLOCK_BYTES as u64;
        self.unflushed[usize::from(tier.id())] += bytes;
        match tier {
            Tier::Buffer => self.stats.buffer_device_bytes += bytes,
            Tier::Capacity => self.stats.capacity_device_bytes += bytes,
        }
    }
}

/// A zone that is released takes a header at the most, unless it takes a zone table.
const RELEASE_BLOCKS: u64 = 1;

/// A zone is emptied before there is need when that gains one part in so many of it.
const WORTHWHILE: u64 = 16;

/// What a zone gains when it is emptied, for each block that is moved, by how long it has gained that: what has lived for long
/// will live on, and what died in it will not come back, while a young zone empties by itself.
fn worth(gained: u64, age: u64, moved: u64) -> u128 {
    let (benefit, cost) = (u128::from(gained) * u128::from(age), u128::from(moved));
    // As a fixed-point number: of old zones with much to move a fraction is left.
    (benefit << 32).checked_div(cost).unwrap_or(u128::MAX)
}
