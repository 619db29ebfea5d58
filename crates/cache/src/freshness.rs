//! Freshness rules: what may be served without asking the origin (TTL, immutable, revalidate,
//! stale-if-error, stale-while-revalidate).

use zonal_base::Nanos;

/// Freshness rule: how old a head may be when it is served without asking the origin.
///
/// A read relies on a request that was sent after it arrived, or on one that is fresh by the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Ask the origin on every request.
    Revalidate,
    /// Ask the origin when its last answer is older than this time to live.
    Ttl(Nanos),
    /// Never ask the origin about a cached object.
    Immutable,
}

/// Freshness policy of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessPolicy {
    /// Rule for cached heads.
    pub head: Freshness,
    /// Time to live of negative cache entries, in nanoseconds. 0: the negative cache is not used.
    pub absence: Nanos,
    /// Stale-if-error: how long a head may be served after it was fresh, while the origin fails. 0:
    /// not at all.
    pub stale_if_error: Nanos,
    /// Stale-while-revalidate: how long a head may be served after it was fresh, while the origin is
    /// asked in the background. 0: not at all.
    pub stale_while_revalidate: Nanos,
    /// Whether the request may go to the origin (`only-if-cached` forbids it).
    pub asking: OriginUse,
    /// A head from a partial response will not do: the request needs the checksums of the whole
    /// object.
    pub needs_whole_head: bool,
}

/// Use of the origin by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginUse {
    /// The origin is asked when the cache has no fresh answer.
    Allowed,
    /// The origin is never asked.
    Forbidden,
}

impl From<Freshness> for FreshnessPolicy {
    /// Policy with this rule for heads, without negative cache and stale answers.
    fn from(head: Freshness) -> Self {
        Self {
            head,
            absence: Nanos(0),
            stale_if_error: Nanos(0),
            stale_while_revalidate: Nanos(0),
            asking: OriginUse::Allowed,
            needs_whole_head: false,
        }
    }
}

impl Freshness {
    /// True when each response is confirmed by the origin for its request.
    #[must_use]
    pub const fn always_asks(self) -> bool {
        matches!(self, Self::Revalidate | Self::Ttl(Nanos(0)))
    }

    /// True when a head that the origin confirmed at `validated_at` is fresh at `now`.
    pub(crate) fn holds(self, validated_at: Nanos, now: Nanos) -> bool {
        self.held(Nanos(0), validated_at, now)
    }

    /// True when the head was still fresh `ago` before `now`.
    fn held(self, ago: Nanos, validated_at: Nanos, now: Nanos) -> bool {
        // A head with a time in the future was stored while the clock was wrong: its age is
        // unknown.
        let is_known = Nanos(0) < validated_at && validated_at <= now;
        let is_younger = |than: u64| is_known && now.since(validated_at).0 < than;
        match self {
            Self::Revalidate => is_younger(ago.0),
            Self::Ttl(most) => is_younger(most.0.saturating_add(ago.0)),
            Self::Immutable => true,
        }
    }
}

impl FreshnessPolicy {
    /// Any cached head will do, and the origin is not asked.
    pub const CACHED: Self = Self {
        head: Freshness::Immutable,
        absence: Nanos(0),
        stale_if_error: Nanos(0),
        stale_while_revalidate: Nanos(0),
        asking: OriginUse::Forbidden,
        needs_whole_head: false,
    };

    /// True when a head that the origin confirmed at `validated_at` may be served at `now`, if the
    /// origin fails.
    pub(crate) fn holds_in_trouble(self, validated_at: Nanos, now: Nanos) -> bool {
        self.stale_if_error != Nanos(0) && self.head.held(self.stale_if_error, validated_at, now)
    }

    /// True when a head that the origin confirmed at `validated_at` may be served at `now`, while
    /// the origin is asked in the background.
    pub(crate) fn holds_meanwhile(self, validated_at: Nanos, now: Nanos) -> bool {
        self.stale_while_revalidate != Nanos(0)
            && self.head.held(self.stale_while_revalidate, validated_at, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_for_as_long_as_it_is_told_and_one_from_the_future_not_at_all() {
        let (hour, now) = (Nanos::secs(3600), Nanos::secs(1_000_000));
        let most = Freshness::Ttl(hour);
        assert!(most.holds(now, now) && most.holds(Nanos(now.0 - hour.0 + 1), now));
        assert!(!most.holds(Nanos(now.0 - hour.0), now));
        assert!(!most.holds(now + Nanos(1), now), "the clock was ahead when it was written");
        assert!(!most.holds(Nanos(0), now), "never confirmed");
        assert!(!Freshness::Revalidate.holds(now, now));
        assert!(Freshness::Immutable.holds(now + hour, now));
    }

    #[test]
    fn in_trouble_a_head_holds_for_so_much_longer() {
        let (minute, now) = (Nanos::secs(60), Nanos::secs(1_000_000));
        let trust = |head, stale_if_error| FreshnessPolicy {
            stale_if_error,
            ..FreshnessPolicy::from(head)
        };
        let ago = |time: Nanos| Nanos(now.0 - time.0);
        let ttl = trust(Freshness::Ttl(minute), minute);
        assert!(ttl.holds_in_trouble(ago(Nanos::secs(119)), now));
        assert!(!ttl.holds_in_trouble(ago(Nanos::secs(120)), now));
        let revalidate = trust(Freshness::Revalidate, minute);
        assert!(revalidate.holds_in_trouble(ago(Nanos::secs(59)), now));
        assert!(!revalidate.holds_in_trouble(ago(minute), now));
        assert!(!revalidate.holds_in_trouble(Nanos(0), now), "never confirmed");
        assert!(
            !trust(Freshness::Ttl(minute), Nanos(0)).holds_in_trouble(now, now),
            "not asked for"
        );
    }
}
