//! Request `Cache-Control` directives: RFC 9111, section 5.2.1.
//!
//! A client can ask for a fresher answer than the freshness rule of the object gives, never for a
//! staler one: the operator decides how stale an answer may be. So `max-stale` is ignored.

use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};
use zonal_base::Nanos;
use zonal_host::{Freshness, FreshnessPolicy, OriginUse, RetentionClass};

/// Cache directives of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheControl {
    no_cache: bool,
    no_store: bool,
    /// The origin must not be asked.
    pub(crate) only_if_cached: bool,
    max_age: Option<Nanos>,
    min_fresh: Option<Nanos>,
}

impl CacheControl {
    /// Parses the headers of a request. Unknown directives are ignored, as the RFC requires. A time
    /// that is not a number counts as the strictest value.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut asked = Self::default();
        if !headers.contains_key(CACHE_CONTROL) {
            // HTTP/1.0's `Pragma` counts only without `Cache-Control`.
            asked.no_cache = directives(headers, PRAGMA).any(|word| is(word, "no-cache"));
            return asked;
        }
        for directive in directives(headers, CACHE_CONTROL) {
            let (word, value) = directive.split_once('=').unwrap_or((directive, ""));
            let seconds = || value.trim_matches('"').parse().ok().map(seconds);
            match word {
                _ if is(word, "no-cache") => asked.no_cache = true,
                _ if is(word, "no-store") => asked.no_store = true,
                _ if is(word, "only-if-cached") => asked.only_if_cached = true,
                _ if is(word, "max-age") => asked.max_age = seconds().or(Some(Nanos(0))),
                _ if is(word, "min-fresh") => asked.min_fresh = seconds().or(Some(Nanos(u64::MAX))),
                _ => {}
            }
        }
        asked
    }

    /// Tightens `trust` and `retention` by the directives.
    pub(crate) fn narrow(
        self,
        mut trust: FreshnessPolicy,
        retention: RetentionClass,
    ) -> (FreshnessPolicy, RetentionClass) {
        if let Some(most) = self.max_age.or(self.no_cache.then_some(Nanos(0))) {
            let most = if self.no_cache { Nanos(0) } else { most };
            trust.head = match trust.head {
                Freshness::Revalidate => Freshness::Revalidate,
                Freshness::Ttl(ttl) => Freshness::Ttl(ttl.min(most)),
                Freshness::Immutable => Freshness::Ttl(most),
            };
            trust.absence = trust.absence.min(most);
        }
        if let Some(least) = self.min_fresh {
            if let Freshness::Ttl(ttl) = trust.head {
                trust.head = Freshness::Ttl(ttl.since(least));
            }
            trust.absence = trust.absence.since(least);
        }
        if self.no_cache || self.max_age.is_some() || self.min_fresh.is_some() {
            trust.stale_if_error = Nanos(0);
            trust.stale_while_revalidate = Nanos(0);
        }
        if self.only_if_cached {
            trust.asking = OriginUse::Forbidden;
        }
        // A pinned object is kept, whatever its readers send.
        let retention = if self.no_store && retention == RetentionClass::Usual {
            RetentionClass::Unkept
        } else {
            retention
        };
        (trust, retention)
    }
}

fn seconds(count: u64) -> Nanos {
    Nanos(count.saturating_mul(1_000_000_000))
}

fn is(word: &str, wanted: &str) -> bool {
    word.trim().eq_ignore_ascii_case(wanted)
}

fn directives(headers: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TTL: Freshness = Freshness::Ttl(Nanos::secs(60));

    fn narrowed(
        name: http::HeaderName,
        value: &'static str,
        head: Freshness,
    ) -> (FreshnessPolicy, RetentionClass) {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let (absence, stale) = (Nanos::secs(10), Nanos::secs(3600));
        let trust = FreshnessPolicy {
            absence,
            stale_if_error: stale,
            stale_while_revalidate: stale,
            ..head.into()
        };
        CacheControl::of(&headers).narrow(trust, RetentionClass::Usual)
    }

    /// Expects a head freshness, the lifetime of a negative entry in seconds, and whether stale
    /// data may be served.
    #[track_caller]
    fn check(value: &'static str, head: Freshness, expected: (Freshness, u64, bool)) {
        let (trust, retention) = narrowed(CACHE_CONTROL, value, head);
        let got = (trust.head, trust.absence.0 / 1_000_000_000, trust.stale_if_error != Nanos(0));
        assert_eq!(trust.stale_while_revalidate, trust.stale_if_error);
        assert_eq!(got, expected, "{value:?} under {head:?}");
        assert_eq!(
            (trust.asking, retention),
            (OriginUse::Allowed, RetentionClass::Usual),
            "{value:?}"
        );
    }

    #[test]
    fn a_client_gets_what_is_fresher_than_the_rule_and_never_what_is_staler() {
        use Freshness::{Immutable, Revalidate, Ttl};
        let secs = |n| Ttl(Nanos::secs(n));
        check("no-cache", TTL, (secs(0), 0, false));
        check("No-Cache", Immutable, (secs(0), 0, false));
        check("no-cache", Revalidate, (Revalidate, 0, false));
        check("no-cache, max-age=30", TTL, (secs(0), 0, false));
        check("max-age=0", TTL, (secs(0), 0, false));
        check("max-age=30", TTL, (secs(30), 10, false));
        check("max-age=\"5\"", TTL, (secs(5), 5, false));
        check("max-age=90", TTL, (secs(60), 10, false));
        check("max-age=90", Immutable, (secs(90), 10, false));
        check("max-age=99999999999999999999", Immutable, (secs(0), 0, false));
        check("max-age=x", TTL, (secs(0), 0, false));
        check("min-fresh=4", TTL, (secs(56), 6, false));
        check("min-fresh=61", TTL, (secs(0), 0, false));
        check("min-fresh", TTL, (secs(0), 0, false));
        check("min-fresh=61", Immutable, (Immutable, 0, false));
        check("max-age=20 ,min-fresh=5", TTL, (secs(15), 5, false));
        for nothing in ["", "max-stale", "max-stale=9", "no-transform", "private=\"no-cache\""] {
            check(nothing, TTL, (TTL, 10, true));
        }
    }

    #[test]
    fn pragma_counts_where_there_is_no_cache_control() {
        assert_eq!(narrowed(PRAGMA, "no-cache", TTL).0.head, Freshness::Ttl(Nanos(0)));
        assert_eq!(narrowed(PRAGMA, "x", TTL).0.head, TTL);
        let mut both = HeaderMap::new();
        both.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        both.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=9"));
        assert_eq!(CacheControl::of(&both).max_age, Some(Nanos::secs(9)));
        assert!(!CacheControl::of(&both).no_cache);
    }

    #[test]
    fn what_is_not_to_be_kept_is_not_unless_it_is_pinned() {
        assert_eq!(narrowed(CACHE_CONTROL, "no-store", TTL).1, RetentionClass::Unkept);
        let no_store = CacheControl { no_store: true, ..CacheControl::default() };
        assert_eq!(no_store.narrow(TTL.into(), RetentionClass::Pinned).1, RetentionClass::Pinned);
        let (trust, _) = narrowed(CACHE_CONTROL, "only-if-cached", TTL);
        assert_eq!((trust.asking, trust.head), (OriginUse::Forbidden, TTL));
    }
}
