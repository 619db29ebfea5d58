//! Cost of a paged map with a quarter of it in memory, compared with a flat map, on skewed
//! accesses.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::{Blocks, Bytes, Contents, Nanos, Rng};
use zonal_shaper::{Export, MapMemory, Settings};

use crate::rig::{Drives, Rig, Shape, export, in_order, is_slow, mib};

/// Zones that the map needs here.
const MAP_ZONES: u32 = 4;

/// Blocks of a zone, for a buffer with zones to spare for the map.
const SMALL: Blocks = Blocks(64);

/// Cost of a run.
struct Took {
    /// Virtual seconds of the writes, and of the reads.
    writing: f64,
    reading: f64,
    memory_bytes: u64,
    map_written_share: f64,
    map_reads_share: f64,
    capacity_written_share: f64,
}

/// Draws blocks from a Zipf distribution with exponent 0.99; ranks are assigned to blocks at
/// random.
fn zipf(user: u64) -> impl FnMut() -> u64 {
    let mut rng = Rng::new(9);
    let mut sum = 0.0;
    let ranks: Vec<f64> = (1..=user)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut places: Vec<u64> = (0..user).collect();
    for at in (1..places.len()).rev() {
        places.swap(at, zonal_base::index(rng.below(at as u64 + 1)));
    }
    move || {
        let wanted = rng.unit() * sum;
        places[ranks.partition_point(|sum| *sum < wanted).min(places.len() - 1)]
    }
}

fn measure(drives: Drives, export: &Export, map_memory: MapMemory) -> Took {
    let settings = Settings { map_memory, ..Settings::default() };
    let user = export.blocks.0;
    let mut rig = Rig::open(drives, settings, export.clone());
    rig.write(user, in_order());
    let draw = Rc::new(RefCell::new(zipf(user)));
    let drawn = || {
        let draw = draw.clone();
        move || draw.borrow_mut()()
    };
    rig.write(user, drawn());
    let (before, began) = (rig.stats(), rig.now());
    rig.write(2 * user, drawn());
    let writing = rig.now().since(began).0 as f64 / 1e9;
    let (between, began) = (rig.stats(), rig.now());
    rig.read(user, drawn());
    let reading = rig.now().since(began).0 as f64 / 1e9;
    let after = rig.stats();
    let written = 2.0 * Blocks(user).bytes().0 as f64;
    let share = |of: fn(&zonal_shaper::ShaperStats) -> u64| {
        (of(&between.0) - of(&before.0)) as f64 / written
    };
    Took {
        writing,
        reading,
        memory_bytes: rig.shaper.map_memory_bytes(),
        map_written_share: share(|stats| stats.map_written_bytes),
        capacity_written_share: share(|stats| stats.capacity_device_bytes),
        map_reads_share: (after.0.map_read_bytes - between.0.map_read_bytes) as f64 * 2.0 / written,
    }
}

#[test]
fn a_quarter_of_the_map_in_memory_costs_less_than_a_tenth_more_bytes_on_zipf() {
    for is_verified in [true, false] {
        compare_a_quarter_with_the_whole(is_verified);
    }
}

fn compare_a_quarter_with_the_whole(is_verified: bool) {
    let zone = if is_slow() { 4096 } else { 1024 };
    let zones = 64;
    let shape = Shape { zone: Blocks(zone), buffer_zones: zones / 16, capacity_zones: zones };
    let entry_bytes = if is_verified { 8 } else { 4 };
    let layout = Drives::new(shape, Contents::Bytes).layout();
    let bounded = Settings { map_memory: MapMemory::AtMost(Bytes(1)), ..Settings::default() };
    let user = bounded.exportable(&layout, 1).0 * 9 / 10;
    let memory = Bytes(user * entry_bytes / 4);
    let export = Export { is_verified, ..export(Blocks(user)) };
    // A small device spends a larger share of its zones on the map than one of 1 TiB (5 of 1024),
    // which leaves less spare space. Fewer capacity zones for the flat map remove that effect.
    let fewer = Shape { capacity_zones: zones - MAP_ZONES, ..shape };
    let coarse = |shape| Drives::new(shape, Contents::Bytes);
    let fine = || Drives::with_buffer_zones_of(SMALL, fewer, Contents::Bytes);
    let whole = measure(fine(), &export, MapMemory::Whole);
    let part = measure(fine(), &export, MapMemory::AtMost(memory));
    let coarse_whole = measure(coarse(fewer), &export, MapMemory::Whole);
    // The map may not take four zones of a four-zone buffer, so its pages lie on the capacity
    // device.
    let coarse_part = measure(coarse(shape), &export, MapMemory::AtMost(memory));
    let all = [
        ("all in memory", &whole),
        ("a quarter in memory, pages on the buffer device", &part),
        ("all in memory, larger zones of the buffer", &coarse_whole),
        ("a quarter in memory, pages on the capacity device", &coarse_part),
    ];
    for (name, took) in all {
        println!(
            "the map of {} MiB, verified: {is_verified}, {name}: {} bytes of memory; {:.3} s of writes, {:.3} s of reads; for each byte written {:.3} to the capacity tier, {:.3} of them the map's; pages read by {:.3} of reads",
            mib(Blocks(user).bytes().0),
            took.memory_bytes,
            took.writing,
            took.reading,
            took.capacity_written_share,
            took.map_written_share,
            took.map_reads_share,
        );
    }
    // At least this share of the throughput is left. A few percent are chance, with the larger
    // device more: what the buffer holds when the writing ends.
    let left = if is_slow() { 0.85 } else { 0.9 };
    for (whole, part) in [(&whole, &part), (&coarse_whole, &coarse_part)] {
        assert!(part.memory_bytes <= memory.0 * 21 / 20, "{} of {memory}", part.memory_bytes);
        let (all, more) = (whole.capacity_written_share, part.capacity_written_share);
        assert!(more < all * 1.1, "{more} and {all}");
        assert!(part.map_reads_share < 0.3, "{}", part.map_reads_share);
        assert!(0.0 < part.map_written_share, "the map is written");
        if is_slow() {
            assert!(part.writing * left < whole.writing, "{} and {}", part.writing, whole.writing);
        }
    }
    // The throughput loss is below a tenth when the faster device has the map pages.
    assert!(part.writing * 0.9 < whole.writing, "{} and {}", part.writing, whole.writing);
    // What the buffer holds when the writing ends is chance, and decides how fast reads are.
    let reading = f64::midpoint(whole.reading, coarse_whole.reading);
    assert!(part.reading * left < reading, "{} and {reading}", part.reading);
    assert!(part.reading < coarse_part.reading, "{} and {}", part.reading, coarse_part.reading);
}

