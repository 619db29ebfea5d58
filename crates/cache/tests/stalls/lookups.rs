//! Origin lookups: which requests reads cost, and which reads share one.

use std::cell::Cell;
use std::rc::Rc;

use zonal_base::Nanos;
use zonal_cache::{Freshness, HeadSource};

use crate::rig::{FRAME_TIME, OBJECT_BYTES, OtherShard, Rig, secs};

const CHUNK: u64 = 256 << 10;

/// GET and HEAD requests so far.
fn asked(rig: &Rig) -> (u64, u64) {
    (rig.origin.asked, rig.origin.heads_asked)
}

#[test]
fn a_first_read_is_one_get() {
    let mut rig = Rig::new(8);
    let opened = rig.start_open("k", Freshness::Revalidate, Some(0..10));
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Miss), (1, 0)));
    assert_eq!(rig.origin.sent_bytes, CHUNK, "the chunk that it covers");
    let head = rig.start_open("k", Freshness::Revalidate, None);
    rig.pass(secs(1));
    assert_eq!((head.get(), asked(&rig)), (Some(HeadSource::Revalidated), (1, 1)));
    rig.assert_at_rest();
}

#[test]
fn what_is_cached_is_confirmed_by_a_head_and_what_is_missing_by_its_get() {
    let mut rig = Rig::new(8);
    rig.start_open("k", Freshness::Revalidate, Some(0..10));
    rig.pass(secs(1));
    let cached = rig.start_open("k", Freshness::Revalidate, Some(10..20));
    rig.pass(secs(1));
    assert_eq!((cached.get(), asked(&rig)), (Some(HeadSource::Revalidated), (1, 1)));
    let partly = rig.start_open("k", Freshness::Revalidate, Some(10..CHUNK + 1));
    rig.pass(secs(1));
    assert_eq!((partly.get(), asked(&rig)), (Some(HeadSource::Revalidated), (2, 1)));
    assert_eq!(rig.origin.sent_bytes, 2 * CHUNK);
    rig.assert_at_rest();
}

/// A read relies on a lookup that was sent after the read arrived. A write at the origin may have
/// been acknowledged between an older lookup and the read.
#[test]
fn a_read_that_comes_during_a_lookup_asks_on_its_own() {
    let mut rig = Rig::new(8);
    let first = rig.start_open("k", Freshness::Revalidate, None);
    let second = rig.start_open("k", Freshness::Revalidate, None);
    rig.pass(Nanos(FRAME_TIME.0 / 2));
    assert_eq!((first.get(), asked(&rig)), (None, (0, 1)), "both came before it was sent");
    let later = [(); 3].map(|()| rig.start_open("k", Freshness::Revalidate, None));
    rig.pass(secs(1));
    assert_eq!(asked(&rig), (0, 2), "those that came later share one more");
    assert!(later.iter().chain([&first, &second]).all(|opened| opened.get().is_some()));
    rig.assert_at_rest();
}

/// With promised freshness, the answer to an older lookup will do.
#[test]
fn a_read_with_a_time_to_live_shares_an_older_lookup() {
    let mut rig = Rig::new(8);
    let rule = Freshness::Ttl(secs(60));
    let first = rig.start_open("k", rule, Some(0..10));
    rig.pass(Nanos(FRAME_TIME.0 / 2));
    let second = rig.start_open("k", rule, Some(20..30));
    rig.pass(secs(1));
    assert!(first.get().is_some() && second.get().is_some());
    assert_eq!(asked(&rig), (1, 0));
    rig.assert_at_rest();
}

/// A crowd at an object that is not cached: one GET brings the bytes, and one HEAD confirms the
/// version for all that came after the GET was sent.
#[test]
fn a_crowd_costs_one_get_and_one_head() {
    let mut rig = Rig::new(8);
    let first = rig.start_open("k", Freshness::Revalidate, Some(0..CHUNK));
    rig.pass(Nanos(FRAME_TIME.0 / 2));
    let crowd: Vec<_> =
        (0..100).map(|_| rig.start_open("k", Freshness::Revalidate, Some(0..CHUNK))).collect();
    rig.pass(secs(1));
    assert!(first.get().is_some() && crowd.iter().all(|opened| opened.get().is_some()));
    assert_eq!(asked(&rig), (1, 1));
    assert_eq!(rig.origin.sent_bytes, CHUNK);
    rig.assert_at_rest();
}

