//! Planted bugs (mutation testing): they prove that the simulator finds such bugs.

use crate::Settings;

/// A planted bug. Only builds with the feature `planted-bugs` can enable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Mutation {
    /// An origin answer to a request from before a removal is published after it.
    EpochIgnored,
    /// Recovery takes any head of an object for the newest.
    GenerationIgnored,
    /// Chunks from before a removal have the same keys as those after it.
    SaltIgnored,
    /// Pieces of one size have the same keys as those of another.
    PieceIgnored,
    /// Fetches carry no `If-Match`, so they may mix versions.
    VersionNotPinned,
    /// Lookups of missing bytes carry no `If-Match`, and their answers count as the known version.
    LookupNotPinned,
    /// Prefetches carry no `If-Match`.
    PrefetchNotPinned,
    /// A removal is acknowledged without a tombstone.
    NoTombstone,
    /// A removal leaves the head in memory.
    InvalidationLost,
    /// A head is published when it is on flash, even after a removal or a newer head.
    HeadRevived,
    /// A removal leaves the negative cache entry in place.
    AbsenceKept,
    /// Reclaim does not rewrite pinned records.
    PinDropped,
    /// A head from before a purge of its prefix is served.
    PurgedHeadServed,
    /// Chunks from before a purge of a prefix have the same keys as those after it.
    PurgedSaltIgnored,
    /// An origin answer to a request from before a purge of a prefix is published after it.
    PurgeOverlooksQuestions,
    /// Pending invalidations of an offline device are discarded instead of replayed.
    MissedForgotten,
}

impl Settings {
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has(&self, bug: Mutation) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    pub(crate) const fn has(&self, _bug: Mutation) -> bool {
        false
    }
}
