//! Validation of when and how fast devices are scrubbed.

use std::time::Duration;

use zonal_base::{Bytes, Nanos};

use super::ConfigError;
use super::check::{Checked, given, parsed};

/// Shortest time between two scrubs: one that follows at once would never end.
const EVERY_MIN: Nanos = Nanos::secs(60);

/// Lowest rate of a scrub: with it, 1 TiB takes twelve days.
const RATE_MIN: Bytes = Bytes::mib(1);

/// When and how fast the devices are scrubbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScrubSettings {
    /// Time between two scrubs, and before the first; `None`: only when asked for.
    pub(crate) every: Option<Duration>,
    /// Bytes per second.
    pub(crate) rate: Bytes,
}

/// A key and its value.
type Given<'a> = (&'static str, &'a Option<String>);

pub(super) fn checked(
    (every_key, every): Given<'_>,
    (rate_key, rate): Given<'_>,
) -> Checked<ScrubSettings> {
    let every = match given(every_key, every)? {
        "never" => None,
        text => {
            let time: Nanos = text
                .parse()
                .map_err(|error| ConfigError::new(every_key, format!("{error}, or never")))?;
            if time < EVERY_MIN {
                let why = format!("{time} is too often: write {EVERY_MIN} or more, or never");
                return Err(ConfigError::new(every_key, why));
            }
            Some(time.duration())
        }
    };
    let rate: Bytes = parsed(rate_key, rate)?;
    if rate < RATE_MIN {
        let why = format!("{rate} a second is too little: write {RATE_MIN} or more");
        return Err(ConfigError::new(rate_key, why));
    }
    Ok(ScrubSettings { every, rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(every: &str, rate: &str, expected: Result<Option<u64>, &str>) {
        let (every, rate) = (Some(every.to_owned()), Some(rate.to_owned()));
        let found = checked(("scrub.every", &every), ("scrub.rate", &rate));
        match (found.map_err(|error| error.to_string()), expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.every.map(|every| every.as_secs()), expected);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn scrubs_have_a_time_between_them_and_a_rate() {
        check("720h", "32MiB", Ok(Some(720 * 3600)));
        check("never", "1MiB", Ok(None));
        check("0s", "32MiB", Err("0s is too often: write 1min or more, or never"));
        check("1ms", "32MiB", Err("1ms is too often: write 1min or more, or never"));
        check("30d", "32MiB", Ok(Some(720 * 3600)));
        check("Never", "32MiB", Err("min or h, such as 30s, or never"));
        check("720h", "4KiB", Err("4KiB a second is too little: write 1MiB or more"));
    }
}
