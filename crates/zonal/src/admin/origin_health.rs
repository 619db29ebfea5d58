//! Origin health in the log: logs an outage at once, repeats it at intervals, and logs its end.
//!
//! 1. Probe the origin, so that wrong credentials show before the first client request.
//! 2. Wait until the health of the origin changes, and log it.
//! 3. During an outage, probe repeatedly: there may be no client requests that would show its end.
//!
//! The circuit breaker of the origin runs beside it, and probes on its own while nothing is
//! answered.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};
use zonal_api::events::What;
use zonal_origin::{Circuit, ConfiguredOrigin, OriginError, Origins};

use super::events::OriginEvents;
use super::readiness::CredentialReport;
use crate::origins::advice;

/// Pause between log lines, and between probes. 10 s: an origin that flaps writes at most six lines
/// a minute.
const PAUSE: Duration = Duration::from_secs(10);

/// Interval of reminders during an outage. 5 min: the outage stays on the last pages of the log.
const REMINDER: Duration = Duration::from_secs(300);

/// Monitors one origin until the process ends; `place` is its index.
pub(super) async fn watch(origins: Arc<Origins>, place: usize, events: Arc<OriginEvents>) {
    let Some(named @ ConfiguredOrigin { name, origin, .. }) = origins.iter().nth(place) else {
        return;
    };
    let has_others = 1 < origins.iter().count();
    let stats = origin.stats();
    let mut news = stats.watch_trouble();
    let probed = origins.clone();
    // `watch_trouble` reports the result.
    tokio::spawn(async move {
        if let Some(named) = probed.iter().nth(place) {
            drop(named.origin.probe().await);
        }
    });
    let mut told = LoggedHealth::default();
    loop {
        let trouble = news.borrow_and_update().clone();
        let kind = trouble.as_ref().and_then(OriginError::kind);
        let errors = stats.errors().map(|(_, n)| n).sum();
        if told.kind != kind {
            let origin = name.clone();
            events.note(match &trouble {
                Some(error) => What::OriginUnhealthy { origin, why: error.to_string() },
                None => What::OriginHealthy { origin },
            });
        }
        let said = told.say(Instant::now(), kind, errors);
        match (&trouble, said) {
            (Some(error), Some(errors)) => {
                // The buckets of the other origins are known from the configuration.
                let lists = match has_others && named.buckets.is_empty() {
                    true => "; until then bucket lists lack its buckets",
                    false => "",
                };
                let advice = advice(error);
                tracing::warn!(origin = name, %error, errors, "origin unhealthy: {advice}{lists}");
            }
            (None, Some(errors)) => {
                tracing::info!(origin = name, errors, "origin healthy again")
            }
            (_, None) => {}
        }
        if said.is_some() || trouble.is_some() {
            sleep(PAUSE).await;
        }
        if trouble.is_some() {
            drop(origin.probe().await);
        } else if news.changed().await.is_err() {
            return;
        }
    }
}

/// Runs the circuit breaker of one origin until the process ends, and logs when it opens and
/// closes; `place` is its index. It opens after a time-out at the earliest, so the log is not
/// flooded.
pub(super) async fn watch_circuit(origins: Arc<Origins>, place: usize, events: Arc<OriginEvents>) {
    let Some(ConfiguredOrigin { name, origin, .. }) = origins.iter().nth(place) else { return };
    let mut circuit = origin.stats().watch_circuit();
    let log = async {
        let mut was_open = false;
        loop {
            let is_open = *circuit.borrow_and_update() == Circuit::Open;
            if is_open && !was_open {
                events.note(What::OriginSilent { origin: name.clone() });
                tracing::warn!(
                    origin = name,
                    "origin answers nothing: requests fail at once, or get stale data where \
                     stale-if-error allows it, until a probe is answered"
                );
            }
            if was_open && !is_open {
                events.note(What::OriginAnswers { origin: name.clone() });
                let refused = origin.stats().circuit_refusals.get();
                tracing::info!(origin = name, refused, "origin answers again");
            }
            was_open = is_open;
            if circuit.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::join!(origin.run_circuit_breaker(), log);
}

/// Names of the origins whose circuit breaker is open.
pub(super) fn silent(origins: &Origins) -> Vec<String> {
    let silent = origins.iter().filter(|one| one.origin.stats().circuit() == Circuit::Open);
    silent.map(|one| one.name.clone()).collect()
}

/// Where the credentials of the origins come from, of those whose providers renew them.
pub(super) fn credentials(origins: &Origins) -> Vec<CredentialReport> {
    let reports = origins.iter().filter_map(|one| {
        let found = one.origin.keys()?.origin()?;
        let left = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
        Some(CredentialReport {
            origin: one.name.clone(),
            provider: found.provider,
            account: found.account,
            role: found.role,
            expires_in_s: found.expires_at.map(|at| left(at).as_secs()),
            others: found.others.into_iter().map(|it| (it.provider, it.why)).collect(),
        })
    });
    reports.collect()
}

/// Errors of all unhealthy origins, for people; `None` if all are healthy.
pub(super) fn of_all(origins: &Origins) -> Option<String> {
    let is_one = origins.iter().count() == 1;
    let troubles = origins.iter().filter_map(|ConfiguredOrigin { name, origin, .. }| {
        let trouble = origin.stats().trouble()?;
        Some(if is_one { trouble.to_string() } else { format!("{name}: {trouble}") })
    });
    let troubles: Vec<String> = troubles.collect();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// What has been logged of an origin's health.
#[derive(Debug, Default)]
struct LoggedHealth {
    /// Kind of the logged error; `None` if the origin is healthy.
    kind: Option<&'static str>,
    /// Value of the error counter at the last log line.
    errors: u64,
    again_at: Option<Instant>,
}

impl LoggedHealth {
    /// Number of errors since the last log line, if another line is due.
    fn say(&mut self, now: Instant, kind: Option<&'static str>, errors: u64) -> Option<u64> {
        let is_due = self.again_at.is_some_and(|at| at <= now);
        if kind == self.kind && !is_due {
            return None;
        }
        let since = errors - self.errors;
        *self = Self { kind, errors, again_at: kind.map(|_| now + REMINDER) };
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_at_once_then_once_in_a_while_and_when_it_is_over() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut told = LoggedHealth::default();
        assert_eq!(told.say(at(0), None, 3), None, "all is well");
        assert_eq!(told.say(at(1), Some("unreachable"), 5), Some(5));
        assert_eq!(told.say(at(300), Some("unreachable"), 9), None, "it was told");
        assert_eq!(told.say(at(301), Some("unreachable"), 10), Some(5), "a reminder");
        assert_eq!(told.say(at(302), Some("lied"), 12), Some(2), "another trouble");
        assert_eq!(told.say(at(303), None, 12), Some(0), "it is over");
        assert_eq!(told.say(at(999), None, 13), None, "all is well");
    }
}
