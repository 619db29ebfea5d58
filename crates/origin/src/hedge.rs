//! Hedged requests: sends a second GET or HEAD if the answer to the first is late.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use zonal_base::Nanos;

use crate::latency::LatencyEstimate;
use crate::retry_budget::RetryBudget;

/// Hedging delay: a second request is sent if the first is not answered within this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedge {
    /// A fixed time.
    After(Duration),
    /// The time within which this percentage of the origin's answers has begun: 50 to 99.
    Percentile(u8),
}

/// The text is not a hedging delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HedgeError {
    /// The rejected text.
    pub text: String,
}

impl fmt::Display for HedgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: write a time, such as 200ms, or p50 to p99", self.text)
    }
}

impl std::error::Error for HedgeError {}

impl FromStr for Hedge {
    type Err = HedgeError;

    fn from_str(text: &str) -> Result<Self, HedgeError> {
        let fail = || HedgeError { text: text.to_owned() };
        if let Some(digits) = text.strip_prefix('p') {
            let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let percent = digits.parse().ok().filter(|percent| is_number && 50 <= *percent);
            return percent.map(Self::Percentile).ok_or_else(fail);
        }
        match text.parse::<Nanos>() {
            Ok(time) if Nanos(0) < time => Ok(Self::After(time.duration())),
            _ => Err(fail()),
        }
    }
}

/// Hedged requests as a percentage of reads. 5 % of the answers are later than the p95, so 10 % is
/// enough. A uniformly slow origin gets 10 % more load, not twice the load.
const PERCENT_MAX: u64 = 10;

/// Bucket size of the hedge budget, in requests. 10: a handful of slow answers at once.
const BURST: u64 = 10;

/// Hedging state of an origin: the delay and the budget.
#[derive(Debug)]
pub(crate) struct Hedging {
    after: After,
    pub(crate) budget: RetryBudget,
}

#[derive(Debug)]
enum After {
    Time(Duration),
    Share(Box<LatencyEstimate>),
}

impl Hedging {
    pub(crate) fn new(hedge: Hedge) -> Self {
        let after = match hedge {
            Hedge::After(time) => After::Time(time),
            Hedge::Percentile(percent) => After::Share(Box::new(LatencyEstimate::new(percent))),
        };
        Self { after, budget: RetryBudget::new(PERCENT_MAX, BURST, 0) }
    }

    /// The current delay. `None` while the percentile is unknown: do not hedge.
    pub(crate) fn after(&self) -> Option<Duration> {
        match &self.after {
            After::Time(time) => Some(*time),
            After::Share(latency) => latency.get(),
        }
    }

    /// Records the time until a read was answered, with or without a hedged request.
    pub(crate) fn record_latency(&self, took: Duration) {
        if let After::Share(latency) = &self.after {
            latency.note(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_a_share_is_read() {
        let read = |text: &str| text.parse::<Hedge>().ok();
        assert_eq!(read("200ms"), Some(Hedge::After(Duration::from_millis(200))));
        assert_eq!(read("p95"), Some(Hedge::Percentile(95)));
        for text in ["", "p", "p9", "p49", "p100", "p+5", "95", "0s", "p95 ", "-1s"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
