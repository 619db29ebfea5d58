//! Circuit breaker: while an origin answers nothing, its requests fail at once, and a probe finds
//! out when it is back.
//!
//! 1. A time-out during which the origin answered no other request makes it suspect. It is probed.
//! 2. After [`SILENCES_MAX`] time-outs in a row, probes included, the circuit opens: reads in
//!    flight and new requests of all kinds fail with [`OriginError::Unreachable`].
//! 3. The first answer of any kind, even an error status, closes the circuit.
//!
//! The circuit stays closed if nobody runs [`Origin::run_circuit_breaker`]: without probes it
//! would never close again. An origin that refuses connections fails fast by itself, so only
//! failures that kept their caller waiting count. `aimd` handles an origin that asks to slow down.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{OriginError, Wait};
use crate::origin::Origin;
use crate::stats::Counter;

/// Time-outs in a row that open the circuit. 3: one lost answer is an accident, and the two probes
/// after it take two seconds.
const SILENCES_MAX: u32 = 3;

/// Shortest failure of a connection that counts as a time-out. 2 s: longer than all retries after
/// connections that were refused at once, shorter than the connect timeout.
const SLOW_FAILURE: Duration = Duration::from_secs(2);

/// Interval of probes: an origin that is back is noticed within this time and a round trip.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// Time limit of a short probe. An attempt to connect that was sent before the origin came back may
/// hang, so a new one is made each second.
const SHORT_PROBE: Duration = Duration::from_secs(1);

/// State of an origin's circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Requests are sent.
    Closed,
    /// Requests are sent, and probes too, because the last request timed out.
    Suspect,
    /// Requests fail at once, until a probe is answered.
    Open,
}

/// The circuit breaker of one origin.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    state: watch::Sender<Circuit>,
    /// Answers so far. A time-out counts only if there was no answer since its request began.
    answers: AtomicU64,
    /// Time-outs since the last answer.
    silences: AtomicU32,
    /// True while probes are made.
    is_probed: AtomicBool,
    /// Times that the circuit opened.
    pub(crate) opens: Counter,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(Circuit::Closed),
            answers: AtomicU64::new(0),
            silences: AtomicU32::new(0),
            is_probed: AtomicBool::new(false),
            opens: Counter::default(),
        }
    }
}

/// A request that was let through.
#[derive(Debug)]
pub(crate) struct Attempt {
    began_at: Instant,
    answers_before: u64,
}

impl CircuitBreaker {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Circuit> {
        self.state.subscribe()
    }

    pub(crate) fn state(&self) -> Circuit {
        *self.state.borrow()
    }

    /// Lets a request through, unless the circuit is open.
    pub(crate) fn admit(&self) -> Result<Attempt, OriginError> {
        match self.state() {
            Circuit::Open => Err(refusal()),
            Circuit::Closed | Circuit::Suspect => Ok(self.begin()),
        }
    }

    pub(crate) fn begin(&self) -> Attempt {
        let answers_before = self.answers.load(Ordering::Relaxed);
        Attempt { began_at: Instant::now(), answers_before }
    }

    /// Completes with an error when the circuit opens.
    pub(crate) async fn opened(&self) -> OriginError {
        let _ = self.state.subscribe().wait_for(|state| *state == Circuit::Open).await;
        refusal()
    }

    /// Registers the result of a request.
    pub(crate) fn note<T>(&self, attempt: &Attempt, result: &Result<T, OriginError>) {
        let error = match result {
            Ok(_) => return self.note_answer(),
            Err(error) => error,
        };
        match error {
            OriginError::Stalled { waited_for: Wait::Answer, .. } => self.note_silence(attempt),
            OriginError::Unreachable { .. } => {
                if SLOW_FAILURE <= attempt.began_at.elapsed() {
                    self.note_silence(attempt);
                }
            }
            // Zonal may have refused the request itself.
            OriginError::Throttled { .. }
            | OriginError::InvalidRequest(_)
            | OriginError::Stalled { waited_for: Wait::Body, .. } => {}
            _ => self.note_answer(),
        }
    }

    /// Registers the result of a probe, which is not subject to Zonal's own limits.
    pub(crate) fn note_probe(&self, attempt: &Attempt, result: &Result<(), OriginError>) {
        match result {
            Err(OriginError::Throttled { .. }) => self.note_answer(),
            result => self.note(attempt, result),
        }
    }

    fn note_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        if self.silences.swap(0, Ordering::Relaxed) != 0 || self.state() != Circuit::Closed {
            self.set(Circuit::Closed);
        }
    }

    fn note_silence(&self, attempt: &Attempt) {
        let has_answered = attempt.answers_before != self.answers.load(Ordering::Relaxed);
        if has_answered || !self.is_probed.load(Ordering::Relaxed) {
            return;
        }
        let silences = self.silences.fetch_add(1, Ordering::Relaxed) + 1;
        let has_opened = SILENCES_MAX <= silences && self.set(Circuit::Open);
        self.opens.add(u64::from(has_opened));
        if silences < SILENCES_MAX {
            self.set(Circuit::Suspect);
        }
    }

    /// Sets the state. True if it is another than before.
    fn set(&self, next: Circuit) -> bool {
        self.state.send_if_modified(|state| std::mem::replace(state, next) != next)
    }
}

impl Origin {
    /// Runs the circuit breaker of this origin: probes the origin while it is suspect or silent.
    /// Never completes. When it is dropped, the circuit is closed for good.
    pub async fn run_circuit_breaker(&self) {
        let circuit = self.circuit();
        circuit.is_probed.store(true, Ordering::Relaxed);
        let _running = Running(circuit);
        let mut state = circuit.subscribe();
        loop {
            // The sender lives as long as the origin.
            let _ = state.wait_for(|state| *state != Circuit::Closed).await;
            tokio::select! {
                _ = state.wait_for(|state| *state == Circuit::Closed) => {}
                () = self.probe_in_turn(SHORT_PROBE) => {}
                // An origin that is merely slow answers none of the short probes.
                () = self.probe_in_turn(Duration::MAX) => {}
            }
        }
    }

    /// Probes until the circuit is closed, one probe at a time, each with this time limit.
    async fn probe_in_turn(&self, limit: Duration) {
        let circuit = self.circuit();
        while circuit.state() != Circuit::Closed {
            let (attempt, next) = (circuit.begin(), Instant::now() + PROBE_EVERY);
            if timeout(limit, self.probe()).await.is_err() {
                circuit.note_silence(&attempt);
            }
            sleep_until(next).await;
        }
    }
}

/// Closes the circuit when the probes end.
struct Running<'a>(&'a CircuitBreaker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_probed.store(false, Ordering::Relaxed);
        self.0.note_answer();
    }
}

fn refusal() -> OriginError {
    let cause = "it does not answer; its requests fail at once until a probe is answered";
    OriginError::Unreachable { cause: cause.to_owned() }
}
