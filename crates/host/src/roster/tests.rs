//! Membership when devices are added, removed, exchanged, and come back.

use std::collections::BTreeMap;

use super::*;

const fn id(n: u8) -> Id {
    [n; 16]
}

/// First number for the logs of wiped devices.
const EMPTIED: u8 = 100;

/// The devices of a node over several starts, and the contents of each. The tests number the
/// devices.
#[derive(Default)]
struct Shelf {
    on: BTreeMap<u8, (Id, Option<Roster>)>,
    generation: u64,
    ids: u8,
}

impl Shelf {
    fn found(&self, devices: &[u8]) -> Vec<DeviceRecord> {
        let found = |device: &u8| match self.on.get(device) {
            Some((log, roster)) => {
                DeviceRecord { log: *log, shard_count: 2, is_new: false, roster: roster.clone() }
            }
            None => DeviceRecord { log: id(*device), shard_count: 2, is_new: true, roster: None },
        };
        devices.iter().map(found).collect()
    }

    fn start(&mut self, devices: &[u8]) -> Result<MembershipOutcome, SplitBrain> {
        self.generation += 10;
        self.ids += 1;
        let logs: Vec<Id> = devices.iter().map(|device| id(EMPTIED + device + self.ids)).collect();
        let found = self.found(devices);
        let convened = agree_membership(&found, self.generation, (id(200 + self.ids), &logs))?;
        for (at, device) in devices.iter().enumerate() {
            let roster = convened.is_news.then(|| convened.roster.clone());
            let log = convened.logs[at];
            let known = self.on.entry(*device).or_insert((log, None));
            *known = (log, roster.or(known.1.take()));
        }
        Ok(convened)
    }

    /// Applies a change while the node runs. `told`: the devices that store it.
    fn change(&mut self, change: Change, told: &[u8]) {
        self.ids += 1;
        let newest = told.iter().filter_map(|device| self.on[device].1.as_ref());
        let next =
            newest.max_by_key(|roster| roster.number).unwrap().with(change, id(200 + self.ids));
        for device in told {
            self.on.get_mut(device).unwrap().1 = Some(next.clone());
        }
    }

    fn log(&self, device: u8) -> Id {
        self.on[&device].0
    }
}

/// By bucket: the number of its device.
fn homes(convened: &MembershipOutcome, devices: &[u8]) -> Vec<u8> {
    let device = |log| devices[convened.logs.iter().position(|known| *known == log).unwrap()];
    convened.roster.homes().map(device).collect()
}

