//! Ordered object lists in one compact table, for the reference policies and the slot store.
//!
//! Entries are sorted by name, each as close behind its home place as possible, so a search ends
//! where the name would have to be. An entry takes 6 bytes for 44 bits of the name, the list and
//! the mark, and 4 bytes for its time of insertion or renewal. Byte capacities add 4 bytes for the
//! size; sizes from 4 GiB on lie in a map beside it. The table is filled to nine tenths. Object
//! capacities allocate all of it at the start.
//!
//! A scan finds the oldest entries of a list, a batch of a 96th of the table at a time (`List`).

use std::collections::VecDeque;

use zonal_base::{index as wide, low_u32};

use super::Capacity;
use super::spread::{NumberMap, name};

/// Position of an object in the table, valid until an object is added or removed.
pub(super) type Slot = usize;

/// Number of lists; list numbers are below it.
const LISTS: usize = 4;

/// Time at which an object became the newest of its list. Times are unique; 0 precedes all.
type Time = u32;

/// A list, with a batch of its oldest objects in order.
///
/// Objects that left or were renewed stay in the batch; their times reveal them as stale.
#[derive(Debug)]
struct List {
    /// Total weight of the list's objects in units of the capacity.
    weight: u64,
    /// Oldest objects, the oldest first.
    oldest: VecDeque<(Time, Home)>,
    /// Whether the batch holds every object of the list newer than `after`.
    is_whole: bool,
    /// Time of the last passed object: entries up to it do not count as first.
    after: Time,
}

/// Place in the table at or behind which an object is stored.
type Home = u32;

/// Objects with a mark, each in a list that the policy chooses.
#[derive(Debug)]
pub(super) struct Shelf {
    /// Upper 32 bits of names; [`GAP`] in empty places. The last entry is always a gap.
    uppers: Vec<u32>,
    /// 12 more bits of the name, above two bits for the list and two for the mark.
    lowers: Vec<u16>,
    /// Insertion or renewal times; 0 in gaps.
    times: Vec<Time>,
    /// Sizes in bytes, [`LARGE`] for larger ones; empty where every object counts as one.
    sizes: Vec<u32>,
    /// Sizes of large objects, by name.
    large: NumberMap<u64, u64>,
    capacity: Capacity,
    homes: usize,
    count: usize,
    /// Objects that fit before the table grows.
    most: usize,
    now: Time,
    lists: [List; LISTS],
}

const GAP: u32 = 0;

/// Marks an object whose size does not fit into 32 bits.
const LARGE: u32 = u32::MAX;

const LIST_BITS: u32 = 2;
const MARK_BITS: u32 = 2;
const MARK_MAX: u16 = (1 << MARK_BITS) - 1;
const LIST_MAX: u16 = (1 << LIST_BITS) - 1;

/// Maximum number of objects allocated up front, because a capacity may be any number.
const PREPARED_MAX: u64 = 64 << 20;

/// Minimum number of objects with room in the table.
const ROOM_MIN: usize = 64;

/// Table size over batch size: larger batches take memory, smaller ones rescan more often.
const LISTED: usize = 96;

/// Sample size that estimates the age limit of a batch.
const SAMPLE: usize = 2048;

/// Times compared per step, so that the compiler vectorizes the scan.
const AT_ONCE: usize = 16;

impl List {
    const fn new() -> Self {
        Self { weight: 0, oldest: VecDeque::new(), is_whole: true, after: 0 }
    }

    /// Drops the batch, because the table was rebuilt or other objects count.
    fn unlist(&mut self) {
        self.oldest.clear();
        self.is_whole = false;
    }
}

impl Shelf {
    /// Allocates `objects` entries up front if capacities are objects.
    pub(super) fn new(capacity: Capacity, objects: u64) -> Self {
        let objects = match capacity {
            Capacity::Objects(_) => wide(objects.min(PREPARED_MAX)),
            Capacity::Bytes(_) => 0,
        };
        let mut shelf = Self {
            uppers: Vec::new(),
            lowers: Vec::new(),
            times: Vec::new(),
            sizes: Vec::new(),
            large: NumberMap::default(),
            capacity,
            homes: 0,
            count: 0,
            most: 0,
            now: 0,
            lists: [const { List::new() }; LISTS],
        };
        shelf.make_room_for(objects.max(ROOM_MIN));
        shelf
    }

