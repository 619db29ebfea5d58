//! Planted bugs (mutations): they prove that the simulator finds such bugs.

use crate::Settings;

/// A bug. Only builds with the feature `planted-bugs` have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Planted {
    /// A flush is acknowledged without asking the device.
    FlushLost,
    /// A write is in the map, and acknowledged, before the device has answered it.
    MapEarly,
    /// Compaction puts what it moved into the map, whatever was written meanwhile.
    CompactionStale,
    /// A block that went round in the buffer comes into the map, whatever was written meanwhile.
    RoundStale,
    /// A zone of the buffer is reset with the trims in it.
    TrimResurrected,
    /// A zone is reset while reads from it are under way.
    CollectionRace,
    /// A zone is reset before its copies are flushed.
    CopyNotFlushed,
    /// A page of the map counts before the device has answered it.
    PageEarly,
    /// A zone of the map is reset with the pages in it.
    PagesDropped,
    /// What changes while a page of the map is on its way is forgotten.
    ChangeForgotten,
    /// A mover takes what a younger place hides for live.
    HiddenMoved,
    /// A zone is reset while the zone table on flash has it.
    ZoneStaysInTable,
    /// Recovery takes what was not flushed without looking at it.
    TornTaken,
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