fn moved(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

#[test]
fn a_device_that_was_used_alone_is_home_to_all_and_needs_no_roster() {
    let mut shelf = Shelf::default();
    for _ in 0..2 {
        let alone = shelf.start(&[1]).unwrap();
        assert!(!alone.is_news && alone.roster.buckets.iter().all(|bucket| bucket.member == 0));
    }
    let both = shelf.start(&[2, 1]).unwrap();
    assert_eq!((both.is_news, &*both.is_emptied), (true, &[false, false][..]));
    let stayed = both.roster.buckets.iter().filter(|bucket| bucket.member == 1);
    assert!(
        stayed.clone().count() == BUCKETS / 2 && stayed.clone().all(|bucket| bucket.since == 0)
    );
}

#[test]
fn the_order_of_devices_says_nothing_and_the_same_devices_are_no_news() {
    let mut shelf = Shelf::default();
    let first = homes(&shelf.start(&[1, 2, 3]).unwrap(), &[1, 2, 3]);
    for order in [[3, 1, 2], [1, 2, 3]] {
        let again = shelf.start(&order).unwrap();
        assert!(again.is_emptied == [false; 3]);
        assert_eq!(moved(&homes(&again, &order), &first), 0);
    }
    assert!(!shelf.start(&[1, 2, 3]).unwrap().is_news);
}

#[test]
fn a_device_more_gets_its_part_and_a_device_less_leaves_its_own_and_nothing_else_moves() {
    let mut shelf = Shelf::default();
    let two = homes(&shelf.start(&[1, 2]).unwrap(), &[1, 2]);
    let three = shelf.start(&[1, 2, 3]).unwrap();
    let [before, now] = [10, 20]
        .map(|since| three.roster.buckets.iter().filter(|bucket| bucket.since == since).count());
    assert!(before + now == BUCKETS && (341..=342).contains(&now), "{now}");
    let three = homes(&three, &[1, 2, 3]);
    assert_eq!(moved(&two, &three), now);
    let without = homes(&shelf.start(&[2, 3]).unwrap(), &[2, 3]);
    assert_eq!(moved(&three, &without), three.iter().filter(|device| **device == 1).count());
    for device in [2, 3] {
        assert_eq!(without.iter().filter(|home| **home == device).count(), BUCKETS / 2);
    }
}

#[test]
fn a_device_in_the_place_of_another_is_home_to_what_that_was_home_to() {
    let mut shelf = Shelf::default();
    let before = homes(&shelf.start(&[1, 2, 3]).unwrap(), &[1, 2, 3]);
    let after = homes(&shelf.start(&[1, 4, 3]).unwrap(), &[1, 2, 3]);
    assert_eq!(before, after);
}

#[test]
fn a_device_that_was_out_of_the_list_comes_back_empty() {
    let mut shelf = Shelf::default();
    shelf.start(&[1, 2]).unwrap();
    shelf.start(&[1]).unwrap();
    let back = shelf.start(&[1, 2]).unwrap();
    assert_eq!(back.is_emptied, [false, true]);
    let of_second = back.roster.buckets.iter().filter(|bucket| bucket.member == 1);
    assert!(of_second.clone().count() == BUCKETS / 2 && of_second.clone().all(|b| b.since == 30));
    assert!(!shelf.start(&[2, 1]).unwrap().is_emptied.contains(&true), "once");
}

#[test]
fn a_bucket_that_went_and_came_back_is_at_home_since_it_came_back() {
    let mut shelf = Shelf::default();
    shelf.start(&[1]).unwrap();
    let both = shelf.start(&[1, 2]).unwrap();
    shelf.start(&[1]).unwrap();
    let alone = shelf.start(&[1]).unwrap().roster;
    for (bucket, before) in alone.buckets.iter().zip(&both.roster.buckets) {
        assert_eq!(bucket.since, if before.member == 0 { 0 } else { 30 });
    }
}

#[test]
fn a_device_that_was_away_at_the_end_is_emptied_and_one_that_had_joined_again_is_not() {
    let mut shelf = Shelf::default();
    let before = homes(&shelf.start(&[1, 2]).unwrap(), &[1, 2]);
    let log = shelf.log(2);
    shelf.change(Change::Away(log), &[1]);
    let mut killed = Shelf { on: shelf.on.clone(), ..Shelf::default() };
    killed.generation = 50;
    let after = killed.start(&[1, 2]).unwrap();
    assert_eq!(
        (after.is_emptied.as_slice(), moved(&homes(&after, &[1, 2]), &before)),
        (&[false, true][..], 0)
    );

    for told in [&[1, 2][..], &[1]] {
        let mut joined = Shelf { on: shelf.on.clone(), ..Shelf::default() };
        joined.change(Change::In(log), told);
        assert_eq!(joined.start(&[1, 2]).unwrap().is_emptied, [false, false], "{told:?}");
    }
}

#[test]
fn a_device_that_was_emptied_while_the_node_ran_has_its_buckets_since_then() {
    let mut shelf = Shelf::default();
    shelf.start(&[1, 2]).unwrap();
    let emptied = Change::Emptied { log: shelf.log(2), as_log: id(77), since: 17 };
    shelf.on.get_mut(&2).unwrap().0 = id(77);
    shelf.change(emptied, &[1, 2]);
    let after = shelf.start(&[1, 2]).unwrap();
    assert!(!after.is_news && after.is_emptied == [false, false]);
    let since = |member| after.roster.buckets.iter().find(|b| b.member == member).unwrap().since;
    assert_eq!([since(0), since(1)], [10, 17]);
}

#[test]
fn devices_that_were_used_apart_are_refused() {
    let mut shelf = Shelf::default();
    shelf.start(&[1, 2]).unwrap();
    shelf.start(&[1]).unwrap();
    shelf.start(&[2]).unwrap();
    assert!(shelf.start(&[1, 2]).is_err());
    shelf.on.remove(&2);
    assert_eq!(shelf.start(&[1, 2]).unwrap().is_emptied, [false, false], "it was formatted");
}

#[test]
fn a_start_that_ended_before_all_had_the_roster_costs_nothing() {
    let mut shelf = Shelf::default();
    shelf.start(&[1, 2]).unwrap();
    let before = shelf.on[&2].clone();
    shelf.start(&[1, 2, 3]).unwrap();
    shelf.on.insert(2, before);
    shelf.on.get_mut(&3).unwrap().1 = None;
    let again = shelf.start(&[1, 2, 3]).unwrap();
    assert!(again.is_news && again.is_emptied == [false; 3]);
}

#[test]
fn a_used_device_without_a_roster_is_emptied_beside_others_that_have_one() {
    let mut shelf = Shelf::default();
    shelf.start(&[1, 2]).unwrap();
    shelf.on.insert(3, (id(3), None));
    assert_eq!(shelf.start(&[1, 2, 3]).unwrap().is_emptied, [false, false, true]);
}

/// A roster on flash, without its buckets, which all belong to the second member since generation
/// 7. Never edit: a new version gets its own case.
const GOLDEN_V1: [u8; 72] = [
    1, 0, 2, 0, 0, 0, 0, 0, // version, members
    5, 0, 0, 0, 0, 0, 0, 0, // number
    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, // id
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 0, 1, 0, // four shards, away
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, // two shards
];

#[test]
fn version_1_reads_and_writes_the_golden_bytes() {
    let member = |n, shard_count, is_away| Member { log: id(n), shard_count, is_away };
    let members = vec![member(1, 4, true), member(2, 2, false)];
    let buckets = vec![Bucket { member: 1, since: 7 }; BUCKETS];
    let roster = Roster { number: 5, id: id(9), members, buckets };
    let bucket = [7, 0, 0, 0, 0, 0, 0, 0, 1];
    let golden = [&GOLDEN_V1[..], &bucket.repeat(BUCKETS)].concat();
    assert!(roster.encode() == golden);
    assert_eq!(Roster::decode(&golden), Some(roster));
    for (at, wrong) in [(0, 2), (4, 1), (50, 2), (80, 2)] {
        let mut bytes = golden.clone();
        bytes[at] = wrong;
        assert_eq!(Roster::decode(&bytes), None, "byte {at}");
    }
    assert_eq!(Roster::decode(&golden[1..]), None);
}
