//! Planted bugs (mutation testing): they prove that the simulator finds such bugs.

use crate::Settings;

/// A planted bug. Only builds with the feature `planted-bugs` can enable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Mutation {
    /// Reclaim drops tombstones that an older record still needs.
    TombstoneLost,
    /// A removal is acknowledged before its tombstone is flushed.
    FlushForgotten,
    /// A zone is reset while reads from it are in flight.
    PinIgnored,
    /// Bytes are returned even if their checksum does not match.
    CheckIgnored,
    /// Only the first granule of a read is verified.
    CheckShort,
    /// A sealed zone keeps its active slot.
    SlotLeaked,
    /// Lost zones are not noticed.
    LossIgnored,
    /// A zone is reset while the newest manifest expects it.
    ResetExpected,
    /// No manifest follows a removal.
    RemovalsUnlisted,
    /// An append is acknowledged before the device has answered.
    PublishedEarly,
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
