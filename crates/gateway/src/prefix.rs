//! Rules by prefix of the object name: freshness and retention.

use zonal_base::Nanos;
use zonal_host::{Freshness, FreshnessPolicy, OriginUse, PrefixRules, RetentionClass};

/// Freshness rules by prefix.
pub type FreshnessRules = PrefixRules<FreshnessRule>;

/// Retention rules by prefix.
pub type KeepRules = PrefixRules<Keep>;

/// Freshness rule: how old an answer about an object may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessRule {
    /// Freshness of the head for a GET.
    pub object: Freshness,
    /// Freshness of the head for a HEAD; `None`: as `object`.
    pub head: Option<Freshness>,
    /// Lifetime of a negative entry (404). 0: none is kept.
    pub missing: Nanos,
    /// How long after its freshness ended a version is served when the origin fails. 0: never.
    pub stale_if_error: Nanos,
    /// How long after its freshness ended a version is served while the origin is asked in the
    /// background. 0: never.
    pub stale_while_revalidate: Nanos,
}

impl From<Freshness> for FreshnessRule {
    /// The same freshness for GET and HEAD; no negative entries, nothing stale.
    fn from(object: Freshness) -> Self {
        Self {
            object,
            head: None,
            missing: Nanos(0),
            stale_if_error: Nanos(0),
            stale_while_revalidate: Nanos(0),
        }
    }
}

impl FreshnessRule {
    /// Freshness policy of a GET.
    #[must_use]
    pub const fn of_get(self) -> FreshnessPolicy {
        let Self { object, missing, stale_if_error, stale_while_revalidate, .. } = self;
        FreshnessPolicy {
            head: object,
            absence: missing,
            stale_if_error,
            stale_while_revalidate,
            asking: OriginUse::Allowed,
            needs_whole_head: false,
        }
    }

    /// Freshness policy of a HEAD.
    pub(crate) fn of_head(self) -> FreshnessPolicy {
        FreshnessPolicy { head: self.head.unwrap_or(self.object), ..self.of_get() }
    }

    /// True if the origin confirms every version before it is served.
    pub(crate) fn always_asks(self) -> bool {
        self.object.always_asks()
            && self.head.is_none_or(Freshness::always_asks)
            && self.stale_if_error == Nanos(0)
            && self.stale_while_revalidate == Nanos(0)
    }
}

/// Retention rule: what happens to an object's bytes on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Admission and eviction policy decide.
    Policy,
    /// Pinned: stays on flash, as far as there is room for pins.
    Pin,
    /// Not cached: the origin answers.
    Never,
}

impl Keep {
    /// Retention class for the cache; `None` if the cache is bypassed.
    pub(crate) const fn retention(self) -> Option<RetentionClass> {
        match self {
            Self::Policy => Some(RetentionClass::Usual),
            Self::Pin => Some(RetentionClass::Pinned),
            Self::Never => None,
        }
    }
}
