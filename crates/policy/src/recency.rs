//! Exact LRU without links: finds the least recently used chunk with four and a half bytes for each chunk.
//!
//! Each chunk carries the number of its last use, four bytes. A sorted list holds the sixteenth of all chunks with the
//! lowest numbers: the next to evict, half a byte for each chunk of the cache. When the list is used up, one pass over
//! all chunks lists the next sixteenth. A use only changes the chunk's number. The list skips a chunk that was used
//! since it was listed. So each chunk outside the list was used later than every listed chunk that is not skipped.
//!
//! A pass over a million chunks takes about two milliseconds, once for some 30,000 evictions.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use zonal_base::{ZoneId, index, low_u32};

use crate::order::Spot;

/// Exact LRU order of chunks.
#[derive(Debug)]
pub(crate) struct Recency {
    /// Last use of each chunk of each zone, by chunk number; 0: absent.
    zones: Vec<Vec<Use>>,
    /// Number of the most recent use.
    now: Use,
    /// The next chunks to evict, the very next one last. Holds every chunk that was last used at `listed` or before.
    oldest: Vec<(Use, Handle)>,
    /// The highest use that `oldest` covers.
    listed: Use,
    len: usize,
    number_bits: u32,
}

/// Logical clock: a count of uses. At its maximum all counts are halved, and two adjacent uses may become equal.
type Use = u32;

/// Packed id of a chunk: its zone in the upper bits, its number within the zone in the lower bits.
type Handle = u32;

/// Divisor of the list's share: a sixteenth of all chunks is listed at a time. A longer list skips more chunks; a
/// shorter one needs more passes over all chunks.
const LISTED: usize = 16;

/// Size of the sample that estimates the highest use to list.
const SAMPLE: usize = 4096;

impl Recency {
    /// An empty order over chunks in `zone_count` zones. Requires: one zone at least.
    pub(crate) fn new(zone_count: u32) -> Self {
        Self {
            zones: vec![Vec::new(); index(zone_count.into())],
            now: 0,
            oldest: Vec::new(),
            listed: 0,
            len: 0,
            number_bits: zone_count.leading_zeros(),
        }
    }

    /// Age of a chunk: the number of uses of any chunk since its last use. `None`: the chunk is absent.
    pub(crate) fn age(&self, spot: Spot) -> Option<u32> {
        self.last_use(spot).map(|used| self.now - used)
    }

    pub(crate) fn contains(&self, spot: Spot) -> bool {
        self.last_use(spot).is_some()
    }

    /// Adds a chunk as the most recently used. Requires: the chunk is absent.
    pub(crate) fn insert(&mut self, spot: Spot) {
        let now = self.next();
        self.enter(spot, now);
    }

    /// Makes a chunk the most recently used. Does nothing if the chunk is absent.
    pub(crate) fn touch(&mut self, spot: Spot) {
        if self.contains(spot) {
            let now = self.next();
            self.zones[index(spot.0.0.into())][spot.1 as usize] = now;
        }
    }

    /// Moves a chunk from one address to another, with its last use. Requires: `from` is present, and `to` is absent.
    pub(crate) fn relocate(&mut self, from: Spot, to: Spot) {
        let Some(used) = self.last_use(from) else { return };
        self.remove(from);
        self.enter(to, used);
        if used <= self.listed {
            let (from, to) = (self.handle(from), self.handle(to));
            let first = self.oldest.partition_point(|(other, _)| used < *other);
            let equal = self.oldest[first..].iter_mut().take_while(|(other, _)| *other == used);
            equal.filter(|(_, handle)| *handle == from).for_each(|(_, handle)| *handle = to);
        }
    }

    /// Removes a chunk. False when the chunk was absent.
    pub(crate) fn remove(&mut self, spot: Spot) -> bool {
        let is_there = self.contains(spot);
        if is_there {
            self.zones[index(spot.0.0.into())][spot.1 as usize] = 0;
            self.len -= 1;
        }
        is_there
    }

    /// The least recently used chunk.
    pub(crate) fn oldest(&mut self) -> Option<Spot> {
        loop {
            while let Some((used, handle)) = self.oldest.last() {
                let spot = self.spot(*handle);
                if self.last_use(spot) == Some(*used) {
                    return Some(spot);
                }
                self.oldest.pop();
            }
            if self.len == 0 {
                return None;
            }
            self.list();
        }
    }

    /// Frees spare memory of a zone that takes no more chunks.
    pub(crate) fn seal(&mut self, zone: ZoneId) {
        self.zones[index(zone.0.into())].shrink_to_fit();
    }

    /// Frees the memory of a zone. Requires: all chunks of the zone are absent.
    pub(crate) fn forget_zone(&mut self, zone: ZoneId) {
        self.zones[index(zone.0.into())] = Vec::new();
    }

