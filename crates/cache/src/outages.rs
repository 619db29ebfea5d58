//! Origin backoff: while an origin is down, reads that may be stale are served at once, and the origin is retried in
//! the background.
//!
//! To find out that an origin is away can take as long as its time limits. So while it is known to be away, whoever may
//! is served at once, and somebody's question is put again now and then, for which nobody waits.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use zonal_base::Nanos;

/// Between two questions to an origin that is away, for which nobody waits. 5 s: as long as nothing is fetched ahead
/// after a failure.
const ASK_EVERY: Nanos = Nanos::secs(5);

/// For how long a failure is held to be the state of things. 60 s: longer than a question takes to fail with the time
/// limits that an origin has unless it is given others.
const BELIEVED_FOR: Nanos = Nanos::secs(60);

/// Buckets that are known to be away. Of more, every reader waits to hear it.
const OUTAGES_MAX: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Outages {
    by_bucket: BTreeMap<Box<str>, Outage>,
}

struct Outage {
    /// When the origin failed last.
    failed_at: Nanos,
    /// When it was asked last by somebody who does not wait for the answer.
    asked_at: Nanos,
}

/// What a reader does who may have what is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Ask, and wait for the answer.
    Wait,
    /// Take what is there, and have the origin asked.
    Ask,
    /// Take what is there.
    Take,
}

impl Outages {
    /// The origin could not be reached.
    pub(crate) fn note_failed(&mut self, bucket: &str, now: Nanos) {
        if let Some(outage) = self.by_bucket.get_mut(bucket) {
            outage.failed_at = now;
        } else if self.by_bucket.len() < OUTAGES_MAX {
            self.by_bucket.insert(bucket.into(), Outage { failed_at: now, asked_at: now });
        } else {
            self.by_bucket.retain(|_, outage| outage.is_believed(now));
        }
    }

    /// The origin answered, whatever it said.
    pub(crate) fn note_answered(&mut self, bucket: &str) {
        self.by_bucket.remove(bucket);
    }

    /// Requires: who is told to have the origin asked does so.
    pub(crate) fn advise(&mut self, bucket: &str, now: Nanos) -> Advice {
        let Some(outage) = self.by_bucket.get_mut(bucket) else { return Advice::Wait };
        if !outage.is_believed(now) {
            return Advice::Wait;
        }
        if now.since(outage.asked_at) < ASK_EVERY {
            return Advice::Take;
        }
        outage.asked_at = now;
        Advice::Ask
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
        let mut outages = Outages::default();
        let (start, minute) = (Nanos::secs(100), Nanos::secs(60));
        assert_eq!(outages.advise("b", start), Advice::Wait);
        outages.note_failed("b", start);
        assert_eq!(outages.advise("b", start), Advice::Take);
        assert_eq!(outages.advise("c", start), Advice::Wait, "another bucket");
        assert_eq!(outages.advise("b", start + ASK_EVERY), Advice::Ask);
        assert_eq!(outages.advise("b", start + ASK_EVERY), Advice::Take, "it is being asked");
        assert_eq!(outages.advise("b", start + minute), Advice::Wait, "too long ago to say");
        outages.note_failed("b", start + minute);
        assert_eq!(outages.advise("b", start + minute), Advice::Ask);
        outages.note_answered("b");
        assert_eq!(outages.advise("b", start + minute), Advice::Wait);
    }

    #[test]
    fn so_many_outages_are_remembered_and_no_more() {
        let mut outages = Outages::default();
        for n in 0..OUTAGES_MAX + 2 {
            outages.note_failed(&alloc::format!("{n}"), Nanos::secs(1));
        }
        assert_eq!(outages.by_bucket.len(), OUTAGES_MAX);
        outages.note_failed("late", Nanos::secs(100));
        outages.note_failed("late", Nanos::secs(100));
        assert_eq!(outages.advise("late", Nanos::secs(100)), Advice::Take, "the old ones are over");
    }
}
