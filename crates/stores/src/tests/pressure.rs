//! Late or overloaded stores: they have the same retry budget, hedging and concurrency limit as S3
//! endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::task::JoinSet;
use zonal_origin::{Hedge, Origin, OriginError, OriginLimits};

use super::served::{Served, Speaks};
use super::{KINDS, ask, gcs, limits, object};

/// Least delay of one in fifty answers: far longer than all other answers, even on a busy machine.
const LATE: Duration = Duration::from_millis(400);

fn p99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}

/// Runs `readers` concurrent readers, each with `times` range reads. Returns the time of each read,
/// in ascending order.
async fn read_at_once(origin: &Arc<Origin>, readers: usize, times: usize) -> Vec<Duration> {
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let origin = origin.clone();
        reading.spawn(async move {
            let mut took = Vec::new();
            for _ in 0..times {
                let since = Instant::now();
                let mut body = origin.get(&object("k"), 2..6, None).await.unwrap();
                assert_eq!(body.next().await.unwrap().unwrap(), "2345");
                took.push(since.elapsed());
            }
            took
        });
    }
    let mut took: Vec<_> = reading.join_all().await.into_iter().flatten().collect();
    took.sort_unstable();
    took
}

#[tokio::test]
async fn what_is_late_is_asked_once_more_whatever_the_store() {
    for (speaks, open) in KINDS {
        let served = Served::start(speaks).await;
        served.put("k", b"0123456789");
        let in_time = p99(&read_at_once(&Arc::new(open(&served, limits())), 8, 25).await);
        let late = LATE.max(20 * in_time);
        served.is_late(50, late);
        let plain = p99(&read_at_once(&Arc::new(open(&served, limits())), 8, 75).await);
        assert!(late <= plain, "{speaks:?}: {plain:?}");
        println!("{speaks:?}, never asked again: p99 {plain:?}, {in_time:?} when nothing is late");
        for hedge in [Hedge::Percentile(95), Hedge::After(late / 4)] {
            let origin = Arc::new(open(&served, OriginLimits { hedge: Some(hedge), ..limits() }));
            // The percentile is known after the first hundred answers.
            read_at_once(&origin, 8, 15).await;
            let (asked_before, hedges_before) = (served.asked(), origin.stats().hedges.get());
            let p99 = p99(&read_at_once(&origin, 8, 75).await);
            let hedges = origin.stats().hedges.get() - hedges_before;
            println!("{speaks:?}, {hedge:?}: p99 {p99:?}, {hedges} second questions for 600 reads");
            assert!(p99 < plain / 2 + plain / 4, "{speaks:?}, {hedge:?}: {p99:?}");
            assert!((600..=600 + hedges).contains(&(served.asked() - asked_before)));
            assert!(0 < hedges && hedges <= 60 + 10, "{speaks:?}, {hedge:?}: {hedges}");
            assert!(0 < origin.stats().hedges_won.get());
        }
    }
}

#[tokio::test]
async fn a_store_that_is_slow_as_a_whole_gets_a_tenth_more_to_do() {
    let served = Served::start(Speaks::Google).await;
    served.put("k", b"0123456789");
    served.is_late(1, Duration::from_millis(20));
    let hedge = Some(Hedge::After(Duration::from_millis(1)));
    let origin = Arc::new(gcs(&served, OriginLimits { hedge, ..limits() }));
    read_at_once(&origin, 20, 20).await;
    let hedges = origin.stats().hedges.get();
    assert!(0 < hedges && hedges <= 40 + 10, "{hedges}");
    assert!(0 < origin.stats().hedges_refused.get());
}

/// Refusals with `Retry-After` were retried at once, and further requests were sent at once, too.
#[tokio::test]
async fn a_store_is_not_asked_before_the_time_that_it_named() {
    for (speaks, open) in KINDS {
        let served = Served::start(speaks).await;
        served.refuses(StatusCode::TOO_MANY_REQUESTS, "SlowDown");
        served.names_a_time("3600");
        let origin = open(&served, limits());
        for _ in 0..5 {
            let busy = origin.get(&object("k"), 0..1, None).await.unwrap_err();
            assert!(matches!(busy, OriginError::Throttled { .. }), "{speaks:?}: {busy:?}");
        }
        let (status, _, text) = ask(&origin, "/shown/k", None).await;
        assert_eq!(status, 503, "{text}");
        assert_eq!((served.asked(), origin.stats().reads_refused.get()), (1, 6), "{speaks:?}");
        assert_eq!(origin.stats().slow_downs.get(), 1);
    }
}

#[tokio::test]
async fn a_storm_of_slow_downs_is_met_with_few_questions() {
    const AT_ONCE: usize = 16;
    let served = Served::start(Speaks::Google).await;
    served.refuses(StatusCode::SERVICE_UNAVAILABLE, "SlowDown");
    let wait = Duration::from_millis(300);
    let origin = gcs(&served, OriginLimits { concurrent_reads: AT_ONCE, wait, ..limits() });
    let (origin, since) = (Arc::new(origin), Instant::now());
    let mut reading = JoinSet::new();
    for _ in 0..100 {
        let origin = origin.clone();
        reading.spawn(async move { origin.get(&object("k"), 0..1, None).await.is_err() });
    }
    assert!(reading.join_all().await.into_iter().all(|is_refused| is_refused));
    // Half as many again and again, and one request per pause, of which the shortest is 100 ms.
    let pauses = u64::try_from(since.elapsed().as_millis() / 100).unwrap() + 1;
    let bound = 2 * AT_ONCE as u64 + pauses;
    assert!(served.asked() <= bound, "{} of {bound}", served.asked());
}
