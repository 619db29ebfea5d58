//! Freshness: answers without asking the origin, by rule, by request directives, and when the
//! origin fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use zonal_base::Nanos;
use zonal_gateway::{CacheStatus, FreshnessRule, FreshnessRules};
use zonal_host::Freshness;

use crate::bad_origins::{Step, scripted, send};
use crate::client::{Answer, Ask, ask, get};
use crate::world::{REVALIDATE, World, pattern};

const HOUR: Nanos = Nanos::secs(3600);

/// A gateway over a folder, with this freshness rule.
async fn world_under(rule: FreshnessRule) -> World {
    let world = World::start(REVALIDATE).await;
    world.change_terms(|runtime_config| runtime_config.freshness = FreshnessRules::all(rule));
    world
}

async fn get_with(world: &World, uri: &str, cache_control: &str) -> Answer {
    ask(world.address, Ask::new("GET", uri).with("cache-control", cache_control)).await
}

/// Status, `X-Cache` and text of an answer.
fn said(answer: &Answer) -> (u16, &str, String) {
    (answer.status, answer.header("x-cache"), answer.text())
}

#[tokio::test]
async fn heads_may_be_trusted_for_longer_than_bytes() {
    let rule = FreshnessRule { head: Some(Freshness::Ttl(HOUR)), ..REVALIDATE.into() };
    let world = world_under(rule).await;
    let head = || async { ask(world.address, Ask::new("HEAD", "/b/k")).await };
    world.put("k", "one");
    assert_eq!(get(world.address, "/b/k").await.text(), "one");
    world.put("k", "another");
    let old = head().await;
    assert_eq!((old.header("x-cache"), old.header("content-length")), ("HIT", "3"));
    assert_eq!(said(&get(world.address, "/b/k").await), (200, "MISS", "another".into()));
    let new = head().await;
    assert_eq!((new.header("x-cache"), new.header("content-length")), ("HIT", "7"));
}

#[tokio::test]
async fn a_remembered_absence_ends_with_a_write_and_for_who_asks_anew() {
    let world = world_under(FreshnessRule { missing: HOUR, ..REVALIDATE.into() }).await;
    assert_eq!(get(world.address, "/b/k").await.header("x-cache"), "MISS");
    world.put("k", "behind");
    let absent = get(world.address, "/b/k").await;
    assert_eq!((absent.status, absent.header("x-cache")), (404, "HIT"));
    assert_eq!(absent.code(), "NoSuchKey");
    let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
    assert_eq!((head.status, head.header("x-cache"), head.body.len()), (404, "HIT", 0));
    // A read with `no-cache` updates the cache for all clients.
    assert_eq!(said(&get_with(&world, "/b/k", "no-cache").await), (200, "MISS", "behind".into()));
    assert_eq!(get(world.address, "/b/k").await.text(), "behind");
    // Writes and deletes through the gateway are visible at once.
    assert_eq!(get(world.address, "/b/w").await.status, 404);
    assert_eq!(get(world.address, "/b/w").await.header("x-cache"), "HIT");
    assert_eq!(ask(world.address, Ask::new("PUT", "/b/w").body("here")).await.status, 200);
    assert_eq!(get(world.address, "/b/w").await.text(), "here");
    assert_eq!(ask(world.address, Ask::new("DELETE", "/b/w")).await.status, 204);
    assert_eq!(said(&get(world.address, "/b/w").await).0, 404);
    assert_eq!(get(world.address, "/b/w").await.header("x-cache"), "HIT");
}

#[tokio::test]
async fn without_a_rule_an_object_that_appears_is_seen_at_once() {
    let world = world_under(Freshness::Immutable.into()).await;
    assert_eq!(get(world.address, "/b/k").await.status, 404);
    world.put("k", "there");
    assert_eq!(get(world.address, "/b/k").await.text(), "there");
}

