//! Graceful shutdown: flushes, and writes the zone table.
//!
//! 1. Flush the buffer: all that was acknowledged is there.
//! 2. Compaction ends where it is, then collection: what they have not moved stays where it lies.
//! 3. Collection's mover writes a last zone table, which has all that is on both tiers, and flushes it. Whatever is missing at the
//!    next start was damaged meanwhile.

use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::{BlockError, Shaper, Tier};

/// How far the end has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closing {
    /// Nobody asked for it.
    #[default]
    No,
    /// Nothing is to be moved any more.
    Asked,
    /// Compaction moves nothing any more.
    CompactionOver,
    /// The last zone table is on flash.
    Done,
}

impl Shaper {
    /// Ends so that the next start knows all that must be there. What was acknowledged is on flash then.
    ///
    /// Requires: nobody asks for anything any more.
    ///
    /// # Errors
    /// When the buffer device failed.
    pub async fn close(&self) -> Result<(), BlockError> {
        self.flush().await?;
        let inner = &self.inner;
        inner.note_closing(Closing::Asked);
        loop {
            {
                let state = inner.state.borrow();
                // Compaction or collection stopped for good before: the next start is as after a crash.
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
        mover.write_zone_table().await
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
