//! FTL: write amplification compared with the published analysis, and the mapping of every unit after random writes.

use zonal_base::Rng;

use super::*;

/// Superblocks, and units in each: enough that the open and free ones are below 0.1 % of the drive.
const SUPERBLOCKS: u32 = 4096;
const SUPERBLOCK_UNITS: u32 = 256;

/// Configuration with `percent` of over-provisioning: spare divided by user space.
fn config(unit: u64, percent: u32) -> FtlConfig {
    let places = SUPERBLOCKS * SUPERBLOCK_UNITS;
    FtlConfig {
        unit: Blocks(unit),
        user_units: narrow(u64::from(places) * 100 / u64::from(100 + percent)),
        superblock_units: SUPERBLOCK_UNITS,
        superblock_count: SUPERBLOCKS,
        free_min: 2,
    }
}

/// A drive on which every block was written once, in order.
fn filled(config: FtlConfig) -> Ftl {
    let mut ftl = Ftl::new(config);
    ftl.write(Lba(0), user_blocks(&ftl));
    ftl
}

fn user_blocks(ftl: &Ftl) -> Blocks {
    Blocks(u64::from(ftl.config.user_units) * ftl.config.unit.0)
}

/// Write amplification since `earlier`: blocks programmed for each block that the host wrote.
fn write_amplification(ftl: &Ftl, earlier: &FtlCounters) -> f64 {
    let counters = ftl.counters.since(earlier);
    (counters.programs() * ftl.config.unit.0) as f64 / counters.host_blocks as f64
}

/// Writes `size` blocks at random multiples of `size` below `end`. The first writes, three times the user space,
/// bring the drive into a steady state. Then as many blocks as `end` are measured.
fn random_overwrites(ftl: &mut Ftl, size: u64, end: Blocks) -> f64 {
    let mut rng = Rng::new(1);
    let slots = end.0 / size;
    let unit = ftl.config.unit.0.max(size);
    let mut run = |ftl: &mut Ftl, blocks: u64| {
        for _ in 0..blocks / unit {
            ftl.write(Lba(rng.below(slots) * size), Blocks(size));
        }
    };
    run(ftl, 3 * user_blocks(ftl).0);
    let earlier = ftl.counters;
    run(ftl, end.0);
    write_amplification(ftl, &earlier)
}

/// Write amplification of greedy garbage collection under uniform random writes, for superblocks of many units:
/// Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012; the same fixed point in Bux and Iliadis,
/// "Performance of greedy garbage collection in flash-based solid-state drives", Performance Evaluation 67 (2010).
///
/// With T physical and U user units, a = T/U: in a large superblock the number of valid units hardly differs from its
/// mean. So the superblock with the fewest valid units is the one that was written longest ago, and a superblock is
/// cleaned when T units were programmed after it. Let X be the part of it that is still valid. Of the T programs a
/// part of 1 - X were the host's (each victim gives room for 1 - X), and each of those leaves a given unit valid with
/// probability 1 - 1/U. So
///
/// X = (1 - 1/U)^(T (1 - X)) = e^(-a (1 - X)), that is X = -W(-a e^-a) / a,
///
/// and the write amplification is 1 / (1 - X). Over-provisioning is spare/user: a = 1 + OP.
fn published(a: f64) -> f64 {
    // From below the iteration rises to the smaller root; the larger one is X = 1.
    let x = (0..5000).fold(0.0, |x, _| e_to(-a * (1.0 - x)));
    1.0 / (1.0 - x)
}

/// Exponential function of small numbers, as a series: `core` has none.
fn e_to(x: f64) -> f64 {
    (1..40).rev().fold(1.0, |sum, n| 1.0 + sum * x / f64::from(n))
}

#[track_caller]
fn check(what: &str, ours: f64, expected: f64, tolerance: f64) {
    let deviation = ours / expected - 1.0;
    assert!(
        -tolerance < deviation && deviation < tolerance,
        "{what}: {ours:.3} here, {expected:.3} expected, {:+.2} %",
        deviation * 100.0
    );
}

#[test]
fn random_overwrites_amplify_as_the_greedy_analysis_says() {
    // The fixed point is the W that the formula names: w e^w = -a e^-a on the branch above -1.
    let w = -1.1 * (1.0 - 1.0 / published(1.1));
    check("the formula", w * e_to(w), -1.1 * e_to(-1.1), 1e-6);
    assert!(-1.0 < w);
    for percent in [7, 10, 20, 28] {
        let mut ftl = filled(config(1, percent));
        let end = user_blocks(&ftl);
        let ours = random_overwrites(&mut ftl, 1, end);
        // The ratio with the rounded sizes.
        let places = f64::from(SUPERBLOCKS) * f64::from(SUPERBLOCK_UNITS);
        let expected = published(places / f64::from(ftl.config.user_units));
        check(&alloc::format!("{percent} % over-provisioning"), ours, expected, 0.05);
    }
}

