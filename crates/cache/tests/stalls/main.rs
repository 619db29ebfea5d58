//! Stalled readers and stalled flash: which resources they hold, and how the stall ends.

mod lookups;
mod rig;

use zonal_base::{Bytes, Nanos};
use zonal_cache::{Freshness, MISSED_MAX};

use rig::{OBJECT_BYTES, Rig, secs};

/// Byte allowance of a reader that does not stop.
const ALL: u64 = u64::MAX;

/// Window of a fetch ahead of its fastest reader, in bytes.
const WINDOW_BYTES: u64 = 8 << 20;

/// Regression: 260 clients that requested large objects and stopped reading held every connection
/// slot at the origin, until each was cut off after 30 s. All other requests waited behind them. A
/// fetch whose readers take no bytes must free its slot.
#[test]
fn readers_that_stop_hold_no_place_at_the_origin() {
    let mut rig = Rig::new(1);
    let stopped: Vec<_> = (0..20).map(|n| rig.read(&format!("stopped-{n}"))).collect();
    for reader in &stopped {
        reader.take(1);
    }
    rig.pass(secs(1));
    let other = rig.read("other");
    other.take(ALL);
    let begun = rig.now;
    let took = rig.finish(&other).0 - begun.0;
    other.assert_whole();
    assert!(took < 60_000_000_000, "{took} ns behind readers that had stopped");
    let held = rig.buffers_in_use();
    assert!(held <= 2 * 20, "{held} buffers for 20 readers that have stopped");
    for reader in &stopped {
        assert!(reader.taken() < OBJECT_BYTES / 8);
        reader.take(ALL);
    }
    for reader in &stopped {
        rig.finish(reader);
        reader.assert_whole();
    }
    rig.assert_at_rest();
}

/// A client that takes a few bytes now and then keeps its connection. It must not keep a slot at
/// the origin.
#[test]
fn a_reader_that_takes_a_little_now_and_then_holds_no_place_either() {
    let mut rig = Rig::new(1);
    let slow = rig.read("slow");
    slow.take(1);
    rig.pass(secs(1));
    let other = rig.read("other");
    other.take(ALL);
    for _ in 0..20 {
        slow.take(64 << 10);
        rig.pass(secs(1));
    }
    other.assert_whole();
    slow.take(ALL);
    rig.finish(&slow);
    slow.assert_whole();
    rig.assert_at_rest();
}

/// A reader may stall any number of times. The origin never sends a byte twice for it: bytes that
/// the reader does not take are not requested.
#[test]
fn a_slow_reader_costs_one_request_for_each_window() {
    let mut rig = Rig::new(1);
    let slow = rig.read("slow");
    for _ in 0..OBJECT_BYTES >> 20 {
        slow.take(1 << 20);
        rig.pass(secs(10));
    }
    slow.take(ALL);
    rig.finish(&slow);
    slow.assert_whole();
    let (asked, sent_bytes) = (rig.origin.asked, rig.origin.sent_bytes);
    assert!(asked <= OBJECT_BYTES / WINDOW_BYTES, "{asked} requests");
    assert!(sent_bytes <= OBJECT_BYTES + (1 << 20), "{sent_bytes} bytes");
    assert_eq!(rig.cache.stats().fetches_stalled, 1);
    assert_eq!(rig.cache.stats().fetch_errors, 0);
    rig.assert_at_rest();
}

/// Two readers share a fetch and one stops. The other goes on with the bytes in memory and then
/// fetches the rest.
#[test]
fn a_follower_outlives_the_stall_of_the_one_that_it_followed() {
    let mut rig = Rig::new(1);
    let (first, second) = (rig.read("shared"), rig.read("shared"));
    first.take(5 << 20);
    second.take(1 << 20);
    rig.pass(secs(10));
    second.take(ALL);
    rig.finish(&second);
    second.assert_whole();
    first.take(ALL);
    rig.finish(&first);
    first.assert_whole();
    assert_eq!(rig.cache.stats().fetches_stalled, 1);
    rig.assert_at_rest();
}

/// A short pause of the reader does not end the fetch.
#[test]
fn a_short_pause_costs_nothing() {
    let mut rig = Rig::new(1);
    let reader = rig.read("paused");
    for _ in 0..OBJECT_BYTES >> 20 {
        reader.take(1 << 20);
        rig.pass(secs(1));
    }
    reader.take(ALL);
    rig.finish(&reader);
    reader.assert_whole();
    assert_eq!((rig.origin.asked, rig.origin.sent_bytes), (1, OBJECT_BYTES));
    rig.assert_at_rest();
}