    pub(super) fn find(&self, id: u64) -> Option<Slot> {
        let (upper, lower) = halves(id);
        let at = self.place(upper, lower);
        (self.uppers[at] == upper && self.lower(at) == lower).then_some(at)
    }

    /// Adds an object as the newest of a list, with mark 0. Requires: the object is absent.
    pub(super) fn add(&mut self, id: u64, size: u64, list: u8) {
        if self.count == self.most {
            // Grows by only an eighth, so that few entries stay unused.
            self.make_room_for(self.most + self.most / 8);
        }
        self.count += 1;
        let (upper, lower) = halves(id);
        let at = self.place(upper, lower);
        self.open_gap(at);
        self.uppers[at] = upper;
        self.lowers[at] = lower << (LIST_BITS + MARK_BITS);
        if !self.sizes.is_empty() {
            self.sizes[at] = u32::try_from(size).unwrap_or(LARGE);
            if self.sizes[at] == LARGE {
                self.large.insert(self.name(at), size);
            }
        }
        self.enter(at, list);
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.leave(slot);
        if self.sizes.get(slot) == Some(&LARGE) {
            self.large.remove(&self.name(slot));
        }
        self.count -= 1;
        // Backward shift: entries behind move up as long as they are displaced from their home.
        let is_displaced = |at: &Slot| self.uppers[*at] != GAP && self.home(*at) < *at;
        let end = (slot + 1..).find(|at| !is_displaced(at)).expect("the last is a gap");
        self.uppers.copy_within(slot + 1..end, slot);
        self.lowers.copy_within(slot + 1..end, slot);
        self.times.copy_within(slot + 1..end, slot);
        if !self.sizes.is_empty() {
            self.sizes.copy_within(slot + 1..end, slot);
        }
        self.uppers[end - 1] = GAP;
        self.times[end - 1] = 0;
    }

    /// Makes an object the newest of a list, its own or another. The mark stays.
    pub(super) fn move_to(&mut self, slot: Slot, list: u8) {
        self.leave(slot);
        self.enter(slot, list);
    }

    /// Total weight of a list's objects.
    pub(super) const fn weight_of(&self, list: u8) -> u64 {
        self.lists[list as usize].weight
    }

    /// Weight of an object in units of the capacity.
    pub(super) fn weight(&self, slot: Slot) -> u64 {
        match self.sizes.get(slot) {
            None => 1,
            Some(&LARGE) => self.large[&self.name(slot)],
            Some(size) => u64::from(*size),
        }
    }

    pub(super) fn list(&self, slot: Slot) -> u8 {
        (self.lowers[slot] >> MARK_BITS & LIST_MAX).to_le_bytes()[0]
    }

    /// The policy's mark on an object, up to 3.
    pub(super) fn mark(&self, slot: Slot) -> u8 {
        (self.lowers[slot] & MARK_MAX).to_le_bytes()[0]
    }

    pub(super) fn set_mark(&mut self, slot: Slot, mark: u8) {
        debug_assert!(u16::from(mark) <= MARK_MAX);
        self.lowers[slot] = self.lowers[slot] & !MARK_MAX | u16::from(mark);
    }

    /// Oldest object of a list that was not passed.
    pub(super) fn first(&mut self, list: u8) -> Option<Slot> {
        loop {
            let of = &self.lists[list as usize];
            if let Some((time, home)) = of.oldest.front().copied() {
                if let Some(slot) = self.find_by_time(time, home) {
                    return Some(slot);
                }
                self.lists[list as usize].oldest.pop_front();
            } else if of.is_whole {
                return None;
            } else {
                self.look_for_oldest(list);
            }
        }
    }

