//! Hedged requests: sends a second GET or HEAD when the first exceeds its percentile.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use zonal_base::Nanos;

use crate::budget::Budget;
use crate::latency::Latency;

/// The second question leaves when the first was not answered for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedge {
    /// A time.
    After(Duration),
    /// The time by which so many per cent of the origin's answers have begun: 50 to 99.
    Percentile(u8),
}

/// Why a text is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HedgeError {
    /// What was given.
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

/// Second questions in per cent of the first: a twentieth of the answers is later than the p95, so that twice as many
/// are enough, and an origin that is slow as a whole gets a tenth more to do and not twice as much.
const PERCENT_MAX: u64 = 10;

/// What is saved up at most. 10: a handful of slow answers at once.
const BURST: u64 = 10;

/// When an origin is asked once more, and how often at most.
#[derive(Debug)]
pub(crate) struct Hedging {
    after: After,
    pub(crate) budget: Budget,
}

#[derive(Debug)]
enum After {
    Time(Duration),
    Share(Box<Latency>),
}

impl Hedging {
    pub(crate) fn new(hedge: Hedge) -> Self {
        let after = match hedge {
            Hedge::After(time) => After::Time(time),
            Hedge::Percentile(percent) => After::Share(Box::new(Latency::new(percent))),
        };
        Self { after, budget: Budget::new(PERCENT_MAX, BURST, 0) }
    }

    /// `None`: it is not known yet how long an answer takes.
    pub(crate) fn after(&self) -> Option<Duration> {
        match &self.after {
            After::Time(time) => Some(*time),
            After::Share(latency) => latency.get(),
        }
    }

    /// The first question was answered in this time, or not.
    pub(crate) fn note(&self, took: Duration) {
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