    fn last_use(&self, (zone, number): Spot) -> Option<Use> {
        let used = self.zones[index(zone.0.into())].get(number as usize);
        used.copied().filter(|used| *used != 0)
    }

    fn enter(&mut self, (zone, number): Spot, used: Use) {
        debug_assert!(number >> self.number_bits == 0, "{number} of {zone:?}");
        let zone = &mut self.zones[index(zone.0.into())];
        if zone.len() <= number as usize {
            zone.resize(number as usize + 1, 0);
        }
        zone[number as usize] = used;
        self.len += 1;
    }

    fn next(&mut self) -> Use {
        if self.now == Use::MAX {
            let all = self.zones.iter_mut().flatten().filter(|used| **used != 0);
            all.for_each(|used| *used = (*used / 2).max(1));
            self.now /= 2;
            (self.oldest, self.listed) = (Vec::new(), 0);
        }
        self.now += 1;
        self.now
    }

    /// Lists the least recently used chunks. Requires: one chunk at least is present.
    fn list(&mut self) {
        self.listed = self.line();
        let zones = self.zones.iter().flatten();
        let count = zones.filter(|used| (1..=self.listed).contains(*used)).count();
        let mut oldest = core::mem::take(&mut self.oldest);
        oldest.reserve_exact(count);
        for (zone, uses) in self.zones.iter().enumerate() {
            for (number, used) in uses.iter().enumerate() {
                if (1..=self.listed).contains(used) {
                    oldest.push((*used, self.handle((ZoneId(low_u32(zone)), low_u32(number)))));
                }
            }
        }
        // Halving leaves chunks with equal uses: of those the lower zone goes first.
        oldest.sort_unstable_by_key(|entry| Reverse(*entry));
        self.oldest = oldest;
    }

    /// The use that splits off about one part in [`LISTED`] of all chunks, and one chunk at least.
    fn line(&self) -> Use {
        let all = || self.zones.iter().flatten().copied().filter(|used| *used != 0);
        let mut sample: Vec<Use> = all().step_by(self.len.div_ceil(SAMPLE)).collect();
        let at = sample.len() / LISTED;
        *sample.select_nth_unstable(at).1
    }

    fn handle(&self, (zone, number): Spot) -> Handle {
        zone.0 << self.number_bits | number
    }

    fn spot(&self, handle: Handle) -> Spot {
        (ZoneId(handle >> self.number_bits), handle & ((1 << self.number_bits) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use zonal_base::Rng;

    /// Model test: random operations on the order and on a map from chunks to times agree.
    #[test]
    fn the_one_that_was_used_longest_ago_is_the_oldest() {
        let (mut recency, mut model) = (Recency::new(8), BTreeMap::new());
        let (mut rng, mut room) = (Rng::new(7), [0; 8]);
        for time in 0..40_000_u64 {
            let zone = low_u32(index(rng.below(8)));
            let known = model.keys().nth(index(rng.below(model.len().max(1) as u64))).copied();
            match (rng.below(9), known) {
                (0 | 1 | 8, _) | (_, None) => {
                    let spot = (ZoneId(zone), room[zone as usize]);
                    room[zone as usize] += 1;
                    recency.insert(spot);
                    model.insert(spot, time);
                }
                (2, Some(from)) => {
                    let to = (ZoneId(zone), room[zone as usize]);
                    room[zone as usize] += 1;
                    recency.relocate(from, to);
                    let used = model.remove(&from).unwrap();
                    model.insert(to, used);
                }
                (3, Some(spot)) => {
                    assert!(recency.remove(spot) && !recency.contains(spot));
                    model.remove(&spot);
                }
                (4, _) => {
                    let oldest = model.iter().min_by_key(|(_, used)| **used).map(|(spot, _)| *spot);
                    assert_eq!(recency.oldest(), oldest);
                    oldest.inspect(|oldest| {
                        recency.remove(*oldest);
                        model.remove(oldest);
                    });
                }
                (_, Some(spot)) => {
                    recency.touch(spot);
                    model.insert(spot, time);
                }
            }
        }
        assert!(1000 < model.len(), "{}", model.len());
    }

    #[test]
    fn when_the_count_is_full_the_order_stays() {
        let mut recency = Recency::new(1);
        let spot = |number| (ZoneId(0), number);
        recency.insert(spot(2));
        recency.now = Use::MAX - 3;
        [0, 1].into_iter().for_each(|number| recency.insert(spot(number)));
        recency.touch(spot(2));
        assert_eq!(recency.now, Use::MAX);
        recency.insert(spot(3));
        let mut order = Vec::new();
        while let Some(oldest) = recency.oldest() {
            recency.remove(oldest);
            order.push(oldest.1);
        }
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
