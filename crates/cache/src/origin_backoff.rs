//! Origin backoff: while an origin is down, reads that may be stale are served at once, and the
//! origin is retried in the background.
//!
//! Without the backoff every such read would wait for the time limits of a request first.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use zonal_base::Nanos;

/// Retry interval while an origin is down: 500 ms, the same as the probes of the circuit breaker. So
/// reads are fresh again within a second of the origin's return.
const ASK_EVERY: Nanos = Nanos::millis(500);

/// Time for which a failure counts as an outage: 60 s, longer than a request takes to fail with the
/// default time limits of an origin.
const BELIEVED_FOR: Nanos = Nanos::secs(60);

/// Buckets whose outage is remembered. With more, every reader waits for the failure itself.
const OUTAGES_MAX: usize = 64;

/// Outages by bucket.
#[derive(Default)]
pub(crate) struct OriginBackoff {
    by_bucket: BTreeMap<Box<str>, Outage>,
}

struct Outage {
    /// Time of the last failure.
    failed_at: Nanos,
    /// Time of the last background retry.
    asked_at: Nanos,
}

/// Decision for a reader that may be served stale data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StaleDecision {
    /// Send a request and wait for the answer.
    Wait,
    /// Serve stale data, and send a request in the background.
    Ask,
    /// Serve stale data, and send no request.
    Take,
}

impl OriginBackoff {
    /// Registers that the origin could not be reached.
    pub(crate) fn note_failed(&mut self, bucket: &str, now: Nanos) {
        if let Some(outage) = self.by_bucket.get_mut(bucket) {
            outage.failed_at = now;
        } else if self.by_bucket.len() < OUTAGES_MAX {
            self.by_bucket.insert(bucket.into(), Outage { failed_at: now, asked_at: now });
        } else {
            self.by_bucket.retain(|_, outage| outage.is_believed(now));
        }
    }

    /// Registers an answer of the origin, even an error status.
    pub(crate) fn note_answered(&mut self, bucket: &str) {
        self.by_bucket.remove(bucket);
    }

    /// Decides for a reader. Requires: on [`StaleDecision::Ask`] the caller sends a request.
    pub(crate) fn advise(&mut self, bucket: &str, now: Nanos) -> StaleDecision {
        let Some(outage) = self.by_bucket.get_mut(bucket) else { return StaleDecision::Wait };
        if !outage.is_believed(now) {
            return StaleDecision::Wait;
        }
        if now.since(outage.asked_at) < ASK_EVERY {
            return StaleDecision::Take;
        }
        outage.asked_at = now;
        StaleDecision::Ask
    }
}

impl Outage {
    fn is_believed(&self, now: Nanos) -> bool {
        now.since(self.failed_at) < BELIEVED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_an_origin_is_away_one_question_is_put_now_and_then() {
        let mut outages = OriginBackoff::default();
        let (start, minute) = (Nanos::secs(100), Nanos::secs(60));
        assert_eq!(outages.advise("b", start), StaleDecision::Wait);
        outages.note_failed("b", start);
        assert_eq!(outages.advise("b", start), StaleDecision::Take);
        assert_eq!(outages.advise("c", start), StaleDecision::Wait, "another bucket");
        assert_eq!(outages.advise("b", start + ASK_EVERY), StaleDecision::Ask);
        assert_eq!(
            outages.advise("b", start + ASK_EVERY),
            StaleDecision::Take,
            "it is being asked"
        );
        assert_eq!(outages.advise("b", start + minute), StaleDecision::Wait, "too long ago to say");
        outages.note_failed("b", start + minute);
        assert_eq!(outages.advise("b", start + minute), StaleDecision::Ask);
        outages.note_answered("b");
        assert_eq!(outages.advise("b", start + minute), StaleDecision::Wait);
    }

    #[test]
    fn so_many_outages_are_remembered_and_no_more() {
        let mut outages = OriginBackoff::default();
        for n in 0..OUTAGES_MAX + 2 {
            outages.note_failed(&alloc::format!("{n}"), Nanos::secs(1));
        }
        assert_eq!(outages.by_bucket.len(), OUTAGES_MAX);
        outages.note_failed("late", Nanos::secs(100));
        outages.note_failed("late", Nanos::secs(100));
        assert_eq!(
            outages.advise("late", Nanos::secs(100)),
            StaleDecision::Take,
            "the old ones are over"
        );
    }
}