    /// Passes the first object of its list: the next one counts as first, the order stays.
    pub(super) fn pass(&mut self, slot: Slot) {
        let time = self.times[slot];
        let list = self.list(slot);
        let of = &mut self.lists[list as usize];
        of.after = time;
        of.oldest.pop_front();
    }

    /// Undoes all passes of a list.
    pub(super) fn rewind(&mut self, list: u8) {
        let of = &mut self.lists[list as usize];
        of.after = 0;
        of.unlist();
    }

    /// Position of a name, or its insertion point.
    fn place(&self, upper: u32, lower: u16) -> Slot {
        let mut at = home(upper, self.homes);
        // Wrapping makes gaps greater than all names.
        while self.uppers[at].wrapping_sub(1) < upper - 1 {
            at += 1;
        }
        while self.uppers[at] == upper && self.lower(at) < lower {
            at += 1;
        }
        at
    }

    /// Name of the object in a slot, as far as it is stored.
    fn name(&self, at: Slot) -> u64 {
        u64::from(self.uppers[at]) << u16::BITS | u64::from(self.lower(at))
    }

    fn lower(&self, at: Slot) -> u16 {
        self.lowers[at] >> (LIST_BITS + MARK_BITS)
    }

    fn home(&self, at: Slot) -> usize {
        home(self.uppers[at], self.homes)
    }

    /// Shifts the entries from here to the next gap by one place.
    fn open_gap(&mut self, at: Slot) {
        let gap = self.uppers[at..].iter().position(|upper| *upper == GAP);
        let gap = at + gap.expect("the last is a gap");
        if gap + 1 == self.uppers.len() {
            self.push_gap();
        }
        self.uppers.copy_within(at..gap, at + 1);
        self.lowers.copy_within(at..gap, at + 1);
        self.times.copy_within(at..gap, at + 1);
        if !self.sizes.is_empty() {
            self.sizes.copy_within(at..gap, at + 1);
        }
    }

    fn push_gap(&mut self) {
        self.uppers.push(GAP);
        self.lowers.push(0);
        self.times.push(0);
        if let Capacity::Bytes(_) = self.capacity {
            self.sizes.push(0);
        }
    }

    /// Moves all objects to a larger table.
    fn make_room_for(&mut self, most: usize) {
        let homes = most + most / 9;
        // One place for the last gap, the others for displaced entries at the end.
        let places = homes + ROOM_MIN;
        let sizes = match self.capacity {
            Capacity::Objects(_) => Vec::new(),
            Capacity::Bytes(_) => vec![0; places],
        };
        let new = (vec![GAP; places], vec![0; places], vec![0; places], sizes);
        let old = (
            std::mem::replace(&mut self.uppers, new.0),
            std::mem::replace(&mut self.lowers, new.1),
            std::mem::replace(&mut self.times, new.2),
            std::mem::replace(&mut self.sizes, new.3),
        );
        (self.most, self.homes) = (most, homes);
        self.lists.iter_mut().filter(|list| !list.oldest.is_empty()).for_each(List::unlist);
        let mut next = 0;
        for (from, upper) in old.0.iter().enumerate().filter(|(_, upper)| **upper != GAP) {
            let at = home(*upper, homes).max(next);
            next = at + 1;
            if next == self.uppers.len() {
                self.push_gap();
            }
            self.uppers[at] = *upper;
            self.lowers[at] = old.1[from];
            self.times[at] = old.2[from];
            if let Some(size) = old.3.get(from) {
                self.sizes[at] = *size;
            }
        }
    }

    fn enter(&mut self, slot: Slot, list: u8) {
        let time = self.tick();
        self.times[slot] = time;
        let bits = LIST_MAX << MARK_BITS;
        self.lowers[slot] = self.lowers[slot] & !bits | u16::from(list) << MARK_BITS;
        let (weight, home, most) = (self.weight(slot), self.home(slot), self.listed_most());
        let of = &mut self.lists[list as usize];
        of.weight += weight;
        if of.is_whole && of.oldest.len() < most {
            of.oldest.push_back((time, low_u32(home)));
        } else {
            of.is_whole = false;
        }
    }