#[test]
fn sequential_overwrites_amplify_nothing() {
    for unit in [1, 16] {
        let mut ftl = filled(config(unit, 7));
        let (blocks, earlier) = (user_blocks(&ftl), ftl.counters);
        // The pieces are no multiple of the unit.
        let mut at = 0;
        while at < blocks.0 {
            let piece = 37.min(blocks.0 - at);
            ftl.write(Lba(at), Blocks(piece));
            at += piece;
        }
        assert!(write_amplification(&ftl, &earlier) < 1.000_1);
        assert_eq!(ftl.counters.completing_reads, 0);
        assert!(0 < ftl.counters.erases);
    }
}

#[test]
fn what_was_trimmed_is_space_to_move_in() {
    let mut ftl = filled(config(1, 10));
    let kept = user_blocks(&ftl).0 * 9 / 10;
    ftl.trim(Lba(kept), Blocks(user_blocks(&ftl).0 - kept));
    assert_eq!(ftl.counters.trimmed, user_blocks(&ftl).0 - kept);
    let ours = random_overwrites(&mut ftl, 1, Blocks(kept));
    let places = f64::from(SUPERBLOCKS) * f64::from(SUPERBLOCK_UNITS);
    check("with a tenth trimmed", ours, published(places / kept as f64), 0.05);
    assert!(ours < published(1.1) * 0.7, "without the trim it would be much more");
}

#[test]
fn a_write_of_a_sixteenth_of_a_unit_programs_all_of_it() {
    let mut ftl = filled(config(16, 28));
    let end = user_blocks(&ftl);
    let small = random_overwrites(&mut ftl, 1, end);
    let counters = ftl.counters;
    let whole = user_blocks(&ftl).0 / 16;
    let before_reclaim = (counters.host_programs - whole) * 16;
    let small_blocks = counters.host_blocks - whole * 16;
    check("before garbage collection", before_reclaim as f64 / small_blocks as f64, 16.0, 0.001);
    check("with it", small, 16.0 * published(1.28), 0.05);
    assert_eq!(
        counters.completing_reads,
        counters.host_programs - whole,
        "each read what it lacked"
    );
}

#[test]
fn small_sequential_streams_program_each_unit_once() {
    let mut ftl = filled(config(16, 28));
    let earlier = ftl.counters;
    let stride = user_blocks(&ftl).0 / 14 / 16 * 16;
    for at in 0..1600 {
        for stream in 0..14 {
            ftl.write(Lba(stream * stride + at), Blocks(1));
        }
    }
    let counters = ftl.counters.since(&earlier);
    assert_eq!((counters.host_programs, counters.completing_reads), (1400, 0));
}

#[test]
fn every_unit_is_where_its_last_write_put_it() {
    for free_min in [2, 5] {
        let shape = FtlConfig {
            unit: Blocks(2),
            user_units: 900,
            superblock_units: 32,
            superblock_count: 40,
            free_min,
        };
        let mut ftl = Ftl::new(shape);
        let mut rng = Rng::new(9);
        let mut is_mapped = alloc::vec![false; 900];
        for round in 0..20_000 {
            let first = rng.below(900);
            let count = (1 + rng.below(90)).min(900 - first);
            let is_trim = round % 8 == 0;
            let (lba, blocks) = (Lba(first * 2), Blocks(count * 2));
            if is_trim {
                ftl.trim(lba, blocks)
            } else {
                ftl.write(lba, blocks)
            }
            is_mapped[index(first)..index(first + count)].fill(!is_trim);
            if round % 100 == 0 {
                expect_consistent(&ftl, &is_mapped);
            }
        }
        assert!(0 < ftl.counters.copies && 0 < ftl.counters.trimmed);
    }
}

/// Checks that no two units share a physical address, each address knows its unit, and each superblock its valid
/// units.
#[track_caller]
fn expect_consistent(ftl: &Ftl, is_mapped: &[bool]) {
    let mut valid = alloc::vec![0; ftl.superblocks.len()];
    for (unit, is_mapped) in (0..).zip(is_mapped) {
        let place = ftl.locate(Lba(u64::from(unit) * 2));
        assert_eq!(place.is_some(), *is_mapped, "unit {unit}");
        let Some(place) = place else { continue };
        assert_eq!(unit_at(ftl, place), unit, "what was copied is the unit itself");
        valid[(place / ftl.config.superblock_units) as usize] += 1;
    }
    let counted: Vec<u32> = ftl.superblocks.iter().map(|superblock| superblock.valid).collect();
    assert_eq!(valid, counted);
}

/// Logical unit that was written to a physical unit, counted from 0.
fn unit_at(ftl: &Ftl, place: u32) -> u32 {
    let superblock = place / ftl.config.superblock_units;
    let mut at = superblock * ftl.config.superblock_units;
    let runs = (ftl.first_run(superblock)..).map(|run| ftl.order.get(run));
    for Run { first, len } in runs {
        if place - at < len {
            return first + (place - at);
        }
        at += len;
    }
    unreachable!("the list goes on for ever");
}

#[test]
fn a_drive_full_of_valid_data_still_takes_writes() {
    let shape = FtlConfig {
        unit: Blocks(1),
        user_units: 640,
        superblock_units: 64,
        superblock_count: 16,
        free_min: 2,
    };
    let mut ftl = filled(shape);
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        ftl.write(Lba(rng.below(640)), Blocks(1));
    }
    assert!(write_amplification(&ftl, &FtlCounters::default()) < 20.0);
}
