//! Zone log model: appends to open zones and reclaims full ones by policy, without a device.

use zonal_base::{Bytes, Nanos, ZoneId, index};
use zonal_policy::{ChunkLocation, Layout, Policy, PolicyTag, Reinsertion, Spec, ZoneFacts};

use super::super::FlashBytes;
use super::super::spread::name;
use super::store::Store;
use super::table::Table;
use super::zone::{self, FlashZone};

/// Zones with a policy, and the table that finds records in them.
pub(in crate::trace) struct FlashLog {
    policy: Box<dyn Policy>,
    zones: Vec<FlashZone>,
    zone_capacity: u64,
    table: Table,
    empty: Vec<ZoneId>,
    /// Number of empty zones reserved for rewrites by reclaim.
    kept_empty: usize,
    /// Open zone of each stream: fills and rewrites.
    open: [Option<ZoneId>; 2],
    /// Full zones, by zone number.
    sealed: Vec<ZoneFacts>,
    /// Number of times a zone was opened.
    opened: u64,
    now: Nanos,
    written: FlashBytes,
}

#[derive(Clone, Copy)]
enum Stream {
    Fill,
    Rewrite,
}

impl FlashLog {
    /// Requires: at least [`FlashLog::least_zones`] zones, each of 1 to [`zone::CAPACITY_MAX`].
    pub(super) fn new(spec: &Spec, zone_count: u32, zone_capacity: u64) -> Self {
        debug_assert!((1..=zone::CAPACITY_MAX).contains(&zone_capacity));
        let rewrites = u32::from(spec.rewrites());
        let layout = Layout {
            zone_count,
            zone_capacity: Bytes(zone_capacity),
            busy_zones: 1 + 2 * rewrites,
        };
        Self {
            policy: spec.policy(&layout),
            zones: (0..zone_count).map(|_| FlashZone::default()).collect(),
            zone_capacity,
            table: Table::new(zone_count),
            empty: (0..zone_count).rev().map(ZoneId).collect(),
            kept_empty: index(rewrites.into()),
            open: [None; 2],
            sealed: Vec::new(),
            opened: 0,
            now: Nanos(0),
            written: FlashBytes::default(),
        }
    }

    /// Minimum number of zones: the busy ones, a victim, and one more as a choice of victims.
    pub(super) fn least_zones(spec: &Spec) -> u32 {
        3 + 2 * u32::from(spec.rewrites())
    }

    fn find(&self, name: u64) -> Option<(ZoneId, u32)> {
        let zones = &self.zones;
        self.table.find(name, |(zone, number)| zones[index(zone.0.into())].name(number))
    }

    fn record(&self, (zone, number): (ZoneId, u32)) -> (ChunkLocation, PolicyTag) {
        let of = &self.zones[index(zone.0.into())];
        (of.place(zone, number), of.mark(number))
    }

    fn zone(&mut self, zone: ZoneId) -> &mut FlashZone {
        &mut self.zones[index(zone.0.into())]
    }

    fn forget(&mut self, spot: (ZoneId, u32)) {
        let (place, mark) = self.record(spot);
        self.unlink(spot);
        self.policy.on_forget(&place, mark);
    }

    /// Removes a record from the table, marks it dead, and returns its name.
    fn unlink(&mut self, (zone, number): (ZoneId, u32)) -> u64 {
        let of = self.zone(zone);
        of.kill(number);
        let name = of.name(number);
        let zones = &self.zones;
        let name_of = |(zone, number): (ZoneId, u32)| zones[index(zone.0.into())].name(number);
        self.table.remove(name, (zone, number), name_of);
        name
    }

    fn append(&mut self, stream: Stream, name: u64, len: u64) -> ChunkLocation {
        let zone = self.zone_for(stream, len);
        let number = self.zone(zone).push(name, len);
        let zones = &self.zones;
        let name_of = |(zone, number): (ZoneId, u32)| zones[index(zone.0.into())].name(number);
        self.table.insert(name, (zone, number), name_of);
        zones[index(zone.0.into())].place(zone, number)
    }

    /// Returns the stream's open zone if the record fits, otherwise a new one.
    fn zone_for(&mut self, stream: Stream, len: u64) -> ZoneId {
        let open = self.open[stream as usize];
        let has_room =
            |zone: &ZoneId| self.zones[index(zone.0.into())].written() + len <= self.zone_capacity;
        if let Some(zone) = open.filter(has_room) {
            return zone;
        }
        if let Some(full) = self.open[stream as usize].take() {
            self.seal(full);
        }
        if matches!(stream, Stream::Fill) {
            self.make_room();
        }
        let zone = self.empty.pop().expect("reclaim keeps less than it frees");
        let opened = self.opened;
        self.zone(zone).open(opened);
        self.opened += 1;
        self.open[stream as usize] = Some(zone);
        zone
    }

