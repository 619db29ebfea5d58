//! Silent origins: the circuit breaker fails requests fast, and closes at the first answer.

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::pressure::{Counting, FAILED, GOOD};
use super::*;
use crate::circuit_breaker::Circuit;

/// Far beyond every wait of these tests.
const LONG: Duration = Duration::from_secs(30);

/// Answer timeout of the origin under test.
const ANSWER: Duration = Duration::from_millis(300);

struct Silent {
    server: Counting,
    origin: Arc<Origin>,
    breaker: JoinSet<()>,
}

impl Silent {
    async fn start(answer: Duration) -> Self {
        let server = Counting::start(|_| (LONG * 100, String::new())).await;
        let origin = server.origin(OriginLimits { answer, ..limits() });
        let (mut breaker, probed) = (JoinSet::new(), origin.clone());
        breaker.spawn(async move { probed.run_circuit_breaker().await });
        // The breaker counts nothing before its task has begun.
        tokio::task::yield_now().await;
        Self { server, origin, breaker }
    }

    async fn wait_until(&self, state: Circuit) {
        let mut watch = self.origin.stats().watch_circuit();
        timeout(LONG, watch.wait_for(|now| *now == state)).await.unwrap().unwrap();
    }
}

fn is_refused<T>(result: &Result<T, OriginError>) -> bool {
    matches!(result, Err(OriginError::Unreachable { cause }) if cause.contains("does not answer"))
}

#[tokio::test]
async fn a_silent_origin_is_asked_no_more_until_it_answers() {
    let silent = Silent::start(ANSWER).await;
    let Silent { server, origin, .. } = &silent;
    let first = get(origin).await;
    assert!(matches!(first, Err(OriginError::Stalled { .. })), "{first:?}");
    silent.wait_until(Circuit::Open).await;
    let (gets, forwards) = (origin.stats().gets.get(), origin.stats().forwards.get());
    for _ in 0..10 {
        assert!(is_refused(&get(origin).await));
        assert!(is_refused(&origin.head(&object()).await));
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let request =
                Request::builder().method(method).uri("/b/k").body(full_body("")).unwrap();
            assert!(is_refused(&origin.forward(request).await));
        }
    }
    assert_eq!((origin.stats().gets.get(), origin.stats().forwards.get()), (gets, forwards));
    assert_eq!(origin.stats().circuit_refusals.get(), 50);
    assert_eq!(counted(origin).iter().find(|(kind, _)| *kind == "unreachable"), None);
    server.says_from_now_on(GOOD);
    silent.wait_until(Circuit::Closed).await;
    assert_eq!(get(origin).await, Ok(b"2345".to_vec()));
    assert_eq!(origin.stats().trouble(), None);
}

/// Readers that wait when the circuit opens are not kept until their own time-out.
#[tokio::test]
async fn reads_in_flight_fail_when_the_circuit_opens() {
    let silent = Silent::start(LONG).await;
    let origin = &silent.origin;
    let (mut waiting, impatient) = (JoinSet::new(), origin.circuit().begin());
    for n in 0..20 {
        let origin = origin.clone();
        waiting.spawn(async move {
            if n % 2 == 0 {
                return get(&origin).await.map(drop);
            }
            let list = Request::builder().uri("/b?list-type=2").body(full_body("")).unwrap();
            origin.forward(list).await.map(drop)
        });
    }
    while silent.server.asked() < 20 {
        tokio::task::yield_now().await;
    }
    let stalled = OriginError::Stalled { waited_for: Wait::Answer, after: ANSWER };
    origin.circuit().note::<()>(&impatient, &Err(stalled));
    let began_at = Instant::now();
    while let Some(result) = waiting.join_next().await {
        assert!(is_refused(&result.unwrap()));
    }
    assert!(began_at.elapsed() < LONG);
}

/// Any answer shows that the origin is there.
#[tokio::test]
async fn an_error_status_closes_the_circuit() {
    let silent = Silent::start(ANSWER).await;
    get(&silent.origin).await.unwrap_err();
    silent.wait_until(Circuit::Open).await;
    assert_eq!(silent.origin.stats().circuit_opens(), 1);
    silent.server.says_from_now_on(FAILED);
    silent.wait_until(Circuit::Closed).await;
}

/// A late answer to a probe closes the circuit, though short probes time out.
#[tokio::test]
async fn an_origin_that_is_merely_slow_closes_the_circuit() {
    let silent = Silent::start(LONG).await;
    let impatient = silent.origin.circuit().begin();
    silent.server.says_from_now_on_after(Duration::from_secs(3), GOOD);
    let stalled = OriginError::Stalled { waited_for: Wait::Answer, after: ANSWER };
    silent.origin.circuit().note::<()>(&impatient, &Err(stalled));
    silent.wait_until(Circuit::Open).await;
    silent.wait_until(Circuit::Closed).await;
}

/// One object whose answer is late is no outage, while others are answered.
#[tokio::test]
async fn time_outs_beside_answers_leave_the_circuit_closed() {
    let silent = Silent::start(ANSWER).await;
    let circuit = silent.origin.circuit();
    let stalled = || OriginError::Stalled { waited_for: Wait::Answer, after: ANSWER };
    for _ in 0..10 {
        let attempt = circuit.begin();
        circuit.note(&circuit.begin(), &Ok(()));
        circuit.note::<()>(&attempt, &Err(stalled()));
        assert_eq!(circuit.state(), Circuit::Closed);
    }
    // An error that came at once, such as a refused connection, is no silence.
    let refused = || OriginError::Unreachable { cause: "Connection refused".to_owned() };
    for _ in 0..10 {
        circuit.note::<()>(&circuit.begin(), &Err(refused()));
        assert_eq!(circuit.state(), Circuit::Closed);
    }
}

/// Without probes an open circuit would never close.
#[tokio::test]
async fn without_probes_the_circuit_stays_closed() {
    let mut silent = Silent::start(ANSWER).await;
    get(&silent.origin).await.unwrap_err();
    silent.wait_until(Circuit::Open).await;
    silent.breaker.shutdown().await;
    assert_eq!(silent.origin.stats().circuit(), Circuit::Closed);
    for _ in 0..4 {
        assert!(matches!(get(&silent.origin).await, Err(OriginError::Stalled { .. })));
    }
    assert_eq!(silent.origin.stats().circuit(), Circuit::Closed);
}
