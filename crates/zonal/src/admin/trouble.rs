//! Origin alerts in the log: at once, then now and then, and when they end.
//!
//! 1. Probe: wrong keys show before the first client comes.
//! 2. Wait until what the origin answers says something new, and log it.
//! 3. In trouble, probe again and again: nobody else may ask, and it should show when it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zonal_origin::{Named, OriginError, Origins};

/// From one line to the next, and from probe to probe. 10 s: an origin that comes and goes writes six lines a
/// minute at most.
const PAUSE: Duration = Duration::from_secs(10);

/// Trouble that lasts is told again after this long. 5 min: it stays on the last pages of the log.
const REMINDER: Duration = Duration::from_secs(300);

/// Logs until the process ends, of one of several origins.
pub(super) async fn tell(origins: Arc<Origins>, place: usize) {
    let Some(named @ Named { name, origin, .. }) = origins.iter().nth(place) else { return };
    let has_others = 1 < origins.iter().count();
    let stats = origin.stats();
    let mut news = stats.watch_trouble();
    let probed = origins.clone();
    // What comes of it is in the news.
    tokio::spawn(async move {
        if let Some(named) = probed.iter().nth(place) {
            drop(named.origin.probe().await);
        }
    });
    let mut told = LoggedTrouble::default();
    loop {
        let trouble = news.borrow_and_update().clone();
        let kind = trouble.as_ref().and_then(OriginError::kind);
        let errors = stats.errors().map(|(_, n)| n).sum();
        let said = told.say(Instant::now(), kind, errors);
        match (&trouble, said) {
            (Some(error), Some(errors)) => {
                // Those of all others are known from the configuration.
                let lists = match has_others && named.buckets.is_empty() {
                    true => "; until then its buckets are missing in lists of buckets",
                    false => "",
                };
                let advice = advice(error);
                tracing::warn!(origin = name, %error, errors, "the origin is in trouble: {advice}{lists}");
            }
            (None, Some(errors)) => {
                tracing::info!(origin = name, errors, "the origin is well again")
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

/// What is wrong with the origins, for people; `None` when all are well.
pub(super) fn of_all(origins: &Origins) -> Option<String> {
    let is_one = origins.iter().count() == 1;
    let troubles = origins.iter().filter_map(|Named { name, origin, .. }| {
        let trouble = origin.stats().trouble()?;
        Some(if is_one { trouble.to_string() } else { format!("{name}: {trouble}") })
    });
    let troubles: Vec<String> = troubles.collect();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// What the log knows.
#[derive(Debug, Default)]
struct LoggedTrouble {
    /// The kind of trouble; `None` when all is well.
    kind: Option<&'static str>,
    /// All errors up to the last line.
    errors: u64,
    again_at: Option<Instant>,
}

impl LoggedTrouble {
    /// The errors since the last line, if there is to be another one.
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

/// What a folder answers, and some servers.
const DISK_FULL: u16 = 507;

/// What to do about it.
fn advice(error: &OriginError) -> &'static str {
    match error {
        OriginError::NotSignedIn(refusal) => match &*refusal.code {
            "RequestTimeTooSkewed" => "set the clock of this machine",
            "ExpiredToken" | "TokenRefreshRequired" => {
                "its session token has expired: restart with a new one"
            }
            _ => {
                "look at origin.access-key and origin.secret-key; SIGHUP reads them again from files"
            }
        },
        OriginError::Elsewhere { .. } => "look at the endpoint and the region of origin.spec",
        OriginError::Lied { .. } => "look whether origin.spec names an S3 endpoint",
        OriginError::Failed(refusal) if refusal.status == DISK_FULL => "make room on its disk",
        OriginError::Failed(_) => "look at its own log",
        OriginError::Untrusted { .. } => {
            "look at its certificate, and where an authority of your own signed it, name a PEM file with that authority in \
             origin.ca-file (--origin-ca-file)"
        }
        _ => "look whether origin.spec names the right place, and whether it is up",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_at_once_then_once_in_a_while_and_when_it_is_over() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut told = LoggedTrouble::default();
        assert_eq!(told.say(at(0), None, 3), None, "all is well");
        assert_eq!(told.say(at(1), Some("unreachable"), 5), Some(5));
        assert_eq!(told.say(at(300), Some("unreachable"), 9), None, "it was told");
        assert_eq!(told.say(at(301), Some("unreachable"), 10), Some(5), "a reminder");
        assert_eq!(told.say(at(302), Some("lied"), 12), Some(2), "another trouble");
        assert_eq!(told.say(at(303), None, 12), Some(0), "it is over");
        assert_eq!(told.say(at(999), None, 13), None, "all is well");
    }
}
