//! Which zones of the device are empty, full, or in use by a run.

use std::collections::VecDeque;

use zonal_base::ZoneId;

/// The zones, by what may be done with them next.
#[derive(Debug)]
pub(super) struct Ground {
    /// Written from end to end before the first run, and only read from then on.
    pub(super) readable: Vec<ZoneId>,
    /// To be written.
    pub(super) empty: VecDeque<ZoneId>,
    /// Written from end to end, to be reset by a run.
    pub(super) full: Vec<ZoneId>,
    /// Written by this run, and no longer being written; oldest first.
    pub(super) used: VecDeque<ZoneId>,
}

/// A zone that a writer may go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is empty.
    Empty(ZoneId),
    /// No zone is empty any more: this one was written first and has to be reset before.
    Again(ZoneId),
}

impl Ground {
    pub(super) fn new(zone_count: u32) -> Self {
        let empty = (0..zone_count).map(ZoneId).collect();
        Self { readable: Vec::new(), empty, full: Vec::new(), used: VecDeque::new() }
    }

    /// Where a writer goes on when its zone, if it had one, is full.
    ///
    /// Requires: more zones than writers, so that a zone which is written again was full long before.
    pub(super) fn next(&mut self, filled: Option<ZoneId>) -> Option<Next> {
        let next = match self.empty.pop_front() {
            Some(zone) => Some(Next::Empty(zone)),
            None => self.used.pop_front().map(Next::Again),
        };
        self.used.extend(filled);
        next
    }

    /// An empty zone, which counts as used from now on.
    pub(super) fn take_empty(&mut self) -> Option<ZoneId> {
        let zone = self.empty.pop_front()?;
        self.used.push_back(zone);
        Some(zone)
    }
}
