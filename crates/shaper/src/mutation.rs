//! Planted bugs (mutations): they prove that the simulator finds such bugs.

use crate::Settings;

/// A planted bug. Only builds with the feature `planted-bugs` have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "nobody chooses bugs in other builds")
)]
pub enum Mutation {
    /// A flush is acknowledged without a device flush.
    FlushLost,
    /// A write is in the map before the device has completed it.
    MapEarly,
    /// Compaction publishes its moves even if a client overwrote the block meanwhile.
    CompactionStale,
    /// Hot retention publishes its copies even if a client overwrote the block meanwhile.
    RoundStale,
    /// A buffer zone is reset before the trims in it are in trim bitmaps.
    TrimResurrected,
    /// A zone is reset while reads of it are in flight.
    CollectionRace,
    /// A zone is reset before its moved blocks are flushed.
    CopyNotFlushed,
    /// A map page is published before the device has completed its write.
    PageEarly,
    /// A zone of the map is reset while it holds valid pages.
    PagesDropped,
    /// Bug: map changes made while their page is being merged are lost.
    ChangeForgotten,
    /// A mover treats a block as live although a newer list entry overrides it.
    HiddenMoved,
    /// A zone is reset while the zone table on flash still lists it.
    ZoneStaysInTable,
    /// Recovery accepts segments that were not flushed without verifying them.
    TornTaken,
    /// Reads do not verify checksums.
    ReadUnchecked,
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
