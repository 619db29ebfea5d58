//! Zone pool: the zones of the device that are empty, full, or in use by a run.

use std::collections::VecDeque;

use zonal_base::ZoneId;

/// Zones, by their next use.
#[derive(Debug)]
pub(super) struct Ground {
    /// Zones for reads: filled before the first run.
    pub(super) readable: Vec<ZoneId>,
    /// Empty zones, to be written.
    pub(super) empty: VecDeque<ZoneId>,
    /// Full zones, to be reset by a run.
    pub(super) full: Vec<ZoneId>,
    /// Zones that this run has filled; oldest first.
    pub(super) used: VecDeque<ZoneId>,
}

/// Next zone of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An empty zone.
    Empty(ZoneId),
    /// No zone is empty: the oldest full one, to be reset first.
    Again(ZoneId),
}

impl Ground {
    pub(super) fn new(zone_count: u32) -> Self {
        let empty = (0..zone_count).map(ZoneId).collect();
        Self { readable: Vec::new(), empty, full: Vec::new(), used: VecDeque::new() }
    }

    /// Next zone of a writer whose zone, if any, is full.
    ///
    /// Requires: more zones than writers, so that a reused zone was filled long before.
    pub(super) fn next(&mut self, filled: Option<ZoneId>) -> Option<Next> {
        let next = match self.empty.pop_front() {
            Some(zone) => Some(Next::Empty(zone)),
            None => self.used.pop_front().map(Next::Again),
        };
        self.used.extend(filled);
        next
    }

    /// Takes an empty zone, which counts as used from now on.
    pub(super) fn take_empty(&mut self) -> Option<ZoneId> {
        let zone = self.empty.pop_front()?;
        self.used.push_back(zone);
        Some(zone)
    }
}
