//! Freshness: the requests that confirm cached objects, under each rule of docs/serve/freshness.md.

use serde::Serialize;
use zonal_base::Nanos;

use crate::trace::{NumberMap, Request};

/// Times of the `ttl` rules, in seconds.
const TTLS: [u32; 5] = [5, 60, 600, 3_600, 86_400];

/// Number of rules: `revalidate`, the times, `immutable`.
pub(super) const RULES: usize = TTLS.len() + 2;

/// A freshness rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Revalidate,
    Ttl(u32),
    Immutable,
}

/// Every rule, the strictest first.
pub(super) const ALL: [Rule; RULES] = [
    Rule::Revalidate,
    Rule::Ttl(TTLS[0]),
    Rule::Ttl(TTLS[1]),
    Rule::Ttl(TTLS[2]),
    Rule::Ttl(TTLS[3]),
    Rule::Ttl(TTLS[4]),
    Rule::Immutable,
];

impl std::fmt::Display for Rule {
    /// Formats a rule as the configuration has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Revalidate => f.write_str("revalidate"),
            Self::Ttl(seconds) => write!(f, "ttl={}", Nanos::secs(u64::from(*seconds))),
            Self::Immutable => f.write_str("immutable"),
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Times at which objects were confirmed last.
#[derive(Default)]
pub(super) struct Confirmations {
    last_s: NumberMap<u64, [u32; TTLS.len()]>,
}

impl Confirmations {
    /// Confirmations that a read costs, by rule. A read of missing bytes confirms the object
    /// without a request of its own.
    pub(super) fn read(&mut self, request: &Request, is_hit: bool) -> [u64; RULES] {
        let now = request.time_s;
        let last_s = self.last_s.entry(request.id).or_insert([now; TTLS.len()]);
        let mut costs = [0; RULES];
        if !is_hit {
            *last_s = [now; TTLS.len()];
            return costs;
        }
        costs[0] = 1;
        for ((last, ttl), cost) in last_s.iter_mut().zip(TTLS).zip(&mut costs[1..]) {
            if ttl < now.saturating_sub(*last) {
                (*last, *cost) = (now, 1);
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_object_is_confirmed_when_its_time_is_over() {
        let mut confirmations = Confirmations::default();
        let read = |time_s| Request::read(7, 4096, time_s);
        assert_eq!(confirmations.read(&read(0), false), [0; RULES]);
        assert_eq!(confirmations.read(&read(5), true), [1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(confirmations.read(&read(61), true), [1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(confirmations.read(&read(62), true), [1, 0, 0, 0, 0, 0, 0]);
        // Another part was missing: the answer confirmed the object.
        assert_eq!(confirmations.read(&read(100_000), false), [0; RULES]);
        assert_eq!(confirmations.read(&read(100_001), true), [1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn rules_are_written_as_in_the_configuration() {
        let names: Vec<String> = ALL.iter().map(ToString::to_string).collect();
        let expected =
            ["revalidate", "ttl=5s", "ttl=1min", "ttl=10min", "ttl=1h", "ttl=24h", "immutable"];
        assert_eq!(names, expected);
    }
}