/// Writes 512 MiB in order and a quarter of it again at random. Each turn of recovery reads all
/// headers.
#[test]
fn what_a_bounded_map_left_is_found_again_by_either_kind_of_map() {
    let shape = Shape { zone: Blocks(1 << 11), buffer_zones: 4, capacity_zones: 84 };
    // Map pages lie on the capacity device first, then on the buffer device.
    for zone in [shape.zone, SMALL] {
        find_again(Drives::with_buffer_zones_of(zone, shape, Contents::Bytes));
    }
}

fn find_again(drives: Drives) {
    let user = Blocks(1 << 17);
    let bounded = MapMemory::AtMost(Bytes(user.0 * 2));
    let settings = |map_memory| Settings { map_memory, ..Settings::default() };
    let mut rig = Rig::open(drives, settings(bounded), export(user));
    rig.write(user.0, in_order());
    let mut rng = Rng::new(5);
    rig.write(user.0 / 4, move || rng.below(user.0));
    for map_memory in [bounded, MapMemory::Whole, bounded] {
        let drives = rig.kill();
        let began = drives.now();
        rig = Rig::open(drives, settings(map_memory), export(user));
        let took = rig.now().since(began);
        let recovery = rig.shaper.recovery();
        println!(
            "{} MiB written, {map_memory:?}: opened in {:.2} s of the devices' time, {} MiB read",
            mib(user.bytes().0),
            took.0 as f64 / 1e9,
            mib(recovery.read_bytes),
        );
        assert_eq!(rig.stats().1.mapped_blocks, user.0, "{map_memory:?}");
        assert!(took < Nanos::secs(5), "{took:?}");
    }
}

/// Zones are so small that each holds a few dozen map pages, and reclaimed ones still hold some.
#[test]
fn pages_outlive_the_zones_in_which_they_lie() {
    let shape = Shape { zone: Blocks(64), buffer_zones: 64, capacity_zones: 2048 };
    let user = 80_000;
    let map_memory = MapMemory::AtMost(Bytes(user * 4));
    let drives = Drives::new(shape, Contents::Bytes);
    let settings = Settings { map_memory, ..Settings::default() };
    let mut rig = Rig::open(drives, settings, export(Blocks(user)));
    rig.write(user, in_order());
    let mut rng = Rng::new(11);
    rig.write(user, move || rng.below(user));
    let pages = user.div_ceil(512);
    let written = rig.stats().0.map_written_bytes / 4096;
    assert!(10 * pages < written, "{written} blocks for {pages} pages: zones are reclaimed");
    rig.read(user, in_order());
}

/// Garbage collection leaves a few zones empty, and the map would need more.
#[test]
fn a_device_that_was_filled_without_a_bound_is_refused_one_and_keeps_what_it_has() {
    let shape = Shape { zone: Blocks(32), buffer_zones: 64, capacity_zones: 4096 };
    let of = |map_memory| Settings { map_memory, ..Settings::default() };
    let drives = Drives::new(shape, Contents::Bytes);
    let user = of(MapMemory::Whole).exportable(&drives.layout(), 1).0;
    let mut rig = Rig::open(drives, of(MapMemory::Whole), export(Blocks(user)));
    rig.write(user, in_order());
    let mut rng = Rng::new(13);
    rig.write(user, move || rng.below(user));
    let bounded = of(MapMemory::AtMost(Bytes(user * 4)));
    let refused = Rig::try_open(rig.kill(), bounded, export(Blocks(user)));
    let (error, drives) = refused.err().expect("there is no room");
    let said = error.to_string();
    assert!(said.starts_with("the map needs "), "{said}");
    assert!(said.ends_with("before it is bounded"), "{said}");
    let mut rig = Rig::open(*drives, of(MapMemory::Whole), export(Blocks(user)));
    rig.read(user, in_order());
}

#[test]
fn too_little_memory_for_a_map_is_refused_with_what_would_do() {
    let shape = Shape { zone: Blocks(960), buffer_zones: 6, capacity_zones: 64 };
    let layout = Drives::new(shape, Contents::Bytes).layout();
    let of = |memory| Settings { map_memory: MapMemory::AtMost(memory), ..Settings::default() };
    let exports = [export(Blocks(40_000))];
    let refused = of(Bytes::kib(8)).check(&layout, &exports).map_err(|error| error.to_string());
    let text = "8KiB is too little memory for the map of these exports: 17KiB is the least, more is faster";
    assert_eq!(refused, Err(text.to_owned()));
    assert_eq!(of(Bytes::kib(17)).check(&layout, &exports), Ok(()));
}