    fn leave(&mut self, slot: Slot) {
        let list = self.list(slot);
        self.lists[list as usize].weight -= self.weight(slot);
    }

    fn listed_most(&self) -> usize {
        (self.most / LISTED).max(ROOM_MIN)
    }

    fn find_by_time(&self, time: Time, home: Home) -> Option<Slot> {
        let behind = (home as usize..).take_while(|at| self.uppers[*at] != GAP);
        behind.take_while(|at| self.home(*at) <= home as usize).find(|at| self.times[*at] == time)
    }

    /// Refills the batch of a list with its oldest objects after the passed ones.
    fn look_for_oldest(&mut self, list: u8) {
        let after = self.lists[list as usize].after;
        let line = self.line(list, after);
        let mut oldest = std::mem::take(&mut self.lists[list as usize].oldest);
        oldest.clear();
        oldest.reserve_exact(self.listed_most() + self.listed_most() / 4);
        let is_between = |time: Time| time.wrapping_sub(after + 1) < line - after;
        for (times, first) in self.times.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
            if !times.iter().fold(false, |is_any, time| is_any | is_between(*time)) {
                continue;
            }
            for (time, at) in times.iter().zip(first..) {
                if is_between(*time) && self.list(at) == list {
                    oldest.push_back((*time, low_u32(self.home(at))));
                }
            }
        }
        oldest.make_contiguous().sort_unstable();
        let of = &mut self.lists[list as usize];
        of.oldest = oldest;
        of.is_whole = line == Time::MAX;
    }

    /// Estimates the time up to which about one batch of objects is listed.
    fn line(&self, list: u8, after: Time) -> Time {
        let step = (self.uppers.len() / SAMPLE).max(1);
        let looked_at = self.uppers.len() / step;
        let sample = (0..self.uppers.len()).step_by(step);
        let sample = sample.filter(|at| after < self.times[*at] && self.list(*at) == list);
        let mut sample: Vec<Time> = sample.map(|at| self.times[at]).collect();
        let wanted = looked_at * self.listed_most() / self.uppers.len();
        match wanted < sample.len() {
            true => *sample.select_nth_unstable(wanted).1,
            false => Time::MAX,
        }
    }

    fn tick(&mut self) -> Time {
        // The last value is the upper limit of a batch without an age limit.
        if self.now == Time::MAX - 1 {
            self.count_anew();
        }
        self.now += 1;
        self.now
    }

    /// Renumbers times from 1 in their present order.
    fn count_anew(&mut self) {
        let places = (0..self.uppers.len()).filter(|at| self.uppers[*at] != GAP);
        let mut order: Vec<(Time, Slot)> = places.map(|at| (self.times[at], at)).collect();
        order.sort_unstable();
        for list in &mut self.lists {
            list.after = low_u32(order.partition_point(|(time, _)| *time <= list.after));
            list.unlist();
        }
        for (time, (_, at)) in (1..).zip(&order) {
            self.times[*at] = time;
        }
        self.now = low_u32(order.len());
    }
}

#[cfg(test)]
impl Shelf {
    /// Weights of all objects.
    pub(super) fn weights(&self) -> impl Iterator<Item = u64> + '_ {
        let slots = (0..self.uppers.len()).filter(|at| self.uppers[*at] != GAP);
        slots.map(|at| self.weight(at))
    }

    /// Panics when an object cannot be found, or the entries are not sorted by name.
    pub(super) fn check(&self) {
        let slots: Vec<Slot> =
            (0..self.uppers.len()).filter(|at| self.uppers[*at] != GAP).collect();
        assert_eq!(slots.len(), self.count);
        for at in &slots {
            assert_eq!(self.place(self.uppers[*at], self.lower(*at)), *at);
        }
        let weight: u64 = self.lists.iter().map(|list| list.weight).sum();
        assert_eq!(weight, self.weights().sum::<u64>());
    }
}

