//! Zone events: what the log did with its zones lately, for operators. The owner takes them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};

use crate::{Log, Stream};

/// Events that wait for the owner. If the owner takes none, the oldest are dropped.
const EVENTS_MAX: usize = 256;

/// Event of a zone, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneEvent {
    /// When it happened.
    pub at: Nanos,
    /// The zone.
    pub zone: ZoneId,
    /// What happened.
    pub change: ZoneChange,
}

/// Change of a zone's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// A stream opened the zone.
    Opened {
        /// The stream that writes to it.
        stream: Stream,
        /// Sequence number of the zone's fill.
        sequence: u64,
    },
    /// The zone takes no more records.
    Sealed {
        /// Records written to it.
        records: u32,
        /// Bytes of those records.
        record_bytes: u64,
    },
    /// The zone was reset, and is empty.
    Reset,
    /// The log does not use the zone again.
    Retired,
}

/// Events that the owner has not taken.
#[derive(Debug, Default)]
pub(crate) struct ZoneEvents(VecDeque<ZoneEvent>);

impl ZoneEvents {
    pub(crate) fn push(&mut self, event: ZoneEvent) {
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }
}

impl Log {
    /// Takes the events since the last call, oldest first: the last 256 if there were more.
    #[must_use]
    pub fn take_events(&self) -> Vec<ZoneEvent> {
        self.inner.state.borrow_mut().events.0.drain(..).collect()
    }
}