#[tokio::test]
async fn a_client_may_ask_for_what_is_fresher() {
    let world = world_under(Freshness::Immutable.into()).await;
    world.put("k", "one");
    get(world.address, "/b/k").await;
    world.put("k", "two");
    assert_eq!(said(&get(world.address, "/b/k").await), (200, "HIT", "one".into()));
    assert_eq!(said(&get_with(&world, "/b/k", "max-age=3600").await), (200, "HIT", "one".into()));
    assert_eq!(said(&get_with(&world, "/b/k", "no-cache").await), (200, "MISS", "two".into()));
    assert_eq!(said(&get(world.address, "/b/k").await), (200, "HIT", "two".into()));
    let confirmed = (200, "REVALIDATED", "two".to_owned());
    assert_eq!(said(&get_with(&world, "/b/k", "max-age=0").await), confirmed);
    let pragma = ask(world.address, Ask::new("GET", "/b/k").with("pragma", "no-cache")).await;
    assert_eq!(said(&pragma), confirmed);
    // Once a read has found that the object is gone, staler reads do not bring it back.
    std::fs::remove_file(world.path("k")).unwrap();
    assert_eq!(get(world.address, "/b/k").await.header("x-cache"), "HIT");
    assert_eq!(get_with(&world, "/b/k", "no-cache").await.status, 404);
    assert_eq!(get(world.address, "/b/k").await.status, 404);
}

#[tokio::test]
async fn a_client_may_take_only_what_is_cached() {
    let world = world_under(Freshness::Immutable.into()).await;
    let bytes = pattern(1 << 20, 0);
    world.put("k", &bytes);
    world.put("never/k", "x");
    let only = "only-if-cached";
    for uri in ["/b/k", "/b/none", "/b/never/k", "/b/k?versionId=1"] {
        let refused = get_with(&world, uri, only).await;
        assert_eq!((refused.status, refused.code().as_str()), (504, "NotCached"), "{uri}");
    }
    let part = |cache_control| {
        let part = Ask::new("GET", "/b/k").with("range", "bytes=0-9");
        ask(world.address, part.with("cache-control", cache_control))
    };
    assert_eq!(part("max-age=9").await.status, 206);
    let cached = part(only).await;
    assert_eq!((cached.status, cached.header("x-cache")), (206, "HIT"));
    assert!(cached.body == bytes[..10]);
    assert_eq!(get_with(&world, "/b/k", only).await.status, 504, "only its first chunk is");
    assert_eq!(part("only-if-cached, no-cache").await.status, 504);
    let head = Ask::new("HEAD", "/b/k").with("cache-control", only);
    assert_eq!(ask(world.address, head).await.status, 200);
    world.change_terms(|runtime_config| {
        runtime_config.freshness = FreshnessRules::all(REVALIDATE.into())
    });
    assert_eq!(part(only).await.status, 504, "nothing is fresh without the origin");
}

#[tokio::test]
async fn what_a_client_wants_not_stored_is_not() {
    let world = world_under(Freshness::Immutable.into()).await;
    world.put("k", pattern(100_000, 0));
    world.put("pin/k", pattern(100_000, 1));
    for _ in 0..2 {
        assert_eq!(get_with(&world, "/b/k", "no-store").await.header("x-cache"), "MISS");
        world.settle().await;
    }
    assert_eq!(get(world.address, "/b/k").await.header("x-cache"), "MISS");
    world.settle().await;
    assert_eq!(get_with(&world, "/b/k", "no-store").await.header("x-cache"), "HIT");
    assert_eq!(get_with(&world, "/b/pin/k", "no-store").await.header("x-cache"), "MISS");
    world.settle().await;
    assert_eq!(get(world.address, "/b/pin/k").await.header("x-cache"), "HIT", "it is pinned");
}

/// How an origin answers every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mood {
    Answers,
    Fails,
    HangsUp,
    IsBusy,
    Denies,
    HasNot,
}

