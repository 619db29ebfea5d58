//! Garbage collection of the capacity tier: empties zones that hold little live data.
//!
//! 1. Wait until few zones of the capacity tier are empty.
//! 2. Victim: the full zone that gains the most for each block that is moved, times its age (in segments since it was begun); of
//!    equal ones the one that was begun first. A zone of which emptying would not gain a sixteenth is left alone, unless
//!    compaction waits for room.
//! 3. Move what is live (`relocate`), flush both tiers, release the zone (`zone_table`), reset it (`tier`).
//!
//! The age is what tells zones apart whose blocks die at different rates: by live blocks alone, zones of cold blocks wait, nearly
//! full, for far longer than what they waste is worth.
//!
//! The last two empty zones are for collection alone, so it can always proceed; whatever a victim holds fits into one.

use alloc::rc::Rc;

use crate::BlockError;
use crate::layout::Zone;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::State;

impl Inner {
    /// The task of collection. It ends when a device fails.
    pub(crate) async fn run_collection(self: Rc<Self>, mut mover: Mover) {
        let wanted = |state: &State| {
            state.wants_collection(&self).then(|| state.collection_victim(&self)).flatten()
        };
        while let Some(zone) = self.victim(wanted).await {
            match self.collect(&mut mover, zone).await {
                Ok(()) => (),
                Err(BlockError::Closing) => break,
                Err(error) => return self.stop_moving(error),
            }
        }
        self.end_collection(mover).await;
    }

    async fn collect(&self, mover: &mut Mover, zone: Zone) -> Result<(), BlockError> {
        mover.move_all(zone).await?;
        mover.reset(zone).await?;
        self.state.borrow_mut().passed = 0;
        mover.tell_of_zones_given_up().await
    }
}