/// Splits a name into two parts; the first is never a gap.
fn halves(id: u64) -> (u32, u16) {
    let name = name(id);
    let [a, b, ..] = name.to_le_bytes();
    let upper = low_u32(wide(name >> u16::BITS));
    match upper {
        GAP => (GAP + 1, u16::MAX >> (LIST_BITS + MARK_BITS)),
        _ => (upper, u16::from_le_bytes([a, b]) >> (LIST_BITS + MARK_BITS)),
    }
}

fn home(upper: u32, homes: usize) -> usize {
    wide((u64::from(upper) * homes as u64) >> u32::BITS)
}

#[cfg(test)]
mod tests {
    use zonal_base::{Bytes, Rng};

    use super::*;

    /// Model: objects with list and size, the oldest first.
    #[derive(Default)]
    struct Model(Vec<(u64, u8, u64)>);

    impl Model {
        fn take(&mut self, id: u64) -> Option<(u64, u8, u64)> {
            let at = self.0.iter().position(|object| object.0 == id)?;
            Some(self.0.remove(at))
        }

        fn first(&self, list: u8) -> Option<u64> {
            self.0.iter().find(|object| object.1 == list).map(|object| object.0)
        }
    }

    fn id_of(shelf: &Shelf, slot: Option<Slot>, ids: u64) -> Option<u64> {
        slot.and_then(|slot| (0..ids).find(|id| shelf.find(*id) == Some(slot)))
    }

    #[track_caller]
    fn check(ids: u64, steps: u32, begin: Time) {
        let mut shelf = Shelf::new(Capacity::Bytes(Bytes(1)), 0);
        shelf.now = begin;
        let (mut model, mut rng) = (Model::default(), Rng::new(ids));
        for step in 0..steps {
            let id = rng.below(ids);
            // Lists of very different lengths.
            let list = [0, 0, 0, 0, 1, 1, 2, 3][wide(rng.below(8))];
            match (shelf.find(id), rng.below(8)) {
                (None, _) => {
                    // Some are larger than 4 GiB, and one is just as large as fits.
                    let size = [1, 1 << 20, u64::from(u32::MAX) / 99][wide(rng.below(3))];
                    let size = rng.below(100) * size + rng.below(2) * (1 << 40);
                    shelf.add(id, size, list);
                    model.0.push((id, list, size));
                }
                (Some(slot), 0..3) => {
                    assert_eq!(model.take(id).map(|known| known.2), Some(shelf.weight(slot)));
                    shelf.remove(slot);
                }
                (Some(slot), 3..6) => {
                    shelf.move_to(slot, list);
                    let (_, _, size) = model.take(id).unwrap();
                    model.0.push((id, list, size));
                }
                _ => {
                    let first = shelf.first(list);
                    assert_eq!(id_of(&shelf, first, ids), model.first(list), "step {step}");
                    if let Some(slot) = first {
                        shelf.remove(slot);
                        model.first(list).and_then(|id| model.take(id));
                    }
                }
            }
            if step % 64 == 0 {
                shelf.check();
            }
        }
        assert!(ids / 4 < model.0.len() as u64, "{}", model.0.len());
    }

    #[test]
    fn the_oldest_of_each_list_is_the_first() {
        check(40, 3000, 0);
        check(3000, 30_000, 0);
    }

    #[test]
    fn when_the_count_is_full_the_order_stays() {
        check(300, 5000, Time::MAX - 700);
    }

    #[test]
    fn who_was_passed_is_not_the_first_until_all_count_again() {
        let mut shelf = Shelf::new(Capacity::Objects(3), 3);
        (0..3).for_each(|id| shelf.add(id, 1, 0));
        for id in 0..3 {
            let first = shelf.first(0).unwrap();
            assert_eq!(shelf.find(id), Some(first));
            shelf.pass(first);
        }
        assert_eq!(shelf.first(0), None);
        shelf.rewind(0);
        assert_eq!(shelf.first(0), shelf.find(0));
    }
}
