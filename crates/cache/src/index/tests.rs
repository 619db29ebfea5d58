//! The index compared with a map, and its memory per record.

use alloc::collections::{BTreeMap, BTreeSet};

use zonal_base::{Bytes, Rng};

use super::*;

fn record(zone: u32, at: u32, len: u32, kind: u8, rng: &mut Rng) -> IndexEntry {
    let offset = if len < 4096 { at * 4 } else { at * 256 };
    let checks = (0..zonal_zonelog::granule_count(len)).map(|_| (rng.next_u64() >> 32) as u32);
    IndexEntry::new(Extent { zone: ZoneId(zone), offset, len }, Kind(kind), checks.collect())
}

#[test]
fn it_behaves_as_a_map_from_keys_to_records_whose_zones_can_be_emptied() {
    let mut rng = Rng::new(7);
    let mut index = Index::new(16, Blocks(16384));
    let mut model: BTreeMap<Key, (ZoneId, u32, u32)> = BTreeMap::new();
    for step in 0..20_000u32 {
        let key = Key(u128::from(rng.below(3000)) << 70 | 99);
        match rng.below(10) {
            0 => {
                let removed = index.remove(key);
                assert_eq!(removed.is_some(), model.remove(&key).is_some());
            }
            1 if step % 50 == 0 => {
                let zone = ZoneId(zonal_base::low_u32(zonal_base::index(rng.below(16))));
                let of_zone = model.iter().filter(|(_, (of, ..))| *of == zone);
                let expected: BTreeSet<u64> = of_zone.map(|(key, _)| chunk_id(*key)).collect();
                let heads: BTreeSet<u64> = index.zone_hashes(zone, Kind(1)).collect();
                assert!(heads.is_subset(&expected));
                let mut told = BTreeSet::new();
                while index.drain_zone(zone, 10, |_, hash| assert!(told.insert(hash))) {}
                assert_eq!(told, expected, "of a key, all of its hash comes back");
                model.retain(|_, (of, ..)| *of != zone);
            }
            n => {
                let len = [1, 300, 4095, 4096, 65536, 262_144, 1 << 20][zonal_base::index(n) % 7];
                let found = record(step % 16, step % 16000, len, (n % 2) as u8 + 1, &mut rng);
                let inserted = index.insert(key, &found).unwrap();
                let replaced = inserted.replaced.map(|found| found.extent);
                let before = model.get(&key).map(|(zone, offset, len)| Extent {
                    zone: *zone,
                    offset: *offset,
                    len: *len,
                });
                assert_eq!(replaced, before);
                index.set_mark(&inserted.spot, PolicyTag(3));
                model.insert(key, (found.extent.zone, found.extent.offset, len));
                let again = index.lookup(key).unwrap();
                assert_eq!((again.extent, again.kind), (found.extent, found.kind));
                assert_eq!((again.checks, again.mark), (found.checks, PolicyTag(3)));
            }
        }
        assert_eq!(index.record_count(), model.len() as u64);
        if step % 50 == 0 {
            for zone in (0..16).map(ZoneId) {
                let of_zone = model.values().filter(|(of, ..)| *of == zone);
                let live = of_zone.fold(LiveRecords::default(), |sum, (.., len)| LiveRecords {
                    count: sum.count + 1,
                    bytes: sum.bytes + u64::from(*len),
                });
                assert_eq!(index.live_records(zone), live, "step {step}");
            }
        }
    }
    for (key, (zone, offset, len)) in model {
        assert_eq!(index.lookup(key).unwrap().extent, Extent { zone, offset, len });
    }
}

#[test]
fn what_was_found_in_a_zone_before_it_was_emptied_is_not_found_there_again() {
    let mut rng = Rng::new(5);
    let mut index = Index::new(4, Blocks(16384));
    let mut insert = |index: &mut Index, key| {
        let found = record(1, 0, 4096, 2, &mut rng);
        index.insert(Key(key), &found).unwrap().spot
    };
    let before = insert(&mut index, 1 << 70);
    assert_eq!(index.kind_and_mark(&before), Some((Kind(2), PolicyTag(0))));
    while index.drain_zone(ZoneId(1), 10, |_, _| ()) {}
    assert_eq!(index.kind_and_mark(&before), None);
    let after = insert(&mut index, 2 << 70);
    assert_eq!(index.kind_and_mark(&before), None);
    assert_eq!(index.kind_and_mark(&after), Some((Kind(2), PolicyTag(0))));
}

#[test]
fn a_64_kib_chunk_costs_at_most_24_bytes() {
    let mut rng = Rng::new(1);
    // Twenty zones of 1077 MiB, as on a 1 TB drive.
    let mut index = Index::new(20, Blocks(275_712));
    let mut worst: f64 = 0.0;
    let mut count = 0u64;
    for zone in 0..20 {
        for at in 0..17_232 {
            let found = record(zone, at * 16, 65536, 2, &mut rng);
            index.insert(Key(u128::from(rng.next_u64()) << 64), &found);
            count += 1;
        }
        index.seal_zone(ZoneId(zone));
        if 4 < zone {
            worst = worst.max(index.memory().0 as f64 / count as f64);
        }
    }
    assert!(worst <= 24.0, "{worst} bytes at the worst moment");
    assert!(Bytes(0) < index.memory());
}