/// The fetch of a first read whose conditions do not hold ends with its first piece.
#[test]
fn a_first_read_without_bytes_fetches_no_more_than_a_piece() {
    let mut rig = Rig::new(8);
    let opened = rig.start_open_for("k", Freshness::Revalidate, (Some(0..OBJECT_BYTES), 0..0));
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Miss), (1, 0)));
    assert!(rig.origin.sent_bytes <= 2 * CHUNK, "{}", rig.origin.sent_bytes);
    rig.assert_at_rest();
}

/// SDKs read the parts of a large object side by side. No part waits for the head of another.
#[test]
fn parts_of_an_unknown_object_are_requested_side_by_side() {
    let mut rig = Rig::new(8);
    let part = OBJECT_BYTES / 4;
    let parts: Vec<_> = (0..4)
        .map(|n| rig.start_open("k", Freshness::Revalidate, Some(n * part..(n + 1) * part)))
        .collect();
    rig.pass(Nanos(FRAME_TIME.0 / 2));
    assert_eq!(asked(&rig), (4, 0));
    rig.pass(secs(1));
    assert!(parts.iter().all(|opened| opened.get().is_some()));
    assert_eq!(asked(&rig), (4, 0));
    rig.assert_at_rest();
}

/// A large object with a known head, and a read of two bytes around the start of its second stripe,
/// which waits for the shard of that stripe.
fn reading_two_stripes() -> (Rig, Rc<OtherShard>, Rc<Cell<Option<HeadSource>>>) {
    let mut rig = Rig::new(8);
    rig.start_open("large", Freshness::Revalidate, Some(OBJECT_BYTES - 1..OBJECT_BYTES));
    rig.pass(secs(1));
    assert_eq!(asked(&rig), (1, 0));
    let other = Rc::new(OtherShard::default());
    other.lacks.replace(Some(OBJECT_BYTES..OBJECT_BYTES + CHUNK));
    let bytes = OBJECT_BYTES - 1..OBJECT_BYTES + 1;
    let opened = rig.start_open_beside("large", Freshness::Revalidate, bytes, &other);
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig), other.asked.get()), (None, (1, 0), 1));
    (rig, other, opened)
}

#[test]
fn what_another_shard_lacks_is_confirmed_by_its_get() {
    let (mut rig, other, opened) = reading_two_stripes();
    other.answer();
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Revalidated), (2, 0)));
    assert_eq!(rig.origin.asked_if_match, 1);
    assert_eq!(rig.origin.sent_bytes, CHUNK, "the reader did not take the body");
    rig.assert_at_rest();
}

#[test]
fn what_no_shard_lacks_is_confirmed_by_a_head() {
    let (mut rig, other, opened) = reading_two_stripes();
    other.lacks.replace(None);
    other.answer();
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Revalidated), (1, 1)));
    rig.assert_at_rest();
}

/// The answer to a lookup that was sent after the read arrived will do for it.
#[test]
fn a_head_that_is_confirmed_while_another_shard_is_asked_costs_no_request() {
    let (mut rig, other, opened) = reading_two_stripes();
    let head = rig.start_open("large", Freshness::Revalidate, None);
    rig.pass(secs(1));
    assert_eq!((head.get(), asked(&rig)), (Some(HeadSource::Revalidated), (1, 1)));
    other.answer();
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Revalidated), (1, 1)));
    rig.assert_at_rest();
}

#[test]
fn an_object_that_is_removed_while_another_shard_is_asked_is_read_anew() {
    let (mut rig, other, opened) = reading_two_stripes();
    rig.remove("large");
    other.answer();
    rig.pass(secs(1));
    assert_eq!((opened.get(), asked(&rig)), (Some(HeadSource::Miss), (2, 0)));
    assert_eq!(rig.origin.asked_if_match, 0);
    rig.assert_at_rest();
}