/// Heads are written to flash in the background. While flash hangs, a bounded number of them waits
/// for it, and the others are in memory only.
#[test]
fn heads_that_cannot_be_written_do_not_pile_up() {
    const HEADS: usize = 20_000;
    let mut rig = Rig::new(1);
    rig.device_hangs = true;
    let before = rig.tasks();
    let answered = rig.open(HEADS);
    rig.pass(secs(10));
    assert_eq!(answered.get(), HEADS, "nobody waits for flash");
    let waiting = (rig.tasks() - before) as usize;
    assert!(waiting < HEADS / 2, "{waiting} tasks wait for flash");
    let refused = usize::try_from(rig.cache.stats().heads_refused).expect("few");
    assert!(HEADS <= refused + waiting, "{refused} refused, {waiting} waiting");
    let again = rig.open(HEADS);
    rig.pass(secs(1));
    assert_eq!((again.get(), rig.cache.stats().opens_fresh), (HEADS, HEADS as u64));
    rig.device_hangs = false;
    rig.pass(secs(10));
    assert_eq!(rig.tasks(), before);
    rig.assert_at_rest();
}

/// Pieces that flash refuses are held for their reader, and the fetch keeps step with the reader.
/// The fetch ends all the same when the reader stops, and the held pieces stay for it.
#[test]
fn a_reader_that_stops_while_flash_is_slower_than_the_origin_holds_no_place_either() {
    let mut rig = Rig::with_backlog(1, Bytes::kib(256));
    let slow = rig.read("slow");
    for _ in 0..10 {
        slow.take(1 << 20);
        rig.pass(secs(10));
        let other = rig.read("other");
        other.take(ALL);
        rig.finish(&other);
        other.assert_whole();
    }
    slow.take(ALL);
    rig.finish(&slow);
    slow.assert_whole();
    let stats = rig.cache.stats();
    assert!(0 < stats.refused_bytes && 1 < stats.fetches_stalled, "{stats:?}");
    rig.assert_at_rest();
}

/// Regression: a fetch took its buffer before bytes arrived. With 250 fetches of an origin that had
/// stopped in the middle of its answers, a hit waited for 28 s.
#[test]
fn a_slow_origin_delays_no_hit() {
    let mut rig = Rig::new(1000);
    let hit = rig.read("hit");
    hit.take(ALL);
    rig.finish(&hit);
    rig.pass(secs(1));
    let read_hit = |rig: &mut Rig| {
        let (hit, begun) = (rig.read("hit"), rig.now);
        hit.take(ALL);
        let took = rig.finish(&hit).0 - begun.0;
        hit.assert_whole();
        took
    };
    let alone = read_hit(&mut rig);
    let slow: Vec<_> = (0..500).map(|n| rig.read(&format!("trickle-{n}"))).collect();
    slow.iter().for_each(|reader| reader.take(ALL));
    rig.pass(secs(12));
    assert_eq!(rig.buffers_in_use(), 0, "buffers for bytes that have not arrived");
    let asked = rig.origin.asked;
    let beside = read_hit(&mut rig);
    assert_eq!(rig.origin.asked, asked, "it is a hit");
    assert!(beside <= 3 * alone, "{beside} ns beside slow fetches, {alone} ns alone");
    slow.iter().for_each(rig::Reader::leave);
    rig.pass(secs(5));
    assert_eq!(rig.origin.bodies.len(), 0, "fetches that nobody waits for");
    rig.assert_at_rest();
}

/// Regression: each batch of a replay looked through all removals that were left. 65,536 took 6.5 s,
/// in which the shard served nothing.
#[test]
fn removals_that_a_device_missed_are_replayed_soon() {
    let took = Rig::new(1).replay(MISSED_MAX);
    assert!(took < Nanos::millis(200), "{took:?}");
}

/// Regression: a head that was confirmed while the clock was ahead became fresh when the clock
/// reached that time. Its age is unknown, also after another restart.
#[test]
fn a_head_confirmed_by_a_clock_that_was_ahead_never_becomes_fresh() {
    let ttl = Freshness::Ttl(secs(3600));
    let mut rig = Rig::new(1);
    rig.pass(secs(50_000));
    assert!(rig.is_served("k", ttl));
    let ahead = rig.now;
    let mut rig = rig.restarted_at(secs(100));
    rig.origin.is_down = true;
    let asked = rig.origin.heads_asked;
    assert!(!rig.is_served("k", ttl), "its age is unknown");
    assert_eq!(rig.origin.heads_asked, asked + 1);
    let mut rig = rig.restarted_at(ahead + secs(60));
    assert!(!rig.is_served("k", ttl), "the clock has reached that time");
    rig.origin.is_down = false;
    assert!(rig.is_served("k", ttl));
    rig.origin.is_down = true;
    assert!(rig.is_served("k", ttl), "confirmed just now");
}