    fn seal(&mut self, zone: ZoneId) {
        let facts = self.zone(zone).seal(zone);
        let at = self.sealed.partition_point(|other| other.zone < zone);
        self.sealed.insert(at, facts);
        self.policy.on_sealed(zone, self.now);
    }

    /// Reclaims zones until one is free to fill. Where objects are nearly as large as zones,
    /// rewrites may take as much room elsewhere for ever. After reclaiming as many zones as exist,
    /// nothing more is rewritten.
    fn make_room(&mut self) {
        let mut emptied = 0;
        while self.empty.len() <= self.kept_empty {
            self.reclaim(emptied < self.zones.len());
            emptied += 1;
        }
    }

    fn reclaim(&mut self, may_keep: bool) {
        self.policy.evict();
        let victim = self.policy.victim(&self.sealed).expect("there are full zones");
        self.sealed.retain(|facts| facts.zone != victim);
        for number in 0..self.zone(victim).count() {
            if self.zone(victim).is_dead(number) {
                continue;
            }
            let (place, mark) = self.record((victim, number));
            match self.policy.keep(&place, mark) {
                Reinsertion::Rewrite if may_keep => self.rewrite(&place, mark),
                _ => self.forget((victim, number)),
            }
        }
        self.policy.on_emptied(victim);
        *self.zone(victim) = FlashZone::default();
        self.empty.push(victim);
    }

    fn rewrite(&mut self, from: &ChunkLocation, mark: PolicyTag) {
        let name = self.unlink((from.zone, from.number));
        let to = self.append(Stream::Rewrite, name, from.len.0);
        self.written.moved += from.len.0;
        let mark = self.policy.on_move(from, &to, mark, self.now);
        self.zone(to.zone).set_mark(to.number, mark);
    }
}

impl Store for FlashLog {
    fn read(&mut self, id: u64, len: u64) -> bool {
        // Time advances a millisecond per read: not every trace has times, and the others count
        // seconds.
        self.now = Nanos(self.now.0 + 1_000_000);
        let Some(spot) = self.find(name(id)) else { return false };
        let (place, mark) = self.record(spot);
        if place.len.0 != len || !self.policy.holds(&place, mark) {
            // The size changed or the policy dropped the record: the object is written again.
            self.forget(spot);
            return false;
        }
        let mark = self.policy.on_access(&place, mark, self.now);
        self.zone(spot.0).set_mark(spot.1, mark);
        true
    }

    fn write(&mut self, id: u64, len: u64) {
        if self.zone_capacity < len {
            return;
        }
        let place = self.append(Stream::Fill, name(id), len);
        self.written.filled += len;
        self.policy.on_insert(&place, self.now);
        self.policy.evict();
    }

    fn forget_object(&mut self, id: u64) {
        if let Some(spot) = self.find(name(id)) {
            self.forget(spot);
        }
    }

    fn was_full(&self) -> bool {
        (self.zones.len() - self.kept_empty) as u64 <= self.opened
    }

    fn written(&self) -> FlashBytes {
        self.written
    }
}

#[cfg(test)]
impl FlashLog {
    /// Panics when a record cannot be found, or bytes are lost or counted twice.
    pub(super) fn check(&mut self) {
        let (mut live, mut invalid, mut free, mut count) = (0, 0, 0, 0);
        for (zone, of) in (0..).map(ZoneId).zip(&self.zones) {
            for number in 0..of.count() {
                let (place, _) = self.record((zone, number));
                match of.is_dead(number) {
                    true => invalid += place.len.0,
                    false => {
                        assert_eq!(self.find(of.name(number)), Some((zone, number)));
                        live += place.len.0;
                        count += 1;
                    }
                }
            }
            assert!(of.written() <= self.zone_capacity);
            free += self.zone_capacity - of.written();
            let is_empty = self.empty.contains(&zone);
            let is_open = self.open.contains(&Some(zone));
            let is_sealed = self.sealed.iter().any(|facts| facts.zone == zone);
            assert_eq!(1, u8::from(is_empty) + u8::from(is_open) + u8::from(is_sealed), "{zone:?}");
            assert!(!is_empty || of.count() == 0);
        }
        assert_eq!(live + invalid + free, self.zone_capacity * self.zones.len() as u64);
        assert_eq!(count, self.table.len());
    }
}
