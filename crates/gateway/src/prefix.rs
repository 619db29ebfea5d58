//! Rules by prefix of the object name: freshness and retention.

use zonal_base::Nanos;
use zonal_host::{Asking, Care, Freshness, PrefixRules, Trust};

/// How fresh answers must be.
pub type FreshnessRules = PrefixRules<FreshnessRule>;

/// What is kept.
pub type KeepRules = PrefixRules<Keep>;

/// How fresh answers about an object must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessRule {
    /// Its version, for who reads its bytes.
    pub object: Freshness,
    /// What HEAD is answered; `None`: as `object`.
    pub head: Option<Freshness>,
    /// For how long it is remembered that there is no such object. 0: not at all.
    pub missing: Nanos,
    /// For how long after its version was fresh it is served when the origin fails. 0: not at all.
    pub stale_if_error: Nanos,
}

impl From<Freshness> for FreshnessRule {
    /// The same for GET and HEAD, and nothing else.
    fn from(object: Freshness) -> Self {
        Self { object, head: None, missing: Nanos(0), stale_if_error: Nanos(0) }
    }
}

impl FreshnessRule {
    /// What a GET trusts.
    #[must_use]
    pub const fn of_get(self) -> Trust {
        let Self { object: head, missing: absence, stale_if_error: stale, .. } = self;
        Trust { head, absence, stale, asking: Asking::Allowed }
    }

    /// What a HEAD trusts.
    pub(crate) fn of_head(self) -> Trust {
        Trust { head: self.head.unwrap_or(self.object), ..self.of_get() }
    }

    /// Whether no version is ever served that the origin did not confirm for it.
    pub(crate) fn always_asks(self) -> bool {
        self.object.always_asks()
            && self.head.is_none_or(Freshness::always_asks)
            && self.stale_if_error == Nanos(0)
    }
}

/// What becomes of an object's bytes on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Admission and policy decide.
    Policy,
    /// They stay, as far as there is room for what is pinned.
    Pin,
    /// They are not kept: the origin answers.
    Never,
}

impl Keep {
    /// What a read asks of the cache; `None` when it does not ask.
    pub(crate) const fn care(self) -> Option<Care> {
        match self {
            Self::Policy => Some(Care::Usual),
            Self::Pin => Some(Care::Pinned),
            Self::Never => None,
        }
    }
}
