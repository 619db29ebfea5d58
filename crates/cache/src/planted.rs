//! Planted bugs (mutations): they prove that the simulator finds such bugs.

use crate::Settings;

/// A bug. Only builds with the feature `planted-bugs` have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Planted {
    /// What the origin was asked before a removal is published after it.
    EpochIgnored,
    /// Recovery takes any head of an object for the newest.
    GenerationIgnored,
    /// Chunks from before a removal have the same keys as those after it.
    SaltIgnored,
    /// Pieces of one size have the same keys as those of another.
    PieceIgnored,
    /// Fetches are not pinned to a version.
    VersionNotPinned,
    /// Fetches ahead of readers are not pinned to a version.
    PrefetchNotPinned,
    /// A removal is acknowledged without a tombstone.
    NoTombstone,
    /// A removal leaves the head in memory.
    InvalidationLost,
    /// A head is published when it is on flash, whatever happened meanwhile.
    HeadRevived,
    /// A removal leaves it remembered that there was no such object.
    AbsenceKept,
    /// Reclaim keeps of what is pinned no more than the policy would.
    PinDropped,
    /// A head from before a purge of its prefix is served.
    PurgedHeadServed,
    /// Chunks from before a purge of a prefix have the same keys as those after it.
    PurgedSaltIgnored,
    /// What the origin was asked before a purge of a prefix is published after it.
    PurgeOverlooksQuestions,
    /// What a share has missed while its device was away is forgotten.
    MissedForgotten,
}

impl Settings {
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    pub(crate) const fn has(&self, _bug: Planted) -> bool {
        false
    }
}