impl Mood {
    fn answer(of: u8, head: &str) -> Vec<Step> {
        let is = |mood: Self| mood as u8 == of;
        let status = |status: &str| {
            let code = "<Error><Code>AccessDenied</Code></Error>";
            let body = if head.starts_with("HEAD") { "" } else { code };
            send(&format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", code.len()))
        };
        if is(Self::Fails) {
            status("500 Internal Server Error")
        } else if is(Self::HangsUp) {
            Vec::new()
        } else if is(Self::IsBusy) {
            status("503 Slow Down")
        } else if is(Self::Denies) {
            status("403 Forbidden")
        } else if is(Self::HasNot) {
            status("404 Not Found")
        } else if head.starts_with("PUT") {
            send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        } else {
            let whole = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\netag: \"e\"\r\n\r\n";
            let body = if head.starts_with("HEAD") { "" } else { "hello" };
            send(&format!("{whole}{body}"))
        }
    }
}

#[tokio::test]
async fn when_the_origin_fails_what_is_cached_is_served_if_a_rule_says_so() {
    let mood = Arc::new(AtomicU8::new(Mood::Answers as u8));
    let feels = mood.clone();
    let origin = scripted(move |head| Mood::answer(feels.load(Ordering::SeqCst), head)).await;
    let world = World::over_origin(origin, REVALIDATE).await;
    let set = |to: Mood| mood.store(to as u8, Ordering::SeqCst);
    let get = || get(world.address, "/b/k");
    assert_eq!(get().await.text(), "hello");
    set(Mood::Fails);
    assert_eq!(get().await.status, 502, "no rule says so");
    let rule = FreshnessRule { stale_if_error: HOUR, ..REVALIDATE.into() };
    world.change_terms(|runtime_config| runtime_config.freshness = FreshnessRules::all(rule));
    let stale = (200, "STALE", "hello".to_owned());
    for failing in [Mood::Fails, Mood::IsBusy, Mood::HangsUp, Mood::Fails] {
        set(failing);
        assert_eq!(said(&get().await), stale, "{failing:?}");
        let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
        assert_eq!((head.status, head.header("x-cache")), (200, "STALE"), "{failing:?}");
    }
    assert_eq!(world.outcomes(CacheStatus::Stale), 8);
    assert!(500 <= get_with(&world, "/b/k", "no-cache").await.status);
    assert!(500 <= get_with(&world, "/b/other", "max-stale").await.status);
    // A denial by the origin takes effect, and is remembered.
    set(Mood::Denies);
    assert_eq!(get_with(&world, "/b/k", "max-age=0").await.status, 403);
    assert_eq!(get().await.status, 403);
    set(Mood::Fails);
    assert_eq!(get().await.status, 502);
    set(Mood::Answers);
    assert_eq!(said(&get().await), (200, "REVALIDATED", "hello".into()));
    set(Mood::HangsUp);
    assert_eq!(said(&get().await), stale);
    // A write through the gateway removes the stale copy.
    set(Mood::Answers);
    assert_eq!(ask(world.address, Ask::new("PUT", "/b/k").body("other")).await.status, 200);
    set(Mood::HangsUp);
    assert_eq!(get().await.status, 503);
    // A 404 of the origin removes the stale copy, too.
    set(Mood::Answers);
    assert_eq!(get().await.text(), "hello");
    set(Mood::HasNot);
    assert_eq!(get().await.status, 404);
    set(Mood::HangsUp);
    assert_eq!(get().await.status, 503);
}

/// nginx calls it `proxy_cache_background_update`, Varnish grace: nobody waits for the origin.
#[tokio::test]
async fn what_is_stale_for_a_short_time_is_served_while_the_origin_is_asked() {
    let rule = FreshnessRule { stale_while_revalidate: HOUR, ..REVALIDATE.into() };
    let world = world_under(rule).await;
    world.put("k", "one");
    assert_eq!(said(&get(world.address, "/b/k").await), (200, "MISS", "one".into()));
    world.put("k", "two");
    let updating = get(world.address, "/b/k").await;
    assert_eq!(said(&updating), (200, "UPDATING", "one".into()));
    // The answer to that request made the new version known.
    let mut answers = Vec::new();
    loop {
        let now = get(world.address, "/b/k").await;
        let text = now.text();
        answers.push(text.clone());
        if text == "two" {
            break;
        }
        assert_eq!(said(&now), (200, "UPDATING", "one".into()));
        assert!(answers.len() < 10_000);
    }
    assert_eq!(said(&get_with(&world, "/b/k", "no-cache").await).0, 200);
    // A client that wants it fresh waits, and a write through the gateway counts at once.
    world.put("k", "three");
    assert_eq!(get_with(&world, "/b/k", "max-age=0").await.text(), "three");
    assert_eq!(ask(world.address, Ask::new("PUT", "/b/k").body("four")).await.status, 200);
    assert_eq!(get(world.address, "/b/k").await.text(), "four");
    // What the origin denies or has no more is served no more, once it is known.
    std::fs::remove_file(world.path("k")).unwrap();
    let mut reads = 0;
    while get(world.address, "/b/k").await.status != 404 {
        reads += 1;
        assert!(reads < 10_000);
    }
    assert_eq!(get(world.address, "/b/k").await.status, 404);
    // Missing bytes of an old version are not sent behind bytes of the same answer.
    let (old, new) = (pattern(3 << 20, 1), pattern(3 << 20, 2));
    world.put("big", &old);
    let begin = Ask::new("GET", "/b/big").with("range", "bytes=0-99");
    assert_eq!(ask(world.address, begin).await.status, 206);
    world.put("big", &new);
    let whole = get(world.address, "/b/big").await;
    assert_eq!((whole.status, whole.body == new), (200, true));
}
