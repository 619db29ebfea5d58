//! Graceful shutdown: flushes, and writes the zone table.
//!
//! 1. Flush the buffer, so that all acknowledged writes are durable.
//! 2. Compaction stops, then garbage collection. Blocks not moved yet stay where they are.
//! 3. Garbage collection's mover writes and flushes a last zone table that covers everything on
//!    both tiers. Anything missing at the next start was damaged in between.

use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::{BlockError, Shaper, Tier};

/// Progress of the shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closing {
    /// No shutdown was requested.
    #[default]
    No,
    /// Requested: compaction and garbage collection start no more moves.
    Asked,
    /// Compaction has stopped.
    CompactionOver,
    /// The last zone table is on flash.
    Done,
}

impl Shaper {
    /// Shuts down so that the next start can verify all data. All acknowledged writes are durable
    /// then.
    ///
    /// Requires: no other request is made any more.
    ///
    /// # Errors
    /// When the buffer device failed.
    pub async fn close(&self) -> Result<(), BlockError> {
        self.flush().await?;
        let inner = &self.inner;
        inner.holds_writes.set(false);
        inner.note_closing(Closing::Asked);
        loop {
            {
                let state = inner.state.borrow();
                // If compaction or collection stopped earlier because of an error, no last zone
                // table is written, and the next start recovers as after a crash.
                if state.closing == Closing::Done || state.halted.is_some() {
                    return Ok(());
                }
                if let Some(error) = state.failure {
                    return Err(error);
                }
            }
            inner.work.wait().await;
        }
    }
}

impl Inner {
    pub(crate) async fn end_compaction(&self, mut mover: Mover) {
        mover.abandon().await;
        if let Err(error) = mover.finish().await {
            return self.stop_moving(error);
        }
        self.note_closing(Closing::CompactionOver);
    }

    pub(crate) async fn end_collection(&self, mut mover: Mover) {
        mover.abandon().await;
        while self.state.borrow().closing < Closing::CompactionOver {
            if self.state.borrow().failure.is_some() {
                return;
            }
            self.work.wait().await;
        }
        if let Err(error) = self.write_last_zone_table(&mut mover).await {
            return self.stop_moving(error);
        }
        self.note_closing(Closing::Done);
    }

    async fn write_last_zone_table(&self, mover: &mut Mover) -> Result<(), BlockError> {
        for tier in Tier::ALL {
            self.flush_tier(tier).await?;
        }
        mover.write_zone_table(true).await
    }

    fn note_closing(&self, closing: Closing) {
        let mut state = self.state.borrow_mut();
        if state.closing < closing {
            state.closing = closing;
        }
        drop(state);
        self.work.notify_all();
        self.queued.notify_all();
        self.unpinned.notify_all();
        self.map_room.notify_all();
    }
}
