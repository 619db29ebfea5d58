//! Freshness rules: what may be served without asking the origin (TTL, immutable, revalidate, stale-if-error).

use zonal_base::Nanos;

/// How fresh a head must be to be served without asking the origin.
///
/// Questions that are put at the same time are one in any case: whoever comes while the origin is being asked about the
/// object shares the answer, which is then as old as the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Ask each time.
    Revalidate,
    /// Ask when the last answer is older than this.
    Ttl(Nanos),
    /// Never ask about an object that is known.
    Immutable,
}

/// What is trusted of an object, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// A head that is known.
    pub head: Freshness,
    /// For how long it is remembered that the origin has no such object. 0: not at all.
    pub absence: Nanos,
    /// For how long after it was fresh a head is served when the origin fails. 0: not at all.
    pub stale: Nanos,
    /// Whether the origin may be asked at all.
    pub asking: Asking,
}

/// Whether the origin may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// When it has to be.
    Allowed,
    /// Not even then.
    Forbidden,
}

impl From<Freshness> for Trust {
    /// Of heads only.
    fn from(head: Freshness) -> Self {
        Self { head, absence: Nanos(0), stale: Nanos(0), asking: Asking::Allowed }
    }
}

impl Freshness {
    /// Whether nothing is ever served that the origin did not confirm for it.
    #[must_use]
    pub const fn always_asks(self) -> bool {
        matches!(self, Self::Revalidate | Self::Ttl(Nanos(0)))
    }

    /// True when a head that the origin confirmed at `validated_at` need not be asked about at `now`.
    pub(crate) fn holds(self, validated_at: Nanos, now: Nanos) -> bool {
        self.held(Nanos(0), validated_at, now)
    }

    /// True when it need not have been asked about so long ago.
    fn held(self, ago: Nanos, validated_at: Nanos, now: Nanos) -> bool {
        // A head from the future was written when the clock was wrong: how old it is nobody knows.
        let is_known = Nanos(0) < validated_at && validated_at <= now;
        let is_younger = |than: u64| is_known && now.since(validated_at).0 < than;
        match self {
            Self::Revalidate => is_younger(ago.0),
            Self::Ttl(most) => is_younger(most.0.saturating_add(ago.0)),
            Self::Immutable => true,
        }
    }
}

impl Trust {
    /// True when a head that the origin confirmed at `validated_at` may be served at `now`, if the origin fails.
    pub(crate) fn holds_in_trouble(self, validated_at: Nanos, now: Nanos) -> bool {
        self.stale != Nanos(0) && self.head.held(self.stale, validated_at, now)
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
        let trust = |head, stale| Trust { stale, ..Trust::from(head) };
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
