//! Planted bugs (mutations): they prove that the simulator finds such bugs.

use crate::Settings;

/// A bug. Only builds with the feature `planted-bugs` have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Planted {
    /// Reclaim drops tombstones that an older record still needs.
    TombstoneLost,
    /// A removal is acknowledged before its tombstone is flushed.
    FlushForgotten,
    /// A zone is reset while reads from it are under way.
    PinIgnored,
    /// Bytes are handed out whether or not their check fits.
    CheckIgnored,
    /// Only the first granule of what was read is checked.
    CheckShort,
    /// A zone that is full keeps its slot.
    SlotLeaked,
    /// What was appended is said to be on flash before the device answered.
    PublishedEarly,
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
